"""Files for the readers of published data sets, and the messages with which readers refuse them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exadec.config import CorpusConfig
from exadec.corpus.readers import find_format
from exadec.corpus.record import Record
from exadec.errors import InputError

Reader = Callable[[Path, str], Iterator[Record]]


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def published_files(format: str, folder: Path) -> list[Path]:
    config = CorpusConfig(format=format, source_folder=str(folder))
    return list(find_format(config).inputs(config).values())


def refusal(reader: Reader, folder: Path, split: str = "train") -> str:
    """The one-line message a reader refuses a folder with."""
    with pytest.raises(InputError) as caught:
        list(reader(folder, split))
    message = str(caught.value)
    assert "\n" not in message
    return message
