"""The names of columns: which one of a CSV or TSV file, or which key of a JSON object, holds what.

In: the names that a file has, and those that `corpus.columns` gives. Out: each field's place, or its value.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from exadec.errors import InputError

logger = logging.getLogger(__name__)


def find_columns(header: Sequence[str], fields: Sequence[str], named: Mapping[str, str], path: Path) -> dict[str, int]:
    """The column of each field that has one. Capitals do not count. Columns that are not asked for are ignored.

    `named` gives other names to fields. A name that the file does not have is an error.
    """
    found: dict[str, int] = {}
    for field in fields:
        name = named.get(field, field)
        exact = [place for place, column in enumerate(header) if column == name]
        alike = [place for place, column in enumerate(header) if column.strip().casefold() == name.casefold()]
        places = exact or alike
        if len(places) > 1:
            raise InputError(f"{path}:1: {len(places)} columns are named {name!r}; rename all but one of them.")
        if places:
            found[field] = places[0]
        elif field in named:
            raise InputError(
                f"{path}:1: there is no column {name!r} (named by `corpus.columns.{field}`); {_list_names(header)}."
            )
    ignored = [column for place, column in enumerate(header) if place not in found.values()]
    if ignored and found:
        logger.info("%s: ignored columns: %s.", path, ", ".join(ignored))
    return found


def require_column(wanted: Sequence[str], found: Mapping[str, int], header: Sequence[str], path: Path) -> None:
    """Refuse a file that has none of the wanted fields."""
    if not any(field in found for field in wanted):
        names = " or ".join(map(repr, wanted))
        raise InputError(f"{path}:1: there is no column {names}; {_list_names(header)}; name it by `corpus.columns`.")


def rename_keys(row: dict[str, object], named: Mapping[str, str], where: str) -> dict[str, object]:
    """A JSON object with the names of fields for the keys that `named` gives."""
    for field, name in named.items():
        if name not in row:
            raise InputError(f"{where}: there is no {name!r} (named by `corpus.columns.{field}`); {_list_names(row)}.")
    return {**row, **{field: row[name] for field, name in named.items()}}


def _list_names(names: Sequence[str] | Mapping[str, object]) -> str:
    return f"the names there are {', '.join(names)}" if names else "there are no names"
