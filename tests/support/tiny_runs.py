"""Configurations of runs that train in a second."""

from pathlib import Path

from exadec.config import VARIANTS, Config, CorpusConfig, ModelConfig, SearchConfig, TrainingConfig


def tiny_config(folder: Path, variant: str, corpus: CorpusConfig) -> Config:
    sizes = {"hidden": 8, "embedding": 8, "encoder_layers": 1, "exemplar_hidden": 4}
    return Config(
        folder=str(folder),
        corpus=corpus,
        model=ModelConfig(**sizes, **VARIANTS[variant]),
        training=TrainingConfig(epochs=1, batch_size=8, evaluation_size=10),
        search=SearchConfig(max_length=12, beam_size=2),
    )
