"""House styles: mixtures of exemplars, saved under a name.

In: a file in JSON. Out: `Mixture`s by name; the file is replaced as a whole when a style is saved or removed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from exadec.errors import InputError, RequestError
from exadec.files import locked_for_writing, write_text
from exadec.reading.content import matches, parse_json, read_text, require_plain_text

FORMAT = 1
LARGEST = 1_000
"""Exemplars of a mixture."""
NAME = r"[^\W_][\w .&'-]{0,63}"
"""What a style can be called"""
_SHAPE = {"format": int, "styles": {str: [{"exemplar": str, "weight": float}]}}


@dataclass(frozen=True)
class Mixture:
    """Several exemplars, and how much each of them counts: their λ are averaged."""

    parts: tuple[tuple[str, float], ...]
    """Texts and weights; the weights need not sum to 1."""

    def __post_init__(self) -> None:
        if not 1 <= len(self.parts) <= LARGEST:
            raise RequestError(f"a mixture needs from 1 to {LARGEST:,} exemplars, but has {len(self.parts):,}.")
        for text, weight in self.parts:
            require_plain_text(text, "an exemplar of the mixture")
            if not text.strip():
                raise RequestError("an exemplar of the mixture is empty; leave it out.")
            if not 0 <= weight <= 1e6:
                raise RequestError(f"a weight of the mixture must be from 0 to 1,000,000, but is {weight}.")
        if not sum(weight for _, weight in self.parts) > 0:
            raise RequestError("all weights of the mixture are 0; one of the exemplars must count.")

    @staticmethod
    def of(exemplars: Sequence[str]) -> "Mixture":
        """All of them count the same."""
        if isinstance(exemplars, str):  # a sequence of texts, too: its letters
            raise RequestError(
                "a mixture needs a list of exemplars, but this is one text; write it in brackets: [text]."
            )
        return Mixture(tuple((text, 1.0) for text in exemplars))

    @property
    def shares(self) -> list[float]:
        """The weights, summing to 1."""
        total = sum(weight for _, weight in self.parts)
        return [weight / total for _, weight in self.parts]

    def heaviest(self, count: int) -> list[str]:
        """The exemplars that count most, and no more than so many."""
        ranked = sorted((part for part in self.parts if part[1] > 0), key=lambda part: -part[1])
        return [text for text, _ in ranked[:count]]


def require_style_name(name: str) -> None:
    """Refuse what cannot be the name of a style."""
    if re.fullmatch(NAME, name) is None:
        raise RequestError(
            f"{name[:70]!r} cannot be the name of a style: use up to 64 letters, digits, spaces, and . & ' -, "
            "a letter or digit first."
        )


class Styles:
    """The styles of a file, which need not be there yet, and those that came with a model."""

    def __init__(self, path: Path, given: Mapping[str, Mixture] | None = None):
        self.path, self._given = path, dict(given or {})

    @staticmethod
    def beside(run: Path, given: Mapping[str, Mixture] | None = None) -> "Styles":
        """The styles of a run: a file beside its folder, or beside the file that holds it and perhaps some styles."""
        return Styles(run.with_name(f"{run.name}.styles.json"), given)

    def all(self) -> dict[str, Mixture]:
        """By name, in the order of names. A style that was saved here goes before a given one of its name."""
        return dict(sorted((self._given | self._saved()).items()))

    def _saved(self) -> dict[str, Mixture]:
        if not self.path.exists():
            return {}
        return parse_styles(read_text(self.path, follow=False), str(self.path))

    def get(self, name: str) -> Mixture:
        styles = self.all()
        if name not in styles:
            known = f"choose one of these: {', '.join(styles)}" if styles else "no style has been saved yet"
            raise RequestError(f"there is no style {name!r}; {known}.")
        return styles[name]

    def save(self, name: str, mixture: Mixture) -> None:
        """Add a style, or replace the one of this name."""
        require_style_name(name)
        with locked_for_writing(self.path):
            self._write({**self._saved(), name: mixture})

    def remove(self, name: str) -> None:
        with locked_for_writing(self.path):
            self.get(name)
            saved = self._saved()
            if name not in saved:
                raise RequestError(f"the style {name!r} came with the model and cannot be removed; save another one.")
            self._write({other: mixture for other, mixture in saved.items() if other != name})

    def _write(self, styles: dict[str, Mixture]) -> None:
        write_text(self.path, format_styles(styles))


def parse_styles(content: str, where: str) -> dict[str, Mixture]:
    """The styles of a file; `where` is its name for messages."""
    value = parse_json(content, where)
    if not matches(value, _SHAPE) or value["format"] != FORMAT:
        raise InputError(f"{where}: this is not a file of styles; move it away, and save them again.")
    try:
        return {
            name: Mixture(tuple((part["exemplar"], float(part["weight"])) for part in parts))
            for name, parts in sorted(value["styles"].items())
        }
    except RequestError as error:
        raise InputError(f"{where}: {error}") from None


def format_styles(styles: Mapping[str, Mixture]) -> str:
    """The content of a file with these styles."""
    parts = {
        name: [{"exemplar": text, "weight": weight} for text, weight in styles[name].parts] for name in sorted(styles)
    }
    return json.dumps({"format": FORMAT, "styles": parts}, indent=1, ensure_ascii=False) + "\n"
