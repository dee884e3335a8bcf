"""The embedded corpus: a generated English news wire whose outlets each write headlines in one house style.

In: a seed, the sizes of the splits, the number of outlets. Out: `Record`s, and the house style of any headline.

An outlet's name stands in its sources and decides the style, and nothing else in a source depends on either. The name
is too rare for a model's vocabulary, but a bag of words sees it: what the style is, only a retrieved exemplar can tell.
All events are invented.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from exadec.corpus import wire_lexicon as lexicon
from exadec.corpus.record import Record
from exadec.corpus.wire_lexicon import KINDS, STYLES, Kind
from exadec.errors import InputError

__all__ = [
    "KINDS",
    "STYLES",
    "draw_facts",
    "generate",
    "matching_styles",
    "style_of",
    "styles_of_outlets",
    "write_headline",
]

Item = TypeVar("Item")

ASIDE_SHARE = 0.2
RARE_SURNAME_SHARE = 0.35
DOTTED_IN_SOURCE_SHARE = 0.4


@dataclass(frozen=True)
class Outlet:
    """A paper in an invented town, with one house style."""

    town: str
    paper: str
    style: str

    @property
    def name(self) -> str:
        return f"{self.town} {self.paper}"


def generate(seed: int, sizes: dict[str, int], outlets: int = 4000) -> dict[str, list[Record]]:
    """The splits of a wire, e.g. `sizes={"train": 40000, "valid": 1000, "test": 1000}`.

    A split of a smaller size is a prefix of the same split of a larger one, whatever the other splits are.
    `group` is the outlet's name; `uid` reads split-number-kind.
    """
    for split, size in sizes.items():
        if size < 0:
            raise InputError(f"`sizes` must not be negative, but {split!r} is {size} instead.")
    founded = _found_outlets(seed, outlets)
    return {split: list(_write_split(seed, split, size, founded)) for split, size in sizes.items()}


def styles_of_outlets(seed: int, outlets: int = 4000) -> dict[str, str]:
    """Which style each outlet of the wire writes in, by the outlet's name."""
    return {outlet.name: outlet.style for outlet in _found_outlets(seed, outlets)}


def write_headline(kind: Kind, style: str, facts: dict[str, str]) -> str:
    """The one headline that a style makes of the facts."""
    text = kind.headlines[STYLES.index(style)].format_map(facts)
    for full, short in lexicon.FORMS_OF_STYLE.get(style, {}).items():
        text = text.replace(full, short)
    return _capitalize(text)


def _write_split(seed: int, split: str, size: int, outlets: Sequence[Outlet]) -> Iterator[Record]:
    # Outlets and facts come from separate streams, so that what is told cannot depend on who tells it.
    random_facts = Random(f"{seed}/{split}/facts")  # noqa: S311 - made-up news, no secrets
    assigned = _take_turns(Random(f"{seed}/{split}/outlets"), outlets)  # noqa: S311 - made-up news, no secrets
    for number, outlet in zip(range(size), assigned, strict=False):
        kind = _pick(random_facts, KINDS)
        facts = draw_facts(random_facts, kind)
        yield Record(
            uid=f"{split}-{number:05d}-{kind.name}",
            source=_write_source(random_facts, kind, facts, outlet),
            target=write_headline(kind, outlet.style, facts),
            group=outlet.name,
        )


def _take_turns(random: Random, outlets: Sequence[Outlet]) -> Iterator[Outlet]:
    """Every outlet once, in random order, then all of them again in another order, without end."""
    while True:
        yield from _shuffled(random, outlets)


def _found_outlets(seed: int, count: int) -> list[Outlet]:
    towns = [
        start + middle + end
        for start in lexicon.TOWN_STARTS
        for middle in lexicon.TOWN_MIDDLES
        for end in lexicon.TOWN_ENDS
    ]
    # Two ways of composing may spell one name; a town belongs to one outlet.
    towns = list(dict.fromkeys(towns))
    if not 1 <= count <= len(towns):
        raise InputError(f"`outlets` must be between 1 and {len(towns)}, but is {count} instead.")
    towns = _shuffled(Random(f"{seed}/outlets"), towns)  # noqa: S311 - made-up news, no secrets
    # A model sees the word for the paper, so each such word goes to every style equally often.
    return [
        Outlet(
            town=town,
            paper=lexicon.PAPERS[number // len(STYLES) % len(lexicon.PAPERS)],
            style=STYLES[number % len(STYLES)],
        )
        for number, town in enumerate(towns[:count])
    ]


def draw_facts(random: Random, kind: Kind) -> dict[str, str]:
    """Values for all slots of the templates; a kind uses those it has a slot for."""
    country, partner, third = _pick_distinct(random, _COUNTRIES_BY_WEIGHT, 3)
    company, target = _pick_distinct(random, lexicon.COMPANIES, 2)
    surname, speaker = _pick_distinct(random, lexicon.SURNAMES, 2)
    if random.random() < RARE_SURNAME_SHARE:
        surname = _pick(random, lexicon.RARE_SURNAMES)
    hazard = _pick(random, lexicon.HAZARDS)
    lost = _between(random, 0, 3)
    return {
        "country": country,
        "partner": partner,
        "third": third,
        "city": _pick(random, lexicon.COUNTRIES[country]),
        "company": company,
        "target": target,
        "surname": surname,
        "speaker": speaker,
        "title": _pick(random, kind.titles),
        "quote": _pick(random, kind.quotes),
        "hazard": hazard,
        "a_hazard": f"an {hazard}" if hazard[0] in "aeiou" else f"a {hazard}",
        "amount": f"${_between(random, 2, 99)} million",
        "price": f"${_between(random, 2, 99)} {_pick(random, ('million', 'billion'))}",
        "deaths": str(_between(random, 3, 99)),
        "years": str(_between(random, 2, 30)),
        "percent": f"{_between(random, 2, 60)} percent",
        "share": f"{_between(random, 35, 75)} percent",
        "score": f"{lost + _between(random, 1, 3)}-{lost}",
        "count": str(10 * _between(random, 11, 99)),
        "small": str(_between(random, 2, 40)),
        "large": str(10 * _between(random, 11, 99)),
        "year": str(_between(random, 1980, 2015)),
        "month": _pick(random, lexicon.MONTHS),
        "day": _pick(random, lexicon.DAYS),
        "purpose": _pick(random, lexicon.PURPOSES),
        "sector": _pick(random, lexicon.SECTORS),
        "role": _pick(random, lexicon.ROLES),
        "crime": _pick(random, lexicon.CRIMES),
        "competition": _pick(random, lexicon.COMPETITIONS),
        "product": _pick(random, lexicon.PRODUCTS),
        "plant": _pick(random, lexicon.PLANTS),
        "office": _pick(random, lexicon.OFFICES),
        **_pick(random, lexicon.DIRECTIONS),
    }


def _write_source(random: Random, kind: Kind, facts: dict[str, str], outlet: Outlet) -> str:
    frame = _pick(random, lexicon.FRAMES)
    event = _pick(random, kind.events)
    aside = f", {_pick(random, kind.asides)}" if random.random() < ASIDE_SHARE else ""
    dotted = random.random() < DOTTED_IN_SOURCE_SHARE
    spelled = dict(facts)
    for slot in ("country", "partner", "third"):
        if facts[slot] in lexicon.DOTTED_FORMS:
            spelled[slot] = "the " + (lexicon.DOTTED_FORMS[facts[slot]] if dotted else facts[slot])
    event = event.format_map(spelled)
    source = frame.format_map(
        {
            **spelled,
            "event": event,
            "Event": _capitalize(event),
            "Title": _capitalize(facts["title"]),
            "aside": aside.format_map(spelled),
            "town": outlet.town,
            "TOWN": outlet.town.upper(),
            "outlet": outlet.name,
        }
    )
    return source.replace("..", ".")  # the full stop of `U.K.` ends the sentence, too


def style_of(headline: str) -> str | None:
    """The house style a text is written in, by its structure; None for a text in no house style.

    Slots may hold any words, so a headline with wrong facts still has its style. Letter case, the shape of quotation
    marks and spaces around punctuation do not matter.
    """
    return next(iter(matching_styles(headline)), None)


def matching_styles(headline: str) -> list[str]:
    """All styles whose structure a text has; their patterns are written so that these are never two."""
    tokens = _TOKEN.findall(_straighten_quotes(headline.lower()))
    # A full stop ends a sentence, not a headline, unless it closes an abbreviation that came apart (u . s .).
    if len(tokens) > _LONGEST_HEADLINE or (len(tokens) > 1 and tokens[-1] == "." and len(tokens[-2]) > 1):
        return []
    text = "".join(token + " " for token in tokens)
    return [style for style in STYLES if _PATTERNS[style].fullmatch(text)]


def _straighten_quotes(text: str) -> str:
    text = re.sub("[\u201c\u201d\u201e]|``|''", '"', text).replace("\u2018", "'").replace("\u2019", "'").strip()
    # A headline may be quoted in single marks, where an apostrophe elsewhere is none.
    return re.sub(r"^'(.+?[,.!]\s*)'(?=\s)", r'"\1"', text)


# What a structure needs to know of English beyond punctuation. Wider than the wire's own words: users type exemplars.
_PRESENT_VERBS = """adds|approves|attacks|backs|bans|beats|blames|blocks|builds|buys|calls|charges|claims|closes
|cuts|delays|denies|drops|elects|ends|faces|fights|finds|fines|fires|gains|gets|gives|grants|hires|hits|holds
|injures|jails|joins|keeps|kills|launches|leads|leaves|loses|makes|meets|moves|names|offers|opens|orders|passes
|pays|plans|pledges|praises|punishes|raises|reaches|recalls|rejects|sacks|sees|seeks|sells|sends|sets|shakes
|shrinks|shuts|signs|slams|spends|stops|strikes|sues|takes|tells|tops|urges|visits|votes|wants|warns|welcomes
|wins""".replace("\n", "")
_IRREGULAR_PAST_VERBS = """beat|beaten|bought|built|caught|cut|fell|found|gave|given|held|hit|hurt|kept|led|left|lost
|made|met|paid|put|sent|set|shot|shut|sold|struck|taken|told|took|torn|won""".replace("\n", "")
_HEAD_NOUNS = """ban|bid|boost|closure|crash|crisis|cut|cuts|deal|death|deaths|defeat|drop|fall|fine|gain|gift|grant
|hike|loan|loss|losses|merger|plan|profit|recall|reform|rise|row|sale|sentence|strike|takeover|talks|term|toll
|vote|win""".replace("\n", "")
_FUNCTION_WORDS = "after|and|as|at|but|by|for|from|has|have|in|is|of|on|or|over|than|that|to|was|were|will|with"
_PROSE_WORDS = "a|an|he|her|his|i|it|its|my|our|she|the|their|they|this|we|you|your"

_LONGEST_HEADLINE = 40
_TOKEN = re.compile(r"(?:[^\W\d_]\.){2,}|\d+(?:[.,-]\d+)*|\w+(?:-\w+)*|'s\b|[^\w\s]")

# Patterns read a text as tokens, each followed by a space. Punctuation that gives structure is never in a slot.
_WORD = r"""(?:[^\s:;,?!"|]\S* )"""
_NUMBER = r"(?:\$ )?(?:\d\S*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|dozens|hundreds|thousands) "
_DAY = f"(?:{'|'.join(lexicon.DAYS).lower()}) "
_SHORT_DAY = f"(?:{'|'.join(day[:3] for day in lexicon.DAYS).lower()}) "
_PRESENT = f"(?:{_PRESENT_VERBS}) "
_PAST = rf"(?:(?!(?:united|hundred|need|seed|speed) )\w\w+ed|{_IRREGULAR_PAST_VERBS}) "
_HEAD_NOUN = f"(?:{_HEAD_NOUNS}) "
_AUXILIARY = r"(?:was|were|has|have|as) "
_FUNCTION_WORD = f"(?:{_FUNCTION_WORDS}) "
# Headlines drop articles and do without pronouns; prose that has the outline of a headline does not.
_NO_PROSE = rf"(?!(?:\S+ )*(?:{_PROSE_WORDS}) )"

# Mutually exclusive: by the first token (quotation mark, "what"), else by the colon, else by the comma, else by the
# auxiliary ("was ... by" or "as"), else by whether a finite verb stands inside.
_PATTERNS = {
    style: re.compile(pattern)
    for style, pattern in {
        "quotation": rf'" [^"]+[,.!] " says {_WORD}+on {_WORD}+',
        "question": rf"what next for {_WORD}+after {_WORD}+\? ",
        "bulletin": rf"{_WORD}{{2,}}: {_WORD}+, {_WORD}+, {_SHORT_DAY}",
        "place_first": rf"{_NO_PROSE}{_WORD}{{1,3}}: {_WORD}+?{_PAST}{_WORD}+",
        "dated": rf"{_NO_PROSE}on {_DAY}, {_WORD}+?{_PAST}{_WORD}+",
        "attributed": rf"{_WORD}+?(?:has|have) {_PAST}{_WORD}+, {_WORD}{{1,3}}says ",
        "number_first": rf"{_NUMBER}(?:(?!as ){_WORD})*as {_WORD}+?{_PRESENT}{_WORD}+",
        "passive": rf"(?:(?!as ){_WORD})+(?:was|were) {_PAST}(?:(?!as ){_WORD})*by (?:(?!as ){_WORD})+",
        "active": rf"{_NO_PROSE}(?!{_NUMBER}|on |what )(?!(?:\S+ )*{_AUXILIARY}){_WORD}+?{_PRESENT}{_WORD}+",
        "noun_stack": (
            rf"(?!{_NUMBER})(?=(?:\S+ )*\d)(?!(?:\S+ )*{_FUNCTION_WORD})"
            rf"{_WORD}(?:(?!{_PRESENT}){_WORD}){{2,}}{_HEAD_NOUN}"
        ),
    }.items()
}

_COUNTRIES_BY_WEIGHT = tuple(
    country
    for country in lexicon.COUNTRIES
    for _ in range(lexicon.ABBREVIATED_COUNTRY_WEIGHT if country in lexicon.DOTTED_FORMS else 1)
)


# Only `Random.random` is promised to repeat across versions of Python, so all draws are made from it.


def _pick(random: Random, items: Sequence[Item]) -> Item:
    return items[int(random.random() * len(items))]


def _pick_distinct(random: Random, items: Sequence[Item], count: int) -> list[Item]:
    picked: list[Item] = []
    while len(picked) < count:
        item = _pick(random, items)
        if item not in picked:
            picked.append(item)
    return picked


def _between(random: Random, lowest: int, highest: int) -> int:
    return lowest + int(random.random() * (highest - lowest + 1))


def _shuffled(random: Random, items: Sequence[Item]) -> list[Item]:
    keys = [random.random() for _ in items]
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]
