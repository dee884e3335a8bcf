"""Models and batches small enough for float64 on a CPU."""

import dataclasses

import numpy as np
import torch

from exadec.config import ModelConfig
from exadec.corpus.vocabulary import SPECIALS
from exadec.loading.batch import Batch, Instance, collate
from exadec.model.seq2seq import Seq2seq

VOCABULARY = 20


def small_model_config(**changes: object) -> ModelConfig:
    """A model of a few thousand parameters without dropout."""
    quiet = {item.name: 0.0 for item in dataclasses.fields(ModelConfig) if item.name.endswith("_dropout")}
    sizes = {"hidden": 6, "embedding": 6, "encoder_layers": 2, "exemplar_hidden": 3}
    return ModelConfig(**{**quiet, **sizes, **changes})


def build_small_model(seed: int = 0, **changes: object) -> Seq2seq:
    """In float64, with every parameter away from its special initial value."""
    torch.manual_seed(seed)
    model = Seq2seq(small_model_config(**changes), VOCABULARY).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def random_instances(count: int, seed: int = 0, unknown: int = 3) -> list[Instance]:
    """Instances of different lengths; ids at or above VOCABULARY are unknown words."""
    random = np.random.default_rng(seed)

    def ids(longest: int) -> np.ndarray:
        return random.integers(len(SPECIALS), VOCABULARY + unknown, random.integers(1, longest + 1))

    return [Instance(ids(7), ids(6), ids(5)) for _ in range(count)]


def random_batch(count: int, seed: int = 0, copy_exemplar: bool = False) -> Batch:
    return collate(random_instances(count, seed), VOCABULARY, copy_exemplar)
