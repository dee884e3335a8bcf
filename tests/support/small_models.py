"""Models and batches small enough for float64 on a CPU."""

import dataclasses

import numpy as np
import torch

from exadec.config import ModelConfig
from exadec.corpus.vocabulary import SPECIALS
from exadec.loading.batch import Batch, Instance, collate
from exadec.model.seq2seq import Seq2seq

VOCABULARY = 20

OTHER_CASE = torch.tensor([*range(8), 9, 8, 11, 10, 13, 12, *range(14, VOCABULARY)])
"""Words 8 and 9, 10 and 11, 12 and 13 differ in the case of their first letter alone; the others have one case."""

OPTIONS: list[dict[str, object]] = [
    {"weights": "residual"},
    {"weights": "residual", "rank": 4},
    {"exemplars_read": 3, "exemplars_drawn": 2},
    {"exemplar_layer": True},
    {"exemplar_context": True},
    {"copy_case": True},
]
"""What goes beyond the paper, one thing at a time."""

ALL_OPTIONS: dict[str, object] = {key: value for option in OPTIONS for key, value in option.items()}


def small_model_config(**changes: object) -> ModelConfig:
    """A model of a few thousand parameters without dropout."""
    quiet = {item.name: 0.0 for item in dataclasses.fields(ModelConfig) if item.name.endswith("_dropout")}
    sizes = {"hidden": 6, "embedding": 6, "encoder_layers": 2, "exemplar_hidden": 3}
    return ModelConfig(**{**quiet, **sizes, **changes})


def build_small_model(seed: int = 0, **changes: object) -> Seq2seq:
    """In float64, with every parameter away from its special initial value."""
    torch.manual_seed(seed)
    config = small_model_config(**changes)
    model = Seq2seq(config, VOCABULARY, other_case=OTHER_CASE if config.copy_case else None).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def random_instances(count: int, seed: int = 0, unknown: int = 3, exemplars: int = 1) -> list[Instance]:
    """Instances of different lengths; ids at or above VOCABULARY are unknown words."""
    random = np.random.default_rng(seed)

    def ids(longest: int) -> np.ndarray:
        return random.integers(len(SPECIALS), VOCABULARY + unknown, random.integers(1, longest + 1))

    return [Instance(ids(7), tuple(ids(6) for _ in range(exemplars)), ids(5)) for _ in range(count)]


def random_batch(count: int, seed: int = 0, copy_exemplar: bool = False, exemplars: int = 1) -> Batch:
    return collate(random_instances(count, seed, exemplars=exemplars), VOCABULARY, copy_exemplar)


def batch_for(config: ModelConfig, count: int) -> Batch:
    """A random batch such as a model of this configuration reads."""
    return random_batch(count, copy_exemplar=config.attend_exemplar, exemplars=config.exemplars_read)
