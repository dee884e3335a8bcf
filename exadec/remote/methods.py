"""What a `Writer` does, done by asking a server.

In: a `Service`, and the arguments of a `Writer`'s methods. Out: what the methods of a `Writer` of the same run return,
and the errors that they raise.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Never
from urllib.parse import quote

import numpy as np

from exadec.config import SearchConfig
from exadec.corpus.prepare import Report, silent
from exadec.errors import InputError, RequestError
from exadec.generation import Explanation, Generation, TellText, cut_into_parts, explanation_from_json, require_n_best
from exadec.remote.answers import (
    COEFFICIENTS,
    EXEMPLAR,
    EXPLAINED,
    MODEL,
    RETRIEVED,
    STYLE,
    STYLES,
    VARIED,
    WRITTEN,
)
from exadec.remote.service import MissingError, Service
from exadec.request import (
    Request,
    complete_request,
    find_blank,
    no_exemplar,
    request_to_vary,
    require_exemplars,
    require_number_of_exemplar,
    require_requests,
    require_sources,
)
from exadec.search_config import with_guidance
from exadec.styles import Mixture, Styles, require_style_name

_MOST = 100
"""Texts that a server varies, or reads, at a time"""


class RemoteMethods:
    """Write and retrieve by asking a server. The run and the model themselves stay with the server."""

    def __init__(self, service: Service):
        self._service = service
        self._about: dict[str, Any] = service.ask("/v1/model", MODEL)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # copying and pickling ask for these before there is a service
        raise AttributeError(
            f"{self._service.address}: a server sends texts, and keeps its run and its model to itself, so there is no "
            f"`{name}` here; load the run itself."
        )

    @cached_property
    def reads_exemplars(self) -> bool:
        return bool(self._about["reads_exemplars"])

    def retrieve(self, sources: Sequence[str], group: str | None = None) -> list[tuple[str | None, float]]:
        require_sources(sources, group)
        bodies = [{"source": source, "group": group, "k": 1} for source in sources]
        results: list[tuple[str | None, float]] = []
        for answer in self._service.ask_all("/v1/retrieve", RETRIEVED, bodies):
            if isinstance(answer, RequestError):
                raise answer
            found = answer["exemplars"]
            results.append((found[0]["text"], found[0]["similarity"]) if found else (None, 0.0))
        return results

    def exemplar_text(self, number: int) -> str:
        """That of a training record. Texts that the server has accepted have no number here, but an id."""
        require_number_of_exemplar(number)
        try:
            return str(self._service.ask(f"/v1/exemplars/train-{number}", EXEMPLAR)["text"])
        except MissingError:
            raise no_exemplar(number) from None

    @cached_property
    def styles(self) -> Styles:
        return RemoteStyles(self._service)

    def bank(self, report: Report = silent) -> np.ndarray:
        raise InputError(
            f"{self._service.address}: a server does not send λ of all training targets, which can be gigabytes; ask "
            "for those of some texts with `read_coefficients`, or load the run itself."
        )

    def read_coefficients(self, exemplars: Sequence[str]) -> list[np.ndarray | None]:
        require_exemplars(exemplars)
        starts = range(0, max(1, len(exemplars)), _MOST)  # without any, the server still says whether it could
        parts = [{"texts": exemplars[start : start + _MOST]} for start in starts]
        lam: list[np.ndarray | None] = []
        for answer in self._service.ask_all("/v1/coefficients", COEFFICIENTS, parts):
            if isinstance(answer, RequestError):
                raise answer
            lam += [None if one is None else np.array(one, np.float32) for one in answer["coefficients"]]
        return lam

    def save_style(self, name: str, mixture: Mixture) -> None:
        self.styles.save(name, mixture)

    def refuse(self, exemplar: str | None = None, group: str | None = None) -> None:
        """The server says it when it is asked for a text."""
        [found] = self.answer([Request("-", exemplar, group)])
        if isinstance(found, RequestError):
            raise found

    def answer(
        self,
        requests: Sequence[Request],
        n_best: int = 1,
        guidance: float | None = None,
        search: SearchConfig | None = None,
        tell: TellText | None = None,
    ) -> list[Generation | RequestError]:
        require_requests(requests)
        if tell is not None:
            raise RequestError("a server does not tell of several texts while it writes; `stream` gives one in parts.")
        _refuse_settings(search)
        require_n_best(n_best, self._about["beam_size"])
        blank = [find_blank(request) for request in requests]
        bodies = [
            self._body(one, n_best, guidance) for one, error in zip(requests, blank, strict=True) if error is None
        ]
        asked = zip(bodies, self._service.ask_all("/v1/write", WRITTEN, bodies), strict=True)
        return [self._received(*next(asked)) if error is None else error for error in blank]

    def _received(self, body: dict[str, Any], answer: dict[str, Any] | RequestError) -> Generation | RequestError:
        if isinstance(answer, RequestError):
            return answer
        return Generation.from_json(answer, partial(self._ask_why, body, answer))

    def stream(
        self,
        source: str | Request,
        exemplar: str | None = None,
        group: str | None = None,
        search: SearchConfig | None = None,
    ) -> Iterator[str]:
        _refuse_settings(search)
        request = complete_request(source, exemplar, group)
        if (blank := find_blank(request)) is not None:
            raise blank
        events = self._service.listen("/v1/write", {**self._body(request, 1, None), "stream": True})
        return cut_into_parts(data["text"] for name, data in events if name in ("text", "done"))

    def vary(
        self,
        source: str | Request,
        count: int,
        group: str | None = None,
        guidance: float | None = None,
        search: SearchConfig | None = None,
    ) -> list[Generation]:
        _refuse_settings(search)
        request = request_to_vary(source, count, group)
        what = self._body(request, min(count, _MOST), guidance)
        asked = {name: value for name, value in what.items() if name not in ("exemplar", "mixture", "style")}
        answers = self._service.ask("/v1/vary", VARIED, asked)["texts"]
        bodies = [self._body(replace(request, exemplar=one["exemplar"]["text"]), 1, guidance) for one in answers]
        return [
            Generation.from_json(one, partial(self._ask_why, body, one))
            for body, one in zip(bodies, answers, strict=True)
        ]

    def _body(self, request: Request, n_best: int, guidance: float | None) -> dict[str, Any]:
        """A request as a server reads it. `exadec/server/schema.py` has the other direction."""
        options: dict[str, Any] = {}
        if guidance is not None:
            options["guidance"] = with_guidance(SearchConfig(), guidance).guidance
        demands = ("beginning", "required", "forbidden", "max_characters")
        options |= {name: value for name in demands if (value := getattr(request, name))}
        asked = {"k": n_best, "options": options, "coefficients": True, "pieces": True}
        mixture = request.mixture
        parts = None if mixture is None else [{"exemplar": one, "weight": w} for one, w in mixture.parts]
        how = {"exemplar": request.exemplar, "group": request.group, "mixture": parts, "style": request.style}
        if request.exemplar is not None and request.group is not None and not self._about["told_groups"]:
            del how["group"]  # it would only say where to look for an exemplar
        return {"source": request.source, **how, **asked}

    def _ask_why(self, body: dict[str, Any], answer: dict[str, Any]) -> Explanation:
        again = self._service.ask("/v1/write", EXPLAINED, {**body, "explain": True})
        if (again["text"], again["exemplars"]) != (answer["text"], answer["exemplars"]):
            raise RequestError("the server's exemplars have changed since this was written; write it again.")
        return explanation_from_json(again)


class RemoteStyles(Styles):
    """The house styles of a server's run."""

    def __init__(self, service: Service):
        self._service = service

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(f"the styles of a server have no `{name}` here: their file is the server's.")

    def all(self) -> dict[str, Mixture]:
        return {
            one["name"]: Mixture(tuple((part["exemplar"], part["weight"]) for part in one["exemplars"]))
            for one in self._service.ask("/v1/styles", STYLES)["styles"]
        }

    def save(self, name: str, mixture: Mixture) -> None:
        require_style_name(name)
        parts = [{"exemplar": text, "weight": weight} for text, weight in mixture.parts]
        self._service.ask(f"/v1/styles/{quote(name, safe='')}", STYLE, {"exemplars": parts}, "PUT")

    def remove(self, name: str) -> None:
        self.get(name)
        self._service.ask(f"/v1/styles/{quote(name, safe='')}", None, method="DELETE")


def _refuse_settings(search: SearchConfig | None) -> None:
    if search is not None:
        raise RequestError("a server searches with its own settings; leave `search` out, or load the run itself.")
