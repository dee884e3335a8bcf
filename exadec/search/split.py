"""Writing a text for each instance of a split.

In: a model, a corpus, and the batches of one of its splits. Out: texts with their scores, in the split's order.
"""

import numpy as np

from exadec.config import SearchConfig
from exadec.corpus.prepare import Corpus, Report, silent
from exadec.loading.loader import Loader
from exadec.model.seq2seq import Seq2seq
from exadec.search.choosing import search_texts
from exadec.search.facts import openings_of, rules_for
from exadec.search.following import Judge
from exadec.search.generate import Task, texts_at_once
from exadec.search.guidance import find_form


def generate_split(
    model: Seq2seq,
    corpus: Corpus,
    loader: Loader,
    config: SearchConfig,
    chosen: np.ndarray | None = None,
    report: Report = silent,
    n_best: int = 1,
) -> list[list[tuple[str, float]]]:
    """(text, score) of the best hypotheses for all or the chosen instances of a split, in the split's order."""
    results: dict[int, list[tuple[str, float]]] = {}
    total = len(loader) if chosen is None else len(chosen)
    was_training = model.training
    model.eval()
    wanted = frozenset(range(len(loader)) if chosen is None else chosen.tolist())
    records = corpus.records(loader.split) if config.facts == "strict" else ()
    kept = {index: record for index, record in enumerate(records) if index in wanted}
    form = find_form(corpus.vocabulary, corpus.segmenter, next(model.parameters()).device)
    for indices, batch in loader.search_batches(texts_at_once(model, config), chosen):
        strict = [kept[index] for index in indices.tolist()] if kept else None
        rules = None if strict is None else rules_for(corpus, strict)
        openings = None if strict is None else openings_of(corpus, strict)
        seeds = [config.seed + int(index) for index in indices]
        judges = None
        if config.manner == "followed":
            judges = [Judge.of(_shown(corpus, loader, int(index)), corpus.text) for index in indices]
        task = Task(batch, rules, seeds, judges=judges, openings=openings)
        found = search_texts(model, task, config, n_best, form=form).hypotheses
        for index, hypotheses in zip(indices, found, strict=True):
            results[int(index)] = [(corpus.text(one.ids), one.score) for one in hypotheses] or [("", 0.0)]
        report(f"writing for {loader.split}", len(results), total)
    model.train(was_training)
    return [results[index] for index in sorted(results)]


def _shown(corpus: Corpus, loader: Loader, index: int) -> list[str]:
    """The exemplars of an instance."""
    return [corpus.text(loader.exemplar_targets[one]) for one in loader.exemplar_index[index].tolist() if one >= 0]
