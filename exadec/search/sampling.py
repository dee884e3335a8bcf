"""Drawing texts at random instead of searching for the best one.

In: as for beam search, with distributions over all words. Out: as many texts of each instance as are asked for.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from exadec.config import SearchConfig
from exadec.corpus.vocabulary import BOS, EOS, PAD
from exadec.search.beam import Hypothesis, Known, State, Tell, find_banned, length_penalty
from exadec.search.rules import Rule

Draw = Callable[[State, torch.Tensor], tuple[Known, State]]
"""As a `Step` of beam search, with distributions over all words."""

_LOWEST_TEMPERATURE = 1e-6
"""Below it, the likeliest word is drawn anyway, and quotients would leave the range of numbers."""
CANDIDATES = 64
"""How many words are drawn, one after the other, until a rule allows one: of the likeliest, and then of all."""


@torch.no_grad()
def sample(
    step: Draw[State],
    state: State,
    seeds: Sequence[int],
    config: SearchConfig,
    forbidden: Sequence[int],
    device: torch.device,
    count: int = 1,
    rules: Sequence[Rule] | None = None,
    tell: Tell | None = None,
) -> list[list[Hypothesis]]:
    """`count` texts of each instance, the likeliest first. `state` holds one row for each instance; each has a seed.

    A word is drawn with probability proportional to p ** (1 / temperature), out of the likeliest words that have
    `config.top_p` of all probability together. The texts of an instance depend on its own seed alone. With rules a
    text may be missing. `tell` hears of the first text only.
    """
    instances = len(seeds)
    state = state.select(torch.arange(instances, device=device).repeat_interleave(count))
    words = torch.full((instances * count, 1), BOS, device=device)  # (N, t)
    totals = torch.zeros(instances * count, device=device)
    going = torch.ones_like(totals, dtype=torch.bool)
    never = torch.tensor(forbidden, device=device, dtype=torch.long)
    for length in range(1, config.max_length + 1):
        next_words, state = step(state, words[:, -1])
        written = torch.full_like(words[:, 0], length - 1)
        if length == config.max_length:
            chosen, found = torch.full_like(words[:, 0], EOS), next_words.of(EOS)
        else:
            log_probs = next_words.log_probs.scatter(1, find_banned(words, written, config, never), -torch.inf)
            flatter = (log_probs - log_probs.amax(1, keepdim=True)) / max(config.temperature, _LOWEST_TEMPERATURE)
            noise = _noise(seeds, length, log_probs, count)
            likeliest = _keep_nucleus(flatter, config.top_p) + noise
            if rules is None:
                chosen = likeliest.argmax(1)
            else:
                order = torch.cat([_draw_in_turn(likeliest), _draw_in_turn(flatter + noise)], dim=1)
                chosen = _first_allowed(rules, words, order, log_probs, count)
            found = log_probs.gather(1, chosen[:, None])[:, 0]
        if length == config.max_length and rules is not None:
            chosen = _first_allowed(rules, words, chosen[:, None], None, count)
            found = found.masked_fill(chosen == PAD, -torch.inf)
        totals += torch.where(going, found.float(), 0.0)
        words = torch.cat([words, torch.where(going, chosen, EOS)[:, None]], dim=1)
        going &= (chosen != EOS) & (totals > -torch.inf)
        if tell is not None:
            for number, text in enumerate(words[::count, 1:].tolist()):
                tell(number, _cut(text))
        if not bool(going.any()):
            break
    texts = [_cut(text) for text in words[:, 1:].tolist()]
    drawn_texts = [
        Hypothesis(text, total / length_penalty(len(text) + 1, config.length_penalty))
        for text, total in zip(texts, totals.tolist(), strict=True)
    ]
    rows = [drawn_texts[start : start + count] for start in range(0, len(texts), count)]
    return [sorted((one for one in row if one.score > -math.inf), key=lambda one: -one.score) for row in rows]


def _keep_nucleus(log_weights: torch.Tensor, share: float) -> torch.Tensor:
    """-inf for the words beyond the fewest likeliest ones that have this share of the probability: (N, X)."""
    if share >= 1:
        return log_weights
    ordered, order = log_weights.sort(dim=1, descending=True)
    p = ordered.softmax(dim=1)
    beyond = p.cumsum(dim=1) - p >= share  # the share is reached before this word
    return log_weights.masked_fill(beyond.scatter(1, order, beyond), -torch.inf)


def _draw_in_turn(noisy: torch.Tensor) -> torch.Tensor:
    """The words in the order in which they are drawn, padded: (N, X) -> (N, C)."""
    best = noisy.topk(min(CANDIDATES, noisy.shape[1]), dim=1)
    return best.indices.masked_fill(best.values == -torch.inf, PAD)


def _noise(seeds: Sequence[int], length: int, like: torch.Tensor, count: int) -> torch.Tensor:
    """Gumbel noise: the word with the highest sum of log weight and noise is drawn in proportion to the weights.

    That of a word depends on the seed, the step and the word alone, not on how many unknown words a batch has.
    """
    shape = like.shape[1], count
    draws = [np.random.Generator(np.random.Philox(key=(seed, length))).gumbel(size=shape).T for seed in seeds]
    return torch.from_numpy(np.concatenate(draws)).to(like)  # (N, X)


def _first_allowed(
    rules: Sequence[Rule], words: torch.Tensor, order: torch.Tensor, log_probs: torch.Tensor | None, count: int
) -> torch.Tensor:
    """The first word that its rule allows, or pad: (N, C) -> (N,). Words that a rule demands come last, if possible."""
    chosen = []
    for number, (text, offered) in enumerate(zip(words[:, 1:].tolist(), order.tolist(), strict=True)):
        rule = rules[number // count]
        offers = offered if log_probs is None else [*offered, *rule.proposes(text)]
        possible = (w for w in offers if log_probs is None or log_probs[number, w] > -torch.inf)
        chosen.append(next((word for word in possible if rule.allows(text, word)), PAD))
    return torch.tensor(chosen, device=words.device)


def _cut(text: list[int]) -> list[int]:
    return text[: text.index(EOS)] if EOS in text else text
