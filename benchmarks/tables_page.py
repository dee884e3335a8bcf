"""Writes docs/results/tables.md: what the tables on real text show.

In: result files of the plans in configs/plans, numbers of swap studies, step times. Out: the page and its figure.

    python benchmarks/tables_page.py

What was not run yet is shown as such.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from exadec.experiment.intervals import Sampled, compare_over_seeds
from exadec.experiment.plan import Plan, load_plan
from exadec.experiment.results import Result, read_results, unpack
from exadec.experiment.tables import Filled, fill_rows, find_difference, show_difference
from exadec.textmetrics import mean_score
from exadec.textmetrics.bootstrap import resample_all
from exadec.views.plots import DrawnDifference, plot_differences

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
STUDIES = RESULTS / "tables" / "swaps"
FIGURE = "real_text.svg"
NOT_YET = "not yet"
PLANS = ("news", "headlines", "data_to_text", "biographies", "elife", "ablations")
FOLLOWED = {
    "follows_title_case": ("Title Case", 80),
    "follows_colon": ("colon", 49),
    "follows_tail": ("dash or bar", 44),
    "follows_long": ("more than 12 words", 50),
}
"""What the outputs should have where their exemplar has it: name, and the least that we ask, in per cent."""
COMPARED = [
    *("data", "score", "copies", "dev. score", "difference", "−log p a text", "seeds", "asked for"),  # noqa: RUF001
    *("minutes a run", "runs"),
]
SEARCHES = ("exadec", "guided", "followed", "until", "agreed", "copying", "copying, until", "copying, agreed")
"""The rows of the news table `guidance`, as columns."""
EXPLORED = 4096
"""The first test texts of news, on which the explorations of docs/LOG.md computed ROUGE-L"""
WHAT_IS_AGREED = {"consensus": "words", "agreed": "words and form"}
"""By the searches of the tables `consensus`."""
SWAPPED = ("Title Case", "colon", "quotation marks", "question mark")


@dataclass(frozen=True)
class Against:
    """A comparison of the preset `exadec` with Seq2seq in one table of a plan."""

    what: str
    plan: str
    table: str
    corpus: str
    must: str


COMPARISONS = (
    Against("news, same outlet", "news", "outlet", "news-case", "at least +0.4, interval above 0"),
    Against("news, told the outlet", "news", "told", "told-case", "not below"),
    Against("news, exemplars from anywhere", "news", "plain", "news-case", "not below by more than 0.1"),
    Against("Debian synopses", "headlines", "debian", "debian-case", "not below by more than 0.1"),
    Against("Reuters headlines", "headlines", "reuters", "reuters", "not below by more than 0.1"),
    Against("eLife statements", "elife", "elife", "elife", "not below by more than 0.1"),
    Against("films", "data_to_text", "movies", "movies", "one of these two above, interval above 0"),
    Against("restaurants (E2E)", "data_to_text", "e2e", "e2e", "one of these two above, interval above 0"),
    Against("biographies", "biographies", "biographies", "biographies", "nothing: no decision used this set"),
)


class Tables:
    """The plans and their results, read once."""

    def __init__(self) -> None:
        self.plans: dict[str, Plan] = {name: load_plan(ROOT / "configs" / "plans" / f"{name}.yaml") for name in PLANS}
        self.results = {name: read_results(ROOT / plan.results) for name, plan in self.plans.items()}

    def rows(self, plan: str, table: str) -> list[Filled]:
        return fill_rows(self.plans[plan], self.plans[plan].tables[table], self.results[plan])

    def ours(self, against: Against) -> list[Filled]:
        """The rows of the preset: without and with copying from exemplars."""
        return [
            one
            for one in self.rows(against.plan, against.table)
            if (one.row.corpus, one.row.preset, one.row.search) == (against.corpus, "exadec", "default")
        ]

    def minutes(self, plan: str) -> float:
        """Of all runs on the device, decoding included. The results of one training are those of its searches."""
        trainings: dict[tuple[str, float], list[Result]] = {}
        for result in self.results[plan].values():
            trainings.setdefault((result.name, result.seconds["training"]), []).append(result)
        return sum(map(_seconds_of_training, trainings.values())) / 60


def _seconds_of_training(results: list[Result]) -> float:
    """The longest result has training, evaluations and its search; of the others, the search comes on top."""
    longest, *others = sorted(results, key=lambda result: -result.seconds["whole"])
    return longest.seconds["whole"] + sum(result.seconds["decoding"] for result in others)


def choose(rows: list[Filled]) -> Filled | None:
    """The row with the best score on the development set, of those that have all their seeds."""
    return max((one for one in rows if len(one.results) == one.wanted), key=development_score, default=None)


def development_score(row: Filled) -> float:
    return fmean(result.best_score for result in row.results)


def compare(tables: Tables) -> Iterable[list[str]]:
    """Two rows for each comparison with Seq2seq, the one that the development set chooses in bold."""
    for against in COMPARISONS:
        plan = tables.plans[against.plan]
        filled, ours = tables.rows(against.plan, against.table), tables.ours(against)
        seq2seq = next(one for one in filled if one.row.variant == "seq2seq" and one.row.preset == "paper")
        chosen = choose(ours)
        for row in ours:
            main = find_difference(row, filled, plan.tables[against.table], plan.main)
            cells = [NOT_YET] * 3
            if row.results:
                cells[0] = f"{development_score(row):.1f}"
            if main is not None:
                cells[1] = show_difference(main)
                cells[1] = f"**{cells[1]}**" if row is chosen else cells[1]
            if len(row.results) > 1 and len(seq2seq.results) > 1:
                ours_and_theirs = over_seeds(row.surprises("test")), over_seeds(seq2seq.surprises("test"))
                cells[2] = show_difference(compare_over_seeds(*ours_and_theirs))
            name = {"bleu": "BLEU"}.get(plan.main, "ROUGE-L")
            copies = "yes" if "attexp" in row.row.variant else "no"
            seeds = f"{len(row.results)} of {row.wanted}"
            minutes = f"{fmean(one.seconds['whole'] for one in row.results) / 60:.1f}" if row.results else NOT_YET
            runs = f"{against.plan}: `{row.row.name(0).removesuffix('0')}?`"
            yield [against.what, name, copies, *cells, seeds, against.must, minutes, runs]


def compare_unexplored(tables: Tables) -> Iterable[list[str]]:
    """As `compare`, on all news texts and on those on which no exploration was scored by ROUGE-L."""
    for against in COMPARISONS:
        if against.plan == "news":
            filled = tables.rows(against.plan, against.table)
            seq2seq = next(one for one in filled if one.row.variant == "seq2seq" and one.row.preset == "paper")
            for row in tables.ours(against):
                cells = [NOT_YET] * 2
                if row.results and seq2seq.results:
                    samples = ((sample_from(row, first), sample_from(seq2seq, first)) for first in (0, EXPLORED))
                    cells = [show_difference(compare_over_seeds(*both)) for both in samples]
                yield [against.what, "yes" if "attexp" in row.row.variant else "no", *cells]


def sample_from(row: Filled, first: int) -> Sampled:
    """ROUGE-L of the test instances from `first` on, and on resamples of these, which are the same for all rows."""
    scores = np.array([unpack(result.per_instance["texts"])[first:] for result in row.results])  # (S, N)
    return Sampled(scores.mean(1), np.stack(resample_all([mean_score("ROUGE-L", seed, "") for seed in scores])))


def over_seeds(values: list[float]) -> Sampled:
    """Without resamples of the instances, so that an interval covers the choice of seeds alone."""
    return Sampled(np.array(values), np.array(values)[:, None].repeat(2, axis=1))


def follow(tables: Tables) -> Iterable[list[str]]:
    """A row for each trait that outputs should share with their exemplars: without guidance, and with it."""
    rows = tables.rows("news", "guidance")
    seq2seq = next(one for one in tables.rows("news", "outlet") if one.row.variant == "seq2seq")
    for metric, (name, must) in FOLLOWED.items():
        yield [name, *(with_interval(one, metric) for one in (seq2seq, *rows)), f"{must}%"]
    yield ["ROUGE-L", *(with_interval(one, "rougeL") for one in (seq2seq, *rows)), ""]


def with_interval(row: Filled, metric: str) -> str:
    """The mean over seeds, and the 95% interval over instances: that of its means on resamples."""
    measures = [result.scores[metric] for result in row.results if metric in result.scores]
    if not measures:
        return NOT_YET
    means = np.mean([unpack(one.resampled) for one in measures], axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    return f"{fmean(one.value for one in measures):.1f} ({low:.1f}–{high:.1f})"  # noqa: RUF001


def agree(tables: Tables) -> Iterable[list[str]]:
    """A row for each form of the preset and search in the tables `consensus`: the likeliest text, and the agreed one."""
    for what, name, against_seq2seq in (
        ("news, same outlet", "news", "outlet"),
        ("Reuters headlines", "headlines", "reuters"),
    ):
        plan, rows, beside = tables.plans[name], tables.rows(name, "consensus"), tables.rows(name, against_seq2seq)
        likeliest = {one.row.variant: one for one in rows if one.row.search == "default"}
        for agreed in (one for one in rows if one.row.search != "default"):
            usual = likeliest[agreed.row.variant]
            decoded = [result.settings for result in agreed.results]
            usual = replace(usual, results=[one for one in usual.results if not decoded or one.settings in decoded])
            scores = (row.mean("rougeL") for row in (usual, agreed))
            cells = [NOT_YET if value is None else f"{value:.2f}" for value in scores]
            same = next(one for one in beside if one.row == agreed.row)
            differences = (
                find_difference(agreed, rows, plan.tables["consensus"], plan.main),
                find_difference(same, beside, plan.tables[against_seq2seq], plan.main),
            )
            gains = (NOT_YET if one is None else show_difference(one) for one in differences)
            leaks = [row.mean("leak") for row in (usual, agreed)]
            leaked = NOT_YET if None in leaks else " → ".join(f"{leak:.1f}" for leak in leaks)
            copies = "yes" if "attexp" in usual.row.variant else "no"
            counted = f"{len(agreed.results)} of {agreed.wanted}"
            rates = [agreed.mean(metric) for metric in FOLLOWED if metric in plan.scores]
            followed = NOT_YET if None in rates else " / ".join(f"{rate:.0f}" for rate in rates) or "not counted"
            yield [what, copies, WHAT_IS_AGREED[agreed.row.search], *cells, *gains, followed, leaked, counted]


def draw(tables: Tables) -> str:
    """The differences from Seq2seq as SVG: both forms of the preset on each data set, and texts that are agreed on."""
    drawn = []
    for against in COMPARISONS:
        plan, filled = tables.plans[against.plan], tables.rows(against.plan, against.table)
        for one in filled:
            difference = find_difference(one, filled, plan.tables[against.table], plan.main)
            if (one.row.corpus, one.row.preset) != (against.corpus, "exadec") or difference is None:
                continue
            copies = ", copying" if "attexp" in one.row.variant else ""
            agreed = f", agreed in {WHAT_IS_AGREED[one.row.search]}" if one.row.search in WHAT_IS_AGREED else ""
            numbers = difference.value, difference.low, difference.high
            drawn.append(DrawnDifference(against.what + copies + agreed, one.row.variant, *numbers))
    return plot_differences(drawn, "ROUGE-L or BLEU")


def read_studies() -> dict[str, list[dict[str, Any]]]:
    """Studies by what they study, a study for each seed: `NAME-seedN.json`."""
    studies: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(STUDIES.glob("*-seed?.json")):
        studies.setdefault(path.stem.rpartition("-")[0], []).append(json.loads(path.read_text("utf-8")))
    return studies


def swap(studies: list[dict[str, Any]]) -> Iterable[list[str]]:
    """A row for each strength of guidance."""
    for seeds in zip(*(study["strengths"] for study in studies), strict=True):
        traits = ([one["swapped"]["traits"][name]["if_exemplar_has"] for one in seeds] for name in SWAPPED)
        followed = (NOT_YET if None in rates else show(rates, 0) for rates in traits)
        leak, support = ([one["swapped"]["measures"][name] for one in seeds] for name in ("Leak", "Support"))
        content = fmean(100 * one["content"]["value"] / one["own_content"]["value"] for one in seeds)
        numbers = leak, support, [one["kept"] for one in seeds]
        yield [f"{seeds[0]['guidance']:g}", *followed, *(show(number, 1) for number in numbers), f"{content:.1f}%"]


def show(seeds: list[dict[str, float]], digits: int) -> str:
    """In per cent: the mean, and the lowest and highest seed; of one seed, its interval over instances."""
    values = [one["value"] for one in seeds]
    low, high = (min(values), max(values)) if len(seeds) > 1 else (seeds[0]["low"], seeds[0]["high"])
    return f"{fmean(values):.{digits}f}% ({low:.{digits}f}–{high:.{digits}f})"  # noqa: RUF001


def render(columns: list[str], rows: Iterable[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def write_page(tables: Tables) -> str:
    parts = [*write_comparison(tables), *write_searches(tables), *write_swaps(), *write_time(tables)]
    return "\n\n".join(parts) + "\n"


def write_comparison(tables: Tables) -> list[str]:
    return [
        "# Does the exemplar pay on real text?",
        "Made by `python benchmarks/tables_page.py` from result files; do not edit. Every result comes from a plan: "
        "`exadec experiment PLAN` makes what is missing and the plan's own tables, which also have the paper's four "
        "models. Scores are means over seeds; intervals are 95%, over test instances and, from two seeds on, over "
        "seeds ([how](../experiments.md#what-the-interval-covers)).",
        "## The preset `exadec` against Seq2seq",
        "The preset comes in two forms: it may copy words from its exemplars (`--variant adadec+attexp`), or not. In bold: the "
        "form that is better on the development set, of those that have all their seeds. The interval of −log p covers seeds "  # noqa: RUF001
        "alone. *Minutes a run*: training and decoding, while other runs shared the H200. *Runs* are made again by `exadec "
        "experiment configs/plans/PLAN.yaml --only 'NAME'`, once their results are deleted.",
        render(COMPARED, compare(tables)),
        f"![The preset against Seq2seq on each data set: differences with 95% intervals](tables/{FIGURE})",
        "The same as a picture (BLEU of films, restaurants and biographies, ROUGE-L of all others; the baseline is Seq2seq), with [texts that exemplars agree on](#the-text-that-exemplars-agree-on) where they were searched for.",
    ]


def write_searches(tables: Tables) -> list[str]:
    return [
        "### News texts that no exploration was scored on",
        "The preset was designed with the help of news *test* texts: the [explorations](../LOG.md#what-makes-the-exemplar-pay-on-real-text-first-exploration) "
        f"compared settings by −log p of all of them, and by ROUGE-L of the first {EXPLORED:,}. So here are the same differences in ROUGE-L on the others alone. "  # noqa: RUF001
        "They hardly differ. Test scores of other sets had a part in some decisions, too: Debian's in `exemplars.calibrated`, those of Reuters in `search.choice=consensus`, "
        "E2E's in λ of `<none>` ([preset](../preset.md#how-far-it-is-measured)). Biographies were scored once, at the end.",
        render(["data", "copies", "all test texts", f"without the first {EXPLORED:,}"], compare_unexplored(tables)),
        "## News, same outlet: manner",
        "How often the output has a trait where its exemplar has it. *guided*: `search.guidance=0.5`. *followed*: "
        "`search.guidance=1` and `search.length_penalty=1.6`. *until*: `search.manner=followed`. *agreed*: the same with "
        "`search.choice=consensus`. The preset without and with copying, seeds 1 and 2; intervals cover instances. Made by "
        "`exadec experiment configs/plans/news.yaml`, table *guidance*.",
        render(["trait", "Seq2seq, which does not see it", *SEARCHES, "asked for"], follow(tables)),
        "## The text that exemplars agree on",
        "The preset's likeliest text, and with `search.choice=consensus` the one that searches with each of its four "
        "exemplars, with all and with none [agree on](../beam_search.md#the-text-that-exemplars-agree-on): in words, or, with "
        "`search.manner=followed`, in words and form. ROUGE-L. *Traits followed*: Title Case, colon, dash or bar, more than 12 words, as in the table above. † covers instances only, not seeds. On Reuters, the runs of *words and form* "
        "were trained again, from first weights that differ in the last bits.",
        render(
            [
                *("data", "copies", "agreed on", "likeliest", "agreed", "gained", "against Seq2seq"),
                *("traits followed, %", "leak", "seeds"),
            ],
            agree(tables),
        ),
    ]


def write_swaps() -> list[str]:
    parts = [
        "## Swapped exemplars",
        "Asked for: each trait followed in 80% of cases at some strength of guidance, leak of at most 5%, support of at "
        "least 97%, and 95% of the recall kept ([how to read this](../scores.md#many-swaps)). *Recall kept* is ROUGE-1 recall "
        "of the reference, with the swap against without; *content kept* the same of those words of the reference that "
        "the source has. Made by `exadec swap RUN --study 1000 --guidance 0,0.5,1,1.5 --out FOLDER`, or with the settings that "
        "a table names.",
    ]
    found = read_studies()
    for name, studies in found.items():
        columns = [
            "guidance",
            *(f"{trait} followed" for trait in SWAPPED),
            "leak",
            "support",
            "recall kept",
            "content kept",
        ]
        how = studies[0]["settings"]
        covered = (
            "One run; in brackets: the 95% interval over instances."
            if len(studies) == 1
            else f"Means of {len(studies)} seeds; in brackets: the lowest and the highest."
        )
        copies = "copies from exemplars" if "attexp" in how["model"] else "does not copy from exemplars"
        usual = {"facts": "off", "manner": "free"}
        changed = {name: how["search"].get(name, value) for name, value in usual.items()}
        shown = "".join(f", `search.{name}={value}`" for name, value in changed.items() if value != usual[name])
        parts += [
            f"### {name.replace('_', ' ').capitalize()}",
            f"{studies[0]['swaps']:,} swaps; {how['exemplars']}. The model {copies}{shown}. {covered}",
            render(columns, swap(studies)),
        ]
    return parts if found else [*parts, NOT_YET.capitalize() + "."]


def write_time(tables: Tables) -> list[str]:
    steps = json.loads((RESULTS / "preset" / "steps.json").read_text("utf-8"))["rows"]
    ratios = [f"{row['ratio']:.2f}" for row in steps if row["model"] == "exadec"]
    copying = [f"{row['ratio']:.2f}" for row in steps if row["model"] == "exadec, copying from exemplars"]
    costs = [
        [f"`configs/plans/{name}.yaml`", str(len(tables.results[name])), f"{tables.minutes(name):.0f}"]
        for name in tables.plans
    ]
    return [
        "## Time",
        f"A training step of the preset takes {' (batch 64) and '.join(ratios)} (batch 512) of Seq2seq's on one H200, and "
        f"{' and '.join(copying)} if it copies from exemplars (`python benchmarks/preset.py`); asked for: 1.15.",
        "Minutes of all runs of a plan, decoding included. Several ran at a time on one H200, so the card was in use for a "
        "fraction of them.",
        render(["plan", "results", "minutes of all runs"], costs),
    ]


def main() -> None:
    tables = Tables()
    (RESULTS / "tables.md").write_text(write_page(tables), encoding="utf-8")
    (RESULTS / "tables" / FIGURE).write_text(draw(tables) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
