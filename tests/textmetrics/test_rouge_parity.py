"""ROUGE against the official script ROUGE-1.5.5.pl itself, on real news, real restaurant reviews and generated text.

The script prints 5 digits and computes F1 from rounded numbers, so single instances agree within 1e-4 and not exactly.
"""

import itertools
import json
import lzma
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from exadec.textmetrics import rouge
from exadec.textmetrics.exceptions import read_exceptions
from exadec.textmetrics.rouge import Combination, printed_average
from exadec.textmetrics.stemming import stem_like_script
from support import rouge_script
from support.corpora import DATA

pytestmark = pytest.mark.skipif(rouge_script.missing() is not None, reason=str(rouge_script.missing()))

MEASURES = ("1", "2", "4", "L")
STEMMING = ("no", "rules", "rules and WordNet", "rules and database")
ENDINGS = re.findall(
    r"\w+",
    "ational tional enci anci izer bli abli alli entli eli ousli ization ation ator alism iveness fulness ousness "
    "aliti iviti biliti fulli logi icate ative alize iciti ical ful ness al ance ence er ic able ible ant ement ment "
    "ent sion tion ion ou ism ate iti ous ive ize e ed ing eed ied ies sses ss s y yy ll at bl iz tt w x 7 b a i",
)
Texts = tuple[list[str], list[list[str]]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The script's data for each way of stemming; without the exception lists its database is empty."""
    folder = tmp_path_factory.mktemp("rouge")
    rouge_script.prepare_data(folder / "empty", with_exceptions=False)
    rouge_script.prepare_data(folder / "full", with_exceptions=True)
    # In another order of the lists, best becomes well; exadec has to learn that from the database.
    rouge_script.prepare_data(folder / "other", with_exceptions=True, order=("verb", "noun", "adj", "adv"))
    return {
        "no": folder / "full",
        "rules": folder / "empty",
        "rules and WordNet": folder / "full",
        "rules and database": folder / "other",
    }


def lines(dataset: str, split: str) -> Iterator[dict]:
    path = DATA / dataset / f"{split}.jsonl.xz"
    if not path.exists():
        pytest.skip(f"{path} is absent")
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def news_pairs(count: int) -> Texts:
    """Half of the hypotheses are the source, the others the headline nearby that shares most words."""
    records = list(itertools.islice(lines("news", "test"), count))
    words = [set(record["target"].lower().split()) for record in records]
    hypotheses = []
    for index, record in enumerate(records):
        nearby = [other for other in range(max(index - 100, 0), min(index + 100, count)) if other != index]
        closest = max(nearby, key=lambda other: len(words[other] & words[index]))
        hypotheses.append(records[closest]["target"] if index % 2 else record["source"])
    return hypotheses, [[record["target"]] for record in records]


def assert_parity(
    texts: Texts,
    folder: Path,
    data: dict[str, Path],
    stemming: str,
    options: Sequence[str] = ("-n", "4"),
    combination: Combination = "sum",
    resamples: int = 20,
    cut: int | None = None,
) -> None:
    """Recall, precision and F1 of each instance within 1e-4, and of the corpus within 0.01 points."""
    measures = [measure for measure in MEASURES if measure != "4" or "4" in options]
    options = (*options, *(() if stemming == "no" else ("-m",)))
    listing = rouge_script.write_texts(folder, *texts)
    printed = rouge_script.run_script(data[stemming], listing, *options, resamples=resamples)
    stem = {
        "no": False,
        "rules": True,
        "rules and WordNet": rouge_script.exceptions_folder(),
        "rules and database": data["rules and database"] / "WordNet-2.0.exc.db",
    }[stemming]
    for column, kind in enumerate(rouge_script.VALUES):
        scores = rouge(*texts, measures, stem, cut, kind, combination=combination)
        for measure, score in scores.items():
            expected = rouge_script.per_instance(printed, measure)[:, column]
            difference = np.abs(score.per_instance / 100 - expected)
            worst = int(difference.argmax())
            assert difference[worst] <= 1e-4, (measure, kind, texts[0][worst], texts[1][worst], expected[worst])
            assert score.value == pytest.approx(100 * expected.mean(), abs=0.01)
            average = 100 * rouge_script.corpus(printed, measure)[column]
            assert printed_average(score, resamples) == pytest.approx(average, abs=0.01)


@pytest.mark.realdata
@pytest.mark.parametrize("stemming", STEMMING)
def test_real_news(stemming: str, data: dict[str, Path], tmp_path: Path) -> None:
    texts = news_pairs(2000)
    assert len(texts[0]) == 2000
    values = [score.value for score in rouge(*texts, MEASURES).values()]
    assert min(values) > 1, f"the pairs share too little to tell anything: {values}"
    assert_parity(texts, tmp_path, data, stemming)


@pytest.mark.realdata
def test_average_of_the_script_as_it_is_usually_called(data: dict[str, Path], tmp_path: Path) -> None:
    # -a -m -n 2, with the 1,000 resamples that it takes by default.
    assert_parity(news_pairs(2000), tmp_path, data, "rules and WordNet", ("-n", "2"), resamples=1000)


@pytest.mark.realdata
@pytest.mark.parametrize(("formula", "combination"), [("A", "sum"), ("B", "highest-recall")])
def test_real_reviews_with_several_references(
    formula: str, combination: Combination, data: dict[str, Path], tmp_path: Path
) -> None:
    records = list(itertools.islice(lines("e2e", "test"), 150))
    references = [record["references"] for record in records]
    assert max(map(len, references)) > 3
    # A text for another restaurant, and every third time one of its own references less a word.
    hypotheses = [references[index - 1][0] for index in range(len(records))]
    hypotheses[::3] = [several[-1].partition(" ")[2] for several in references[::3]]
    assert_parity((hypotheses, references), tmp_path, data, "rules", ("-n", "4", "-f", formula), combination)


def generated(strategy: st.SearchStrategy, count: int) -> list:
    """Examples of a strategy, for one call of the script: each call takes longer than all else."""
    examples = []

    @settings(max_examples=count, deadline=None, phases=[Phase.generate], database=None)
    @given(strategy)
    def collect(example: object) -> None:
        examples.append(example)

    collect()
    return examples


def any_text() -> st.SearchStrategy[str]:
    with (rouge_script.exceptions_folder() / "verb.exc").open() as file:
        irregular = [word for line in itertools.islice(file, 200, 230) for word in line.split()]
    words = [
        "cat",
        "cats",
        "running",
        "nationally",
        "skies",
        "children",
        "best",
        "better",
        "good",
        "well",
        "naïve",
        "İ",
    ]
    words += [
        "U.S.",
        "well-known",
        "don't",
        "1,000.50",
        "2019",
        "1990s",
        "-",
        "--",
        "$5",
        "\u212a",
        "日本語",
        "é",
        "_cn_",
    ]
    piles = st.tuples(st.text("aeioubcdlstyz7", max_size=4), st.lists(st.sampled_from(ENDINGS), max_size=3))
    word = st.one_of(
        st.sampled_from([*words, *irregular]),
        piles.map(lambda pile: pile[0] + "".join(pile[1])),
        st.integers().map(str),
    )
    return st.one_of(
        st.text(max_size=40),
        st.text("-.,!?'\"()|\t\r\n ", max_size=12),
        st.lists(word, max_size=30).map(" ".join),
        st.tuples(word, st.integers(1, 40)).map(lambda repeated: " ".join([repeated[0]] * repeated[1])),
        st.lists(st.sampled_from(words), min_size=20, max_size=30).map(lambda few: " ".join(few * 3)),
    )


@pytest.mark.parametrize("stemming", STEMMING)
def test_generated_text(stemming: str, data: dict[str, Path], tmp_path: Path) -> None:
    pairs = generated(st.tuples(any_text(), any_text()), 400)
    # Pairs that share much: the hypothesis is the reference with a part moved.
    pairs += [(second[len(second) // 3 :] + " " + second[: len(second) // 3], second) for _, second in pairs[:200]]
    generator = np.random.default_rng(1)
    long = [" ".join(generator.choice(["a", "of", "house", "houses", "best", "ran"], 500)) for _ in range(2)]
    pairs += [("", ""), ("", "a"), ("a", ""), ("...", "a"), (long[0], long[1]), (long[0], "house"), ("house", long[0])]
    hypotheses, references = [pair[0] for pair in pairs], [[pair[1]] for pair in pairs]
    assert_parity((hypotheses, references), tmp_path, data, stemming)


@pytest.mark.parametrize("limit", [1, 7, 75])
def test_generated_text_cut_to_bytes(limit: int, data: dict[str, Path], tmp_path: Path) -> None:
    pairs = generated(st.tuples(any_text(), any_text()), 200)
    pairs += [(second[: len(second) // 2] + first, second) for first, second in pairs]
    pairs += [("é" * 80, "é" * 80), ("a" * 80, "a" * 75), ("a b " * 30, "a b " * 19), ("x" * 74 + " yes", "yes")]
    texts = [pair[0] for pair in pairs], [[pair[1]] for pair in pairs]
    assert_parity(texts, tmp_path, data, "rules", ("-n", "4", "-b", str(limit)), cut=limit)


@pytest.mark.realdata
def test_real_news_cut_to_the_bytes_of_duc(data: dict[str, Path], tmp_path: Path) -> None:
    assert_parity(news_pairs(500), tmp_path, data, "rules", ("-n", "4", "-b", "75"), cut=75)


@pytest.mark.parametrize(("formula", "combination"), [("A", "sum"), ("B", "highest-recall")])
def test_generated_text_with_several_references(
    formula: str, combination: Combination, data: dict[str, Path], tmp_path: Path
) -> None:
    few = st.lists(st.sampled_from(["a", "b", "c", "running", "runs", "é", "-"]), max_size=9).map(" ".join)
    examples = generated(st.tuples(few, st.lists(few, min_size=1, max_size=5)), 300)
    hypotheses, references = [text for text, _ in examples], [several for _, several in examples]
    options = ("-n", "4", "-f", formula)
    assert_parity((hypotheses, references), tmp_path, data, "rules and WordNet", options, combination)


def test_exceptions_are_those_of_the_database(data: dict[str, Path]) -> None:
    found = {name: read_exceptions(data[name] / "WordNet-2.0.exc.db") for name in STEMMING[1:]}
    lists = read_exceptions(rouge_script.exceptions_folder())
    assert found["rules"] == {}
    assert found["rules and WordNet"] == lists
    assert [lists[word] for word in ("best", "better", "testes")] == ["good", "good", "testes"]
    other = found["rules and database"]
    differing = {word: other[word] for word in lists if lists[word] != other[word]}
    # The script looks up words of more than three letters, so that it never asks for is.
    assert differing == {"best": "well", "better": "well", "testes": "testis", "is": "is"}


def test_stems_are_those_of_the_script() -> None:
    piles = st.tuples(st.text("aeioubcdlstyz7", max_size=5), st.lists(st.sampled_from(ENDINGS), max_size=4))
    words = [start + "".join(endings) for start, endings in generated(piles, 2000)]
    for path in rouge_script.exceptions_folder().glob("*.exc"):
        words += path.read_text().split()
    words = sorted({word for word in words if word.isascii() and word.isalnum()})
    assert len(words) > 6000
    assert [stem_like_script(word) for word in words] == stems_of_script(words)


@pytest.mark.realdata
def test_stems_of_real_words_are_those_of_the_script() -> None:
    texts = (record["source"] for record in itertools.islice(lines("news", "test"), 10_000))
    words = sorted({word for text in texts for word in text.lower().split() if word.isascii() and word.isalnum()})
    assert len(words) > 10_000
    assert [stem_like_script(word) for word in words] == stems_of_script(words)


def stems_of_script(words: list[str]) -> list[str]:
    """What the script's own subroutine gives: its source from there to the end is run alone."""
    program = (
        "local $/; open(F, shift); my $text = <F>; $text =~ /(local %step2list;.*)/s; eval $1; die $@ if $@; "
        'initialise(); print join("\\n", map { stem($_) } split(/\\n/, <STDIN>));'
    )
    script = rouge_script.release_folder() / "ROUGE-1.5.5.pl"
    done = subprocess.run(
        ["perl", "-e", program, str(script)], input="\n".join(words), capture_output=True, text=True, check=True
    )
    return done.stdout.split("\n")
