"""Finding and loading a configuration, and checking the names in it.

In: a YAML file or the name of one that ships with exadec, and overrides. Out: a `Config`. An unknown format, policy or
metric is an error before any work is done.

Formats, policies and metrics are listed in the packages that implement them, which `config` cannot import.
"""

from pathlib import Path

from exadec.config import Config
from exadec.errors import ConfigError
from exadec.strict_yaml import Overrides


def shipped_configs() -> dict[str, Path]:
    """The configurations that ship with exadec, and the plans as `plans/NAME`, by name."""
    package = Path(__file__).parent
    inside = package / "configs"  # when installed; in a checkout they are beside the package
    folder = inside if inside.is_dir() else package.parent / "configs"
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("plans/*.yaml"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in paths}


def find_config(given: Path | str) -> Path:
    """The file that a user means: a path or, if there is no such file, the name of one that ships with exadec."""
    path, shipped = Path(given), shipped_configs()
    if path.is_file():
        return path
    if path.as_posix() in shipped:
        return shipped[path.as_posix()]
    if path.is_dir():
        inside = ", ".join(str(file) for file in sorted(path.glob("*.yaml")))
        raise ConfigError(f"{path}: this is a folder; name {f'a file in it: {inside}' if inside else 'a YAML file'}.")
    hint = "`exadec config list` shows those that come with exadec"
    if path.stem in shipped:
        hint = f"To use the one that comes with exadec, write `{path.stem}`"
    raise ConfigError(f"{path}: no such file. {hint}.")


def load_config(path: Path | str, overrides: Overrides | None = None, variant: str | None = None) -> Config:
    """`Config.load` of the file that `find_config` finds, with its names checked."""
    config = Config.load(find_config(path), overrides or (), variant)
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
