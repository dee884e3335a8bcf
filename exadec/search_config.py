"""The settings of the search for a text.

In: values. Out: a checked `SearchConfig`, one section of the configuration.
"""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Literal

from exadec.errors import ConfigError
from exadec.strict_yaml import LARGEST_SEED, require, require_between


@dataclass(frozen=True)
class SearchConfig:
    """Beam search for the best text."""

    beam_size: int = 5
    """Hypotheses kept; 1 is greedy search."""
    length_penalty: float = 1.0
    """α of Wu et al.: log p is divided by ((5 + length) / 6)^α."""
    max_length: int = 50
    """At most this many pieces, the end symbol included."""
    min_length: int = 0
    """At least this many pieces before the end symbol."""
    block_ngram: int = 0
    """Never write an n-gram of this size twice; 0 allows repetition."""
    stopping: Literal["full", "certain", "first"] = "certain"
    """When the search for a text ends. `full`: when as many hypotheses have finished as the beam is wide, or earlier
    if no live one can still win. `certain`: only when no live one can still win. `first`: as soon as a finished one
    scores at least what the best live one scores now. With n-best lists, the n-th best finished one must."""
    guidance: float = 0.0
    """How strictly to follow the exemplar's form: the weight of what it changes in log p of each function word, each
    punctuation mark and the end. 0 leaves the model as it is. Only for models that read exemplars and were trained with
    `model.exemplar_skipping`."""
    choice: Literal["likeliest", "consensus"] = "likeliest"
    """Which text is taken. `consensus`: the one that most others agree with, out of what searches find with all
    exemplars, with each alone, and with none. It takes k + 2 times as long, and needs a model that reads k > 1. Texts
    that are drawn are not chosen."""
    manner: Literal["free", "followed"] = "free"
    """`followed`: search again with more guidance, until a text has the case, the punctuation and the length of its
    exemplars. With `consensus`, exemplars vote on these as well, and texts are searched for once more if most exemplars
    are against their form. Needs a model that can be guided."""
    temperature: float = 0.0
    """0 searches for the best text. Above 0, words are drawn at random, in proportion to p^(1/temperature)."""
    top_p: float = 1.0
    """Draw only out of the likeliest words that have this share of the probability together; `seed` seeds it."""
    seed: int = 1
    """Of the draws; each instance has its own, from this one on."""
    precision: Literal["float32", "rounded"] = "float32"
    """`rounded` is faster. On a GPU texts are read as in training, and other products are in TF32. On a CPU the product
    with a large vocabulary is in int8, though the likeliest words are computed once more, and other products are in
    bfloat16, if the processor has that. Texts that are drawn (`temperature`) are not rounded there."""
    facts: Literal["off", "mark", "strict"] = "off"
    """What to do about numbers, dates, names and quoted words that the source does not license. `mark`: report them.
    `strict`: write none; what the source licenses is written as without it."""
    batch_size: int = 64
    """Instances searched together: on a CPU by each thread, on a GPU rounded up to a power of 2. A large GPU is fastest
    with 512."""

    @property
    def seeks_agreement(self) -> bool:
        """Whether texts are chosen by consensus."""
        return self.choice == "consensus" and self.temperature == 0

    def __post_init__(self) -> None:
        require_between(self, "search", ("beam_size", "batch_size"), 1, 10_000)
        require_between(self, "search", ("max_length",), 1, 100_000)
        require_between(self, "search", ("min_length",), 0, self.max_length - 1)
        require_between(self, "search", ("length_penalty", "temperature"), 0, 10)
        require(0 < self.top_p <= 1, "search.top_p", "above 0 and at most 1", self.top_p)
        require_between(self, "search", ("seed",), 0, LARGEST_SEED)
        require_between(self, "search", ("block_ngram", "guidance"), 0, 1_000)
        if self.manner == "followed" and self.temperature > 0:
            raise ConfigError("`search.manner` is followed, but `search.temperature` draws texts; set it to 0.")


def with_guidance(search: SearchConfig, guidance: float) -> SearchConfig:
    """The same search with the guidance of one call."""
    if isinstance(guidance, bool) or not isinstance(guidance, Real):
        raise ConfigError(f"`guidance` must be a number, but is {guidance!r}.")
    return replace(search, guidance=float(guidance))
