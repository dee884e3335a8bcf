"""Loading a configuration and checking the names in it.

In: a YAML file and overrides. Out: a `Config`. An unknown format, policy or metric is an error before any work is done.

Formats, policies and metrics are listed in the packages that implement them, which `config` cannot import.
"""

from collections.abc import Sequence
from pathlib import Path

from exadec.config import Config


def find_config(name: str) -> Path:
    """A configuration that ships with exadec: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).parent
    inside = package / "configs" / f"{name}.yaml"
    return inside if inside.is_file() else package.parent / "configs" / f"{name}.yaml"


def load_config(path: Path, overrides: Sequence[str] | None = None, variant: str | None = None) -> Config:
    """`Config.load`, with its names checked."""
    config = Config.load(path, overrides or (), variant)
    check_names(config)
    return config


def check_names(config: Config) -> None:
    """Refuse an unknown format, policy or metric, with the list of known ones."""
    # Imported here, so that `exadec --help` does not wait for numpy.
    from exadec.corpus.readers import find_format
    from exadec.exemplars.policies import find_policy
    from exadec.textmetrics.metrics import require_steering

    find_format(config.corpus)
    find_policy(config.exemplars)
    require_steering(config.training.metric)
