"""Named mixtures of exemplars: kept, checked, and safe against damage."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exadec.errors import InputError, RequestError
from exadec.styles import Mixture, Styles


def test_styles_are_saved_replaced_and_removed(tmp_path: Path) -> None:
    styles = Styles(tmp_path / "run.styles.json")
    assert styles.all() == {}
    brief, long = Mixture.of(["Fire: two hurt"]), Mixture((("A fire has hurt two people", 3.0), ("Two hurt", 1.0)))
    styles.save("Tagesspiegel, nein"[:12], brief)
    styles.save("brief", brief)
    styles.save("brief", long)
    assert Styles(styles.path).all() == {"Tagesspiegel": brief, "brief": long}
    assert styles.get("brief").shares == [0.75, 0.25]
    styles.remove("Tagesspiegel")
    assert list(styles.all()) == ["brief"]
    with pytest.raises(RequestError, match="there is no style 'curt'; choose one of these: brief"):
        styles.get("curt")
    with pytest.raises(RequestError, match="there is no style"):
        styles.remove("curt")


@pytest.mark.parametrize("name", ["", " ", "../up", "a/b", "-rf", "x" * 65, "a\nb"])
def test_a_name_is_a_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(RequestError, match="cannot be the name of a style"):
        Styles(tmp_path / "s.json").save(name, Mixture.of(["x"]))


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((), "from 1 to 1,000"),
        ((("x", 1.0),) * 1001, "from 1 to 1,000"),
        (((" ", 1.0),), "empty"),
        ((("x", -1.0),), "must be from 0"),
        ((("x", float("nan")),), "must be from 0"),
        ((("x", 0.0),), "all weights of the mixture are 0"),
    ],
)
def test_a_mixture_is_checked(parts: tuple[tuple[str, float], ...], message: str) -> None:
    with pytest.raises(RequestError, match=message):
        Mixture(parts)


def test_the_heaviest_exemplars_come_first() -> None:
    mixture = Mixture((("a", 1.0), ("b", 3.0), ("c", 0.0), ("d", 2.0)))
    assert mixture.heaviest(2) == ["b", "d"]
    assert mixture.heaviest(9) == ["b", "d", "a"]


@pytest.mark.parametrize("content", ["{", "[]", '{"format": 9, "styles": {}}', '{"format": 1, "styles": {"a": [1]}}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(InputError, match=r"s\.json"):
        Styles(path).all()


def test_a_damaged_byte_is_refused_and_not_written_back(tmp_path: Path) -> None:
    styles = Styles(tmp_path / "s.json")
    styles.save("brief", Mixture.of(["Café opens"]))
    damaged = styles.path.read_bytes().replace("é".encode(), b"\xe9")
    styles.path.write_bytes(damaged)
    with pytest.raises(InputError, match=r"s\.json"):
        styles.save("other", Mixture.of(["x"]))
    assert styles.path.read_bytes() == damaged


def test_a_mixture_that_cannot_be_is_named_by_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"format": 1, "styles": {"a": []}}))
    with pytest.raises(InputError, match=r"s\.json: a mixture needs"):
        Styles(path).all()


def test_styles_saved_at_once_are_all_kept(tmp_path: Path) -> None:
    styles = Styles(tmp_path / "s.json")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: styles.save(f"style {number}", Mixture.of([f"text {number}"])), range(12)))
    assert len(styles.all()) == 12
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["s.json"]


def test_one_exemplar_is_no_list_of_exemplars() -> None:
    with pytest.raises(InputError, match=r"needs a list of exemplars, but this is one text; write it in brackets"):
        Mixture.of("Fire: two hurt")
