"""Porter's suffix stripping (Program 14(3), 1980), in the two variants behind published ROUGE scores.

In: a lower-case word. Out: its stem, as ROUGE-1.5.5.pl or as `nltk.stem.PorterStemmer()` gives it.

The script follows Porter's paper, but adds -bli and -logi and tries -ment and -ent after the other endings of step 4.
Before it strips anything it looks the word up in WordNet's exception lists (children -> child). These lists belong to
WordNet and are not part of this package: `read_exceptions` reads them from a copy of the script.

rouge-score stems with NLTK's default mode, which differs more. Each difference is marked `extension`: a table of
irregular words; four-letter -ies/-ied end in -ie and longer -ied in -i; -y becomes -i after any consonant; -alli is
retried; -fulli; the l of -logi counts as part of the stem; a two-letter stem vowel-consonant counts as short.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from exadec.reading.content import read_text

_IRREGULAR = {
    "sky": "sky",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}
# If one ending contains another, the longer comes first. The first that fits decides, even if its condition fails.
_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "logi": "log",
}
_NLTK_STEP_2 = {**_STEP_2, "fulli": "ful"}  # extension
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant"),
    *("ement", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)
_NLTK_STEP_4 = (*_STEP_4, "ment", "ent", "ion")

_SHAPES = str.maketrans({code: "v" if chr(code) in "aeiou" else "c" for code in range(128)})


def _shape(word: str) -> str:
    """One `c` or `v` per letter; y is a vowel after a consonant and a consonant elsewhere."""
    if "y" not in word:
        return word.translate(_SHAPES)
    shape = ""
    for position, letter in enumerate(word):
        is_vowel = letter in "aeiou" or (letter == "y" and position > 0 and shape[-1] == "c")
        shape += "v" if is_vowel else "c"
    return shape


def _measure(word: str) -> int:
    """Porter's m: the number of times a vowel sequence is followed by a consonant sequence."""
    return _shape(word).count("vc")


def _has_vowel(word: str) -> bool:
    return "v" in _shape(word)


def _replace_ending(word: str, replacements: Mapping[str, str]) -> str:
    """Steps 2 and 3: replace the first ending that fits, if what is before it has a measure above 0."""
    # str.endswith with a tuple runs in C, and for most words this one test is enough.
    if not word.endswith(tuple(replacements)):
        return word
    ending = next(ending for ending in replacements if word.endswith(ending))
    stem = word[: -len(ending)]
    return stem + replacements[ending] if _measure(stem) > 0 else word


def _strip_ending(word: str, endings: tuple[str, ...]) -> str:
    """Step 4: drop the first ending that fits, if what is before it has a measure above 1."""
    if not word.endswith(endings):
        return word
    stem = word[: -len(next(ending for ending in endings if word.endswith(ending)))]
    return stem if _measure(stem) > 1 else word


def read_exceptions(folder: Path) -> dict[str, str]:
    """Read the lists `*.exc` (a word and its base form per line) that ROUGE-1.5.5 carries: data/WordNet-2.0-Exceptions.

    Later lists overrule earlier ones, in the order of their names: best -> well, as in the table that the package
    py-rouge carries. The script's build program takes the order of the directory, which may give good. Only best,
    better and testes depend on it.
    """
    lists = sorted(folder.glob("*.exc"))
    if not lists:
        raise ValueError(f"The folder of exception lists must hold files *.exc, but {str(folder)!r} has none.")
    lines = (line.split() for path in lists for line in read_text(path).splitlines())
    return {words[0]: words[1] for words in lines if len(words) > 1}


# Bounded, so that a long-lived process does not grow without limit.
@lru_cache(maxsize=1 << 18)
def stem_like_script(word: str) -> str:
    """Stem one lower-case word of letters and digits (a digit counts as a consonant) by the rules of ROUGE-1.5.5."""
    if len(word) < 3:
        return word
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    word = _strip_past_and_gerund(word)
    if word.endswith("y") and _has_vowel(word[:-1]):
        word = word[:-1] + "i"
    word = _replace_ending(_replace_ending(word, _STEP_2), _STEP_3)
    # One after the other: a word that has lost -ement may lose -ment and -ent, too.
    word = _strip_ending(_strip_ending(word, _STEP_4), ("ment",))
    if word.endswith("ent"):
        word = _strip_ending(word, ("ent",))
    elif word.endswith(("sion", "tion")):
        word = _strip_ending(word, ("ion",))
    return _drop_final(word)


def _strip_past_and_gerund(word: str) -> str:
    """Step 1b."""
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if not word.endswith(("ed", "ing")):
        return word
    stem = word[:-2] if word.endswith("ed") else word[:-3]
    if not _has_vowel(stem):
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and stem[-1] not in "aeiouylsz":
        return stem[:-1]
    return stem + "e" if _is_short(stem) else stem


def _is_short(word: str) -> bool:
    """The whole word is consonants, one vowel, and a consonant other than w, x, y."""
    shape = _shape(word)
    return shape.endswith("cvc") and "v" not in shape[:-2] and word[-1] not in "wxy"


def _drop_final(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word) > 1 else word


@lru_cache(maxsize=1 << 18)
def stem_like_nltk(word: str) -> str:
    """Stem one lower-case word of letters and digits (a digit counts as a consonant) as NLTK does."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _nltk_soften_y(_nltk_strip_past_and_gerund(_nltk_strip_plural(word)))
    word = _replace_ending(_nltk_step_2(word), _STEP_3)
    # -ion is dropped only after s and t.
    if not word.endswith("ion") or word.endswith(("sion", "tion")):
        word = _strip_ending(word, _NLTK_STEP_4)
    return _nltk_drop_final(word)


def _nltk_is_short(word: str) -> bool:
    """Porter's *o: ends consonant-vowel-consonant and not in w, x, y. Extension: or is just vowel-consonant."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _nltk_strip_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]  # extension: dies -> die
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _nltk_strip_past_and_gerund(word: str) -> str:
    """Step 1b."""
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]  # extension: died -> die, spied -> spi
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    if not word.endswith(("ed", "ing")):
        return word
    stem = word[:-2] if word.endswith("ed") else word[:-3]
    shape = _shape(stem)
    if "v" not in shape:
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and shape[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if shape.count("vc") == 1 and _nltk_is_short(stem) else stem


def _nltk_soften_y(word: str) -> str:
    """Step 1c. Extension: after any consonant but the first letter (fly -> fli, enjoy stays)."""
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        return word[:-1] + "i"
    return word


def _nltk_step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:  # extension: nationalli -> national -> nation
        return _nltk_step_2(word[:-2])
    if word.endswith("logi"):  # extension: the l counts as part of the stem, so that geologi -> geolog
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replace_ending(word, _NLTK_STEP_2)


def _nltk_drop_final(word: str) -> str:
    """Step 5."""
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _nltk_is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word
