"""Training a run and writing text with it, from Python.

In: a configuration; or a run folder, then sources and exemplars as text. Out: a `Run`; or `Generation`s.
"""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path
from queue import Queue
from threading import Event, Thread
from typing import TypeVar, overload

import numpy as np
import torch

from exadec.bank import ROWS, bank_folder, mix_coefficients, open_bank
from exadec.bundle.packed import PackedRun, open_folder_or_bundle
from exadec.config import LARGEST_SEED, Config, SearchConfig, refuse_search
from exadec.corpus.prepare import Report, silent
from exadec.corpus.record import name_kind
from exadec.corpus.vocabulary import BOS, EOS, NONE, SPECIALS, PieceTable
from exadec.errors import InputError, RequestError
from exadec.exemplars.retriever import Retriever
from exadec.generation import Explanation, Generation, TellText, cut_into_parts, require_n_best
from exadec.inputs import Input, Inputs, or_error
from exadec.loading.batch import Instance, collate
from exadec.model.seq2seq import Seq2seq
from exadec.remote.methods import RemoteMethods
from exadec.remote.service import Service, is_address
from exadec.request import (
    Request,
    complete_request,
    no_exemplar,
    request_to_vary,
    require_exemplars,
    require_number_of_exemplar,
    require_requests,
    require_sources,
)
from exadec.search.beam import Hypothesis
from exadec.search.choosing import search_texts
from exadec.search.following import Judge
from exadec.search.generate import Task, texts_at_once
from exadec.search.guidance import find_form
from exadec.search.rules import Rule
from exadec.search_config import with_guidance
from exadec.settings import load_config
from exadec.strict_yaml import Overrides
from exadec.styles import Mixture, Styles
from exadec.training.checkpoint import Run
from exadec.training.trainer import Observer
from exadec.training.trainer import train as train_run

One = TypeVar("One")
_MOST_TRIED = 100
"""Exemplars that are tried for texts that differ; a server finds no more at a time"""


class _LeftError(Exception):
    """Nobody reads the stream any more."""


class Writer:
    """A trained model that turns sources into text; `load` returns one."""

    def __init__(self, run: Run, model: Seq2seq | None = None, retriever: Retriever | None = None):
        """`model` is the run's model, if it is already loaded. `retriever` takes the place of the run's own."""
        self.run = run
        self.model = model or run.load_model()
        if retriever is not None:
            self._retriever = retriever

    @cached_property
    def reads_exemplars(self) -> bool:
        """Whether the exemplar makes a difference; to a plain Seq2seq it makes none."""
        return self.run.config.model.reads_exemplars

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        """Retrieve an exemplar from the training data for each source; returns its text, as the model reads it, and its
        similarity. With a group, only training targets of that group (an outlet, an author) are searched.
        """
        require_sources(sources, group)
        found = self._retriever.find(sources, group)
        return [(self._inputs.found_text(one), one.similarity) for one in found]

    def exemplar_text(self, number: int) -> str:
        """The text of an exemplar that the retriever found, as the model reads it."""
        require_number_of_exemplar(number)
        try:
            return self._inputs.text(number)
        except IndexError:
            raise no_exemplar(number) from None

    @cached_property
    def _retriever(self) -> Retriever:
        return self.run.open_retriever()

    @cached_property
    def _inputs(self) -> Inputs:
        return Inputs(self.run, lambda: self._retriever, self.styles)

    @cached_property
    def styles(self) -> Styles:
        """The house styles that were saved for this run: `writer.styles.save("brief", Mixture.of([...]))`."""
        return self.run.styles

    def bank(self, report: Report = silent) -> np.ndarray:
        """(training targets, 1 or G, R) float16: λ of all training targets, as when they are given as exemplars.

        Unless the run is a file with a bank inside, it is made when it is first asked for, in a folder beside the
        run's. It is mapped into memory.
        """
        inside = self.run.open_bank(self.model) if isinstance(self.run, PackedRun) else None
        if inside is not None:
            return inside
        targets = self._retriever.corpus.targets("train")
        return open_bank(bank_folder(self.run.folder), self.model, targets, self._inputs.as_given, report)

    def read_coefficients(self, exemplars: Sequence[str]) -> list[np.ndarray | None]:
        """(1 or G, R): λ of each text, as when it is given as an exemplar; None if it has no word the model knows."""
        require_exemplars(exemplars)
        self._inputs.refuse_mixture()
        table = PieceTable(self.run.vocabulary)
        read = [or_error(self._inputs.read_given, text, table) for text in exemplars]
        lam: list[np.ndarray | None] = []
        for start in range(0, len(read), ROWS):
            part = read[start : start + ROWS]
            mixtures = [None if isinstance(one, RequestError) else [(one[0], 1.0)] for one in part]
            found = mix_coefficients(self.model, mixtures)
            values = iter(found.cpu().numpy()) if found is not None else iter([None] * len(part))
            lam += [None if one is None else value for one, value in zip(mixtures, values, strict=True)]
        return lam

    def save_style(self, name: str, mixture: Mixture) -> None:
        """Save a house style, unless the model could not write in it."""
        self._inputs.refuse_mixture()
        for text, _ in mixture.parts:
            self._inputs.refuse(text, None)
        self.styles.save(name, mixture)

    @overload
    def write(
        self,
        source: str | Request,
        exemplar: str | None = None,
        n_best: int = 1,
        group: str | None = None,
        guidance: float | None = None,
    ) -> Generation: ...

    @overload
    def write(
        self,
        source: list[str | Request] | list[str] | list[Request] | tuple[str | Request, ...],
        exemplar: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> list[Generation]: ...

    def write(
        self,
        source: str | Request | Sequence[str | Request],
        exemplar: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> Generation | list[Generation]:
        """Say what the source says in the manner of the exemplar. Without one, retrieve it from the training targets.

        A list of sources gives a list of texts, as `write_all` does. With a group, retrieve the exemplar only from that
        group's targets, to write in its house style. A model that was trained with `corpus.group_in_source` is told the
        group, too; a group that it does not know is an error. `guidance` is for this call and takes the place of
        `search.guidance`: the higher, the more strictly the exemplar is followed. A source may be a `Request` with
        demands of its own: `write(Request(source, max_characters=60))`.
        """
        if isinstance(source, str | bytes) or not isinstance(source, Sequence):
            return self.write_all([source], exemplar, n_best, group, guidance)[0]
        return self.write_all(source, exemplar, n_best, group, guidance)

    def write_all(
        self,
        sources: Sequence[str | Request],
        exemplars: str | Sequence[str | None] | None = None,
        n_best: int = 1,
        group: str | Sequence[str | None] | None = None,
        guidance: float | None = None,
    ) -> list[Generation]:
        """`write` for many sources at once. An exemplar, or a group, is one for all or a list with one for each."""
        if isinstance(sources, str):
            raise ValueError("`sources` is one text, not a list of texts; `write` takes one.")
        if not isinstance(sources, Sized):
            raise InputError(f"`sources` must be a list of texts, but is {name_kind(sources)}.")
        each = [_one_for_each(*one, len(sources)) for one in (("exemplars", exemplars), ("group", group))]
        requests = [*map(complete_request, sources, *each)]
        results = []
        for result in self.answer(requests, n_best, guidance):
            if isinstance(result, RequestError):
                raise result
            results.append(result)
        return results

    def stream(
        self,
        source: str | Request,
        exemplar: str | None = None,
        group: str | None = None,
        search: SearchConfig | None = None,
    ) -> Iterator[str]:
        """The text of `write`, in parts, each as soon as the search can no longer change it.

        With a beam of 1, or if words are drawn, that is word by word. A wider beam has to agree first. With demands or
        strict facts the text may come in one piece. `search` takes the place of the run's settings. Closing the stream
        ends the search with its next word.
        """
        request = complete_request(source, exemplar, group)
        parts: Queue[str | BaseException | Generation | RequestError] = Queue()
        left = Event()

        def tell(_: int, text: str) -> None:
            if left.is_set():
                raise _LeftError
            parts.put(text)

        def write() -> None:
            try:
                [result] = self.answer([request], search=search, tell=tell)
                parts.put(result)
            except BaseException as error:  # the reader of the stream gets it
                parts.put(error)

        def beginnings() -> Iterator[str]:
            while isinstance(part := parts.get(), str):
                yield part
            if not isinstance(part, Generation):
                raise part
            yield part.text

        Thread(target=write, daemon=True).start()
        try:
            yield from cut_into_parts(beginnings())
        finally:
            left.set()

    def vary(
        self,
        source: str | Request,
        count: int,
        group: str | None = None,
        guidance: float | None = None,
        search: SearchConfig | None = None,
    ) -> list[Generation]:
        """Up to `count` different texts, each in the manner of one of the nearest exemplars, the best score first.

        They differ more than the best texts of one search do. With a group, exemplars come only from it. `guidance` and
        `search` are as in `answer`. A source may be a `Request` with demands; an exemplar with which no text fulfils
        them is left out. If that is so with all of them, the error of the first one is raised.
        """
        request = request_to_vary(source, count, group)
        search = search or self.run.config.search
        if guidance is not None:
            search = with_guidance(search, guidance)
        if not self.reads_exemplars:
            raise RequestError(
                f"this model ({self.run.config.model.variant}) does not read exemplars, so its texts do not vary with "
                "them; ask for the best texts of one search."
            )
        exemplars = self._find_several(request.source, request.group, min(_MOST_TRIED, 8 * count))
        told = replace(request, group=request.group if self._tells_groups else None)
        found: dict[str, Generation] = {}
        errors: list[RequestError] = []
        for start in range(0, len(exemplars), count):
            some = list(exemplars)[start : start + count]
            asked = [replace(told, exemplar=exemplar) for exemplar in some]
            for exemplar, one in zip(some, self.answer(asked, search=search), strict=True):
                if isinstance(one, RequestError):
                    errors.append(one)
                else:
                    found.setdefault(one.text, one.found_as(*exemplars[exemplar]))
            if len(found) >= count:
                break
        if errors and not found:
            raise errors[0]
        return sorted(list(found.values())[:count], key=lambda one: -one.score)

    @property
    def _tells_groups(self) -> bool:
        return self.run.config.corpus.group_in_source

    def _find_several(self, source: str, group: str | None, count: int) -> dict[str, tuple[str, float]]:
        """Different texts out of those of the nearest exemplars, the nearest first, with their ids and similarities."""
        texts: dict[str, tuple[str, float]] = {}
        for number, similarity in self._retriever.find_several([source], group, count)[0]:
            if number is not None:
                texts.setdefault(self._inputs.text(number), (self._retriever.name(number), similarity))
        return texts

    def refuse(self, exemplar: str | None = None, group: str | None = None) -> None:
        """Raise the error that every request with this exemplar or this group would get, whatever its source.

        With neither of them, every request looks for an exemplar.
        """
        self._inputs.refuse(exemplar, group)

    def answer(
        self,
        requests: Sequence[Request],
        n_best: int = 1,
        guidance: float | None = None,
        search: SearchConfig | None = None,
        tell: TellText | None = None,
    ) -> list[Generation | RequestError]:
        """One result for each request, in their order: a text, or the reason why there is none.

        What is wrong with one request does not disturb the others. If exemplars cannot be retrieved, requests that need
        one have that error. Any other file that is damaged or gone is an error for all.
        `search` takes the place of the run's settings. `tell` is called with a request's number and the beginning of
        its text, as soon as the search can no longer change it.
        """
        require_requests(requests)
        search = search or self.run.config.search
        require_n_best(n_best, search.beam_size)
        if guidance is not None:
            search = with_guidance(search, guidance)
        refuse_search(search, self.run.config.model)
        results: dict[int, Generation | RequestError] = {}
        if search.temperature > 0:
            told = "required phrases need a search, but `search.temperature` draws texts at random; set it to 0."
            results = {number: RequestError(told) for number, one in enumerate(requests) if one.required}
        rest = (number for number in range(len(requests)) if number not in results)
        by_length = sorted(rest, key=lambda number: len(requests[number].source))
        size = texts_at_once(self.model, search)
        for start in range(0, len(by_length), size):
            numbers = by_length[start : start + size]
            table = PieceTable(self.run.vocabulary)
            inputs = self._inputs.read([requests[number] for number in numbers], table, search.facts == "strict")
            sound = [one for one in inputs if isinstance(one, Input)]
            places = [number for number, one in zip(numbers, inputs, strict=True) if isinstance(one, Input)]
            hear = None if tell is None else partial(_tell_as, tell, places)
            written = iter(self._write_batch(sound, table, search, n_best, hear) if sound else ())
            results |= {
                number: one if isinstance(one, RequestError) else next(written)
                for number, one in zip(numbers, inputs, strict=True)
            }
        return [results[number] for number in range(len(requests))]

    def _write_batch(
        self, inputs: Sequence[Input], table: PieceTable, search: SearchConfig, n_best: int, tell: TellText | None
    ) -> list[Generation | RequestError]:
        batch = collate([one.instance for one in inputs], len(self.run.vocabulary), self._copies_exemplar)
        rules = [one.rule for one in inputs]
        free = all(type(rule) is Rule for rule in rules)
        seeds = [(one.seed + search.seed) % LARGEST_SEED for one in inputs]

        def to_text(ids: list[int]) -> str:
            return self.run.segmenter.join(table.decode(ids))

        def tell_text(place: int, ids: list[int]) -> None:
            assert tell is not None
            tell(place, to_text(ids))

        told = None if tell is None else tell_text
        mixed = mix_coefficients(self.model, [one.shown.mixture for one in inputs])
        form = find_form(self.run.vocabulary, self.run.segmenter, next(self.model.parameters()).device)
        obeyed = None if free else rules
        judges = [Judge.of(one.shown.texts, to_text) for one in inputs] if search.manner == "followed" else None
        task = Task(batch, obeyed, seeds, mixed, judges, [one.opening for one in inputs])
        found, coefficients = search_texts(self.model, task, search, n_best, told, form)
        lam = None if coefficients is None else coefficients.cpu().numpy()  # (B, 1 or G, R)
        return [
            or_error(self._generation, one, hypotheses, table, None if lam is None else lam[i], search.facts != "off")
            for i, (one, hypotheses) in enumerate(zip(inputs, found, strict=True))
        ]

    def _generation(
        self,
        one: Input,
        hypotheses: Sequence[Hypothesis],
        table: PieceTable,
        lam: np.ndarray | None,
        marking: bool,
    ) -> Generation:
        if not hypotheses:
            raise RequestError("no text met all demands; drop one, or raise search.beam_size.")
        (text, score), *others = ((self.run.segmenter.join(table.decode(best.ids)), best.score) for best in hypotheses)
        instance = replace(one.instance, target=np.array(hypotheses[0].ids, np.int64))
        memory = [instance.source, *instance.exemplars] if self._copies_exemplar else [instance.source]
        return Generation(
            text=text,
            score=score,
            exemplar=one.shown.texts[0] if one.shown.texts else None,
            exemplars=one.shown.texts,
            similarity=one.shown.similarity,
            pieces=[*table.decode(hypotheses[0].ids), SPECIALS[EOS]],
            memory=[piece for ids in memory for piece in table.decode(ids.tolist()) or [SPECIALS[NONE]]],
            coefficients=lam[0] if lam is not None and len(lam) == 1 else lam,
            alternatives=others,
            truncated=one.truncated,
            exemplar_truncated=one.shown.truncated,
            exemplar_id=one.shown.id,
            facts=self._inputs.check_facts(one, text) if marking else None,
            explain=partial(self._explain, instance, None if one.shown.mixture is None else lam),
        )

    def _explain(self, instance: Instance, mixed: np.ndarray | None) -> Explanation:
        """Run the model over one instance again, with its finished text as the target."""
        batch = collate([instance], len(self.run.vocabulary), self._copies_exemplar)
        batch = batch.to(next(self.model.parameters()).device)
        with torch.no_grad():
            given = None if mixed is None else torch.from_numpy(mixed)[None].to(batch.source.device)
            state = self.model.read(batch, given)
            mixture = self.model.explain(state, batch.target_input)
        if mixture.weights is None or mixture.log_copy is None:
            return Explanation(None, None)
        # Several exemplars of different lengths are padded, and those that are given have a begin symbol: no piece.
        shown = state.memory.mask[0] & (state.memory.ids[0] != BOS)
        return Explanation(mixture.weights[0][:, shown].cpu().numpy(), mixture.log_copy[0].exp().cpu().numpy())

    @property
    def _copies_exemplar(self) -> bool:
        return self.run.config.model.attend_exemplar


def _one_for_each(name: str, given: str | Sequence[str | None] | None, count: int) -> Sequence[str | None]:
    """One value for all, or a list with one for each of the sources. What is no text is refused later, as a value."""
    if isinstance(given, str) or not isinstance(given, Sized):
        return [given] * count
    if len(given) != count:
        raise ValueError(f"`{name}` must be as long as `sources`, {count}, but has length {len(given)} instead.")
    return given


def _tell_as(tell: TellText, numbers: Sequence[int], place: int, text: str) -> None:
    tell(numbers[place], text)


class RemoteWriter(RemoteMethods, Writer):
    """The model of a server. It writes and retrieves as a `Writer` does, but has no run and no model to look at."""


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
    if not isinstance(folder, str | PathLike):
        raise InputError(f"`folder` must be the path of a run or the address of a server, but is {folder!r}.")
    if is_address(folder):
        given = [name for name, one in (("settings", overrides), ("device", device), ("corpus", corpus)) if one]
        if given:
            raise InputError(f"{folder}: a server has its own {' and '.join(given)}; leave yours out.")
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
