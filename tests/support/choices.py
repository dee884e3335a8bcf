"""Next words of a search step against the whole distribution."""

import math
from typing import Any

import torch

from exadec.corpus.vocabulary import EOS, PAD
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Step
from support.small_models import VOCABULARY, batch_for

TRACE = math.log(1e-25)
"""The whole distribution gives words that cannot be written a trace."""


def spread_out(model: Seq2seq) -> Seq2seq:
    """Away from the uniform distribution."""
    with torch.no_grad():
        model.embedding.weight.mul_(3.0)
        if model.decoder.copy is not None:
            model.decoder.copy.gate.bias.fill_(0.5)
    return model


@torch.no_grad()
def check_choices(model: Seq2seq, step: Step[Any], **tolerance: float) -> None:
    """`best`, `of` and `of_words`, with and without banned words, for two hypotheses of each of 30 instances."""
    batch, generator = batch_for(model.config, 30), torch.Generator().manual_seed(0)
    state = model.encode(batch).select(torch.arange(30).repeat_interleave(2))
    words = torch.randint(6, VOCABULARY, (60,), generator=generator)
    log_probs, _ = model.step(state, words)
    for count, bans in ((1, 1), (4, 5), (VOCABULARY + 9, 2)):
        banned = torch.randint(0, log_probs.shape[1], (60, bans), generator=generator)
        banned[:, 0] = PAD
        found, chosen = step(state, words)[0].best(count, banned)
        expected = log_probs.scatter(1, banned, -torch.inf)
        for mine, ids, whole in zip(found, chosen, expected, strict=True):
            known = mine > TRACE
            assert len(set(ids[known].tolist())) == known.sum()
            torch.testing.assert_close(mine[known], whole[ids[known]], **tolerance)
            best = whole.topk(min(count, int((whole > TRACE).sum()))).values
            torch.testing.assert_close(mine.sort(descending=True).values[: len(best)], best, **tolerance)
    torch.testing.assert_close(step(state, words)[0].of(EOS), log_probs[:, EOS], **tolerance)
    asked = torch.randint(0, log_probs.shape[1], (60, 7), generator=generator)
    likely = log_probs.gather(1, asked) > TRACE
    choices = step(state, words)[0]
    torch.testing.assert_close(choices.of_words(asked)[likely], log_probs.gather(1, asked)[likely], **tolerance)
    choices.best(3, asked[:, :2])
    assert (choices.of_words(asked[:, :2])[asked[:, :2] < VOCABULARY] == -torch.inf).all()
