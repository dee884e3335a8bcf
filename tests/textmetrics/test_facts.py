"""Facts of small texts, and what a source licenses, each judged by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exadec.textmetrics.facts import Fact, FactFinder, Licence

SOURCES = [
    "The mayor of Lowmoor, Ada Brack, said the new bridge would open after the storm.",
    "A storm and a flood closed the bridge and the station, and the mayor said so in Lowmoor.",
    "Police said that Brack met the Lowmoor council, and that NASA looked on.",
]


def found(text: str, sources: list[str] | None = None) -> list[tuple[str, str]]:
    return [tuple(fact) for fact in FactFinder(SOURCES if sources is None else sources).find(text)]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("12 hurt", ["12"]),
        ("Twelve hurt", ["12"]),
        ("twenty-one hurt, forty two safe", ["21", "42"]),
        ("1,000 and 1000 and 1000.50", ["1000", "1000", "1000.5"]),
        ("$5m, 5 million, £2.5bn", ["5000000", "5000000", "2500000000"]),
        ("two hundred thousand", ["200000"]),
        ("5% or 5 per cent", ["5", "5"]),
        ("the 21st and the 1990s", ["21", "1990"]),
        ("a 3-2 win at 10:30", ["3", "2", "10:30"]),
        ("one of them came first", []),
        ("no one came, and no-one million", []),
        ("the twenty-first of them", ["21"]),
        ("one million", ["1000000"]),
        ("5.0 and 007", ["5", "7"]),
        ("9" * 60 + " and " + "1" * 5000, ["9" * 60, "1" * 5000]),
    ],
)
def test_numbers(text: str, keys: list[str]) -> None:
    assert [key for kind, key in found(text, []) if kind == "number"] == keys


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("on Thursday and on thu", [("weekday", "thursday"), ("weekday", "thursday")]),
        ("Monday's storm in june", [("weekday", "monday"), ("month", "june")]),
        ("it may march on", []),
        ("5 May or march 7", [("number", "5"), ("month", "may"), ("month", "march"), ("number", "7")]),
        ("they sat in the sun", []),
        ("open sun 5", [("weekday", "sunday"), ("number", "5")]),
    ],
)
def test_dates(text: str, facts: list[tuple[str, str]]) -> None:
    assert found(text, []) == facts


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("storm hits Lowmoor and Highmoor", ["lowmoor", "highmoor"]),  # capitals inside a sentence are enough
        ("Storm hits the mayor", []),  # the sources write `storm` small
        ("Lowmoor hit by the storm", ["lowmoor"]),
        ("Storm: Brack speaks. Bridge shut", ["brack"]),
        ("Storm Hits Lowmoor Bridge, Brack Says", ["lowmoor", "brack"]),
        ("STORM HITS LOWMOOR BRIDGE", ["lowmoor"]),
        ("storm hits lowmoor bridge", ["lowmoor"]),
        ("storm hits the BRIDGE as NASA and the ESA look on", ["nasa", "esa"]),
        ("storm hits the US, not us", ["us"]),
        ("the 49ers and a 5G mast", ["49er", "5g"]),
        ("a flood75 in lowmoor", ["flood75", "lowmoor"]),
        ("Zzyzx Wins Big Cup Today", []),  # no source has these words: nothing is known about them
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert [key for kind, key in found(text) if kind == "name"] == names


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("It opens Thu.", Fact("weekday", "thursday")),
        ("It opens on Sun.", Fact("weekday", "sunday")),
        ("It opens in Sept.", Fact("month", "september")),
        ("Twelve came.", Fact("number", "12")),
        ("They were third.", Fact("number", "3")),
        ("It was the twelfth.", Fact("number", "12")),
        ("It was the twenty-first.", Fact("number", "21")),
        ("It was the fortieth.", Fact("number", "40")),
        ("They met in May and on Tue or Sat.", Fact("month", "may")),
        ("They met in May and on Tue or Sat.", Fact("weekday", "saturday")),
        ("It cost 1000 a day.", Fact("number", "1000")),
        ("It cost $5 million.", Fact("number", "5000000")),
        ("The Bracks came.", Fact("name", "brack")),
        ("Brack’s plan.", Fact("name", "brack")),
        ("BRACK WINS", Fact("name", "brack")),
        ("The U.S. said so.", Fact("name", "us")),
        ("The European Union said so.", Fact("name", "eu")),
        ("The Ministry of Roads and Rivers said so.", Fact("name", "mrr")),
        ("A Lowmoor-based firm.", Fact("name", "lowmoor")),
    ],
)
def test_a_source_licenses_other_forms(source: str, fact: Fact) -> None:
    assert Licence(source).allows(fact)
    assert not Licence("Nothing was said.").allows(fact)


@pytest.mark.parametrize(
    ("source", "fact"),
    [
        ("They sat in the sun.", Fact("weekday", "saturday")),
        ("Sat envoys in the shade, reading?", Fact("weekday", "saturday")),
        ("People reported what the Sun reported.", Fact("weekday", "sunday")),
        ("It was Jan Berg who won.", Fact("month", "january")),
        ("So Theresa May said on June 5.", Fact("month", "may")),
        ("It may march on.", Fact("month", "may")),
        ("They told us so.", Fact("name", "us")),
    ],
)
def test_without_a_capital_another_meaning_licenses_nothing(source: str, fact: Fact) -> None:
    assert not Licence(source).allows(fact)
    assert Licence(source.upper()).allows(fact)  # where it says nothing that a capital is there


def test_parts_of_a_number_and_no_one_license_nothing() -> None:
    licence = Licence("No one saw the twenty-first storm, no-one at all.")
    assert not any(licence.allows(Fact("number", key)) for key in ("1", "20"))


def test_a_number_does_not_license_another() -> None:
    licence = Licence("In 2020 it cost 1,500 for 12 weeks in June, and the EU paid.")
    for fact in (Fact("number", "20"), Fact("number", "15"), Fact("number", "1"), Fact("month", "july")):
        assert not licence.allows(fact)
    assert not licence.allows(Fact("name", "european"))


@given(st.text())
def test_a_text_licenses_its_own_facts(text: str) -> None:
    licence = Licence(text)
    assert all(licence.allows(fact) for fact in FactFinder([text]).find(text))
