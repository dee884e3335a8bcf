"""A configuration whose names have been looked up.

In: a YAML file and overrides. Out: a `Config`; names that are listed above `config` are checked before any work.
"""

from collections.abc import Sequence
from pathlib import Path

from exadec.config import Config


def load_config(path: Path, overrides: Sequence[str] | None = None, variant: str | None = None) -> Config:
    """What `Config.load` reads, refused when it names a retrieval policy that does not exist."""
    from exadec.exemplars.policies import find_policy  # numpy, which the command's help need not wait for

    config = Config.load(path, overrides or (), variant)
    find_policy(config.exemplars)
    return config
