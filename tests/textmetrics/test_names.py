"""Names counted from distinct words are those of the sources themselves."""

import numpy as np
import pytest

from exadec.corpus.wire import generate
from exadec.textmetrics.facts import Names
from exadec.textmetrics.names import LEAST, count_names


def as_numbers(texts: list[str]) -> tuple[list[str], np.ndarray, np.ndarray]:
    split = [text.split() for text in texts]
    words = sorted({word for text in split for word in text})
    number = {word: place for place, word in enumerate([*words, "unused"])}
    ids = np.array([number[word] for text in split for word in text], np.int32)
    return list(number), ids, np.cumsum([0, *map(len, split)])


CASES = {
    "the wire": [record.source for record in generate(1, {"train": 300}, outlets=30)["train"]],
    "cases": [
        "They met Ada Brack in Porto, and she said: Hello there, Bob.",
        "The Cat Sat On The Mat In Porto",  # Title Case says nothing
        "THEY MET ADA IN PORTO",
        "they met ada in porto",
        "Ada (Porto) met well-known Ada-Bob twins. Then U.S. troops left; Bob's men did not!",
        '"Hello," Bob told the "Porto" paper - and left NASA for 50 YEARS',
        "NASA and nasa and the Ada 2nd 49ers",
        "Hi",
    ],
}


@pytest.mark.parametrize("texts", CASES.values(), ids=CASES)
def test_distinct_words_give_the_names_of_the_texts(texts: list[str]) -> None:
    assert count_names(*as_numbers(texts), least=1) == Names.from_sources(texts)


def test_rare_words_are_left_out() -> None:
    texts = ["They met Ada and Bob again"] * LEAST + ["They met Cid and a friend"]
    assert count_names(*as_numbers(texts)) == Names(frozenset({"ada", "bob"}), frozenset({"met", "and", "again"}))


def test_names_survive_json() -> None:
    names = Names.from_sources(CASES["cases"])
    assert names.names
    assert names.common
    assert Names.from_json(names.to_json()) == names
