"""Porter's suffix stripping (Program 14(3), 1980), with the extensions that ROUGE scores in Python are computed with.

In: a lower-case word. Out: its stem, the same string that `nltk.stem.PorterStemmer()` gives.

rouge-score stems with NLTK in its default mode, which departs from the paper. Each departure is marked `extension`:
a table of irregular words; words of one or two letters stay; four-letter -ies/-ied end in -ie and longer -ied in -i;
-y becomes -i after any consonant; -alli is retried; -bli instead of -abli; -fulli and -logi; a two-letter stem
vowel-consonant counts as short. ROUGE-1.5.5 keeps the paper's rules for these (but has -bli and -logi), tries
-ment and -ent after the other endings of step 4, and looks irregular words up in WordNet's exception lists.
"""

from functools import lru_cache

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
# Where one ending contains another, the longer comes first: the first that fits decides, even when its condition fails.
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
    "fulli": "ful",
    "logi": "log",
}
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion"),
    *("ou", "ism", "ate", "iti", "ous", "ive", "ize"),
)
# str.endswith with a tuple runs in C: most words leave a step at this one test.
_STEP_2_ENDINGS, _STEP_3_ENDINGS = tuple(_STEP_2), tuple(_STEP_3)

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


def _is_short(word: str) -> bool:
    """Porter's *o: ends consonant-vowel-consonant and not in w, x, y. Extension: or is just vowel-consonant."""
    shape = _shape(word)
    return shape == "vc" or (shape.endswith("cvc") and word[-1] not in "wxy")


def _strip_plural(word: str) -> str:
    """Step 1a."""
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]  # extension: dies -> die
    if word.endswith("sses"):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _strip_past_and_gerund(word: str) -> str:
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
    return stem + "e" if shape.count("vc") == 1 and _is_short(stem) else stem


def _soften_y(word: str) -> str:
    """Step 1c. Extension: after any consonant but the first letter (fly -> fli, enjoy stays)."""
    if word.endswith("y") and len(word) > 2 and _shape(word[:-1])[-1] == "c":
        return word[:-1] + "i"
    return word


def _step_2(word: str) -> str:
    if not word.endswith(_STEP_2_ENDINGS):
        return word
    ending = next(ending for ending in _STEP_2_ENDINGS if word.endswith(ending))
    stem = word[: -len(ending)]
    if ending == "logi":  # extension: the l counts as part of the stem, so that geologi -> geolog
        return stem + "log" if _measure(stem + "l") > 0 else word
    if _measure(stem) == 0:
        return word
    if ending == "alli":  # extension: nationalli -> national -> nation
        return _step_2(stem + "al")
    return stem + _STEP_2[ending]


def _step_3(word: str) -> str:
    if not word.endswith(_STEP_3_ENDINGS):
        return word
    ending = next(ending for ending in _STEP_3_ENDINGS if word.endswith(ending))
    stem = word[: -len(ending)]
    return stem + _STEP_3[ending] if _measure(stem) > 0 else word


def _step_4(word: str) -> str:
    if not word.endswith(_STEP_4):
        return word
    stem = word[: -len(next(ending for ending in _STEP_4 if word.endswith(ending)))]
    if _measure(stem) < 2 or (word.endswith("ion") and stem[-1] not in "st"):
        return word
    return stem


def _step_5(word: str) -> str:
    if word.endswith("e"):
        measure = _measure(word[:-1])
        if measure > 1 or (measure == 1 and not _is_short(word[:-1])):
            word = word[:-1]
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# Bounded, so that a long-lived process that meets ever new words does not grow without end.
@lru_cache(maxsize=1 << 18)
def stem(word: str) -> str:
    """Stem one lower-case word of letters and digits (a digit counts as a consonant)."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _soften_y(_strip_past_and_gerund(_strip_plural(word)))
    return _step_5(_step_4(_step_3(_step_2(word))))
