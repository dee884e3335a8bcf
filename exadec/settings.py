"""A configuration whose names have been looked up.

In: a YAML file and overrides. Out: a `Config`; a name that no list has is refused before any work is done.

Formats, policies and metrics are listed by the packages that hold them, which `config` cannot import.
"""

from collections.abc import Sequence
from pathlib import Path

from exadec.config import Config


def load_config(path: Path, overrides: Sequence[str] | None = None, variant: str | None = None) -> Config:
    """What `Config.load` reads, with its names checked."""
    config = Config.load(path, overrides or (), variant)
    check_names(config)
    return config


def check_names(config: Config) -> None:
    """Refuse a format, a policy or a metric that does not exist, with the list of those that do."""
    # Here, so that `exadec --help` need not wait for numpy.
    from exadec.corpus.readers import find_format
    from exadec.exemplars.policies import find_policy
    from exadec.textmetrics.metrics import require_steering

    find_format(config.corpus)
    find_policy(config.exemplars)
    require_steering(config.training.metric)
