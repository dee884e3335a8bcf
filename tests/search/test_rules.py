"""Rules of texts: exact against an enumeration of all texts, and kept by every text that a trained model writes."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.api import Generation, Writer
from exadec.config import SearchConfig
from exadec.corpus.segment import BpeSegmenter, WordSegmenter
from exadec.corpus.vocabulary import BOS, EOS, SPECIALS, PieceTable, Vocabulary
from exadec.errors import InputError, RequestError
from exadec.request import Request, parse_request
from exadec.search.beam import Hypothesis, beam_search, length_penalty
from exadec.search.rules import Beginning, Required, Rule, Spelling, forbid, rule_for
from exadec.training.trainer import train
from support.letters import FORBIDDEN, LETTERS, PIECES, keeps, random_model
from support.random_models import RandomModel, start
from support.toys import toy_records, variant_config, write_splits

CPU = torch.device("cpu")


def all_texts(model: RandomModel, config: SearchConfig) -> list[Hypothesis]:
    """All that the first instance can have, best first."""
    found = []
    for length in range(config.max_length):
        for words in itertools.product(LETTERS, repeat=length):
            prefix, total = [100, BOS], 0.0
            for word in (*words, EOS):
                total += model.distribution(prefix)[word].item()
                prefix.append(word)
            found.append(Hypothesis(list(words), total / length_penalty(length + 1, config.length_penalty)))
    return sorted(found, key=lambda one: -one.score)


@pytest.fixture
def spelling() -> Spelling:
    return Spelling(WordSegmenter(pretokenized=True, lower_case=False), PieceTable(Vocabulary(PIECES[len(SPECIALS) :])))


REQUESTS = [
    Request("s", beginning="b"),
    Request("s", beginning="b a"),
    Request("s", required=("c",)),
    Request("s", required=("a b",)),
    Request("s", required=("a", "c")),
    Request("s", required=("b a", "a b")),
    Request("s", forbidden=("a",)),
    Request("s", forbidden=("a b", "c c")),
    Request("s", max_characters=3),
    Request("s", beginning="c", required=("a",), forbidden=("b",), max_characters=5),
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_wide_beam_equals_exhaustive_search(request_: Request, seed: int, spelling: Spelling) -> None:
    model, config = random_model(seed), SearchConfig(beam_size=400, max_length=5)
    expected = [one for one in all_texts(model, config) if keeps(request_, spelling.text(one.ids))][:4]
    rule, _ = rule_for(request_, spelling)
    [found] = beam_search(model.step, start(1), 1, config, FORBIDDEN, CPU, n_best=4, rules=[rule])
    assert [one.ids for one in found] == [one.ids for one in expected]
    np.testing.assert_allclose([one.score for one in found], [one.score for one in expected], rtol=1e-5)


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_a_narrow_beam_keeps_every_rule(request_: Request, beam: int, spelling: Spelling) -> None:
    """The demanded words are written even if the model would never choose them."""
    rule, _ = rule_for(request_, spelling)
    config = SearchConfig(beam_size=beam, max_length=9)
    for seed in range(20):
        model = random_model(seed, eagerness=1.0)
        for [best, *_] in beam_search(model.step, start(3), 3, config, FORBIDDEN, CPU, rules=[rule] * 3):
            assert keeps(request_, spelling.text(best.ids))


NEXT: dict[str, dict[str | int, float]] = {
    "": {"a": 0.99},
    "a": {"b": 0.99},
    "b": {EOS: 0.5, "a": 0.49},
    "c": {EOS: 0.6, "a": 0.2},
}


class Reluctant(RandomModel):
    """Writes `a b`, likes to go on with `a b a b`, and hates `c`: after 20 words it has lost less than by one `c`."""

    def distribution(self, prefix: list[int]) -> torch.Tensor:
        last = PIECES[prefix[-1]] if len(prefix) > 2 else ""
        p = torch.full((len(PIECES),), 1e-5)
        for word, share in NEXT.get(last, {}).items():
            p[word if isinstance(word, int) else PIECES.index(word)] = share
        return p.log()


@pytest.mark.parametrize("beam", [5, 8])
@pytest.mark.parametrize("required", [("c",), ("b c",), ("c a",), ("a c", "b a")])
def test_what_is_demanded_does_not_make_the_text_run_on(
    beam: int, required: tuple[str, ...], spelling: Spelling
) -> None:
    """A text may end if it is good among those that have the phrase; those without it have yet to pay for it."""
    model, config = Reluctant(len(PIECES), 0), SearchConfig(beam_size=beam, max_length=9, length_penalty=0.0)
    request = Request("s", required=required)
    best = next(
        one for one in all_texts(model, replace(config, max_length=7)) if keeps(request, spelling.text(one.ids))
    )
    [[found]] = beam_search(model.step, start(1), 1, config, FORBIDDEN, CPU, rules=[rule_for(request, spelling)[0]])
    assert found.score == pytest.approx(best.score, abs=0.02)  # `c` and `a b c` are all but equal


def test_a_long_phrase_may_begin_anywhere(spelling: Spelling) -> None:
    """More states of progress than hypotheses: those that have not begun must not get lost."""
    model, config = Reluctant(len(PIECES), 0), SearchConfig(beam_size=2, max_length=12, length_penalty=0.0)
    request = Request("s", required=("b c a b",), beginning="a b a b a")
    [[found]] = beam_search(model.step, start(1), 1, config, FORBIDDEN, CPU, rules=[rule_for(request, spelling)[0]])
    assert spelling.text(found.ids) == "a b a b a b c a b"


class TwoWords(Rule):
    """The text has no more than two words."""

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return word == EOS or len(ids) < 2


@pytest.mark.parametrize("beam", [1, 3])
def test_a_text_ends_where_a_rule_lets_nothing_follow(beam: int) -> None:
    """This model would rather write any of 100 words than the end, which is never among those that are offered."""
    model, config = RandomModel(100, seed=1, eagerness=-50), SearchConfig(beam_size=beam, max_length=9)
    found = beam_search(model.step, start(2), 2, config, FORBIDDEN, CPU, rules=[TwoWords(), Rule()])
    assert [len(best.ids) for [best] in found] == [2, 8]
    longer = replace(config, min_length=3)
    assert beam_search(model.step, start(1), 1, longer, FORBIDDEN, CPU, rules=[TwoWords()]) == [[]]


def test_no_demand_changes_nothing() -> None:
    model, config = random_model(4), SearchConfig(beam_size=3, max_length=8)
    plain = beam_search(model.step, start(4), 4, config, FORBIDDEN, CPU, n_best=2)
    assert beam_search(model.step, start(4), 4, config, FORBIDDEN, CPU, n_best=2, rules=[Rule()] * 4) == plain


def test_rules_of_one_instance_leave_the_others_alone(spelling: Spelling) -> None:
    model, config = random_model(7), SearchConfig(beam_size=3, max_length=8)
    plain = beam_search(model.step, start(3), 3, config, FORBIDDEN, CPU)
    rule, _ = rule_for(Request("s", beginning="c c c"), spelling)
    found = beam_search(model.step, start(3), 3, config, FORBIDDEN, CPU, rules=[Rule(), rule, Rule()])
    assert (found[0], found[2]) == (plain[0], plain[2])
    assert spelling.text(found[1][0].ids).startswith("c c c")


def test_what_cannot_be_kept_gives_no_text(spelling: Spelling) -> None:
    model, config = random_model(0), SearchConfig(beam_size=3, max_length=4)
    rule, _ = rule_for(Request("s", required=("a b c a b",)), spelling)
    assert beam_search(model.step, start(1), 1, config, FORBIDDEN, CPU, rules=[rule]) == [[]]


def test_told_words_are_those_of_the_final_text() -> None:
    config = SearchConfig(beam_size=4, max_length=9)
    early = 0
    for seed in range(20):
        told: list[list[list[int]]] = [[], []]
        [[first], [second]] = beam_search(
            random_model(seed).step,
            start(2),
            2,
            config,
            FORBIDDEN,
            CPU,
            tell=lambda number, ids, told=told: told[number].append(ids),
        )
        for best, prefixes in zip((first, second), told, strict=True):
            assert all(best.ids[: len(ids)] == ids for ids in prefixes)
            assert all(longer[: len(ids)] == ids for ids, longer in itertools.pairwise(prefixes))
            early += sum(0 < len(ids) < len(best.ids) for ids in prefixes)
    assert early > 10  # words are told before the text is finished


def test_pieces_of_words_are_judged_when_the_word_is_complete() -> None:
    segmenter = BpeSegmenter.learn(["cat category cats the", "cat the catapult"] * 4, 270, lower_case=False)
    spelling = Spelling(segmenter, PieceTable(Vocabulary(segmenter.pieces())))
    rule = forbid(["Cat"], spelling)
    text, [the, *_] = spelling.ids("the cat"), spelling.ids("the")
    [*_, letter] = spelling.ids("xs")
    assert rule.allows(text, letter)  # `cats`
    assert not rule.allows(text, the)
    assert not rule.allows(text, EOS)
    assert rule.allows([*text, letter], EOS)
    required = Required([spelling.ids("cat")], spelling)
    assert required.allows(text, EOS)
    assert not required.allows([*text, letter], EOS)
    beginning = Beginning(text, spelling)
    assert not beginning.allows(text, letter)
    assert beginning.allows(text, the)


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    folder = tmp_path_factory.mktemp("rules")
    write_splits(folder, toy_records(600, seed=0))
    return Writer(train(variant_config(folder, "adadec", epochs=4), folder / "run"))


@pytest.mark.parametrize("most", [1, 2, 3])
def test_a_short_text_is_not_empty(writer: Writer, most: int) -> None:
    """Rather than an empty text there is a message."""
    for answer in writer.answer(
        [Request(source, max_characters=most) for source in ("n4 k5", "k5 n1 n1", "house3 n2")]
    ):
        assert isinstance(answer, RequestError) or 0 < len(answer.text) <= most


def test_a_demand_that_is_met_freely_changes_nothing_whoever_else_asks(writer: Writer) -> None:
    for source in ("house3 house3 house3 n4 k5", "n2 k3 house3 n4", "k5 n1 n1 house3 k2 n4"):
        free = writer.write(source).text
        for word in free.split():
            request = Request(source, required=(word,))
            [alone], [beside, _] = writer.answer([request]), writer.answer([request, Request(source)])
            assert isinstance(alone, Generation)
            assert isinstance(beside, Generation)
            assert (alone.text, beside.text) == (free, free)


def test_a_writer_keeps_rules_and_says_what_it_cannot(writer: Writer) -> None:
    source = "house3 house3 house3 n4 k5"
    plain = writer.write(source)
    asked = [
        Request(source, beginning="down k5"),
        Request(source, required=("k5 n4",)),
        Request(source, forbidden=("UP",)),
        Request(source, max_characters=4),
        Request(source),
        Request(source, required=("house3",)),
        Request(source, required=("zebra",)),
        Request(source, required=("up down up down up down up down",)),
    ]
    begun, required, forbidden, short, free, copied, *refused = writer.answer(asked)
    assert isinstance(begun, Generation)
    assert begun.text.startswith("down k5")
    assert isinstance(required, Generation)
    assert "k5 n4" in required.text
    assert isinstance(forbidden, Generation)
    assert "up" not in forbidden.text.split()
    assert isinstance(short, Generation)
    assert len(short.text) <= 4
    assert isinstance(free, Generation)
    assert free.text == plain.text
    assert isinstance(copied, Generation)
    assert "house3" in copied.text.split()
    assert "cannot write 'zebra'" in str(refused[0])
    assert "no text met all demands" in str(refused[1])
    assert all(isinstance(one, RequestError) for one in refused)


def quoting(words: str) -> Spelling:
    """Knows these words, and joins marks to words."""
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    return Spelling(segmenter, PieceTable(Vocabulary(segmenter.segment(words))))


def test_a_word_that_is_read_only_after_a_mark_is_written_after_it() -> None:
    spelling = quoting('He said: "stay" (a) b')
    read = [spelling.ids('He said: "Please stay" (Zork) U.S.A Zork-x')]
    marked, joined = spelling.table.look_up(['"', "￭Please"])
    for request, words in (
        (Request("s", required=("Please stay",)), [marked, joined, *spelling.ids("stay")]),
        (Request("s", required=("Zork",)), spelling.table.look_up(["(", "￭Zork"])),
        (Request("s", beginning="Please stay"), [joined, *spelling.ids("stay")]),
        (Request("s", required=("A",)), spelling.ids("A")),  # `U.S.A` does not have it as a word
        (Request("s", required=("Zork-x",)), spelling.ids("Zork-x")),
        (Request("s", required=("stay",)), spelling.ids("stay")),
    ):
        rule, demanded = rule_for(request, spelling, read)
        assert demanded == words, request
        phrase = request.beginning or request.required[0]
        assert phrase in spelling.text(demanded)
        assert rule.allows(demanded, EOS)


def test_a_writer_copies_what_is_quoted_and_says_why_it_cannot(tmp_path: Path) -> None:
    write_splits(
        tmp_path, [{"source": f'{one["source"]} "k1" .', "target": one["target"]} for one in toy_records(60, 0)]
    )
    config = variant_config(tmp_path, "adadec", epochs=1).replace("corpus", pretokenized=False, max_source=12)
    writer = Writer(train(config, tmp_path / "run"))
    source = 'n1 said: "Please go (Zork) k1'
    for request in (
        Request(source, required=("Please",)),
        Request(source, required=("Zork", "Please")),
        Request(source, beginning="Please"),
        Request(source, beginning="n1", required=("Zork",)),
    ):
        text = writer.write(request).text
        assert text.startswith(request.beginning or "")
        assert all(re.search(rf"(?<!\w){phrase}(?!\w)", text) for phrase in request.required), text
    for request, reason in (
        (Request(source, required=("n1 Please",)), "'Please': it can be copied only as it was read, without a space"),
        (Request(source, required=("(go",)), "'go': it can be copied only as it was read, with a space before it"),
        (Request(source, required=("zebra",)), "'zebra': it is neither in its vocabulary nor in the source."),
        (Request("n1 " * 12 + "zebra", required=("zebra",)), "'zebra': the source was cut as too long"),
    ):
        with pytest.raises(RequestError, match=re.escape(f"the model cannot write {reason}")):
            writer.write(request)


@pytest.mark.parametrize(
    ("phrase", "refused", "allowed"),
    [
        ("cat", "The CAT sat", "category"),
        ("!", "Wow!", "Wow"),
        ("%", "up 5%", "up 5 per cent"),
        ("$", "costs $5", "costs €5"),
        ("C++", "uses C++ now", "uses C+ now"),
        ("- no", "yes - no", "yes - nobody"),
        ("İstanbul", "in İstanbul", "in İstanbullu"),
        ("two  words", "Two words.", "two-words"),
    ],
)
def test_forbidden_words_are_whole_and_marks_may_touch_them(
    phrase: str, refused: str, allowed: str, spelling: Spelling
) -> None:
    pattern = forbid(["something else", phrase], spelling).phrases
    assert pattern.search(refused)
    assert not pattern.search(allowed)


def test_requests_are_checked() -> None:
    asked = parse_request(
        '{"source": "s", "required": ["a"], "forbidden": ["b"], "beginning": "c", "max_characters": 9}', "x"
    )
    assert asked == Request("s", beginning="c", required=("a",), forbidden=("b",), max_characters=9)
    for broken in (
        '"required": "a"',
        '"required": [1]',
        '"beginning": 1',
        '"max_characters": "9"',
        '"beginning": " "',
        '"max_characters": 0',
    ):
        with pytest.raises(InputError, match=r"^x: "):
            parse_request(f'{{"source": "s", {broken}}}', "x")
    assert not replace(asked, required=()).is_free
    assert Request("s").is_free
