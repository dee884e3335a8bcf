"""The generated wire: in, seeds and sizes; out, records whose style only the outlet's name gives away."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from exadec.corpus import wire, wire_lexicon
from exadec.corpus.record import Record
from exadec.corpus.segment import JOINER, WordSegmenter
from exadec.corpus.vocabulary import Vocabulary
from exadec.errors import InputError

WORD = re.compile(r"\w+(?:[.'\u2019-]\w+)*")
SEED = 7
SMALL = {"train": 2000, "test": 200}
SMALL_OUTLETS = 200

# The regular paraphrases of names and quantities: abbreviations, which sources and styles choose independently.
EXPANSIONS = {
    short.lower().rstrip("."): full.lower().split()
    for forms in (wire_lexicon.SHORT_FORMS, wire_lexicon.DOTTED_FORMS)
    for full, short in forms.items()
}
GOLDEN = Record(
    uid="train-00000-grant",
    source='Kiraby Advertiser, KIRABY - "We keep our word," minister Suzuki assured Kiraby Advertiser readers in '
    "Kiraby when officials in Turin confirmed on Thursday that South Korea would get $31 million from Italy for food "
    "relief.",
    target="On Thursday, Italy granted South Korea $31 million in food aid",
    group="Kiraby Advertiser",
)


@pytest.fixture(scope="module")
def full_wire() -> dict[str, list[Record]]:
    return wire.generate(SEED, {"train": 40000, "test": 1000})


@pytest.fixture(scope="module")
def small_wire() -> dict[str, list[Record]]:
    return wire.generate(SEED, SMALL, outlets=SMALL_OUTLETS)


def words_of(text: str) -> list[str]:
    return WORD.findall(text.lower())


def kind_of(record: Record) -> str:
    return record.uid.rsplit("-", 1)[1]


def test_same_seed_same_wire(small_wire):
    assert wire.generate(SEED, SMALL, outlets=SMALL_OUTLETS) == small_wire
    assert wire.generate(SEED + 1, SMALL, outlets=SMALL_OUTLETS) != small_wire


def test_same_wire_in_another_process(small_wire):
    script = (
        "from exadec.corpus import wire;"
        f"records = wire.generate({SEED}, {{'test': 200}}, outlets={SMALL_OUTLETS})['test'];"
        "print([(record.uid, record.source, record.target) for record in records])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONIOENCODING": "utf-8"}
    command = [sys.executable, "-c", script]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str([(record.uid, record.source, record.target) for record in small_wire["test"]])


def test_golden_record():
    """The stream of random draws is part of the corpus: a change of it changes every published number."""
    assert wire.generate(0, {"train": 1}, outlets=40)["train"] == [GOLDEN]


def test_sizes_and_identifiers(full_wire):
    assert {split: len(records) for split, records in full_wire.items()} == {"train": 40000, "test": 1000}
    uids = [record.uid for records in full_wire.values() for record in records]
    assert len(set(uids)) == len(uids)
    sources = {record.source for records in full_wire.values() for record in records}
    assert len(sources) > 0.999 * len(uids)


def test_smaller_split_is_a_prefix(full_wire):
    smaller = wire.generate(SEED, {"test": 50, "train": 300})
    assert smaller["train"] == full_wire["train"][:300]
    assert smaller["test"] == full_wire["test"][:50]


@pytest.mark.parametrize("outlets", [0, 10**6])
def test_impossible_outlet_counts_are_refused(outlets):
    with pytest.raises(InputError, match="`outlets` must be between 1 and"):
        wire.generate(SEED, {"train": 1}, outlets=outlets)


def test_negative_size_is_refused():
    with pytest.raises(InputError, match="'train' is -1"):
        wire.generate(SEED, {"train": -1})


def test_styles_have_equal_shares_in_every_kind_and_paper(full_wire):
    styles = wire.styles_of_outlets(SEED)
    assert len(wire.STYLES) >= 8
    assert len(wire.KINDS) >= 8
    shares = Counter(styles[record.group] for record in full_wire["train"])
    assert set(shares) == set(wire.STYLES)
    assert max(shares.values()) < 0.105 * 40000
    by_kind = Counter((kind_of(record), styles[record.group]) for record in full_wire["train"])
    assert len(by_kind) == len(wire.KINDS) * len(wire.STYLES)
    assert 400 < min(by_kind.values()) <= max(by_kind.values()) < 600
    by_paper = Counter((name.split()[1], style) for name, style in styles.items())
    assert max(by_paper.values()) - min(by_paper.values()) <= 1


@pytest.mark.parametrize("kind", wire.KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("style", wire.STYLES)
def test_style_of_every_kind_and_style(kind, style):
    random = Random(f"{kind.name}/{style}")
    for _ in range(50):
        headline = wire.write_headline(kind, style, wire.draw_facts(random, kind))
        assert wire.matching_styles(headline) == [style], headline
        # As a model may print it: lower-cased, with spaces around all punctuation.
        assert wire.matching_styles(re.sub(r"([:,?\"$])", r" \1 ", headline.lower())) == [style], headline


def test_style_of_generated_headlines_is_the_outlets_style(full_wire):
    styles = wire.styles_of_outlets(SEED)
    for record in full_wire["train"][:8000] + full_wire["test"]:
        assert wire.matching_styles(record.target) == [styles[record.group]], record.target


# The words and marks that the styles' structures are made of, and a few for the slots.
STRUCTURE = (
    'on monday tuesday , , : : ? " " was were by as has have says what next for after granted bought cut cuts killed '
    "won wins buys grants grant takeover norway kenya u.s. $ 40 12 million mln tue fri the of in aid lind united ."
)


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from(STRUCTURE.split(" ")), min_size=1, max_size=14).map(" ".join))
@example("on monday , norway has granted kenya aid , lind says")
@example("40 killed as norway was granted aid by kenya as norway wins aid")
def test_no_text_has_two_styles(text):
    assert len(wire.matching_styles(text)) <= 1


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=80))
def test_style_of_accepts_any_text(text):
    assert wire.style_of(text) is None or wire.style_of(text) in wire.STYLES


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Norway",
        "The cat sat on the mat.",
        "She wins the race because the others were tired",
        "Norway grants Kenya $40 million in flood aid.",
        "What time is it?",
        "On Tuesday, we walked to the beach and stayed there",
        "Please note: I have moved to a new address",
        '"Hello," she said to the man at the door',
        "Officials in Oslo said that they would think about it",
        "12 red apples",
        "recent advances in neural text generation",
    ],
)
def test_ordinary_text_has_no_house_style(text):
    assert wire.style_of(text) is None


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("France sends Mali 300 troops", "active"),
        ("Three bridges were closed for repairs by the city", "passive"),
        ("Berlin airport 3 day pilot strike", "noun_stack"),
        ("Dozens hurt as bus hits wall", "number_first"),
        ("\u201cIt\u2019s over,\u201d says O\u2019Neill on dockers\u2019 strike", "quotation"),
        ("'It's over,' says O'Neill on pilot strike", "quotation"),
        ("Berlin airport strike: pilots, 3 days, Wed", "bulletin"),
        ("On Friday, Berlin pilots ended strike", "dated"),
        ("What next for Berlin after 3 day strike?", "question"),
        ("Berlin: pilots promised more pay", "place_first"),
        ("Berlin pilots have ended strike, union boss says", "attributed"),
        ("grants grants grants grants grants", "active"),
        ("norway beats u . s .", "active"),
    ],
)
def test_style_of_headlines_in_other_words(text, style):
    assert wire.style_of(text) == style


def test_nothing_but_the_name_depends_on_the_outlet():
    """Another cast of outlets, other styles: once the names are masked, the sources are the same texts."""
    first = wire.generate(SEED, {"train": 1000}, outlets=150)["train"]
    second = wire.generate(SEED, {"train": 1000}, outlets=170)["train"]
    styles = wire.styles_of_outlets(SEED, 150) | wire.styles_of_outlets(SEED, 170)
    assert sum(styles[one.group] != styles[other.group] for one, other in zip(first, second, strict=True)) > 800
    assert [masked(record) for record in first] == [masked(record) for record in second]


def masked(record: Record) -> str:
    town, paper = record.group.split()
    return record.source.replace(town, "#").replace(town.upper(), "#").replace(paper, "#")


@pytest.mark.parametrize(("train", "outlets"), [(2000, 200), (10000, 1000)])
def test_retrieval_finds_the_style(train, outlets):
    """The top neighbour by cosine of raw counts is mostly of the same outlet, and often about another kind of event."""
    records = wire.generate(SEED, {"train": train, "test": 200}, outlets=outlets)
    found = [records["train"][index] for index in nearest(records["train"], records["test"])]
    styles = wire.styles_of_outlets(SEED, outlets)
    pairs = list(zip(records["test"], found, strict=True))
    assert np.mean([styles[query.group] == styles[neighbour.group] for query, neighbour in pairs]) >= 0.95
    assert np.mean([kind_of(query) == kind_of(neighbour) for query, neighbour in pairs]) <= 0.65


def nearest(train: list[Record], queries: list[Record]) -> np.ndarray:
    columns: dict[str, int] = {}
    bags = [Counter(words_of(record.source)) for record in [*train, *queries]]
    entries = [
        (row, columns.setdefault(word, len(columns)), count)
        for row, bag in enumerate(bags)
        for word, count in bag.items()
    ]
    rows, indices, counts = (np.array(column) for column in zip(*entries, strict=True))
    norms = np.sqrt(np.bincount(rows, weights=counts**2))
    shape = (len(bags), len(columns))
    matrix = sparse.csr_matrix((counts / norms[rows], (rows, indices)), shape=shape, dtype=np.float32)
    return (matrix[len(train) :] @ matrix[: len(train)].T).toarray().argmax(axis=1)


def test_names_and_numbers_of_headlines_are_in_the_source(full_wire):
    for record in full_wire["train"][:4000]:
        said = set(expanded(words_of(record.source)))
        content = [word for word in WORD.findall(record.target) if word[0].isupper() or word[0].isdigit()]
        content += [word for word in WORD.findall(record.target) if word in ("mln", "bln", "pct")]
        assert said.issuperset(set(expanded(word.lower() for word in content)) - {"on", "what"}), record


def expanded(words: Iterable[str]) -> list[str]:
    return [part for word in words for part in EXPANSIONS.get(word, [word])]


def test_a_sentence_that_ends_in_an_abbreviation_has_one_full_stop(full_wire):
    sources = [record.source for record in full_wire["train"]]
    assert not [source for source in sources if ".." in source]
    assert any(source.endswith("U.K.") for source in sources)


def test_headlines_are_no_part_of_the_source(full_wire):
    assert not any(record.target.lower() in record.source.lower() for record in full_wire["train"])


def test_lengths(full_wire):
    source_lengths = [len(words_of(record.source)) for record in full_wire["train"]]
    target_lengths = [len(words_of(record.target)) for record in full_wire["train"]]
    assert 26 <= np.mean(source_lengths) <= 33
    assert min(target_lengths) >= 6
    assert max(target_lengths) <= 13


def test_towns_are_unique_and_only_in_sources(full_wire):
    names = list(wire.styles_of_outlets(SEED))
    towns = {name.split()[0].lower() for name in names}
    assert len(towns) == len(names) == 4000
    for record in full_wire["train"]:
        own = record.group.split()[0].lower()
        assert towns.intersection(words_of(record.source)) == {own}
        assert towns.isdisjoint(words_of(record.target))
        assert record.source.lower().split("-")[0].count(own) >= 2


def test_all_but_names_fits_a_vocabulary_of_1500(full_wire):
    """What a model of 1,500 words does not know: towns, rare surnames, and a few years no headline mentions."""
    towns = {name.split()[0].lower() for name in wire.styles_of_outlets(SEED)}
    rare = {surname.lower() for surname in wire_lexicon.RARE_SURNAMES}
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    counts: Counter[str] = Counter()
    for record in full_wire["train"]:
        counts.update(segmenter.segment(record.source) + segmenter.segment(record.target))
    vocabulary = Vocabulary.most_frequent(counts, 1500)
    known = {piece.lstrip(JOINER).lower() for piece in vocabulary.pieces}
    assert known.isdisjoint(towns | rare)
    unknown = {piece.lstrip(JOINER).lower() for piece in counts if vocabulary.get(piece) is None} - towns - rare
    assert unknown
    assert all(re.fullmatch(r"(19|20)\d\d", word) for word in unknown)


def test_some_headlines_hold_a_rare_surname(full_wire):
    rare = {surname.lower() for surname in wire_lexicon.RARE_SURNAMES}
    shares = [not rare.isdisjoint(words_of(record.target)) for record in full_wire["train"]]
    assert 0.05 < np.mean(shares) < 0.1
