"""What a client is told when something cannot be done.

In: an error. Out: a `RefusedError`: a status and one clear line.
"""

import logging
import sys
import traceback
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from exadec.errors import InputError, RequestError, explain_lack_of_memory
from exadec.reading.content import require_plain_text
from exadec.server.worker import BusyError, ClosedError

logger = logging.getLogger(__name__)

_LONGEST = 400
"""Characters of a message: it may quote a client's text."""
_GZIP = b"\x1f\x8b"
"""What a file of gzip begins with"""
_MOST = 3
"""Faults of a body that are named at a time."""
_TABLE = (
    "must be an object with attributes and their values, a list of [attribute, value] pairs, or a list of [subject, "
    "property, object] triples: not empty or blank, not nested, and with text or numbers as values, without control "
    "characters"
)


_SAYS = {
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "must be a number"),
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_long": "must have at most {max_length} characters",
    "list_type": "must be a list",
    "literal_error": "must be {expected}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "too_short": "must have at least {min_length} in its list",
    "too_long": "must have at most {max_length} in its list",
}
"""What is wrong with a value, by pydantic's name for it."""


class RefusedError(Exception):
    """An answer other than what was asked for."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None):
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def to_json(self) -> dict[str, Any]:
        return {"error": self.message}


def refuse(error: BaseException, where: str) -> RefusedError:
    """The refusal for an error. What is the server's own fault is logged, in one line."""
    if isinstance(error, RefusedError):
        return error
    if isinstance(error, RequestError):
        return RefusedError(HTTPStatus.CONFLICT, _shorten(str(error), _LONGEST))
    if isinstance(error, BusyError):
        return RefusedError(HTTPStatus.TOO_MANY_REQUESTS, str(error), {"Retry-After": str(error.seconds)})
    if isinstance(error, ClosedError):
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), {"Retry-After": "5"})
    if isinstance(error, InputError):  # a file that is damaged or gone, a full disk
        logger.error("%s: %s", where, error)
        return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "the server cannot do this now; its log says why.")
    if explain_lack_of_memory(error) is not None:
        logger.error("%s: there is not enough memory; try a smaller search.batch_size.", where)
        return RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, "the server lacks memory for this; try a shorter text.")
    # The message of an unexpected error may hold a client's text.
    places = traceback.extract_tb(error.__traceback__)[-1:]
    place = ", ".join(f"{Path(place.filename).name}:{place.lineno}" for place in places)
    logger.error("%s: %s at %s.", where, type(error).__name__, place)
    return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "the server failed; its log says where.")


def describe_faults(faults: Sequence[Mapping[str, Any]]) -> str:
    """One line about what is wrong with a body."""
    lines = list(dict.fromkeys(map(_describe, faults)))
    more = f"; and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return "; ".join(lines[:_MOST]) + more + "."


def _describe(fault: Mapping[str, Any]) -> str:
    kind, place = fault["type"], [str(part) for part in fault["loc"]]
    if kind == "json_invalid":
        return f"the body is not JSON (character {place[-1]})"
    where = place[1:]
    if place[:1] == ["body"]:
        # After `body` may come whether it was read as one with a source or with a table.
        where = place[2:] if place[1:2] in (["source"], ["table"]) else place[1:]
    if not where:
        header = "the header Content-Type: application/json"
        return f"the body must be a JSON object, with {header} and keys that are valid text"
    if where[0] == "table" and (len(where) > 1 or kind not in ("missing", "extra_forbidden")):
        return f"'table' {_TABLE}"
    name = _shorten(".".join(part for part in where if not part.startswith(("constrained-", "function-"))))
    if place == ["path", "id"]:
        return "'id' must be that of an exemplar, such as train-7 or own-7"
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"{name!r} must be a JSON object"
    if kind == "missing":
        return "'source' or 'table' is missing" if name == "source" else f"{name!r} is missing"
    if kind == "extra_forbidden" and name == "source":  # of a body with a table
        return "give 'source' or 'table', not both"
    if kind == "extra_forbidden":
        return f"{name!r} is not known here; leave it out"
    if kind in ("string_pattern_mismatch", "string_too_short", "string_unicode") and place[0] == "body":
        return _describe_text(str(fault["input"]), name)
    if kind == "value_error":  # of a check of ours
        return _shorten(str(fault["ctx"]["error"]).removesuffix("."), _LONGEST)
    if kind in _SAYS:
        return f"{name!r} {_SAYS[kind].format(**_limits(fault.get('ctx', {})))}"
    message = str(fault["msg"])
    return f"{name!r}: {message[:1].lower()}{message[1:]}"


def describe_unreadable(error: BaseException | None) -> str:
    """One line about why a body could not be parsed, from what its parser raised."""
    if isinstance(error, UnicodeDecodeError) and error.object.startswith(_GZIP):
        return "the body is compressed, which this server does not read; send it as plain JSON."
    if isinstance(error, UnicodeDecodeError):
        return f"the body is not UTF-8 (byte {error.start:,})."
    if isinstance(error, RecursionError):
        return "the body is nested too deeply."
    if isinstance(error, ValueError) and "digits" in str(error):  # Python's own limit
        return f"a whole number of the body has more than {sys.get_int_max_str_digits():,} digits."
    return "the body cannot be read."


def _limits(context: Mapping[str, Any]) -> dict[str, str]:
    """What a value must be, by pydantic's names."""
    shown = {name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in context.items()}
    return {name: f"{one:,}" if isinstance(one, int | float) else str(one) for name, one in shown.items()}


def _describe_text(text: str, name: str) -> str:
    """Why a text was refused."""
    try:
        require_plain_text(text, repr(name))
    except InputError as error:
        return str(error).removesuffix(".")
    return f"{name!r} must be text that is not empty or blank"


def _shorten(name: str, limit: int = 60) -> str:
    """What a client made up may be very long, and no text at all."""
    name = name.encode(errors="backslashreplace").decode()
    return name if len(name) <= limit else name[: limit - 3] + "..."
