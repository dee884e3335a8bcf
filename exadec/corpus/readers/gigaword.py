"""Gigaword: first sentences and headlines (Rush et al., 2015).

In: the unpacked folder of their archive. Out: `Record`s, one at a time.
"""

from collections.abc import Iterator
from pathlib import Path

from exadec.corpus.readers.published import locate, read_aligned, require_split, spaced
from exadec.corpus.record import Record

GIGAWORD_FILES = {
    "train": ("train/train.article.txt", "train/train.title.txt"),
    "valid": ("train/valid.article.filter.txt", "train/valid.title.filter.txt"),
    "test": ("Giga/input.txt", "Giga/task1_ref0.txt"),
}
"""(sentences, headlines) in the archive of Rush et al.; the subfolder is optional."""


def gigaword_files(folder: Path, split: str) -> list[Path]:
    """The sentences and the headlines of a split."""
    require_split(split)
    return [locate(folder, name) for name in GIGAWORD_FILES[split]]


def read_gigaword(folder: Path, split: str) -> Iterator[Record]:
    """First sentences and headlines in the files of Rush et al. (2015), with `UNK` and `#` left as they are."""
    sentences, headlines = gigaword_files(folder, split)
    for number, sentence, headline in read_aligned(sentences, headlines):
        yield Record(uid=str(number - 1), source=spaced(sentence), target=spaced(headline))
