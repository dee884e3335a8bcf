"""Search over a batch: copied words get their ids back, and parts of it are searched as the whole."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event

import numpy as np
import pytest
import torch

from exadec.config import VARIANTS, SearchConfig
from exadec.corpus.vocabulary import SPECIALS
from exadec.loading.batch import Instance, collate
from exadec.model.seq2seq import Seq2seq
from exadec.search import generate
from exadec.search.generate import Searched, Task, search_batch, texts_at_once
from exadec.search.rules import Rule
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model, random_instances


@dataclass(frozen=True)
class _Without(Rule):
    word: int

    def allows(self, ids: Sequence[int], word: int) -> bool:
        return word != self.word


def test_copied_unknown_words_get_their_corpus_ids_back() -> None:
    model = build_small_model()
    with torch.no_grad():
        model.decoder.copy.gate.bias.fill_(-50.0)  # always copy

    def far(ids: np.ndarray) -> np.ndarray:
        """Unknown words with ids that no batch gives them."""
        return np.where(ids >= VOCABULARY, ids + 100, ids)

    instances = [
        Instance(far(one.source), (far(one.exemplars[0]),), far(one.target)) for one in random_instances(6, seed=4)
    ]
    batch = collate(instances, VOCABULARY, copy_exemplar=False)
    found = search_batch(model, Task(batch), SearchConfig(beam_size=2, max_length=4)).hypotheses
    assert any(number >= VOCABULARY for (best,) in found for number in best.ids)
    for instance, (best,) in zip(instances, found, strict=True):
        assert best.ids
        assert set(best.ids) <= set(instance.source.tolist())


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("threads", [1, 3])
def test_parts_of_a_batch_are_searched_as_the_whole(threads: int, temperature: float) -> None:
    """With a rule, a seed and λ of its own for each instance."""
    model = build_small_model(**VARIANTS["adadec+attexp"], **ALL_OPTIONS)
    size, words = 50, range(len(SPECIALS), VOCABULARY)
    whole = SearchConfig(beam_size=3, max_length=8, temperature=temperature, batch_size=size)
    batch, rules = batch_for(model.config, size), [_Without(words[number % len(words)]) for number in range(size)]
    lam = model.encode(batch).coefficients
    assert lam is not None
    given = torch.where(torch.arange(size)[:, None, None] % 2 == 0, lam.flip(0), torch.nan)

    def search(config: SearchConfig, threads: int) -> Searched:
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            found = search_batch(model, Task(batch, rules, range(size), given), config, 2)
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
        return found

    expected, found = search(whole, 1), search(replace(whole, batch_size=20), threads)
    assert [[one.ids for one in some] for some in found.hypotheses] == [
        [one.ids for one in some] for some in expected.hypotheses
    ]
    for mine, theirs in zip(found.hypotheses, expected.hypotheses, strict=True):
        np.testing.assert_allclose([one.score for one in mine], [one.score for one in theirs])
    torch.testing.assert_close(found.coefficients, expected.coefficients)
    assert all(word.word not in one.ids for word, some in zip(rules, found.hypotheses, strict=True) for one in some)


def test_a_second_thread_gets_as_many_threads_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It begins, and looks at torch's number of threads for the first time, while parts of a batch are searched."""
    model = build_small_model()
    begun, looking = Event(), Event()

    def search(model: Seq2seq, task: Task, *_: object) -> Searched:
        begun.set()
        looking.wait()
        time.sleep(0.1)  # long enough to look
        return Searched([[] for _ in range(task.batch.size)], None)

    def look() -> int:
        looking.set()
        return texts_at_once(model, SearchConfig(batch_size=1))

    monkeypatch.setattr(generate, "_search", search)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(search_batch, model, Task(batch_for(model.config, 50)), SearchConfig())
            begun.wait()
            assert pool.submit(look).result() == 3
            first.result()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
