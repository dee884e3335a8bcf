"""Training a run and writing text with it, from Python.

In: a configuration; or a run folder, then sources and exemplars as text. Out: a `Run`; or `Generation`s.
"""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
import torch

from exadec.bundle.packed import open_folder_or_bundle
from exadec.config import Config, SearchConfig
from exadec.corpus.prepare import Sequences
from exadec.corpus.record import announce
from exadec.corpus.vocabulary import EOS, NONE, SPECIALS, PieceTable
from exadec.errors import RequestError
from exadec.exemplars.retriever import Found, Retriever, TrainingRecords
from exadec.loading.batch import Instance, collate, mark
from exadec.model.seq2seq import Seq2seq
from exadec.request import Request
from exadec.search.beam import Hypothesis
from exadec.search.facts import Licensed, licensing_text
from exadec.search.generate import search_batch
from exadec.search.rules import Rule, Spelling, Together, rule_for
from exadec.settings import load_config
from exadec.strict_yaml import Overrides
from exadec.textmetrics.facts import Names
from exadec.textmetrics.licensing import Checker, Stated
from exadec.training.checkpoint import Run
from exadec.training.trainer import Observer
from exadec.training.trainer import train as train_run

One = TypeVar("One")


@dataclass(frozen=True)
class Explanation:
    """Where the words of one generation come from; both are None for a model without copying."""

    attention: np.ndarray | None
    """(pieces, memory): what the model attended to for each piece."""
    copy_gate: np.ndarray | None
    """(pieces,): probability that a piece was copied rather than generated."""


@dataclass(frozen=True)
class Generation:
    """One text, and how it was written.

    `attention` and `copy_gate` need another pass of the model over the finished text. It runs lazily, on the first
    access to either.
    """

    text: str
    score: float
    """log p divided by the length penalty; log p is the guided one if there is guidance."""
    exemplar: str | None
    """The exemplar: the text that shows how to say it. The nearest one, if the model reads several."""
    exemplars: list[str]
    """All exemplars that the model read, each once, the nearest first."""
    similarity: float | None
    """Cosine between the source and the exemplar's own source; None if the exemplar was given."""
    pieces: list[str]
    """The text in the model's pieces, the end symbol last."""
    memory: list[str]
    """The pieces that could be attended to and copied; `<none>` for an exemplar that there is not."""
    coefficients: np.ndarray | None
    """(R,), or (G, R) with one for each gate: λ; None for a model that does not adapt."""
    alternatives: list[tuple[str, float]]
    """The beam's other hypotheses with their scores, best first."""
    truncated: int
    """How many pieces of the source were over the limit and not read."""
    exemplar_truncated: int
    """How many pieces of a given exemplar were over the limit and not read."""
    facts: list[Stated] | None
    """What the text states, and whether the source licenses it; None if `search.facts` is off."""
    explain: InitVar[Callable[[], Explanation]]
    """Runs that pass. An `InitVar` rather than a field, so that `asdict` and `==` do not touch the model."""

    def __post_init__(self, explain: Callable[[], Explanation]) -> None:
        object.__setattr__(self, "_explain", explain)

    @property
    def attention(self) -> np.ndarray | None:
        """(pieces, memory): what the model attended to for each piece; None for a model without copying."""
        return self._explanation.attention

    @property
    def copy_gate(self) -> np.ndarray | None:
        """(pieces,): probability that a piece was copied rather than generated; None without copying."""
        return self._explanation.copy_gate

    @cached_property
    def _explanation(self) -> Explanation:
        explanation: Explanation = self._explain()  # type: ignore[attr-defined]
        return explanation

    def __getstate__(self) -> dict[str, Any]:
        """For pickling: store the explanation instead of the model that computes it."""
        return {**vars(self), "_explanation": self._explanation, "_explain": None}


class _Input(NamedTuple):
    """What the model reads for one text, and the strings to show for it."""

    instance: Instance
    """Has no target. The batch's `PieceTable` numbers its unknown words."""
    exemplars: list[str]
    similarity: float | None
    truncated: int
    exemplar_truncated: int
    rule: Rule
    """What its text must obey"""
    licensing: str
    """What licenses facts"""


_NO_TARGET = np.array([], np.int64)


class Writer:
    """A trained model that turns sources into text; `load` returns one."""

    def __init__(self, run: Run, model: Seq2seq | None = None):
        """`model` is the run's model, if it is already loaded."""
        self.run = run
        self.model = model or run.load_model()

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        """Retrieve an exemplar from the training data for each source; returns its text, as the model reads it, and its
        similarity. With a group, only training targets of that group (an outlet, an author) are searched.
        """
        found = self._retriever.find(sources, group)
        return [(self._found_text(one), one.similarity) for one in found]

    @cached_property
    def _names(self) -> Names:
        return self.run.read_names()

    @cached_property
    def _retriever(self) -> Retriever:
        return self.run.open_retriever()

    @property
    def _corpus(self) -> TrainingRecords:
        return self._retriever.corpus

    @cached_property
    def _training_targets(self) -> Sequences:
        return self._corpus.targets("train")

    @overload
    def write(
        self,
        source: str,
        exemplar: str | None = None,
        n_best: int = 1,
        group: str | None = None,
        guidance: float | None = None,
    ) -> Generation: ...

    @overload
    def write(
        self,
        source: list[str] | tuple[str, ...],
        exemplar: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> list[Generation]: ...

    def write(
        self,
        source: str | list[str] | tuple[str, ...],
        exemplar: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> Generation | list[Generation]:
        """Say what the source says in the manner of the exemplar. Without one, retrieve it from the training targets.

        A list of sources gives a list of texts, as `write_all` does. With a group, retrieve the exemplar only from that
        group's targets, to write in its house style. A model that was trained with `corpus.group_in_source` is told the
        group, too; a group that it does not know is an error. `guidance` is for this call and takes the place of
        `search.guidance`: the higher, the more strictly the exemplar is followed.
        """
        if isinstance(source, str):
            return self.write_all([source], exemplar, n_best, group, guidance)[0]
        return self.write_all(source, exemplar, n_best, group, guidance)

    def write_all(
        self,
        sources: Sequence[str],
        exemplars: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> list[Generation]:
        """`write` for many sources at once. An exemplar, or a group, is one for all or a list with one for each."""
        if isinstance(sources, str):
            raise ValueError("`sources` is one text, not a list of texts; `write` takes one.")
        exemplars = [exemplars] * len(sources) if exemplars is None or isinstance(exemplars, str) else exemplars
        groups = [group] * len(sources) if group is None or isinstance(group, str) else group
        for name, values in (("exemplars", exemplars), ("groups", groups)):
            if len(values) != len(sources):
                raise ValueError(f"There are {len(sources)} sources, but {len(values)} {name}.")
        requests = [Request(*parts) for parts in zip(sources, exemplars, groups, strict=True)]
        results = []
        for result in self.answer(requests, n_best, guidance):
            if isinstance(result, RequestError):
                raise result
            results.append(result)
        return results

    def refuse(self, exemplar: str | None = None, group: str | None = None) -> None:
        """Raise the error that every request with this exemplar or this group would get, whatever its source."""
        Request("", exemplar, group)
        self._announce(group)
        if exemplar is not None:
            self._read_given(exemplar, PieceTable(self.run.vocabulary))
        elif group is not None and self.run.config.model.reads_exemplars:
            self._retriever.members(group)

    def answer(
        self, requests: Sequence[Request], n_best: int = 1, guidance: float | None = None
    ) -> list[Generation | RequestError]:
        """One result for each request, in their order: a text, or the reason why there is none.

        What is wrong with one request does not disturb the others. A file that is damaged or gone is an error for all.
        """
        search = self.run.config.search
        if guidance is not None:
            search = replace(search, guidance=guidance)
        results: dict[int, Generation | RequestError] = {}
        by_length = sorted(range(len(requests)), key=lambda number: len(requests[number].source))
        for start in range(0, len(requests), search.batch_size):
            numbers = by_length[start : start + search.batch_size]
            table = PieceTable(self.run.vocabulary)
            inputs = self._read([requests[number] for number in numbers], table)
            sound = [one for one in inputs if isinstance(one, _Input)]
            written = iter(self._write_batch(sound, table, search, n_best) if sound else ())
            results |= {
                number: one if isinstance(one, RequestError) else next(written)
                for number, one in zip(numbers, inputs, strict=True)
            }
        return [results[number] for number in range(len(requests))]

    def _read(self, requests: Sequence[Request], table: PieceTable) -> list[_Input | RequestError]:
        """Ids of each source and of its exemplars, given or retrieved."""
        found = self._find(requests)
        return [_or_error(self._read_one, one, found.get(number), table) for number, one in enumerate(requests)]

    def _find(self, requests: Sequence[Request]) -> dict[int, list[Found] | RequestError]:
        """The exemplars of those requests that have none, retrieved for each group at once."""
        found: dict[int, list[Found] | RequestError] = {}
        if not self.run.config.model.reads_exemplars:
            return found
        for group in dict.fromkeys(one.group for one in requests if one.exemplar is None):
            numbers = [i for i, one in enumerate(requests) if one.exemplar is None and one.group == group]
            texts = [requests[i].source for i in numbers]
            several = _or_error(self._retriever.find_several, texts, group, self.run.config.model.exemplars_read)
            found |= {i: several if isinstance(several, RequestError) else several[j] for j, i in enumerate(numbers)}
        return found

    def _read_one(self, request: Request, found: list[Found] | RequestError | None, table: PieceTable) -> _Input:
        if isinstance(found, RequestError):
            raise found
        count = self.run.config.model.exemplars_read
        ids, truncated = self._read_source(request.source, self._announce(request.group), table)
        texts, similarity, cut = list[str](), None, 0
        if request.exemplar is not None:
            given, cut = self._read_given(request.exemplar, table)
            shown, texts = (given,) * count, [request.exemplar]
        elif found is None:
            shown = (np.array([NONE]),) * count
        else:
            shown, similarity = tuple(self._read_found(one, table) for one in found), found[0].similarity
            texts = [text for one in dict.fromkeys(found) if (text := self._found_text(one)) is not None]
        instance = Instance(ids, shown, _NO_TARGET)
        licensing = licensing_text(request.source, request.group, self.run.config.corpus.group_in_source)
        rule = self._make_rule(request, instance, licensing, table)
        return _Input(instance, texts, similarity, truncated, cut, rule, licensing)

    def _make_rule(self, request: Request, instance: Instance, licensing: str, table: PieceTable) -> Rule:
        spelling = Spelling(self.run.segmenter, table)
        rules: list[Rule] = [] if request.is_free else [self._demands(request, instance, spelling)]
        if self.run.config.search.facts == "strict":
            rules.append(Licensed(Checker(licensing, self._names), spelling))
        return Together(rules) if rules else Rule()

    def _demands(self, request: Request, instance: Instance, spelling: Spelling) -> Rule:
        known = len(self.run.vocabulary)
        copied = {*instance.source.tolist()}
        if self._copies_exemplar:
            copied.update(*(ids.tolist() for ids in instance.exemplars))
        rule, words = rule_for(request, spelling)
        strange = [word for word in words if word >= known and word not in copied]
        if strange:
            [piece, *_] = spelling.table.decode(strange)
            raise RequestError(f"the model cannot write {piece!r}: it is neither in its vocabulary nor in the source.")
        return rule

    def _announce(self, group: str | None) -> list[str]:
        """The pieces that tell the model the group, as in the sources it was trained on."""
        if group is None or not self.run.config.corpus.group_in_source:
            return []
        if group not in self.run.facts["groups"]:
            raise RequestError(f"no training record has the group {group!r}.")
        return self.run.segmenter.segment(announce(group))

    def _read_source(self, source: str, opening: list[str], table: PieceTable) -> tuple[np.ndarray, int]:
        limit = self.run.config.corpus.max_source
        pieces = self.run.segmenter.segment(" ".join(source.split()))
        if not pieces:
            raise RequestError("the source is empty.")
        pieces = opening + pieces
        return np.array(table.encode(pieces[:limit])), max(0, len(pieces) - limit)

    def _read_given(self, exemplar: str, table: PieceTable) -> tuple[np.ndarray, int]:
        model, limit = self.run.config.model, self.run.config.corpus.max_target
        if not model.reads_exemplars:
            raise RequestError(f"this model ({model.variant}) does not read exemplars; leave the exemplar out.")
        pieces = self.run.segmenter.segment(" ".join(exemplar.split()))
        ids = np.array(table.encode(pieces[:limit]))
        if not (ids < len(self.run.vocabulary)).any():
            raise RequestError(f"the exemplar {exemplar!r} has no word the model knows; give another one.")
        # A model that has learnt to tell them apart follows a given exemplar more closely than a retrieved one.
        return mark(ids) if self.run.config.exemplars.form_share > 0 else ids, max(0, len(pieces) - limit)

    def _read_found(self, found: Found, table: PieceTable) -> np.ndarray:
        """The ids of the prepared corpus, as in training, except that this batch renumbers unknown words."""
        if found.number is None:
            return np.array([NONE])
        size, unknown = len(self.run.vocabulary), self._corpus.table.unknown
        ids = self._training_targets[found.number].tolist()
        return np.array([i if i < size else table.encode([unknown[i - size]])[0] for i in ids])

    def _found_text(self, found: Found) -> str | None:
        return None if found.number is None else self._corpus.text(self._training_targets[found.number])

    def _write_batch(
        self, inputs: Sequence[_Input], table: PieceTable, search: SearchConfig, n_best: int
    ) -> list[Generation | RequestError]:
        batch = collate([one.instance for one in inputs], len(self.run.vocabulary), self._copies_exemplar)
        rules = [one.rule for one in inputs]
        free = all(type(rule) is Rule for rule in rules)
        found, coefficients = search_batch(self.model, batch, search, n_best, None if free else rules)
        lam = None if coefficients is None else coefficients.cpu().numpy()  # (B, 1 or G, R)
        return [
            _or_error(self._generation, one, hypotheses, table, None if lam is None else lam[i])
            for i, (one, hypotheses) in enumerate(zip(inputs, found, strict=True))
        ]

    def _generation(
        self, one: _Input, hypotheses: Sequence[Hypothesis], table: PieceTable, lam: np.ndarray | None
    ) -> Generation:
        if not hypotheses:
            raise RequestError("the search found no text that keeps all demands; drop one, or search more widely.")
        (text, score), *others = ((self.run.segmenter.join(table.decode(best.ids)), best.score) for best in hypotheses)
        instance = replace(one.instance, target=np.array(hypotheses[0].ids, np.int64))
        memory = [instance.source, *instance.exemplars] if self._copies_exemplar else [instance.source]
        return Generation(
            text=text,
            score=score,
            exemplar=one.exemplars[0] if one.exemplars else None,
            exemplars=one.exemplars,
            similarity=one.similarity,
            pieces=[*table.decode(hypotheses[0].ids), SPECIALS[EOS]],
            memory=[piece for ids in memory for piece in table.decode(ids.tolist()) or [SPECIALS[NONE]]],
            coefficients=lam[0] if lam is not None and len(lam) == 1 else lam,
            alternatives=others,
            truncated=one.truncated,
            exemplar_truncated=one.exemplar_truncated,
            facts=None if self.run.config.search.facts == "off" else Checker(one.licensing, self._names).check(text),
            explain=partial(self._explain, instance),
        )

    def _explain(self, instance: Instance) -> Explanation:
        """Run the model over one instance again, with its finished text as the target."""
        batch = collate([instance], len(self.run.vocabulary), self._copies_exemplar)
        batch = batch.to(next(self.model.parameters()).device)
        with torch.no_grad():
            state = self.model.encode(batch)
            mixture = self.model.explain(state, batch.target_input)
        if mixture.weights is None or mixture.log_copy is None:
            return Explanation(None, None)
        # Several exemplars of different lengths are padded.
        attention = mixture.weights[0][:, state.memory.mask[0]]
        return Explanation(attention.cpu().numpy(), mixture.log_copy[0].exp().cpu().numpy())

    @property
    def _copies_exemplar(self) -> bool:
        return self.run.config.model.attend_exemplar


def _or_error(read: Callable[..., One], *arguments: Any) -> One | RequestError:
    try:
        return read(*arguments)
    except RequestError as error:
        return error


def load(
    folder: Path | str, overrides: Overrides = (), device: str | None = None, corpus: Path | str | None = None
) -> Writer:
    """Open a run folder, or a file that `export` wrote, for writing.

    `overrides` change search settings: `{"search.beam_size": 1}` is greedy search. `device` is cpu, cuda or cuda:N; by
    default a GPU if there is one. `corpus` is the folder of the run's corpus, if it is not where the run says;
    exemplars are retrieved from it.
    """
    run = open_folder_or_bundle(Path(folder), overrides, None if corpus is None else Path(corpus))
    return Writer(run, run.load_model(device=device))


def train(
    config: Config | Path | str,
    folder: Path | str | None = None,
    *,
    variant: str | None = None,
    overrides: Overrides = (),
    resume: bool = False,
    force: bool = False,
    device: str | None = None,
    observe: Observer = lambda event: None,
) -> Run:
    """Train one model, as `exadec train` does: data are prepared and exemplars retrieved first, if needed.

    `config` is a YAML file, the name of one that ships with exadec, such as `wire`, or a `Config`. `overrides` change
    values of a file: `{"training.epochs": 2}`, or `["training.epochs=2"]` as on the command line. `variant` is a model
    of the paper. The run's folder is by default that of the configuration and the variant's name. An existing run is
    continued with `resume`, replaced with `force`, and an error otherwise. `observe` is called with each event.
    """
    if not isinstance(config, Config):
        config = load_config(config, overrides, variant)
    elif overrides or variant is not None:
        raise ValueError("`overrides` and `variant` change a file's values; change a `Config` by its method `replace`.")
    place = Path(config.folder) / config.model.variant if folder is None else folder
    return train_run(config, place, resume, force, observe, device=device)
