"""What someone asks to be written.

In: a line of text, or a record in JSON. Out: a `Request`.
"""

from dataclasses import dataclass

from exadec.corpus.record import parse_row, to_record
from exadec.errors import InputError
from exadec.reading.content import require_text


@dataclass(frozen=True)
class Request:
    """One text to write: what to say, and how."""

    source: str
    exemplar: str | None = None
    """Write in the manner of this text; None retrieves one."""
    group: str | None = None
    """Retrieve only from this group."""
    uid: str | None = None
    """A name by which its result is recognised."""

    def __post_init__(self) -> None:
        for name, text in (("the source", self.source), ("the exemplar", self.exemplar), ("the group", self.group)):
            require_text(text or "", name)


def parse_request(line: str, where: str) -> Request:
    """The request of one line of JSONL: `source` or `table`, and perhaps `exemplar`, `group` and `uid`."""
    row = parse_row(line, where)
    exemplar = row.get("exemplar")
    if exemplar is not None and not isinstance(exemplar, str):
        raise InputError(f"{where}: 'exemplar' must be text, but is a {type(exemplar).__name__}.")
    record = to_record(row, where, "", require_target=False)
    return Request(record.source, exemplar, record.group, record.uid or None)
