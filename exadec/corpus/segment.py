"""Text <-> pieces: whole words or byte-pair encoding.

In: text with single spaces. Out: pieces that can be joined back into the same text. No piece crosses a space, so the
pieces of a text are the pieces of its words.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from exadec.corpus.vocabulary import SPECIALS, PieceTable
from exadec.errors import InputError

JOINER = "￭"
"""Marks a piece that follows the previous one without a space."""

# A word keeps inner full stops, apostrophes and hyphens (U.S, Norway's, well-known) and the full stop of an
# abbreviation (U.S.); numbers keep their separators; everything else is a piece by itself.
_WORD = re.compile(r"(?:\w\.){2,}|\d+(?:[.,]\d+)*\w*|\w+(?:['’-]\w+)*|[^\w\s]")


class Segmenter(Protocol):
    """Splits text into pieces and joins pieces into text."""

    def segment(self, text: str) -> list[str]: ...

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        """Ids of many texts at once; `table` numbers the pieces."""
        ...

    def join(self, pieces: Iterable[str]) -> str: ...

    def save(self, folder: Path) -> None: ...


class WordSegmenter:
    """Whole words. Pretokenised text is split only at spaces, and no piece gets a joiner."""

    def __init__(self, pretokenized: bool, lower_case: bool):
        self.pretokenized = pretokenized
        self.lower_case = lower_case

    def segment(self, text: str) -> list[str]:
        if self.lower_case:
            text = text.lower()
        if self.pretokenized:
            return text.split()
        pieces = []
        end = None
        # A joiner in the text itself would look like ours.
        for match in _WORD.finditer(text.replace(JOINER, " ")):
            pieces.append(JOINER + match.group() if match.start() == end else match.group())
            end = match.end()
        return pieces

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        return (table.encode(self.segment(text)) for text in texts)

    def join(self, pieces: Iterable[str]) -> str:
        return " ".join(pieces).replace(" " + JOINER, "").removeprefix(JOINER)

    def save(self, folder: Path) -> None:
        """Nothing to save: the configuration has it all."""


_STRETCHES = pre_tokenizers.ByteLevel(add_prefix_space=True)
"""Splits text where BPE pieces must end, into stretches of letters, digits or other characters, spelt in bytes."""


def count_stretches(task: tuple[Sequence[str], Sequence[int], bool]) -> Counter[str]:
    """How often each stretch occurs, given words, their counts, and whether to lower-case them."""
    words, counts, lower_case = task
    stretches: Counter[str] = Counter()
    for word, count in zip(words, counts, strict=True):
        for stretch, _ in _STRETCHES.pre_tokenize_str(word.lower() if lower_case else word):
            stretches[stretch] += count
    return stretches


def _spell_out(counts: Mapping[str, int]) -> Iterator[str]:
    """Texts of at most 4096 stretches each, in which every stretch occurs as often as counted, followed by a space."""
    text: list[str] = []
    room = 4096
    for stretch, count in counts.items():
        while count:
            times = min(count, room)
            text.append((stretch + " ") * times)
            count, room = count - times, room - times
            if not room:
                yield "".join(text)
                text, room = [], 4096
    yield "".join(text)


class BpeSegmenter:
    """Byte-level byte-pair encoding: every text can be encoded, and no piece is unknown."""

    FILE = "bpe.json"

    def __init__(self, tokenizer: Tokenizer, lower_case: bool):
        self.tokenizer = tokenizer
        self.lower_case = lower_case

    @staticmethod
    def learn(texts: Iterable[str], size: int, lower_case: bool) -> "BpeSegmenter":
        words = Counter(word for text in texts for word in text.split())
        counts = count_stretches((list(words), list(words.values()), lower_case))
        return BpeSegmenter.learn_from_counts(counts, size, lower_case)

    @staticmethod
    def learn_from_counts(counts: Mapping[str, int], size: int, lower_case: bool) -> "BpeSegmenter":
        """Learn from the counts of stretches that `count_stretches` returns."""
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        if size < len(alphabet):
            raise InputError(
                f"`corpus.vocabulary_size` must leave room for the {len(alphabet)} bytes, but leaves {size}."
            )
        tokenizer = Tokenizer(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        # The trainer takes texts, not counts. Splitting at spaces is the fastest way to pass the counts.
        tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
        tokenizer.train_from_iterator(_spell_out(counts), trainer)
        tokenizer.pre_tokenizer = _STRETCHES
        tokenizer.decoder = decoders.ByteLevel()
        return BpeSegmenter(tokenizer, lower_case)

    @staticmethod
    def open(folder: Path, lower_case: bool) -> "BpeSegmenter":
        return BpeSegmenter(Tokenizer.from_file(str(folder / BpeSegmenter.FILE)), lower_case)

    def segment(self, text: str) -> list[str]:
        pieces: list[str] = self.tokenizer.encode(text.lower() if self.lower_case else text).tokens
        return pieces

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        if self.lower_case:
            texts = [text.lower() for text in texts]
        # Vocabulary ids are the tokenizer's ids shifted by the special symbols, so no piece has to become a string.
        first = len(SPECIALS)
        return ([number + first for number in encoding.ids] for encoding in self.tokenizer.encode_batch_fast(texts))

    def join(self, pieces: Iterable[str]) -> str:
        text: str = self.tokenizer.decoder.decode(list(pieces))
        return text.removeprefix(" ")

    def pieces(self) -> list[str]:
        """All types: the byte alphabet, then the rest in the order they were learnt."""
        return [piece for piece, _ in sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / BpeSegmenter.FILE))
