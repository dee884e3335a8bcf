"""Text <-> pieces: whole words or byte-pair encoding.

In: text with single spaces. Out: pieces that can be joined back into the same text. No piece crosses a space, so the
pieces of a text are the pieces of its words.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from exadec.corpus.vocabulary import SPECIALS, PieceTable, Vocabulary
from exadec.errors import InputError
from exadec.reading.content import LARGE
from exadec.reading.folder import Folder

JOINER = "￭"
"""Marks a piece that follows the previous one without a space."""

# A word keeps inner full stops, apostrophes and hyphens (U.S, Norway's, well-known) and the full stop of an
# abbreviation (U.S.); numbers keep their separators; everything else is a piece by itself.
WORD = re.compile(r"(?:\w\.){2,}|\d+(?:[.,]\d+)*\w*|\w+(?:['’-]\w+)*|[^\w\s]")


_TORN = re.compile(rf"(?<=\w) {JOINER}(?=\w)")
"""Two pieces that `WORD` would never have split: a model has copied a number that followed a sign, say."""

_SPACE = "Ġ"
"""How byte-level BPE spells a space."""
_BEFORE_LETTERS = (JOINER, _SPACE)
"""What may stand before a piece's first letter."""


def change_case(piece: str) -> str:
    """The piece with the case of its first letter changed; the same piece if it does not begin with an ASCII letter.

    Byte-level BPE spells other letters in bytes, which have no case.
    """
    start = next((len(mark) for mark in _BEFORE_LETTERS if piece.startswith(mark)), 0)
    letter = piece[start : start + 1]
    return piece[:start] + letter.swapcase() + piece[start + 1 :] if letter.isascii() else piece


def find_other_case(vocabulary: Vocabulary) -> np.ndarray:
    """(V,) int64: the id of each piece with the case of its first letter changed; its own where there is none."""
    ids = np.arange(len(vocabulary))
    for number in range(len(SPECIALS), len(vocabulary)):
        other = vocabulary.get(change_case(vocabulary.pieces[number]))
        ids[number] = number if other is None else other
    return ids


class Segmenter(Protocol):
    """Splits text into pieces and joins pieces into text."""

    whole_words: bool
    """Whether no piece makes the word before it longer."""

    def segment(self, text: str) -> list[str]: ...

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        """Ids of many texts at once; `table` numbers the pieces."""
        ...

    def join(self, pieces: Iterable[str]) -> str: ...

    def starts_word(self, piece: str) -> bool:
        """Whether a space comes before the piece, unless it is the first one of a text."""
        ...

    def save(self, folder: Path) -> None: ...


class WordSegmenter:
    """Whole words. Pretokenised text is split only at spaces, and no piece gets a joiner."""

    whole_words = True

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
        for match in WORD.finditer(text.replace(JOINER, " ")):
            pieces.append(JOINER + match.group() if match.start() == end else match.group())
            end = match.end()
        return pieces

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        return (table.encode(self.segment(text)) for text in texts)

    def join(self, pieces: Iterable[str]) -> str:
        return _TORN.sub(" ", " ".join(pieces)).replace(" " + JOINER, "").removeprefix(JOINER)

    def starts_word(self, piece: str) -> bool:
        return not piece.startswith(JOINER)

    def save(self, folder: Path) -> None:
        """Nothing to save: the configuration has it all."""


_STRETCHES = pre_tokenizers.ByteLevel(add_prefix_space=True)
"""Splits text where BPE pieces must end, into stretches of letters, digits or other characters, spelt in bytes."""

_ONE_LINE = str.maketrans(dict.fromkeys("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u2028\u2029", " "))
"""Ends of lines and the like. No text that is read has them, but the bytes of a vocabulary can spell them."""

_ALPHABET = frozenset(pre_tokenizers.ByteLevel.alphabet())
"""The letters that bytes are spelt in"""


def _with_stretches(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.pre_tokenizer = _STRETCHES
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


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
    whole_words = False

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
        alphabet = sorted(_ALPHABET)
        if size < len(alphabet):
            raise InputError(
                f"`corpus.vocabulary_size` must leave room for the {len(alphabet)} bytes, but leaves {size}."
            )
        tokenizer = Tokenizer(models.BPE())
        trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=alphabet, show_progress=False)
        # The trainer takes texts, not counts. Splitting at spaces is the fastest way to pass the counts.
        tokenizer.pre_tokenizer = pre_tokenizers.CharDelimiterSplit(" ")
        tokenizer.train_from_iterator(_spell_out(counts), trainer)
        return BpeSegmenter(_with_stretches(tokenizer), lower_case)

    @staticmethod
    def open(folder: Folder, lower_case: bool) -> "BpeSegmenter":
        """Read pieces and merges only: everything else that a tokenizer's file may ask for is ours to choose."""
        model = folder.read_json(BpeSegmenter.FILE, {"model": {"vocab": {str: int}, "merges": [[str]]}}, LARGE)["model"]
        pieces, merges = model["vocab"], [tuple(pair) for pair in model["merges"]]
        if sorted(pieces.values()) != list(range(len(pieces))) or not pieces.keys() >= _ALPHABET:
            raise folder.damaged(BpeSegmenter.FILE, "its pieces are not numbered, or bytes are missing")
        if not all(len(pair) == 2 and pieces.keys() >= {*pair, "".join(pair)} for pair in merges):
            raise folder.damaged(BpeSegmenter.FILE, "a merge names a piece that is not in its vocabulary")
        return BpeSegmenter(_with_stretches(Tokenizer(models.BPE(pieces, merges))), lower_case)

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
        return text.removeprefix(" ").translate(_ONE_LINE)

    def starts_word(self, piece: str) -> bool:
        return piece.startswith(_SPACE)

    def pieces(self) -> list[str]:
        """All types: the byte alphabet, then the rest in the order they were learnt."""
        return [piece for piece, _ in sorted(self.tokenizer.get_vocab().items(), key=lambda item: item[1])]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / BpeSegmenter.FILE))


_CAPITALISED = re.compile(r"[A-Z](?![^\W\d_]*[A-Z])")
"""The first letter of a word whose first stretch of letters has no other capital: `The`, but not `NATO`."""

_CAPITALISED_STRETCH = re.compile("Ġ[A-Z][^A-Z]*")
"""The same for a stretch that begins a word. Bytes of other letters are spelt without A to Z."""


class EitherCaseSegmenter:
    """Byte-pair encoding that splits a word in the same places whether or not it begins with a capital.

    The first pieces of `Explosion` and `explosion` then differ in nothing but their case, and both are in the
    vocabulary. In ordinary BPE a word is often one piece in lower case and several with a capital. A word with more
    capitals, such as `NATO`, is split as it is.
    """

    whole_words = False

    def __init__(self, bpe: BpeSegmenter):
        self.bpe = bpe
        # Each piece, then its other case where that is not a piece itself.
        learnt = bpe.pieces()
        self._pieces = list(dict.fromkeys([*learnt, *(form for piece in learnt for form in _both_cases(piece))]))
        number_of = {piece: number for number, piece in enumerate(self._pieces)}
        forms = (_both_cases(piece) for piece in learnt)
        self._capitalised = {number_of[both[0]]: number_of[both[1]] for both in forms if len(both) == 2}
        """The number of the capitalised form, for each piece that begins a word in lower case"""

    @staticmethod
    def learn_from_counts(counts: Mapping[str, int], size: int, lower_case: bool) -> "EitherCaseSegmenter":
        """Learn from the counts of stretches that `count_stretches` returns."""
        folded: Counter[str] = Counter()
        for stretch, count in counts.items():
            folded[change_case(stretch) if _CAPITALISED_STRETCH.fullmatch(stretch) else stretch] += count
        bpe = BpeSegmenter.learn_from_counts(folded, size, lower_case)
        # Capitalised pieces need room, too: keep as many of the pieces learnt first as leave enough.
        forms: set[str] = set()
        kept = 0
        for piece in bpe.pieces():
            forms.update(_both_cases(piece))
            kept += len(forms) <= size
        return EitherCaseSegmenter(BpeSegmenter(_keep_first(bpe.tokenizer, kept), lower_case))

    @staticmethod
    def open(folder: Folder, lower_case: bool) -> "EitherCaseSegmenter":
        return EitherCaseSegmenter(BpeSegmenter.open(folder, lower_case))

    def segment(self, text: str) -> list[str]:
        return [self._pieces[number] for numbers in self._split([text]) for number in numbers]

    def encode_all(self, texts: Sequence[str], table: PieceTable) -> Iterator[list[int]]:
        first = len(SPECIALS)
        return ([number + first for number in numbers] for numbers in self._split(texts))

    def join(self, pieces: Iterable[str]) -> str:
        return self.bpe.join(pieces)

    def starts_word(self, piece: str) -> bool:
        return self.bpe.starts_word(piece)

    def pieces(self) -> list[str]:
        """The pieces of the encoding, then those with a capital that it does not have."""
        return self._pieces

    def save(self, folder: Path) -> None:
        self.bpe.save(folder)

    def _split(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The numbers of each text's pieces. All words are encoded in one call."""
        words = [(text.lower() if self.bpe.lower_case else text).split() for text in texts]
        flat = [word for of_text in words for word in of_text]
        folded = [word[0].lower() + word[1:] if _CAPITALISED.match(word) else word for word in flat]
        encode = self.bpe.tokenizer.encode_batch_fast
        encoded = zip(flat, folded, encode(folded), strict=True)
        for of_text in words:
            numbers: list[int] = []
            for word, lowered, encoding in islice(encoded, len(of_text)):
                found = encoding.ids
                if word != lowered:
                    # A space that is a piece by itself has one case. Such a word is split as it is.
                    first = self._capitalised.get(found[0])
                    found = encode([word])[0].ids if first is None else [first, *found[1:]]
                numbers += found
            yield numbers


ENCODINGS: dict[str, type[BpeSegmenter] | type[EitherCaseSegmenter]] = {
    "bpe": BpeSegmenter,
    "bpe_either_case": EitherCaseSegmenter,
}
"""The byte-pair encodings, by `corpus.segmentation`."""


def _both_cases(piece: str) -> tuple[str, ...]:
    """The piece, and its capitalised form if it begins a word in lower case."""
    return (piece, change_case(piece)) if re.match("Ġ[a-z]", piece) else (piece,)


def _keep_first(tokenizer: Tokenizer, count: int) -> Tokenizer:
    """The encoding with the first `count` pieces only."""
    state = json.loads(tokenizer.to_str())
    vocabulary = {piece: number for piece, number in state["model"]["vocab"].items() if number < count}
    merges = [pair for pair in state["model"]["merges"] if all(part in vocabulary for part in (*pair, "".join(pair)))]
    state["model"] |= {"vocab": vocabulary, "merges": merges}
    return Tokenizer.from_str(json.dumps(state))
