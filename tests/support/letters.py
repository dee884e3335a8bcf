"""A language of three letters for tests of rules: all its texts can be listed, and demands checked by reading them."""

from exadec.corpus.vocabulary import EOS, SPECIALS
from exadec.request import Request
from support.random_models import RandomModel

PIECES = [*SPECIALS, "a", "b", "c"]
LETTERS = range(len(SPECIALS), len(PIECES))
FORBIDDEN = [number for number in range(len(SPECIALS)) if number != EOS]


def random_model(seed: int, eagerness: float = 0.0) -> RandomModel:
    return RandomModel(len(PIECES), seed, eagerness)


def keeps(request: Request, text: str) -> bool:
    """What a request asks for, read from the text alone."""
    words = text.split()

    def has(phrase: str) -> bool:
        size = len(phrase.split())
        return any(words[place : place + size] == phrase.split() for place in range(len(words)))

    beginning = (request.beginning or "").split()
    return (
        words[: len(beginning)] == beginning
        and all(map(has, request.required))
        and not any(map(has, request.forbidden))
        and (request.max_characters is None or 0 < len(text) <= request.max_characters)
    )
