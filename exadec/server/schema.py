"""What comes in over HTTP and what goes out, as the OpenAPI page shows it.

In: bodies in JSON. Out: `Request`s and the other arguments of a `Writer`; the shapes of answers.

`to_request` is the only place where a body becomes a `Request`, and `Generation.to_json` the only one where a text
becomes an answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Strict,
    StringConstraints,
    Tag,
)

from exadec.corpus.record import linearize, says_something
from exadec.request import Request
from exadec.styles import LARGEST, Mixture

_PLAIN = r"[^\x00-\x08\x0B\x0C\x0E-\x1F\x7F]"
"""Any character but a control character; tab and line ends are allowed."""
PlainText = Annotated[str, StringConstraints(pattern=f"^{_PLAIN}*$")]
Text = Annotated[str, StringConstraints(min_length=1, pattern=rf"^{_PLAIN}*[^\s\x00-\x1F\x7F]{_PLAIN}*$")]
"""Text that is not empty or blank."""
Number = Annotated[float, Field(allow_inf_nan=False)]
Cell = PlainText | int | Number
# JSON has no tuples, so a strict tuple would refuse every list.
Pair = Annotated[tuple[PlainText, Cell], Strict(False)]
Triple = Annotated[tuple[PlainText, PlainText, Cell], Strict(False)]
_NAMED: dict[str, Any] = {"type": "string", "pattern": r"\S"}
_SAID: dict[str, Any] = {"anyOf": [{"type": "number"}, _NAMED]}
_SOMETHING_SAID: dict[str, Any] = {"not": {"patternProperties": {r"\S": {"not": _SAID}}}}
"""How the description says of attributes what `_require_content` does."""


def _require_content(table: Any) -> Any:
    if not says_something(table.items() if isinstance(table, dict) else table):
        raise ValueError("no attribute has a name and a value")
    return table


Entries = Annotated[
    list[Pair],
    AfterValidator(_require_content),
    Field(min_length=1, json_schema_extra={"contains": {"prefixItems": [_NAMED, _SAID]}}),
]
Triples = Annotated[
    list[Triple],
    AfterValidator(_require_content),
    Field(min_length=1, json_schema_extra={"contains": {"prefixItems": [{}, _NAMED, _SAID]}}),
]
# Without `additionalProperties`, the description would allow anything under keys with control characters.
Attributes = Annotated[
    dict[PlainText, Cell],
    AfterValidator(_require_content),
    Field(min_length=1, json_schema_extra={"additionalProperties": False, **_SOMETHING_SAID}),
]
Table = Attributes | Entries | Triples
Group = Annotated[Text | None, Field(description="Search only the exemplars of this group: an outlet, an author.")]


def _to_whole(value: Any) -> Any:
    """In JSON, 3.0 is an integer, too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Count = Annotated[int, Field(ge=1, le=100), BeforeValidator(_to_whole)]
ExemplarId = Annotated[str, StringConstraints(pattern=r"^(train|own)-(0|[1-9][0-9]{0,17})$")]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Source(_Body):
    source: Annotated[Text, Field(description="What to say.", examples=["A flood reached Porto on Monday."])]

    @property
    def said(self) -> str:
        return self.source


class _Table(_Body):
    table: Annotated[
        Table,
        Field(
            description="What to say, as attributes with their values, or a list of pairs, or of triples.",
            examples=[{"name": "The Oak", "food": "Thai"}],
        ),
    ]

    @property
    def said(self) -> str:
        entries = self.table.items() if isinstance(self.table, dict) else self.table
        return linearize(tuple(map(str, entry)) for entry in entries)


def _which(body: Any) -> str:
    """Whether a body is read as one with a table; everything else is judged as one with a source."""
    has_table = "table" in body if isinstance(body, dict) else isinstance(body, _Table)
    return "table" if has_table else "source"


_OF_THE_SEARCH = (
    "guidance",
    "manner",
    "choice",
    "temperature",
    "top_p",
    "seed",
    "beam_size",
    "min_length",
    "block_ngram",
    "facts",
)
"""Options that are settings of the search; the others are demands of the request."""


class Options(_Body):
    """Settings of the search, and what a text must and may not say, for this request alone."""

    guidance: Annotated[
        float | None,
        Field(ge=0, le=1000, allow_inf_nan=False, description="How strictly to follow the exemplar; 0 is not at all."),
    ] = None
    manner: Annotated[
        Literal["free", "followed"] | None,
        Field(description="Search with more and more guidance, until the text has the form of its exemplar."),
    ] = None
    choice: Annotated[
        Literal["likeliest", "consensus"] | None,
        Field(description="Take the likeliest text, or the one that those of other retrieved exemplars agree with."),
    ] = None
    temperature: Annotated[
        float | None, Field(ge=0, le=10, allow_inf_nan=False, description="Above 0, words are drawn at random.")
    ] = None
    top_p: Annotated[
        float | None,
        Field(gt=0, le=1, allow_inf_nan=False, description="Draw out of the likeliest words that have this share."),
    ] = None
    seed: Annotated[int | None, Field(ge=0, le=1 << 53, description="Of the draws."), BeforeValidator(_to_whole)] = None
    beam_size: Annotated[
        int | None,
        Field(ge=1, le=10_000, description="At most the server's own; with 1 a streamed text comes word by word."),
        BeforeValidator(_to_whole),
    ] = None
    min_length: Annotated[
        int | None, Field(ge=0, le=100_000, description="In pieces; it is no shorter."), BeforeValidator(_to_whole)
    ] = None
    block_ngram: Annotated[
        int | None,
        Field(ge=0, le=100, description="No sequence of this many pieces comes twice; 0 allows it."),
        BeforeValidator(_to_whole),
    ] = None
    facts: Annotated[
        Literal["off", "mark", "strict"] | None,
        Field(description="Report facts that the source does not license, or write none."),
    ] = None
    beginning: Annotated[Text | None, Field(description="The text begins with these words.")] = None
    required: Annotated[list[Text], Field(max_length=20, description="Phrases that it must have.")] = []
    forbidden: Annotated[list[Text], Field(max_length=100, description="Phrases that it may not have.")] = []
    max_characters: Annotated[
        int | None, Field(ge=1, le=100_000, description="It is no longer."), BeforeValidator(_to_whole)
    ] = None

    @property
    def settings(self) -> tuple[tuple[str, Any], ...]:
        """The settings of the search that are not left to the server, by name."""
        named = {name: getattr(self, name) for name in _OF_THE_SEARCH}
        return tuple((name, value) for name, value in named.items() if value is not None)


class Part(_Body):
    """One exemplar of a mixture."""

    exemplar: Text
    weight: Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False, description="How much it counts.")] = 1.0


class _Write(_Body):
    exemplar: Annotated[
        Text | None, Field(description="Write in the manner of this text. Without it, one is retrieved.")
    ] = None
    mixture: Annotated[
        list[Part] | None,
        Field(
            min_length=1, max_length=LARGEST, description="Write in the manner of several texts: their λ is averaged."
        ),
    ] = None
    style: Annotated[Text | None, Field(description="Write in the house style that was saved under this name.")] = None
    group: Group = None
    k: Annotated[Count, Field(description="How many texts, the best first; at most the beam size.")] = 1
    options: Options = Options()
    coefficients: Annotated[bool, Field(description="Answer with the coefficients λ of the exemplar.")] = False
    pieces: Annotated[bool, Field(description="Answer with the pieces of the text, and those it could copy.")] = False
    explain: Annotated[bool, Field(description="Answer with attention and copy gate, and with the pieces.")] = False
    stream: Annotated[bool, Field(description="Answer with server-sent events as the text is written.")] = False


class WriteSource(_Write, _Source):
    """Write a text from a source."""


class WriteTable(_Write, _Table):
    """Write a text from a table."""


class _Vary(_Body):
    group: Group = None
    k: Annotated[Count, Field(description="How many different texts at most.")] = 5
    options: Options = Options()
    coefficients: Annotated[bool, Field(description="Answer with the coefficients λ of the exemplars.")] = False
    pieces: Annotated[bool, Field(description="Answer with the pieces of each text, and those it could copy.")] = False


class VarySource(_Vary, _Source):
    """Write several texts from a source."""


class VaryTable(_Vary, _Table):
    """Write several texts from a table."""


class _Retrieve(_Body):
    group: Group = None
    k: Annotated[Count, Field(description="How many exemplars at most, the nearest first.")] = 1


class RetrieveSource(_Retrieve, _Source):
    """Find exemplars for a source."""


class RetrieveTable(_Retrieve, _Table):
    """Find exemplars for a table."""


class _Accept(_Body):
    target: Annotated[Text, Field(description="The text that was accepted: how it was said.")]
    group: Annotated[Text | None, Field(description="Whose voice this is.")] = None


class AcceptSource(_Accept, _Source):
    """Accept a text that was written from a source."""


class AcceptTable(_Accept, _Table):
    """Accept a text that was written from a table."""


def _either(source: type[_Body], table: type[_Body]) -> Any:
    """A body with a source or a table, never both: errors are those of the one that was meant."""
    return Annotated[Annotated[source, Tag("source")] | Annotated[table, Tag("table")], Discriminator(_which)]


def to_request(body: WriteSource | WriteTable | VarySource | VaryTable) -> Request:
    """What the body asks to be written."""
    options = body.options
    request = Request(
        body.said,
        group=body.group,
        beginning=options.beginning,
        required=tuple(options.required),
        forbidden=tuple(options.forbidden),
        max_characters=options.max_characters,
    )
    if not isinstance(body, _Write):
        return request
    mixture = None if body.mixture is None else to_mixture(body.mixture)
    return replace(request, exemplar=body.exemplar, mixture=mixture, style=body.style)


def to_mixture(parts: Sequence[Part]) -> Mixture:
    return Mixture(tuple((part.exemplar, part.weight) for part in parts))


class Exemplar(BaseModel):
    id: str | None
    """None for one that was given with the request."""
    text: str
    similarity: float | None
    """Cosine between the two sources; None for one that was given."""


class Alternative(BaseModel):
    text: str
    score: float


class Fact(BaseModel):
    """Something that a text states."""

    words: str
    begin: int
    end: int
    kind: str
    licensed: Annotated[bool, Field(description="Whether the source has it, in whatever form.")]


class Attended(BaseModel):
    text: str
    weight: float


class Word(BaseModel):
    text: str
    start: int
    end: int
    origin: Annotated[
        Literal["source", "exemplar", "other"],
        Field(description="`exemplar`: a content word that the exemplar has and the source has not."),
    ]
    fact: Annotated[
        Literal["licensed", "unlicensed"] | None, Field(description="Whether the source states it; null if unchecked.")
    ]
    copied: Annotated[float | None, Field(description="Probability that it was copied; null without copying.")]
    attended: Annotated[list[Attended], Field(description="The words with the most attention, the most first.")]


class Written(BaseModel):
    """One text; `Generation` says what the fields mean."""

    text: str
    score: float
    exemplar: Exemplar | None
    exemplars: list[str]
    similarity: float | None
    alternatives: list[Alternative]
    truncated: int
    exemplar_truncated: int
    facts: Annotated[
        list[Fact] | None, Field(description="What the text states; null if the server runs with search.facts=off.")
    ] = None
    coefficients: Annotated[
        list[float] | list[list[float]] | None, Field(description="On request. One list, or one for each gate.")
    ] = None
    pieces: Annotated[list[str], Field(description="On request.")] = []
    memory: Annotated[list[str], Field(description="On request: the pieces that could be copied.")] = []
    attention: Annotated[
        list[list[float]] | None, Field(description="On request: for each piece, a weight for each of the memory.")
    ] = None
    copy_gate: Annotated[
        list[float] | None, Field(description="On request: probability that each piece was copied.")
    ] = None
    words: Annotated[list[Word], Field(description="With `explain`: where each word of the text comes from.")] = []


class Varied(BaseModel):
    texts: Annotated[list[Written], Field(description="All different, the best score first.")]


class Retrieved(BaseModel):
    exemplars: list[Exemplar]


class AcceptedId(BaseModel):
    id: str


class KeptExemplar(BaseModel):
    id: str
    text: str
    group: str | None


class CountedGroup(BaseModel):
    name: str
    exemplars: int


class Groups(BaseModel):
    count: Annotated[int, Field(description="How many fit, shown or not.")]
    groups: Annotated[list[CountedGroup], Field(description="Those with the most exemplars first.")]


class Example(BaseModel):
    source: Annotated[str, Field(description="What to say; of a record with a table, the table in one line.")]
    table: Annotated[
        list[tuple[str, str] | tuple[str, str, str]] | None,
        Field(
            description="The table of a record that has one: pairs, or triples. A body takes it instead of `source`."
        ),
    ]
    group: str | None


class Examples(BaseModel):
    examples: list[Example]


class Model(BaseModel):
    """What runs here."""

    exadec: Annotated[str, Field(description="The version of exadec.")]
    variant: str
    created: Annotated[str | None, Field(description="The day on which training began.")]
    vocabulary: int
    parameters: int
    device: str
    beam_size: Annotated[int, Field(description="Of the search; `k` and `beam_size` of a request are no larger.")]
    batch_size: Annotated[int, Field(description="Texts that are written together at most.")]
    max_source: Annotated[int, Field(description="Pieces of a source that are read; the rest is cut.")]
    max_target: Annotated[int, Field(description="Pieces of an exemplar that are read; the rest is cut.")]
    max_length: Annotated[int, Field(description="Pieces of a text that is written.")]
    max_bytes: Annotated[int, Field(description="Of a body (413).")]
    max_waiting: Annotated[int, Field(description="Requests that may wait at a time (429).")]
    max_seconds: Annotated[float, Field(description="Until a request is answered (503).")]
    reads_exemplars: bool
    adapts: bool
    copies: bool
    told_groups: Annotated[bool, Field(description="Whether the model itself reads the group.")]
    group_count: Annotated[int, Field(description="Groups of the training records.")]
    groups: Annotated[list[str], Field(description="At most 20, the most frequent first; /v1/groups has them all.")]
    exemplars: Annotated[int | None, Field(description="How many can be found; null if none can be retrieved.")]
    policy: str
    guidance: float
    manner: str
    facts: Annotated[str, Field(description="What is done about facts that a source does not license.")]
    takes_guidance: Annotated[bool, Field(description="Whether it was trained to write without an exemplar, too.")]


class Health(BaseModel):
    status: str


class Problem(BaseModel):
    """What went wrong, in one line."""

    error: str


WriteBody = _either(WriteSource, WriteTable)
VaryBody = _either(VarySource, VaryTable)
RetrieveBody = _either(RetrieveSource, RetrieveTable)
AcceptBody = _either(AcceptSource, AcceptTable)
