"""Training a run and writing text with it, from Python.

In: a configuration; or a run folder, then sources and exemplars as text. Out: a `Run`; or `Generation`s.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
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
from exadec.errors import InputError, RequestError
from exadec.exemplars.retriever import Found, Retriever, TrainingRecords
from exadec.generation import Explanation, Generation, explanation_from_json
from exadec.loading.batch import Instance, collate, mark
from exadec.model.seq2seq import Seq2seq
from exadec.remote import Service, is_address
from exadec.request import Request
from exadec.search.beam import Hypothesis
from exadec.search.generate import search_batch
from exadec.settings import load_config
from exadec.strict_yaml import Overrides
from exadec.training.checkpoint import Run
from exadec.training.trainer import Observer
from exadec.training.trainer import train as train_run

One = TypeVar("One")


class _Input(NamedTuple):
    """What the model reads for one text, and the strings to show for it."""

    instance: Instance
    """Has no target. The batch's `PieceTable` numbers its unknown words."""
    exemplars: list[str]
    exemplar_id: str | None
    similarity: float | None
    truncated: int
    exemplar_truncated: int


_NO_TARGET = np.array([], np.int64)


class Writer:
    """A trained model that turns sources into text; `load` returns one."""

    def __init__(self, run: Run, model: Seq2seq | None = None, retriever: Retriever | None = None):
        """`model` is the run's model, if it is already loaded. `retriever` takes the place of the run's own."""
        self.run = run
        self.model = model or run.load_model()
        if retriever is not None:
            self._retriever = retriever

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        """Retrieve an exemplar from the training data for each source; returns its text, as the model reads it, and its
        similarity. With a group, only training targets of that group (an outlet, an author) are searched.
        """
        found = self._retriever.find(sources, group)
        return [(self._found_text(one), one.similarity) for one in found]

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
        if request.exemplar is not None:
            given, cut = self._read_given(request.exemplar, table)
            instance = Instance(ids, (given,) * count, _NO_TARGET)
            return _Input(instance, [request.exemplar], None, None, truncated, cut)
        if found is None:
            return _Input(Instance(ids, (np.array([NONE]),) * count, _NO_TARGET), [], None, None, truncated, 0)
        shown = tuple(self._read_found(one, table) for one in found)
        texts = [text for one in dict.fromkeys(found) if (text := self._found_text(one)) is not None]
        name = None if found[0].number is None else self._retriever.name(found[0].number)
        return _Input(Instance(ids, shown, _NO_TARGET), texts, name, found[0].similarity, truncated, 0)

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
        if (accepted := self._retriever.accepted_text(found.number)) is not None:
            pieces = self.run.segmenter.segment(" ".join(accepted.split()))
            return np.array(table.encode(pieces[: self.run.config.corpus.max_target]))
        size, unknown = len(self.run.vocabulary), self._corpus.table.unknown
        ids = self._training_targets[found.number].tolist()
        return np.array([i if i < size else table.encode([unknown[i - size]])[0] for i in ids])

    def _found_text(self, found: Found) -> str | None:
        return None if found.number is None else self.exemplar_text(found.number)

    def exemplar_text(self, number: int) -> str:
        """The text of an exemplar that the retriever found, as the model reads it."""
        accepted = self._retriever.accepted_text(number)
        return accepted if accepted is not None else self._corpus.text(self._training_targets[number])

    def _write_batch(
        self, inputs: Sequence[_Input], table: PieceTable, search: SearchConfig, n_best: int
    ) -> list[Generation]:
        batch = collate([one.instance for one in inputs], len(self.run.vocabulary), self._copies_exemplar)
        found, coefficients = search_batch(self.model, batch, search, n_best)
        lam = None if coefficients is None else coefficients.cpu().numpy()  # (B, 1 or G, R)
        return [
            self._generation(one, hypotheses, table, None if lam is None else lam[i])
            for i, (one, hypotheses) in enumerate(zip(inputs, found, strict=True))
        ]

    def _generation(
        self, one: _Input, hypotheses: Sequence[Hypothesis], table: PieceTable, lam: np.ndarray | None
    ) -> Generation:
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
            exemplar_id=one.exemplar_id,
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


class RemoteWriter(Writer):
    """The model of a server. It writes and retrieves as a `Writer` does, but has no run and no model to look at."""

    def __init__(self, service: Service):
        self._service = service

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # copying and pickling ask for these before there is a service
        raise AttributeError(f"{self._service.address}: a server's model has no `{name}` here; load the run itself.")

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        bodies = [{"source": source, "group": group, "k": 1} for source in sources]
        results: list[tuple[str | None, float]] = []
        for answer in self._service.ask_all("/v1/retrieve", bodies):
            if isinstance(answer, RequestError):
                raise answer
            found = answer["exemplars"]
            results.append((found[0]["text"], found[0]["similarity"]) if found else (None, 0.0))
        return results

    def refuse(self, exemplar: str | None = None, group: str | None = None) -> None:
        """Only what can be seen here. The server refuses the rest, with each request."""
        Request("", exemplar, group)

    def answer(
        self, requests: Sequence[Request], n_best: int = 1, guidance: float | None = None
    ) -> list[Generation | RequestError]:
        bodies = [_body(request, n_best, guidance) for request in requests]
        answers = self._service.ask_all("/v1/write", bodies)
        return [
            one if isinstance(one, RequestError) else Generation.from_json(one, partial(self._ask_why, body, one))
            for body, one in zip(bodies, answers, strict=True)
        ]

    def _ask_why(self, body: dict[str, Any], answer: dict[str, Any]) -> Explanation:
        again = self._service.ask("/v1/write", {**body, "explain": True})
        if (again["text"], again["exemplar"]) != (answer["text"], answer["exemplar"]):
            raise RequestError("the server's exemplars have changed since this was written; write it again.")
        return explanation_from_json(again)


def _body(request: Request, n_best: int, guidance: float | None) -> dict[str, Any]:
    """A request as a server reads it. `exadec/server/schema.py` has the other direction."""
    options = {} if guidance is None else {"guidance": guidance}
    asked = {"k": n_best, "options": options, "coefficients": True, "pieces": True}
    return {"source": request.source, "exemplar": request.exemplar, "group": request.group, **asked}


def load(
    folder: Path | str,
    overrides: Overrides = (),
    device: str | None = None,
    corpus: Path | str | None = None,
    token: str | None = None,
) -> Writer:
    """Open a run folder, a file that `export` wrote, or the model of a server (`http://...`), for writing.

    `overrides` change search settings: `{"search.beam_size": 1}` is greedy search. `device` is cpu, cuda or cuda:N; by
    default a GPU if there is one. `corpus` is the folder of the run's corpus, if it is not where the run says;
    exemplars are retrieved from it. `token` is that of a server; by default it is in the variable `EXADEC_TOKEN`.
    """
    if is_address(folder):
        if overrides or device is not None or corpus is not None:
            raise InputError(f"{folder}: a server has its own settings, device and corpus; leave these out.")
        return RemoteWriter(Service(str(folder), token))
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
