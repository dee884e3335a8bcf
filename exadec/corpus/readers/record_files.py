"""Your own data: a file of records for each split.

In: the JSONL, TSV or CSV files that `corpus.train`, `corpus.valid` and `corpus.test` name. Out: their `Record`s.
"""

from collections.abc import Iterator
from pathlib import Path

from exadec.config import CorpusConfig
from exadec.corpus.record import SPLITS, Lines, Reading, Record, read_chunks, read_records
from exadec.errors import ConfigError, InputError


class RecordFiles:
    """Three files of records, in any folders."""

    def inputs(self, config: CorpusConfig) -> dict[str, Path]:
        return {split: _named_file(config, split) for split in SPLITS}

    def read(self, config: CorpusConfig, split: str) -> Iterator[Record]:
        return read_records(_named_file(config, split), _reading(config))

    def chunks(self, config: CorpusConfig, split: str) -> Iterator[Lines | list[Record]]:
        return read_chunks(_named_file(config, split), reading=_reading(config))


def _reading(config: CorpusConfig) -> Reading:
    return Reading(skip_empty=True, columns=config.columns)


def _named_file(config: CorpusConfig, split: str) -> Path:
    name: str | None = getattr(config, split)
    if name is None:
        raise ConfigError(f"`corpus.{split}` is missing: name the file of {split} records.")
    if not Path(name).is_file():
        raise InputError(f"{name}: no such file (named by `corpus.{split}`).")
    return Path(name)
