"""What someone asks to be written.

In: a line of text, or a record in JSON. Out: a `Request`.
"""

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

from exadec.corpus.record import name_kind, parse_row, to_record
from exadec.errors import InputError, RequestError
from exadec.reading.content import matches, require_plain_text
from exadec.styles import Mixture


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
    beginning: str | None = None
    """The text begins with these words."""
    required: tuple[str, ...] = ()
    """Phrases that the text must have, written as they are here."""
    forbidden: tuple[str, ...] = ()
    """Phrases that it may not have as whole words, in whatever case."""
    max_characters: int | None = None
    """The text has at most so many characters."""
    mixture: Mixture | None = None
    """Write in the manner of several exemplars, each with a weight."""
    style: str | None = None
    """Write in the house style that was saved under this name."""

    def __post_init__(self) -> None:
        for name in ("source", "exemplar", "group", "style"):
            text = getattr(self, name)
            if text is not None or name == "source":
                _require_text(text, f"the {name}")
        if self.beginning is not None:
            _require_phrase(self.beginning, "the beginning")
        for kind in ("required", "forbidden"):
            phrases = getattr(self, kind)
            if isinstance(phrases, str) or not isinstance(phrases, Sequence):
                raise RequestError(f"the {kind} phrases must be a list of texts, but are {name_kind(phrases)}.")
            for phrase in phrases:
                _require_phrase(phrase, f"a {kind} phrase")
        if self.mixture is not None and not isinstance(self.mixture, Mixture):
            raise RequestError(f"the mixture must be a `Mixture`, but is {name_kind(self.mixture)}.")
        if sum(one is not None for one in (self.exemplar, self.mixture, self.style)) > 1:
            raise RequestError("an exemplar, a mixture and a style exclude each other; give one of them.")
        most = self.max_characters
        if most is not None and (not isinstance(most, int) or isinstance(most, bool)):
            raise RequestError(f"max_characters must be a whole number, but is {most!r}.")
        if most is not None and most < 1:
            raise RequestError(f"max_characters must be at least 1, but is {most}.")

    def require_one_exemplar(self, told_groups: bool) -> None:
        """Refuse a group beside an exemplar, unless the model is told the group itself."""
        if self.exemplar is not None and self.group is not None and not told_groups:
            raise RequestError("'exemplar' gives the exemplar and 'group' says where to look for one: use only one.")

    def with_mixture(self, mixture: Mixture) -> "Request":
        """The same, with a mixture in the place of its style or exemplar."""
        return replace(self, mixture=mixture, style=None, exemplar=None)

    @property
    def asks_for_exemplar(self) -> bool:
        """Whether it says nothing of how to write, so that an exemplar must be retrieved."""
        return self.exemplar is None and self.mixture is None and self.style is None

    @property
    def is_free(self) -> bool:
        """Whether it leaves all words to the model."""
        return self.beginning is None and not self.required and not self.forbidden and self.max_characters is None


def _require_text(text: object, name: str) -> None:
    if not isinstance(text, str):
        raise RequestError(f"{name} must be text, but is {name_kind(text)}.")
    require_plain_text(text, name)


def _require_phrase(phrase: str, name: str) -> None:
    _require_text(phrase, name)
    if not phrase.strip():
        raise RequestError(f"{name} is empty; leave it out.")


def find_blank(request: Request) -> RequestError | None:
    """The error of a request with a text that says nothing, which a model need not be asked about."""
    for name, remedy in (
        ("source", ""),
        ("exemplar", "; leave it out, or give another one"),
        ("group", "; leave it out"),
    ):
        text = getattr(request, name)
        if text is not None and not text.strip():
            return RequestError(f"the {name} is empty{remedy}.")
    return None


def require_requests(requests: Sequence[Request]) -> None:
    """Refuse anything but a list of requests."""
    if isinstance(requests, Request):
        raise InputError("`requests` is one request, not a list of them; write it in brackets: [request].")
    _require_list(requests, "requests")
    for one in requests:
        if not isinstance(one, Request):
            raise InputError(f"`requests` must hold `Request`s, but one is {name_kind(one)}; write `Request(source)`.")


def complete_request(source: str | Request, exemplar: str | None, group: str | None) -> Request:
    """A source as a request. What a request says itself comes first."""
    if not isinstance(source, Request):
        return Request(source, exemplar, group)
    shared = exemplar if source.asks_for_exemplar else source.exemplar
    return replace(source, exemplar=shared, group=source.group or group)


def require_sources(sources: Sequence[str], group: str | None) -> None:
    """Refuse sources that nothing could be written from, before exemplars are looked for."""
    _require_list(sources, "sources")
    for source in sources:
        Request(source, group=group)
        if not source.strip():
            raise RequestError("the source is empty.")


def require_exemplars(texts: Sequence[str]) -> None:
    """Refuse texts that could not be given as exemplars to any model."""
    _require_list(texts, "exemplars")
    for text in texts:
        Request("", text)


def _require_list(texts: Sequence[object], name: str) -> None:
    """A text is a sequence of texts, too: its letters."""
    if isinstance(texts, str | bytes):
        raise InputError(f"`{name}` is one text, not a list of texts; write it in brackets: [text].")
    if not isinstance(texts, Sized) or not isinstance(texts, Iterable):
        raise InputError(f"`{name}` must be a list, but is {name_kind(texts)}.")


def require_number_of_exemplar(number: int) -> None:
    """Refuse what no exemplar has as its number."""
    if not isinstance(number, Integral) or number < 0:
        raise no_exemplar(number)


def no_exemplar(number: object) -> IndexError:
    return IndexError(f"there is no exemplar {number!r}.")


def request_to_vary(source: str | Request, count: int, group: str | None) -> Request:
    """The request for so many texts that differ by their exemplars, so it has none itself."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"`count` must be a whole number of at least 1, but is {count!r} instead.")
    request = complete_request(source, None, group)
    require_sources([request.source], request.group)
    if not request.asks_for_exemplar:
        raise RequestError("different texts have different exemplars; leave out the exemplar, mixture or style.")
    return request


def parse_request(line: str, where: str) -> Request:
    """The request of one line of JSONL: `source` or `table`, and perhaps any other field of a `Request`.

    As in training, the source is what the model reads if a record has both.
    """
    row: dict[str, Any] = parse_row(line, where)
    if isinstance(row.get("options"), dict):  # another kind of value is a foreign column
        raise InputError(
            f"{where}: a record has no 'options'; give beginning, required, forbidden and max_characters without it, "
            "and settings for all records: `exadec generate RUN --set search.NAME=VALUE`."
        )
    for key in ("exemplar", "beginning", "style"):
        _check(row, key, str, "text", where)
    _check(row, "max_characters", int, "a whole number", where)
    for key in ("required", "forbidden"):
        _check(row, key, list, "a list of texts", where)
        if not all(isinstance(one, str) for one in row.get(key) or ()):
            raise InputError(f"{where}: {key!r} must be a list of texts.")
    record = to_record(row, where, "", require_target=False)
    try:
        return Request(
            record.source,
            row.get("exemplar"),
            record.group,
            record.uid or None,
            row.get("beginning"),
            tuple(row.get("required") or ()),
            tuple(row.get("forbidden") or ()),
            row.get("max_characters"),
            _read_mixture(row.get("mixture")),
            row.get("style"),
        )
    except RequestError as error:
        raise InputError(f"{where}: {error}") from None


def _read_mixture(parts: object) -> Mixture | None:
    """As a server reads it: exemplars, each with its weight or 1."""
    if parts is None:
        return None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise RequestError("'mixture' must be a list of objects, each with an exemplar and perhaps a weight.")
    weighed = [{"weight": 1.0, **part} for part in parts]
    if not matches(weighed, [{"exemplar": str, "weight": float}]):
        raise RequestError("an exemplar of 'mixture' must be text, and its weight a number.")
    return Mixture(tuple((part["exemplar"], part["weight"]) for part in weighed))


def _check(row: Mapping[str, Any], key: str, kind: type, named: str, where: str) -> None:
    value = row.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        found = value if isinstance(value, float) else name_kind(value)
        raise InputError(f"{where}: {key!r} must be {named}, but is {found}.")
