"""Requests in JSON."""

import json
from typing import Any

import pytest

from exadec.errors import InputError
from exadec.request import Request, complete_request, parse_request
from exadec.styles import Mixture


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"source": " a  b "}, Request("a b")),
        ({"source": "a", "exemplar": "b", "group": "c", "uid": 4, "target": "d"}, Request("a", "b", "c", "4")),
        ({"table": {"name": "The Oak", "seats": 4}}, Request("name : The Oak | seats : 4")),
        ({"table": [["name", "The Oak"], ["food", ""]]}, Request("name : The Oak | food :")),
        ({"source": "a", "exemplar": None, "group": None}, Request("a")),
        (
            {"source": "a", "mixture": [{"exemplar": "b", "weight": 3}, {"exemplar": "c"}]},
            Request("a", mixture=Mixture((("b", 3), ("c", 1.0)))),
        ),
        ({"source": "a", "options": "red", "k": 3, "mixture": None}, Request("a")),
    ],
)
def test_fields_are_read(row: dict[str, Any], expected: Request) -> None:
    assert parse_request(json.dumps(row), "here:1") == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "here:1: not JSON"),
        ("[]", "here:1: expected a JSON object, but found a list."),
        ("{}", "here:1: the record has no 'source' and no 'table'."),
        ('{"source": ""}', "here:1: the record's 'source' is empty."),
        ('{"source": 5}', "here:1: 'source' must be text, but is a number."),
        ('{"source": "a", "max_characters": 1e3}', "here:1: 'max_characters' must be a whole number, but is 1000.0."),
        ('{"source": "a", "exemplar": ["b"]}', "here:1: 'exemplar' must be text, but is a list."),
        ('{"source": "a", "group": {}}', "here:1: 'group' must be text or a number, but is an object."),
        ('{"table": []}', "here:1: 'table' is empty."),
        ('{"table": {"": ""}}', "here:1: 'table' has no attribute with a name and a value."),
        ('{"table": [["a", " "], ["", "b"]]}', "here:1: 'table' has no attribute with a name and a value."),
        ('{"source": "a", "options": {"guidance": 1}}', "here:1: a record has no 'options'; give beginning, required,"),
        ('{"source": "a", "mixture": ["b"]}', "here:1: 'mixture' must be a list of objects, each with an exemplar"),
        ('{"source": "a", "mixture": {}}', "here:1: 'mixture' must be a list of objects, each with an exemplar"),
        ('{"source": "a", "mixture": [{"weight": 1}]}', "here:1: an exemplar of 'mixture' must be text"),
        ('{"source": "a", "mixture": [{"exemplar": "b", "weight": true}]}', "here:1: an exemplar of 'mixture' must be"),
        ('{"source": "a", "mixture": []}', "here:1: a mixture needs from 1 to 1,000 exemplars, but has 0."),
        ('{"source": "a", "mixture": [{"exemplar": "b"}], "style": "c"}', "here:1: an exemplar, a mixture and a style"),
        ('{"source": "a\\u0007b"}', "here:1: the source has a control character (U+0007); take it out."),
        ('{"source": "a", "exemplar": "\\u0000"}', "here:1: the exemplar has a control character (U+0000)"),
        ('{"source": "a", "required": ["b\\u001b[2J"]}', "here:1: a required phrase has a control character (U+001B)"),
        (json.dumps({"source": "a" * 20_000}), "here:1: the source has 20,000 characters without a space"),
    ],
)
def test_mistakes_are_named(line: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_request(line, "here:1")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"forbidden": "Porto"}, "the forbidden phrases must be a list of texts, but are text."),
        ({"required": "Rossi"}, "the required phrases must be a list of texts, but are text."),
        ({"required": {"Rossi"}}, "the required phrases must be a list of texts, but are of the type set."),
        ({"required": (5,)}, "a required phrase must be text, but is a number."),
        ({"forbidden": None}, "the forbidden phrases must be a list of texts, but are null."),
        ({"beginning": 5}, "the beginning must be text, but is a number."),
        ({"exemplar": b"a"}, "the exemplar must be text, but is of the type bytes."),
        ({"mixture": "a"}, "the mixture must be a `Mixture`, but is text."),
        ({"max_characters": 10.5}, "max_characters must be a whole number, but is 10.5."),
        ({"max_characters": "x"}, "max_characters must be a whole number, but is 'x'."),
        ({"max_characters": True}, "max_characters must be a whole number, but is True."),
        ({"max_characters": 0}, "max_characters must be at least 1, but is 0."),
    ],
)
def test_fields_of_another_type_are_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        Request("A flood reached Porto.", **fields)
    assert str(caught.value) == message


def test_a_list_of_phrases_may_be_a_list() -> None:
    assert not Request("a", required=["b"]).is_free  # type: ignore[arg-type]


def test_of_a_record_with_both_the_source_is_read_as_in_training() -> None:
    assert parse_request('{"source": "a", "table": {"b": "c"}}', "here:1") == Request("a")


def test_an_exemplar_for_all_leaves_alone_who_says_how_to_write() -> None:
    mixture = Mixture.of(["up n1"])
    assert complete_request("s", "x", None) == Request("s", "x")
    assert complete_request(Request("s"), "x", None) == Request("s", "x")
    for own in (Request("s", "y"), Request("s", mixture=mixture), Request("s", style="brief")):
        assert complete_request(own, "x", None) == own
