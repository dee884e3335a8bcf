"""The generated news wire, read as if it were a data set.

In: the `corpus.wire_*` settings. Out: its `Record`s, and the house style of any headline.
"""

from collections.abc import Iterator
from pathlib import Path

from exadec.config import CorpusConfig
from exadec.corpus import wire, wire_lexicon
from exadec.corpus.record import Record


class GeneratedWire:
    """Every headline follows one house style, which can be told from its structure."""

    about = (
        "The data are a generated news wire whose outlets each write headlines in one of ten house styles. A source "
        "does not give the style away, the exemplar does, and the style of a headline can be decided exactly."
    )

    def inputs(self, config: CorpusConfig) -> dict[str, Path]:
        # The generator's code is the input: another version generates another corpus.
        return {module.__name__: Path(str(module.__file__)) for module in (wire, wire_lexicon)}

    def read(self, config: CorpusConfig, split: str) -> Iterator[Record]:
        size = config.wire_train if split == "train" else config.wire_heldout
        yield from wire.generate(config.wire_seed, {split: size}, config.wire_outlets)[split]

    def style_of(self, text: str) -> str | None:
        return wire.style_of(text)

    def subject_of(self, record: Record) -> str:
        """The type of event: the last part of the record's uid."""
        return record.uid.rpartition("-")[2]
