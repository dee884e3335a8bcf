"""Writing text with a trained run.

In: a run folder, then sources and exemplars as text. Out: `Generation`s.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from exadec.corpus.vocabulary import EOS, NONE, SPECIALS, PieceTable
from exadec.errors import InputError
from exadec.exemplars.retriever import Retriever
from exadec.loading.batch import Instance, collate
from exadec.search.generate import search_batch
from exadec.training.checkpoint import Run, open_corpus, open_run


@dataclass(frozen=True)
class Generation:
    """One text, and how it came about."""

    text: str
    score: float
    """log p over the length penalty."""
    exemplar: str | None
    """The text that showed how to say it."""
    similarity: float | None
    """Cosine between the source and the exemplar's own source; empty when the exemplar was given."""
    pieces: list[str]
    """The text in the model's pieces, the end symbol last."""
    memory: list[str]
    """The pieces that could be attended to and copied."""
    coefficients: np.ndarray | None
    """(R,) or (G, R): λ; empty for a model that does not adapt."""
    attention: np.ndarray | None
    """(pieces, memory): where each piece was looked up; empty for a model without copying."""
    copy_gate: np.ndarray | None
    """(pieces,): probability that a piece was copied rather than generated."""
    alternatives: list[tuple[str, float]]
    """Further hypotheses of the beam with their scores, best first."""
    truncated: int
    """Pieces of the source beyond the limit, which were not read."""


class Writer:
    """A trained model that turns sources into text. `load` makes one."""

    def __init__(self, run: Run):
        self.run = run
        self.model = run.load_model()
        self._retriever: Retriever | None = None

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        """For each source the exemplar that retrieval finds among the training data, and its similarity.

        With a group only the training targets of that group (an outlet, an author) are looked at.
        """
        if self._retriever is None:
            self._retriever = Retriever(open_corpus(self.run), self.run.config.exemplars)
        corpus = self._retriever.corpus
        return [
            (None if number is None else corpus.target(number), similarity)
            for number, similarity in self._retriever.find(sources, group)
        ]

    def write(self, source: str, exemplar: str | None = None, n_best: int = 1, group: str | None = None) -> Generation:
        """Say what the source says in the manner of the exemplar; without one, of the most similar training target.

        With a group, of the most similar one among that group's: its house style.
        """
        return self.write_all([source], [exemplar], n_best, group)[0]

    def write_all(
        self,
        sources: Sequence[str],
        exemplars: Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | None = None,
    ) -> list[Generation]:
        """The same for many sources at once; each has an exemplar of its own."""
        if exemplars is None:
            exemplars = [None] * len(sources)
        if len(exemplars) != len(sources):
            raise ValueError(f"There are {len(sources)} sources, but {len(exemplars)} exemplars.")
        results: list[Generation] = []
        step = self.run.config.search.batch_size
        for start in range(0, len(sources), step):
            rows = slice(start, start + step)
            results += self._write_batch(sources[rows], self._fill_in(sources[rows], exemplars[rows], group), n_best)
        return results

    def _fill_in(
        self, sources: Sequence[str], exemplars: Sequence[str | None], group: str | None
    ) -> list[tuple[str | None, float | None]]:
        """(exemplar, similarity) of each source: what was given, or else what retrieval finds."""
        filled: list[tuple[str | None, float | None]] = [(exemplar, None) for exemplar in exemplars]
        model = self.run.config.model
        missing = [i for i, exemplar in enumerate(exemplars) if exemplar is None]
        if missing and (model.adaptive or model.attend_exemplar):
            for i, found in zip(missing, self.retrieve([sources[i] for i in missing], group), strict=True):
                filled[i] = found
        return filled

    def _write_batch(
        self, sources: Sequence[str], exemplars: list[tuple[str | None, float | None]], n_best: int
    ) -> list[Generation]:
        table = PieceTable(self.run.vocabulary)
        encoded = [self._encode(s, exemplar, table) for s, (exemplar, _) in zip(sources, exemplars, strict=True)]
        size, copy_exemplar = len(self.run.vocabulary), self.run.config.model.attend_exemplar
        batch = collate([instance for instance, _ in encoded], size, copy_exemplar)
        found = search_batch(self.model, batch, self.run.config.search, n_best)
        # A second pass over the finished texts tells how each piece came about.
        finished = [
            replace(instance, target=np.array(hypotheses[0].ids, np.int64))
            for (instance, _), hypotheses in zip(encoded, found, strict=True)
        ]
        batch = collate(finished, size, copy_exemplar).to(next(self.model.parameters()).device)
        with torch.no_grad():
            mixture = self.model.explain(batch)
            lam = self.model.exemplar_coefficients(batch)
        results = []
        for i, (instance, hypotheses) in enumerate(zip(finished, found, strict=True)):
            texts = [(self.run.segmenter.join(table.decode(best.ids)), best.score) for best in hypotheses]
            steps, source_length = len(instance.target) + 1, len(instance.source)
            # The memory of a batch is the padded sources, then the padded exemplars.
            looked_at = np.arange(source_length)
            memory = instance.source
            if copy_exemplar:
                looked_at = np.r_[looked_at, batch.source.shape[1] + np.arange(len(instance.exemplar))]
                memory = np.concatenate([memory, instance.exemplar])
            results.append(
                Generation(
                    text=texts[0][0],
                    score=texts[0][1],
                    exemplar=exemplars[i][0],
                    similarity=exemplars[i][1],
                    pieces=[*table.decode(instance.target.tolist()), SPECIALS[EOS]],
                    memory=table.decode(memory.tolist()),
                    coefficients=None if lam is None else lam[i].squeeze(0).cpu().numpy(),
                    attention=None
                    if mixture.weights is None
                    else mixture.weights[i, :steps].cpu().numpy()[:, looked_at],
                    copy_gate=None if mixture.log_copy is None else mixture.log_copy[i, :steps].exp().cpu().numpy(),
                    alternatives=texts[1:],
                    truncated=encoded[i][1],
                )
            )
        return results

    def _encode(self, source: str, exemplar: str | None, table: PieceTable) -> tuple[Instance, int]:
        corpus = self.run.config.corpus
        pieces = self.run.segmenter.segment(" ".join(source.split()))
        if not pieces:
            raise InputError("the source is empty: there is nothing to say.")
        ids = table.encode(pieces[: corpus.max_source])
        manner = np.array([NONE])
        if exemplar is not None:
            shown = table.encode(self.run.segmenter.segment(" ".join(exemplar.split()))[: corpus.max_target])
            if not any(number < len(self.run.vocabulary) for number in shown):
                raise InputError(f"the exemplar {exemplar!r} has no word the model knows: it cannot show any manner.")
            manner = np.array(shown)
        return Instance(np.array(ids), manner, np.array([], np.int64)), max(0, len(pieces) - corpus.max_source)


def load(folder: Path | str, overrides: Sequence[str] = ()) -> Writer:
    """Open a run for writing. `overrides` change how it searches, such as `search.beam_size=1` for greedy search."""
    return Writer(open_run(Path(folder), overrides))
