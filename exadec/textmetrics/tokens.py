"""A text as words and marks, however it is tokenised.

In: any text, cased or not, with or without spaces around punctuation. Out: its tokens, and what a token is.

All spellings of a mark become one: quotation marks of all kinds become `"`, apostrophes `'`, an ellipsis `…`. Pairs of
single quotation marks become `"` as well, so an apostrophe that remains is one. The list of function words is English.
"""

# ruff: noqa: RUF001 -- marks that look alike are the subject of this file

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Literal, TypeVar

Result = TypeVar("Result")
_LONGEST_KEPT = 2_000
"""Characters"""

_DETERMINERS = "a an the this that these those my your his her its our their every each some any no another"
_QUESTION_WORDS = "who what when where why how which whose whom"
_OTHER_FUNCTION_WORDS = (
    "about above across after against ahead along amid amidst among and are around as at am back be because been "
    "before behind being below beneath beside besides between beyond both but by can cannot could despite did do does "
    "doing done down during either else ever except few for from further had has have having he here hers herself him "
    "himself i if in inside into is it itself just like many may me might mine more most much must myself near neither "
    "nor not now of off on once only onto or other ours ourselves out outside over own per rather same shall she "
    "should since so still such than them themselves then there they though through throughout to too toward towards "
    "under until unto up upon us v versus very via vs was we were while will with within without would yet you "
    "yours yourself"
)
DETERMINERS = frozenset(_DETERMINERS.split())
QUESTION_WORDS = frozenset(_QUESTION_WORDS.split())
FUNCTION_WORDS = DETERMINERS | QUESTION_WORDS | frozenset(_OTHER_FUNCTION_WORDS.split())

NUMBER_WORDS = {
    word: value
    for words, values in (
        ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen", range(16)),
        ("sixteen seventeen eighteen nineteen", range(16, 20)),
        ("twenty thirty forty fifty sixty seventy eighty ninety", range(20, 100, 10)),
    )
    for word, value in zip(words.split(), values, strict=True)
}
"""Number words up to ninety -> their value."""

Case = Literal["title", "capitals", "lower", "sentence"]
LEAST_CONTENT_WORDS = 3
"""Fewer words cannot tell Title Case from a name."""
TITLE_CASE_SHARE = 0.9
"""Of the content words after the first. Lower, and sentences full of names would count; all, and a slip would not."""

# Vowel signs and accents that stand as characters of their own; Python does not count them as letters.
_COMBINING = "".join(chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code))[0] == "M")
_LETTER = rf"[\w\u200c\u200d{_COMBINING}]"
_TOKEN = re.compile(rf"(?:[A-Za-z]\.){{2,}}|{_LETTER}+(?:(?:[-'&]|(?<=\d)[.,:](?=\d)){_LETTER}+)*|\S")
_UNIFIED = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»＂", '"'),
        **dict.fromkeys("ʼ´′＇", "'"),
        **dict.fromkeys("？؟⁇", "?"),
        **dict.fromkeys("！¡", "!"),
        **dict.fromkeys("―⸺", "—"),
        **dict.fromkeys("¦｜", "|"),
        "：": ":",
        "。": ".",
        "‑": "-",
        "`": "‘",
    }
)
# What tokenisers and keyboards make of one sign, in the order in which it is undone.
_REPAIRS = [
    (re.compile(r" ?@([-.,:])@ ?"), r"\1"),
    (re.compile(r"\b([A-Z]{1,2}) & (?=[A-Z]\b)"), r"\1&"),
    (re.compile(r"‘‘|''|’’|‘'"), '"'),
    (re.compile(r"(?<=\w)[’‘](?=\w)"), "'"),
    (re.compile(r"(?<=\w) n['’]t\b"), "n't"),
    (re.compile(r"(?<=\w) ['’] ?(s|S|t|re|ve|ll|d|m)(?![\w'’])"), r"'\1"),
    (re.compile(r"(?:\.\s?){2,}\.|…"), "…"),
    (re.compile(r"(?<!-)-{2,3}(?!-)"), "—"),
    (re.compile(r"(?<=\w)–(?=\w)"), "-"),
    # A hyphen with a space on one side is no dash: `pre- and post-war`.
    (re.compile(r"(?<=\S)[-–](?!\S)|(?<!\S)[-–](?=\S)"), " "),
]
_SINGLE_QUOTATION = re.compile(
    r"(?<!\w)['‘’](?!\d0s\b|(?:n|em|til|tis|twas|cause)\b)(?=\s?\S)([^'‘]*?(?:(?<=\w)['’]\w[^'‘]*?)*)['’](?!\w)",
    re.IGNORECASE,
)


# Bounded, so that a long-lived process does not grow without limit; enough for a test set and what belongs to it.
def remember(most: int) -> Callable[[Callable[[str], Result]], Callable[[str], Result]]:
    """Keep what a function found for so many texts. Long ones are not kept: a few could fill the memory."""

    def decorate(find: Callable[[str], Result]) -> Callable[[str], Result]:
        kept = lru_cache(maxsize=most)(find)

        @wraps(find)
        def look(text: str) -> Result:
            return kept(text) if len(text) <= _LONGEST_KEPT else find(text)

        return look

    return decorate


@remember(1 << 16)
def split_text(text: str) -> tuple[str, ...]:
    """Words and marks in order. A word keeps its case, hyphens and apostrophe: `don't`, `12-year-old`, `U.S.`."""
    return tuple(_TOKEN.findall(_unify(text)))


def unify_marks(text: str) -> str:
    """One character for all forms of a mark; it never takes the place of several."""
    return text.translate(_UNIFIED) if "`" in text or not text.isascii() else text


def _unify(text: str) -> str:
    text = unify_marks(text if text.isascii() else unicodedata.normalize("NFC", text))
    for pattern, replacement in _REPAIRS:
        text = pattern.sub(replacement, text)
    if "'" in text or "‘" in text or "’" in text:
        text = _SINGLE_QUOTATION.sub(r'"\1"', text)
        # What is left is an apostrophe. It belongs to a word only between two letters; `players'` is `players`.
        text = re.sub(r"(?<!\w)['‘’]|['‘’](?!\w)", " ", text)
    return _drop_inch_marks(text) if '"' in text else text


def _drop_inch_marks(text: str) -> str:
    """A double mark behind a digit, with no quotation open, is an inch mark: `55" screens`."""
    parts, inside = [], False
    pieces = text.split('"')
    for piece in pieces[:-1]:
        # `6 " new "` opens a quotation, so a space in between counts only if the mark is the only one.
        before = piece.rstrip() if len(pieces) == 2 else piece
        if inside or not before[-1:].isdigit():
            inside = not inside
            parts += [piece, '"']
        else:
            parts += [piece, " "]
    return "".join([*parts, pieces[-1]])


def is_word(token: str) -> bool:
    return len(token) > 1 or token.isalnum()


def is_number(word: str) -> bool:
    """Whether a word begins with a digit: `12`, `1,000`, `5m`, `49ers`."""
    return word[0].isdigit()


@remember(1 << 17)
def is_function_word(word: str) -> bool:
    """A word that says how content words belong together; contractions such as `don't` and `it's` included."""
    lower = word.lower()
    return lower in FUNCTION_WORDS or lower.endswith("n't") or ("'" in lower and lower.split("'")[0] in FUNCTION_WORDS)


def without_possessive(word: str) -> str:
    return word[:-2] if word.endswith(("'s", "'S")) else word


@remember(1 << 16)
def letter_case(text: str) -> Case:
    """Title Case, ALL CAPITALS, all lower case, or sentence case, which includes texts too short to tell.

    Title Case: at least three content words, and of those after the first word of the text at least nine in ten begin
    with a capital. Function words do not matter, because house styles differ on them. Capitals: at least three content
    words and no lower-case letter.
    """
    words = [token for token in split_text(text) if is_word(token)]
    letters = "".join(words)
    if letters == letters.lower():
        return "lower"
    content = [word for word in words if word[0].isalpha() and not is_function_word(word)]
    if len(content) < LEAST_CONTENT_WORDS:
        return "sentence"
    if letters == letters.upper():
        return "capitals"
    # The first word has a capital in every style. A word such as `iPhone` has one in none.
    telling = [word for word in words[1:] if word[0].isalpha() and not is_function_word(word)]
    telling = [word for word in telling if word[0].isupper() or word == word.lower()]
    capitals = sum(word[0].isupper() for word in telling)
    return "title" if telling and capitals >= TITLE_CASE_SHARE * len(telling) else "sentence"
