"""Choosing among the texts that several searches find.

In: a model and instances. Out: the hypotheses of each instance, the one to take first: the likeliest; the one with the
manner of its exemplars; or the one that its exemplars agree on.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, compress

import torch

from exadec.config import SearchConfig
from exadec.loading.batch import Batch
from exadec.model.seq2seq import Seq2seq
from exadec.search.beam import Hypothesis, Tell
from exadec.search.consensus import rank_by_agreement
from exadec.search.following import search_until_followed
from exadec.search.generate import Searched, Task, search_batch
from exadec.search.guidance import without_exemplars

GUIDED = 1.0
"""What is added to `search.guidance` where most exemplars are against the form of the text that they agree on."""


def search_texts(
    model: Seq2seq,
    task: Task,
    config: SearchConfig,
    n_best: int = 1,
    tell: Tell | None = None,
    form: torch.Tensor | None = None,
) -> Searched:
    """The texts that the configuration asks for. Only the likeliest can be told while they are written."""
    if config.seeks_agreement:
        found = _search_consensus(model, task, config, form)
    elif config.manner == "followed":
        found = _search_followed(model, task, config, form)
    else:
        found = _search(model, task, config, n_best, form, tell)
    return found._replace(hypotheses=[hypotheses[:n_best] for hypotheses in found.hypotheses])


def _search_followed(model: Seq2seq, task: Task, config: SearchConfig, form: torch.Tensor | None) -> Searched:
    """Search with more and more guidance, until the texts have the manner of their exemplars.

    All finished hypotheses of a search are looked at. λ is that of the first search: it is the same for all.
    """
    assert task.judges is not None, "texts are to be compared with their exemplars"
    lam: list[torch.Tensor | None] = []

    def search(numbers: Sequence[int], guidance: float) -> list[list[Hypothesis]]:
        part = task if len(numbers) == task.batch.size else task.take(numbers)
        found = _search(model, part, replace(config, guidance=guidance), config.beam_size, form)
        lam.append(found.coefficients)
        return found.hypotheses

    differences = [None if judge is None else judge.differences for judge in task.judges]
    return Searched(search_until_followed(search, differences, config.guidance), lam[0])


def _search_consensus(model: Seq2seq, task: Task, config: SearchConfig, form: torch.Tensor | None) -> Searched:
    """First the text that the others agree with, of searches with all exemplars, with each alone, and with none.

    An instance with one exemplar, or with λ that is given, has nothing to agree on: it gets the likeliest text, or one
    that follows, if that is asked for.
    """
    divided = task.batch.find_divided()
    if task.coefficients is not None:
        divided = [number for number in divided if task.coefficients[number].isnan().any()]
    others = sorted({*range(task.batch.size)} - {*divided})
    found = []
    if divided:
        found.append(_agree(model, task.take(divided) if others else task, config, form))
    if others:
        simple = replace(config, choice="likeliest")
        found.append(search_texts(model, task.take(others) if divided else task, simple, config.beam_size, form=form))
    places = sorted(range(task.batch.size), key=[*divided, *others].__getitem__)
    hypotheses = [*chain.from_iterable(one.hypotheses for one in found)]
    lam = [one.coefficients for one in found if one.coefficients is not None]
    return Searched([hypotheses[place] for place in places], torch.cat(lam)[places] if lam else None)


def _agree(model: Seq2seq, task: Task, config: SearchConfig, form: torch.Tensor | None) -> Searched:
    """For instances with several exemplars. Whatever is found votes; with judges, exemplars do, too."""
    every, lam = _search(model, task._replace(coefficients=None), config, config.beam_size, form)
    searches = [[hypotheses] for hypotheses in every]
    judges = [None] * task.batch.size if task.judges is None else task.judges

    def ask(numbers: Sequence[int], shown: Sequence[Batch], config: SearchConfig) -> None:
        part = task.take(numbers)
        for batch in shown:
            found = _search(model, part._replace(batch=batch, coefficients=None), config, config.beam_size, form)
            for number, hypotheses in zip(numbers, found.hypotheses, strict=True):
                searches[number].append(hypotheses)

    def rank(number: int) -> list[Hypothesis]:
        judge = judges[number]
        return rank_by_agreement(searches[number], config.length_penalty, None if judge is None else judge.distance)

    def each_alone(batch: Batch) -> list[Batch]:
        return [batch.show_alone(number) for number in range(model.config.exemplars_read)]

    others = [without_exemplars(task.batch)] if model.config.guidable else []
    ask(range(task.batch.size), [*each_alone(task.batch), *others], config)
    chosen = [rank(number) for number in range(task.batch.size)]
    left = [
        number
        for number, (judge, ranked) in enumerate(zip(judges, chosen, strict=True))
        if judge is not None and (not ranked or judge.differences(ranked[0].ids) > 0)
    ]
    if left:
        part = task.batch.take(left)
        ask(left, [part, *each_alone(part)], replace(config, guidance=config.guidance + GUIDED))
        for number in left:
            chosen[number] = rank(number)
    return Searched(chosen, lam)


def _search(
    model: Seq2seq,
    task: Task,
    config: SearchConfig,
    n_best: int,
    form: torch.Tensor | None,
    tell: Tell | None = None,
) -> Searched:
    """The likeliest texts; where one of them breaks a rule, those of a second search, under the rules.

    So most texts cost no more than a free search. A likeliest text that breaks no rule stays the first one, however
    many are asked for.
    """

    def search(part: Task, tell: Tell | None = None) -> Searched:
        return search_batch(model, part, config, n_best, tell, form)

    rules = task.rules
    if rules is None or config.temperature > 0:
        return search(task, tell)
    found, lam = search(task._replace(rules=None))
    obeying = [[one for one in some if rule.accepts(one.ids)] for rule, some in zip(rules, found, strict=True)]
    settled = [first in kept for (first, *_), kept in zip(found, obeying, strict=True)]
    rest = [number for number, kept in enumerate(obeying) if len(kept) < len(found[number])]

    def tell_rest(place: int, ids: list[int]) -> None:
        if tell is not None and not settled[rest[place]]:
            tell(rest[place], ids)

    if tell is not None:
        for number in compress(range(len(found)), settled):
            tell(number, found[number][0].ids)
    again = search(task.take(rest), tell and tell_rest).hypotheses if rest else []
    for number, searched in zip(rest, again, strict=True):
        first, *_ = found[number]
        others = {tuple(one.ids): one for one in (*searched, *obeying[number]) if one.ids != first.ids}
        ranked = sorted(others.values(), key=lambda one: -one.score)
        found[number] = [first, *ranked][:n_best] if settled[number] else searched
    return Searched(found, lam)
