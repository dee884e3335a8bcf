"""The model card of a bundle: what the model is, how good it is, what it is not for.

In: a run and what is known of it. Out: Markdown.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version

from exadec.bank import FILE as BANK
from exadec.bundle.packed import INDEX, RECORDS, WEIGHTS
from exadec.corpus.readers import known_styles
from exadec.errors import InputError
from exadec.textmetrics import Measured
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.evaluation import measure_outputs, outputs_path, read_outputs

_TRAINED = ("epochs", "batch_size", "learning_rate", "patience", "seed", "metric", "watch", "evaluation_size")


@dataclass(frozen=True)
class Contents:
    """What is in the file."""

    data_set: str
    """What the model was trained on, by name"""
    precision: str
    weights: int
    """How many numbers"""
    records: int | None
    """How many training targets come along; None for none"""
    sizes: Mapping[str, int]
    """Bytes of each member but this card and the manifest"""
    styles: tuple[str, ...] = ()
    """The names of house styles"""

    def describe_sizes(self) -> str:
        """Of what there is much of: `weights 1,249,688 bytes, exemplars and index 18,175,000, the rest 95,000`."""
        largest = self.sizes.get(WEIGHTS, 0)
        exemplars = sum(size for name, size in self.sizes.items() if name in RECORDS or name.startswith(f"{INDEX}/"))
        bank = self.sizes.get(BANK, 0)
        among = f", exemplars and index {exemplars:,}" if self.records is not None else ""
        among += f", λ of all exemplars {bank:,}" if bank else ""
        rest = sum(self.sizes.values()) - largest - exemplars - bank
        return f"weights {largest:,} bytes{among}, the rest {rest:,}"


def write_card(run: Run, contents: Contents, today: date) -> str:
    """The card of a run that is packed with these contents."""
    lines = [
        f"# {contents.data_set}: {run.config.model.variant}",
        "",
        "A model that says what a source says in the manner of an exemplar. exadec made this file and opens it:",
        "`exadec generate FILE`, or `exadec.load(FILE)` in Python.",
        "",
        *_table("what", "value", _facts(run, contents, today)),
        "",
        "## Training",
        "",
        *_table("setting", "value", _settings(run)),
        "",
        "## Scores",
        "",
        *_scores(run, contents.precision),
        "",
        "## What it reads, and what it does not",
        "",
        *(f"- {line}" for line in _limits(run, contents)),
    ]
    return "\n".join(lines) + "\n"


def _table(first: str, second: str, rows: list[tuple[str, object]]) -> list[str]:
    cells = ((left, str(right).replace("|", "\\|").replace("\n", " ")) for left, right in rows)
    return [f"| {first} | {second} |", "|---|---|", *(f"| {left} | {right} |" for left, right in cells)]


def _size(run: Run, split: str) -> int | None:
    """How many records a split has; None if the corpus is not there: a run is exported without it, too."""
    try:
        return open_corpus(run).size(split)
    except InputError:
        return None


def _reads_tables(run: Run) -> bool:
    """Whether all training records have tables, as far as that is known."""
    try:
        corpus = open_corpus(run)
        return corpus.contents("train")["tables"] == corpus.size("train")
    except InputError:
        return False


def _facts(run: Run, contents: Contents, today: date) -> list[tuple[str, object]]:
    config, records, size = run.config, contents.records, _size(run, "train")
    model, corpus = config.model, config.corpus
    trained_on = "not known: the corpus was not there" if size is None else f"{size:,} records"
    if _reads_tables(run):
        trained_on += ", all of them with tables"
    inside = "none" if records is None else f"{records:,} training targets, with an index of their sources"
    return [
        ("data set", f"{contents.data_set} (format {corpus.format})"),
        ("trained on", trained_on),
        ("model", f"{model.variant}: {model.cell}, hidden {model.hidden}, embedding {model.embedding}"),
        ("weights", f"{contents.weights:,} numbers, {contents.precision}"),
        ("vocabulary", f"{len(run.vocabulary):,} pieces ({corpus.segmentation})"),
        ("exemplars inside", inside),
        ("house styles inside", ", ".join(contents.styles) or "none"),
        ("size", contents.describe_sizes()),
        ("written", f"{today.isoformat()}, with exadec {version('exadec')}"),
        ("corpus", f"`{run.facts['corpus']}`"),
    ]


def _settings(run: Run) -> list[tuple[str, object]]:
    config = run.config
    rows: list[tuple[str, object]] = [(f"training.{name}", getattr(config.training, name)) for name in _TRAINED]
    rows += [("exemplars.policy", config.exemplars.policy), ("preset", config.preset)]
    rows += [(name, run.facts[name]) for name in ("backend", "precision", "torch") if name in run.facts]
    try:
        best = run.best_evaluation()
        sample = f" ({best.sample} instances)" if best.sample else ""
        rows.append((f"best {config.training.metric} on the development set", f"{best.value:.2f}{sample}"))
    except InputError:  # metrics are not needed for anything else
        pass
    return rows


def _scores(run: Run, precision: str) -> list[str]:
    lines: list[str] = []
    for split in ("test", "valid"):
        path = outputs_path(run.folder, split)
        if not path.is_file():
            continue
        outputs = read_outputs(path)
        if not outputs:
            continue
        measured = measure_outputs(outputs, run, [run.config.training.metric], known_styles(run.config.corpus))
        size = _size(run, split)
        count = f"{len(outputs):,} texts" if size is None else f"{len(outputs):,} of {size:,} texts"
        lines += ["", f"{count} of the {split} set, with 95% bootstrap intervals over instances:", ""]
        lines += _table("score", "value", [_score_row(one) for one in measured.values()])
    if not lines:
        return ["None: the run had no decoded outputs when it was exported (`exadec generate RUN --split test`)."]
    note = "" if precision == "float32" else f" They are of float32 weights; this file has {precision}."
    return [f"Texts were written by the run before the export.{note}", *lines]


def _score_row(measured: Measured) -> tuple[str, object]:
    score = measured.score
    return score.name, f"{score.value:.2f} [{measured.low:.2f}, {measured.high:.2f}], `{score.signature}`"


def _limits(run: Run, contents: Contents) -> list[str]:
    config, records = run.config, contents.records
    corpus, model = config.corpus, config.model
    kind = "a table, a list of attributes with values" if _reads_tables(run) else "plain text (UTF-8)"
    lines = [f"A source is {kind}. What is beyond {corpus.max_source} pieces is not read."]
    if not model.reads_exemplars:
        lines.append("It reads no exemplar.")
    else:
        lines.append(f"An exemplar is plain text, too; what is beyond {corpus.max_target} pieces is not read.")
        lines.append(
            "Without an exemplar it retrieves one from the training targets, which are inside."
            if records is not None
            else "It needs an exemplar: no training targets are inside to retrieve one from."
        )
    if corpus.group_in_source:
        lines.append(f"It can be told one of these groups: {', '.join(run.facts['groups'])}.")
    lines += [
        "It has learnt from its training data only. Another kind of text, or another language, gives nonsense.",
        "It can say what its source does not say. Check numbers, dates and names.",
        "The vocabulary holds pieces of the training texts, and `names.json` words of their sources.",
    ]
    if records is not None:
        lines.append(
            "Whoever has this file can read the training targets, and which words their sources have. "
            "Hand it on only if you may."
        )
    if contents.styles:
        lines.append("Whoever has this file can read the exemplars of its house styles.")
    return lines
