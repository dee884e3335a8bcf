"""Where results come from, without the paths of the machine they were made on.

In: runs. Out: the name of their data set, when they were trained, and texts and settings in which paths are shortened.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from exadec.corpus.naming import name_data_set
from exadec.training.checkpoint import Run

_ABSOLUTE = re.compile(r"(?<![\w.~/-])(?:/[\w.+@~-]+)+/(?=[\w.+@~-])")
"""The folders of an absolute path, up to its last name"""


def name_data_sets(runs: Sequence[Run]) -> str:
    """Usually one name: runs that are compared have the same test instances."""
    return ", ".join(dict.fromkeys(name_data_set(run.config) for run in runs))


def describe_days(runs: Sequence[Run]) -> str:
    """When training began. The days come from the runs, so that a report is the same whenever it is made."""
    days = sorted({str(run.created_on) for run in runs if run.created_on is not None})
    unknown = sum(run.created_on is None for run in runs)
    if not days:
        return "date of training not recorded"
    said = f"training began on {days[0]}" if len(days) == 1 else f"training began between {days[0]} and {days[-1]}"
    return f"{said} (UTC{f'; not recorded for {unknown} of {len(runs)} runs' if unknown else ''})"


def hide_paths(message: str, run: Run) -> str:
    """A message about a run, with the last name only of each absolute path."""
    # Exemplars are beside the corpus. Known paths come first: they may have spaces.
    corpora = run.corpus_places() if run.corpus_folder is None else [run.corpus_folder.absolute()]
    places = {*corpora, *(corpus.parent for corpus in corpora), run.folder.absolute(), run.folder.resolve()}
    places |= {Path(value) for value in run.config.flat().values() if _is_absolute(value)}
    for place in sorted(places, key=lambda place: len(str(place)), reverse=True):
        if place.name:
            message = message.replace(str(place), place.name)
    return _ABSOLUTE.sub("", message)


def show_settings(run: Run) -> str:
    """The run's settings as YAML, with the last name only of each absolute path."""
    return yaml.safe_dump(_shorten(run.config.to_dict()), sort_keys=False, allow_unicode=True)


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shorten(one) for key, one in value.items()}
    return Path(value).name if _is_absolute(value) else value


def _is_absolute(value: object) -> bool:
    return isinstance(value, str) and Path(value).is_absolute()
