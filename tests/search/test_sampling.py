"""Texts drawn at random: in the right proportions, reproducible, within the rules."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from exadec.api import Generation, Writer
from exadec.config import SearchConfig
from exadec.corpus.segment import WordSegmenter
from exadec.corpus.vocabulary import BOS, EOS, PieceTable, Vocabulary
from exadec.errors import RequestError
from exadec.request import Request
from exadec.search.beam import Known, beam_search
from exadec.search.rules import Rule, Spelling, rule_for
from exadec.search.sampling import _keep_nucleus, sample
from exadec.training.trainer import train
from support.letters import FORBIDDEN, LETTERS, PIECES, keeps, random_model
from support.random_models import Prefix, start
from support.toys import toy_records, variant_config, write_splits

CPU = torch.device("cpu")


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.7)])
def test_words_are_drawn_in_proportion(temperature: float, top_p: float) -> None:
    model, count = random_model(3), 20_000
    config = SearchConfig(max_length=2, temperature=temperature, top_p=top_p)
    [texts] = sample(model.step, start(1), [7], config, FORBIDDEN, CPU, count)
    found = Counter(one.ids[0] if one.ids else EOS for one in texts)
    p = model.distribution([100, BOS])
    p[FORBIDDEN] = -torch.inf
    weights = torch.softmax(p / temperature, 0)
    order = weights.argsort(descending=True).tolist()
    inside = [word for place, word in enumerate(order) if weights[order[:place]].sum() < top_p and weights[word] > 0]
    assert set(found) == set(inside)
    for word in inside:
        expected = float(weights[word] / weights[inside].sum())
        assert found[word] / count == pytest.approx(expected, abs=4 * np.sqrt(expected / count))


def test_a_nucleus_that_has_exactly_its_share_is_complete() -> None:
    kept = _keep_nucleus(torch.tensor([[0.5, 0.25, 0.25]]).log(), 0.75).isfinite()
    assert kept.tolist() == [[True, True, False]]


@pytest.mark.parametrize("temperature", [1e-300, 1e-40, 1e-6])
def test_the_lower_the_temperature_the_likelier_the_words(temperature: float) -> None:
    model = random_model(5)
    [[drawn]] = sample(model.step, start(1), [7], SearchConfig(max_length=8, temperature=temperature), FORBIDDEN, CPU)
    [[best]] = beam_search(model.step, start(1), 1, SearchConfig(beam_size=1, max_length=8), FORBIDDEN, CPU)
    assert drawn.ids == best.ids


def test_a_text_depends_on_its_own_seed_alone() -> None:
    model, config = random_model(1), SearchConfig(max_length=9, temperature=1.0)
    together = sample(model.step, start(3), [5, 6, 7], config, FORBIDDEN, CPU, 2)
    assert sample(model.step, start(3), [5, 9, 7], config, FORBIDDEN, CPU, 2)[::2] == together[::2]
    [many] = sample(model.step, start(1), [5], config, FORBIDDEN, CPU, 50)
    assert len({tuple(one.ids) for one in many}) > 5


def test_scores_are_those_of_the_model() -> None:
    model, config = random_model(2), SearchConfig(max_length=6, temperature=1.5, length_penalty=0.0)
    [texts] = sample(model.step, start(1), [1], config, FORBIDDEN, CPU, 20)
    for one in texts:
        words = [100, BOS, *one.ids, EOS]
        expected = sum(float(model.distribution(words[:end])[words[end]]) for end in range(2, len(words)))
        assert one.score == pytest.approx(expected, rel=1e-4)
    assert [one.score for one in texts] == sorted((one.score for one in texts), reverse=True)


def test_rules_hold_for_drawn_texts() -> None:
    spelling = Spelling(WordSegmenter(pretokenized=True, lower_case=False), PieceTable(Vocabulary(PIECES[-3:])))
    config = SearchConfig(max_length=7, temperature=1.0)
    for request in (
        Request("s", beginning="b a"),
        Request("s", forbidden=("a b", "c")),
        Request("s", max_characters=3),
    ):
        rule, _ = rule_for(request, spelling)
        [texts] = sample(random_model(1).step, start(1), [3], config, FORBIDDEN, CPU, 200, [rule])
        assert len(texts) > 100
        assert all(keeps(request, spelling.text(one.ids)) for one in texts)
        assert all(word in LETTERS for one in texts for word in one.ids)


def test_a_word_of_the_nucleus_that_a_rule_refuses_is_replaced_by_a_likely_one() -> None:
    """There are more words than are drawn in turn, nearly all of them hopeless."""
    scores = torch.full((200,), -30.0)
    scores[50], scores[120] = 0.0, -10.0
    log_probs = scores.log_softmax(0)

    class NotTheLikeliest(Rule):
        def allows(self, ids: Sequence[int], word: int) -> bool:
            return word != 50

    def step(state: Prefix, words: torch.Tensor) -> tuple[Known, Prefix]:
        return Known(log_probs.expand(len(words), -1)), state

    config = SearchConfig(max_length=2, temperature=1.0, top_p=0.5)
    [texts] = sample(step, start(1), [3], config, FORBIDDEN, CPU, 20, [NotTheLikeliest()])
    assert [one.ids for one in texts] == [[120]] * 20


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    folder = tmp_path_factory.mktemp("drawn")
    write_splits(folder, toy_records(600, seed=0))
    return Writer(train(variant_config(folder, "adadec", epochs=4), folder / "run"))


SOURCES = [f"house{n % 9} house{n % 9} house{n % 9} n{n % 12} k{n % 7}" for n in range(20)]


def test_drawn_texts_do_not_depend_on_the_batch(writer: Writer) -> None:
    search = SearchConfig(temperature=1.5, max_length=8)
    requests = [Request(source) for source in SOURCES]

    def texts(asked: list[Request], size: int) -> list[str]:
        results = writer.answer(asked, search=replace(search, batch_size=size))
        return [one.text for one in results if isinstance(one, Generation)]

    expected = texts(requests, 64)
    assert texts(requests, 3) == expected
    assert texts(requests[::-1], 7) == expected[::-1]
    assert expected != [one.text for one in writer.write(SOURCES)]
    first, refused = writer.answer([requests[0], Request(SOURCES[0], required=("up",))], search=search)
    assert first.text == expected[0]
    assert "`search.temperature` draws texts at random" in str(refused)


def test_a_stream_is_the_text_in_parts(writer: Writer) -> None:
    for source in SOURCES:
        parts = list(writer.stream(source))
        assert "".join(parts) == writer.write(source).text
    greedy = replace(writer.run.config.search, beam_size=1)
    for source in SOURCES:
        parts = list(writer.stream(source, search=greedy))
        assert [len(part.split()) for part in parts] == [1] * len(parts)
        assert "".join(parts) == writer.answer([Request(source)], search=greedy)[0].text
    given = "".join(writer.stream(Request(SOURCES[0]), "down k2 n1"))
    assert given == writer.write(SOURCES[0], "down k2 n1").text != writer.write(SOURCES[0], "up n1 k2").text
    with pytest.raises(RequestError, match="source is empty"):
        list(writer.stream(" "))


def test_variants_differ_and_have_different_exemplars(writer: Writer) -> None:
    texts = writer.vary(SOURCES[0], 5)
    for one in texts:  # each is written as with its exemplar given, and says which it is
        assert one.exemplar_id is not None
        assert one.exemplar == writer.exemplar_text(int(one.exemplar_id.removeprefix("train-")))
        assert 0 < (one.similarity or 0) <= 1
        given = writer.write(SOURCES[0], one.exemplar)
        assert (given.text, given.score) == (one.text, pytest.approx(one.score, abs=1e-5))
    exemplars = [one.exemplar for one in texts]
    assert len(set(exemplars)) == len(exemplars) > 1
    assert len({one.text for one in texts}) == len(texts) <= 5
    assert [one.score for one in texts] == sorted((one.score for one in texts), reverse=True)
    assert {one.text for one in texts} == {writer.write(SOURCES[0], exemplar).text for exemplar in exemplars}


def test_a_request_may_stand_for_a_source(writer: Writer) -> None:
    short = writer.write(Request(SOURCES[0], max_characters=3))
    assert len(short.text) <= 3
    first, second = writer.write([SOURCES[0], Request(SOURCES[1], beginning="down")], "up n1 k1")
    assert second.text.startswith("down")
    assert first.exemplar == second.exemplar == "up n1 k1"
