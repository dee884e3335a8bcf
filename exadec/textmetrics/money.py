"""Sums of money: numbers with a currency sign.

In: a text. Out: which of its words have a sign; of a source also, which numbers are money by the words beside them.
"""

from collections.abc import Iterator, Mapping, Sequence

from exadec.textmetrics.facts import Fact, Place, Word, split_word
from exadec.textmetrics.tokens import is_word, remember, split_text

SIGNS = frozenset("$€£¥₹")
_CURRENCY_WORDS = {
    **dict.fromkeys(("dollar", "dollars", "usd"), "$"),
    **dict.fromkeys(("euro", "euros", "eur"), "€"),
    **dict.fromkeys(("pound", "pounds", "sterling", "gbp"), "£"),
    **dict.fromkeys(("yen", "yuan", "jpy", "cny"), "¥"),
    **dict.fromkeys(("rupee", "rupees", "inr"), "₹"),
}
_REACH = 2
"""Words behind a number in which its currency may stand: 5 million US dollars"""


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
    for place in numbers:
        if place.begin in signs:
            yield as_money(place, signs).fact
        beside = [*words[max(place.begin - 1, 0) : place.begin], *words[place.end : place.end + _REACH]]
        for word in beside:
            if word.lower in _CURRENCY_WORDS:
                yield Fact("number", _CURRENCY_WORDS[word.lower] + place.fact.key)
