"""Configurations of runs that train in a second."""

from dataclasses import replace
from pathlib import Path

from exadec.config import VARIANTS, Config, CorpusConfig, ModelConfig, SearchConfig, TrainingConfig
from support.small_models import ALL_OPTIONS


def tiny_config(folder: Path, variant: str, corpus: CorpusConfig) -> Config:
    sizes = {"hidden": 8, "embedding": 8, "encoder_layers": 1, "exemplar_hidden": 4}
    return Config(
        folder=str(folder),
        corpus=corpus,
        model=ModelConfig(**sizes, **VARIANTS[variant]),
        training=TrainingConfig(epochs=1, batch_size=8, evaluation_size=10),
        search=SearchConfig(max_length=12, beam_size=2),
    )


def config_beyond_the_paper(folder: Path, variant: str, corpus: CorpusConfig) -> Config:
    """A tiny run with every option that the paper does not have."""
    config = tiny_config(folder, variant, replace(corpus, segmentation="bpe_either_case"))
    config = config.replace("exemplars", neighbours=3, form_share=0.3)
    return config.replace("model", **ALL_OPTIONS, exemplar_skipping=0.3)
