"""The recorded search against the ordinary one. Without a GPU the recorded work is simply done again."""

import copy
import gc
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from operator import attrgetter

import pytest
import torch

from exadec.config import VARIANTS, SearchConfig
from exadec.corpus.vocabulary import EOS
from exadec.loading.batch import Batch, collate
from exadec.model.decoder import DecoderState
from exadec.model.seq2seq import Seq2seq
from exadec.search import captured
from exadec.search.beam import Hypothesis, beam_search
from exadec.search.captured import RecordedSearch, Work
from exadec.search.generate import NEVER_WRITTEN
from exadec.search.guidance import Emphasis, GuidedState, guide, with_and_without
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model, random_instances

CPU = torch.device("cpu")
FORM = torch.arange(VOCABULARY) % 3 != 0


def work_of(model: Seq2seq) -> Work:
    return Work(lambda batch, given: model.encode(batch, given, sources_once=False), model.choose)


def texts(found: list[list[Hypothesis]]) -> list[list[tuple[list[int], float]]]:
    return [[(one.ids, round(one.score, 5)) for one in row] for row in found]


@pytest.mark.parametrize("option", [{}, ALL_OPTIONS], ids=["paper", "all"])
@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_texts_are_those_of_the_ordinary_search(variant: str, guided: bool, option: dict[str, object]) -> None:
    """For batches of several sizes, one after the other, which share recordings."""
    model = build_small_model(**VARIANTS[variant], **option)
    guided = guided and model.config.reads_exemplars
    config = SearchConfig(beam_size=3, max_length=7, block_ngram=2, min_length=1)
    step = guide(model.choose, Emphasis(1.0, FORM)) if guided else model.choose
    recorded, recordings = RecordedSearch(lambda work: work), 0

    def read(batch: Batch, _: torch.Tensor | None = None) -> DecoderState | GuidedState:
        state = model.encode(with_and_without(batch) if guided else batch, sources_once=False)
        return GuidedState(state, batch.size, batch.size) if guided else state

    for size in (5, 7, 8, 1, 6, 1):
        batch = batch_for(model.config, size)
        with torch.no_grad():
            expected = beam_search(step, read(batch), size, config, NEVER_WRITTEN, CPU, 2)
            coefficients = attrgetter("both.coefficients" if guided else "coefficients")
            prepare = partial(Work, read, step, coefficients=coefficients)
            found, lam = recorded(prepare, batch, None, config, NEVER_WRITTEN, CPU, 2)
            expected_lam = model.exemplar_coefficients(batch)
        assert texts(found) == texts(expected)
        assert (lam is None) == (expected_lam is None)
        if lam is not None and expected_lam is not None:
            torch.testing.assert_close(lam, expected_lam)
        recordings = len(recorded._recordings)
    assert recordings == 2  # of 8 instances, and of 1


@pytest.mark.parametrize("guided", [False, True])
@pytest.mark.parametrize("variant", VARIANTS)
def test_waiting_instances_take_the_places_of_finished_ones(
    variant: str, guided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """37 instances at 8 places, of which 2 are refilled at once: the texts and λ are those of the ordinary search."""
    monkeypatch.setattr(captured, "LEAST", 1)
    model = build_small_model(**VARIANTS[variant], **ALL_OPTIONS)
    guided = guided and model.config.reads_exemplars
    for parameter in model.parameters():  # a model that is sure of itself: its texts end at different steps
        parameter.data *= 3 if parameter.dim() > 1 else 1
    model.decoder.softmax_bias.data[EOS] = 3
    config = SearchConfig(beam_size=3, max_length=12, length_penalty=0.0, stopping="first", batch_size=8)
    step = guide(model.choose, Emphasis(1.0, FORM)) if guided else model.choose
    batch, done = batch_for(model.config, 37), list[str]()

    def read(batch: Batch, _: torch.Tensor | None = None) -> DecoderState | GuidedState:
        state = model.encode(with_and_without(batch) if guided else batch, sources_once=False)
        return GuidedState(state, batch.size, batch.size) if guided else state

    def record(work: Callable[[], None]) -> Callable[[], None]:
        return lambda: (done.append(work.__name__), work())[1]

    work = Work(read, step, readings=1 + guided)
    if guided:
        work = work._replace(coefficients=attrgetter("both.coefficients"))
    recorded = RecordedSearch(record)
    with torch.no_grad():
        expected = beam_search(step, read(batch), 37, config, NEVER_WRITTEN, CPU)
        expected_lam = model.exemplar_coefficients(batch)
        for _ in range(2):
            found, lam = recorded(lambda: work, batch, None, config, NEVER_WRITTEN, CPU)
            assert texts(found) == texts(expected)
            assert (lam is None) == (expected_lam is None)
            if lam is not None and expected_lam is not None:
                torch.testing.assert_close(lam, expected_lam)
    fillings, lengths = done.count("fill"), [len(best.ids) for [best] in expected]
    assert fillings == 2 * (1 + 15)
    batch_after_batch = sum(max(lengths[first : first + 8]) + 1 for first in range(0, 37, 8))
    assert (len(done) - fillings) // 2 < batch_after_batch


def test_given_coefficients_go_with_their_instances() -> None:
    model = build_small_model(**VARIANTS["adadec"])
    batch, config = batch_for(model.config, 11), SearchConfig(beam_size=2, max_length=6, batch_size=4)
    given = torch.randn(11, 1, model.config.coefficient_rank, dtype=torch.float64)
    work = Work(lambda batch, given: model.encode(batch, given, sources_once=False), model.choose)
    with torch.no_grad():
        expected = beam_search(model.choose, model.encode(batch, given), 11, config, NEVER_WRITTEN, CPU)
        found, lam = RecordedSearch(lambda work: work)(lambda: work, batch, given, config, NEVER_WRITTEN, CPU)
    assert texts(found) == texts(expected)
    assert lam is not None
    torch.testing.assert_close(lam, given)


def test_few_recordings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "RECORDINGS", 2)
    model, recorded = build_small_model(), RecordedSearch(lambda work: work)
    batch = batch_for(model.config, 3)
    for length in (4, 5, 6, 5, 7):
        with torch.no_grad():
            config = SearchConfig(beam_size=2, max_length=length)
            expected = beam_search(model.choose, model.encode(batch), 3, config, NEVER_WRITTEN, CPU)
            found, _ = recorded(lambda: work_of(model), batch, None, config, NEVER_WRITTEN, CPU)
        assert texts(found) == texts(expected)
    assert [key[0].max_length for key in recorded._recordings] == [5, 7]


def test_settings_that_a_recorded_search_does_not_read_need_no_other_recording() -> None:
    model, recorded = build_small_model(), RecordedSearch(lambda work: work)
    batch, usual = batch_for(model.config, 3), SearchConfig(beam_size=2, max_length=5)
    for config in (usual, replace(usual, seed=2, top_p=0.5, batch_size=3), replace(usual, facts="mark")):
        with torch.no_grad():
            recorded(lambda: work_of(model), batch, None, config, NEVER_WRITTEN, CPU)
    assert len(recorded._recordings) == 1


def test_recordings_go_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "graphs", lambda: lambda work: work)

    def search() -> weakref.ref[Seq2seq]:
        model = build_small_model()
        recorded = captured.recorded_search(model)
        with torch.no_grad():
            recorded(lambda: work_of(model), batch_for(model.config, 3), None, SearchConfig(), NEVER_WRITTEN, CPU)
        assert captured.recorded_search(model) is recorded
        twin = copy.deepcopy(model)
        assert captured.recorded_search(twin) is not recorded
        return weakref.ref(model)

    searched = search()
    gc.collect()
    assert searched() is None


def test_without_memory_other_recordings_make_room() -> None:
    """The GPU has room for two recordings; the third one is made after they are dropped. The first never fails here."""
    model, full = build_small_model(), False

    def record(work: Callable[[], None]) -> Callable[[], None]:
        if full and recorded._recordings:
            raise torch.OutOfMemoryError("no memory")
        return work

    recorded = RecordedSearch(record)
    batch = batch_for(model.config, 3)
    for length in (4, 5, 6):
        full = length == 6
        with torch.no_grad():
            config = SearchConfig(beam_size=2, max_length=length)
            expected = beam_search(model.choose, model.encode(batch), 3, config, NEVER_WRITTEN, CPU)
            found, _ = recorded(lambda: work_of(model), batch, None, config, NEVER_WRITTEN, CPU)
        assert texts(found) == texts(expected)
    assert [key[0].max_length for key in recorded._recordings] == [6]


def test_a_search_that_does_not_fit_alone_is_an_error() -> None:
    def record(work: Callable[[], None]) -> Callable[[], None]:
        raise torch.OutOfMemoryError("no memory")

    model = build_small_model()
    with pytest.raises(torch.OutOfMemoryError), torch.no_grad():
        RecordedSearch(record)(
            lambda: work_of(model), batch_for(model.config, 3), None, SearchConfig(), NEVER_WRITTEN, CPU
        )


def test_threads_that_share_a_recording_do_not_disturb_each_other() -> None:
    model, recorded = build_small_model(), RecordedSearch(lambda work: lambda: (time.sleep(0.001), work())[1])
    config = SearchConfig(beam_size=2, max_length=6)
    batches = [collate(random_instances(4, seed), VOCABULARY, False) for seed in range(6)]

    def search(batch: Batch) -> list[list[tuple[list[int], float]]]:
        with torch.no_grad():
            return texts(recorded(lambda: work_of(model), batch, None, config, NEVER_WRITTEN, CPU)[0])

    with torch.no_grad():
        alone = [beam_search(model.choose, model.encode(one), 4, config, NEVER_WRITTEN, CPU) for one in batches]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(search, batches)) == [*map(texts, alone)]
    assert len(recorded._recordings) == 1
