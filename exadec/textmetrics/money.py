"""Sums of money: numbers with a currency sign.

In: a text. Out: which of its words have a sign; of a source also, which numbers are money by the words beside them.
"""

# ruff: noqa: RUF001 -- signs that look alike are the subject of this file

from collections.abc import Iterator, Mapping, Sequence

from exadec.textmetrics.facts import Fact, Place, Word, split_word
from exadec.textmetrics.tokens import is_word, remember, split_text

SIGNS = frozenset("$¢£¤¥֏؋৲৳૱௹฿៛") | frozenset(map(chr, range(0x20A0, 0x20C1)))
_WIDE = str.maketrans("＄﹩￠￡￥￦", "$$¢£¥₩")
_CODES = {
    **{"usd": "$", "eur": "€", "gbp": "£", "jpy": "¥", "cny": "¥", "inr": "₹"},
    **{"krw": "₩", "ngn": "₦", "uah": "₴", "ils": "₪"},
}
_CURRENCY_WORDS = {
    **dict.fromkeys(("dollar", "dollars"), "$"),
    **dict.fromkeys(("cent", "cents"), "¢"),
    **dict.fromkeys(("euro", "euros"), "€"),
    **dict.fromkeys(("pound", "pounds", "sterling"), "£"),
    **dict.fromkeys(("yen", "yuan"), "¥"),
    **dict.fromkeys(("rupee", "rupees"), "₹"),
    **dict.fromkeys(("rouble", "roubles", "ruble", "rubles"), "₽"),
    **dict.fromkeys(("shekel", "shekels"), "₪"),
    "naira": "₦",
    **dict.fromkeys(("hryvnia", "hryvnias"), "₴"),
}
_AFTER = _CURRENCY_WORDS | _CODES
"""What makes money of the number before it; a code may also stand before its number."""


def plain_signs(text: str) -> str:
    """Wide signs become plain ones. The text keeps its length."""
    return text if text.isascii() else text.translate(_WIDE)


@remember(1 << 12)
def find_signs(text: str) -> Mapping[int, str]:
    """Which of `read_words` have a currency sign: before them or, unless a number follows the sign, after them."""
    found: dict[int, str] = {}
    tokens = split_text(text)
    digits, place = range(0), 0  # the parts of the number just read
    for number, token in enumerate(tokens):
        if is_word(token):
            parts = range(place, place + len(split_word(token)[0]))
            digits = parts if token[0].isdigit() else range(0)
            if number and tokens[number - 1] in SIGNS:
                found |= dict.fromkeys(digits, tokens[number - 1])
            place = parts.stop
            continue
        if token in SIGNS and not any(one[0].isdigit() for one in tokens[number + 1 : number + 2]):
            found |= {part: token for part in digits if part not in found}
        digits = range(0)
    return found


def as_money(place: Place, signs: Mapping[int, str]) -> Place:
    """The number with its sign, if it has one: 5 million with a euro sign is another fact than with a dollar sign."""
    sign = signs.get(place.begin)
    if sign is None or place.fact.kind != "number":
        return place
    return place._replace(fact=Fact("number", sign + place.fact.key))


def find_money(text: str, words: Sequence[Word], numbers: Sequence[Place]) -> Iterator[Fact]:
    """The numbers of a source that are money, by a sign or by a word such as dollars."""
    signs = find_signs(text)
    yield from (as_money(place, signs).fact for place in numbers if place.begin in signs)
    if not any(word.lower in _AFTER for word in words):
        return
    tokens, taken = _tokens_of_words(text), set[int]()
    following, sign_after = -1, ""
    named: list[tuple[Place, str]] = []
    for place in _longest(numbers):
        at = _find_currency(place, words, tokens, taken)
        taken.add(at)
        named.append((place, _AFTER[words[at].lower] if at >= 0 else ""))
    for place, sign in reversed(named):  # 20-25 dollars
        joined = place.end == following and tokens[place.end - 1] == tokens[following]
        following, sign_after = place.begin, sign or (sign_after if joined else "")
        if sign_after:
            yield Fact("number", sign_after + place.fact.key)


def is_money(number: int, text: str, words: Sequence[Word]) -> bool:
    """Whether the digits at this place are money, a scale behind them aside."""
    before, after = words[max(number - 1, 0) : number], words[number + 2 : number + 3]
    return (
        number in find_signs(text)
        or any(word.lower in _CODES for word in before)
        or any(word.lower in _AFTER for word in after)
    )


def _find_currency(place: Place, words: Sequence[Word], tokens: Sequence[int], taken: set[int]) -> int:
    """Where the currency of a number stands: a code directly before it, or a word after it; -1 if there is none.

    A word belongs to one number. No mark may stand in between, and only a word such as `US` or `Australian`.
    """
    before = place.begin - 1
    free = before >= 0 and before not in taken and words[before].lower in _CODES
    if free and tokens[place.begin] - tokens[before] < 2:
        return before
    for after in range(place.end, min(place.end + 2, len(words))):
        if tokens[after] - tokens[after - 1] > 1:
            break
        if words[after].lower in _AFTER:
            return after
        if words[after].written == words[after].lower != "us":
            break
    return -1


def _longest(numbers: Sequence[Place]) -> Iterator[Place]:
    """Those that are no part of another: of `one hundred and five pounds`, five has no currency."""
    end = 0
    for place in sorted(numbers, key=lambda place: (place.begin, -place.end)):
        if place.end > end:
            end = place.end
            yield place


def _tokens_of_words(text: str) -> list[int]:
    """Of which token each of `read_words` is a part. Marks are tokens, too."""
    tokens = enumerate(split_text(text))
    return [number for number, token in tokens if is_word(token) for _ in split_word(token)[0]]
