"""The fused search against the ordinary one, on any device that runs Triton's kernels."""

from collections.abc import Sequence
from typing import Any

import torch

from exadec.config import VARIANTS, SearchConfig
from exadec.loading.batch import Batch
from exadec.model.backends.reference import REFERENCE
from exadec.model.backends.triton import TritonBackend
from exadec.search.beam import Hypothesis, beam_search
from exadec.search.captured import RecordedSearch, Work
from exadec.search.fused import advance, fused_step
from exadec.search.generate import NEVER_WRITTEN
from exadec.search.guidance import Emphasis, GuidedState, guide, with_and_without
from support.small_models import ALL_OPTIONS, VOCABULARY, batch_for, build_small_model

Case = tuple[str, dict[str, object], dict[str, object]]
"""A variant, settings of its model, settings of its search."""

CASES: list[Case] = [
    ("seq2seq", {}, {}),
    ("seq2seq", {"copy": "none"}, {"stopping": "full"}),
    ("attexp", {"copy": "separate", "input_feeding": True}, {"stopping": "first", "min_length": 3}),
    ("adadec", {"cell": "gru"}, {"block_ngram": 2, "beam_size": 1}),
    ("adadec+attexp", {}, {"block_ngram": 2, "guidance": 1.0}),
    ("adadec+attexp", ALL_OPTIONS, {"min_length": 2}),
    ("adadec", ALL_OPTIONS, {"guidance": 0.5, "beam_size": 4}),
]


def differing_texts(device: str, single: bool, case: Case, sizes: Sequence[int] = (5, 6)) -> int:
    """Of how many instances the best three texts differ from those of `beam_search`, in float32 or in float64."""
    variant, options, search = case
    model, place = build_small_model(**VARIANTS[variant], **options).to(device), torch.device(device)
    backend = REFERENCE
    if single:
        model, backend = model.float(), TritonBackend(place)
    config = SearchConfig(**{"beam_size": 3, "max_length": 8, **search})
    emphasis = Emphasis(config.guidance, torch.arange(VOCABULARY, device=device) % 3 != 0)
    best = min(3, config.beam_size)

    def read(batch: Batch, _: torch.Tensor | None = None) -> Any:
        state = model.encode(with_and_without(batch) if config.guidance else batch, sources_once=False)
        return GuidedState(state, batch.size, batch.size) if config.guidance else state

    usual, ours = (
        guide(step, emphasis) if config.guidance else step for step in (model.choose, fused_step(model, backend))
    )
    work = Work(read, ours, advance, coefficients=lambda _: None)
    recorded, different = RecordedSearch(lambda work: work), 0
    for size in sizes:
        batch = batch_for(model.config, size)
        with torch.no_grad():
            expected = beam_search(usual, read(batch.to(place)), size, config, NEVER_WRITTEN, place, best)
            found, _ = recorded(lambda: work, batch, None, config, NEVER_WRITTEN, place, best)
        different += sum(_differ(*pair) for pair in zip(found, expected, strict=True))
    return different


def _differ(mine: Sequence[Hypothesis], theirs: Sequence[Hypothesis]) -> bool:
    if [one.ids for one in mine] != [one.ids for one in theirs]:
        return True
    return any(abs(one.score - other.score) > 1e-4 for one, other in zip(mine, theirs, strict=True))
