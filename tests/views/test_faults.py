"""Faults of outputs, counted by hand."""

import dataclasses

import numpy as np

from exadec.textmetrics import mean_score
from exadec.training.evaluation import Output
from exadec.views.faults import Faults, choose_worst, describe_faults, find_faults, mark_foreign_words
from exadec.views.results import Results

OUTPUT = Output(
    uid="1",
    source="A flood reached Porto on Monday and twelve people died.",
    exemplar="Storm: three hurt in Ghana",
    similarity=0.5,
    references=("Flood in Porto: twelve dead", "Porto flood kills twelve"),
    text="Storm: floods hit Ghana",
    score=-1.0,
)


def test_faults_are_sorted_by_where_a_word_comes_from() -> None:
    # `floods` is the source's `flood`; `dead` is in one reference only, and not in the source.
    assert find_faults(OUTPUT) == Faults(
        borrowed=["Storm", "Ghana"], invented=["hit"], left_out=["Porto", "twelve"], repeated=[]
    )
    assert mark_foreign_words(OUTPUT) == [("Storm:", True), ("floods", False), ("hit Ghana", True)]
    assert describe_faults(OUTPUT) == [
        "from the exemplar alone: Storm, Ghana",
        "in neither source, reference nor exemplar: hit",
        "left out: Porto, twelve",
    ]


def test_every_exemplar_that_was_read_counts() -> None:
    faults = find_faults(dataclasses.replace(OUTPUT, other_exemplars=("Rain stops play", "Rivers hit a record")))
    assert (faults.borrowed, faults.invented) == (["Storm", "hit", "Ghana"], [])


def test_a_perfect_text_has_no_fault_and_an_empty_one_says_so() -> None:
    assert describe_faults(dataclasses.replace(OUTPUT, text=OUTPUT.references[0])) == []
    empty = dataclasses.replace(OUTPUT, text="", exemplar=None)
    assert describe_faults(empty) == ["nothing was written", "left out: Flood, Porto, twelve"]
    assert mark_foreign_words(empty) == []


def test_repeats_are_found_and_long_lists_end() -> None:
    repeats = dataclasses.replace(OUTPUT, text="flood in Porto flood in Porto")
    assert find_faults(repeats).repeated == ["flood in porto"]
    doubled = dataclasses.replace(OUTPUT, text="Flood flood, flood in Porto : :")
    assert find_faults(doubled).repeated == ["flood", ":"]
    long = dataclasses.replace(OUTPUT, text=" ".join(f"w{i}ord" for i in range(9)))
    assert describe_faults(long)[0].endswith("w7ord, …")


def test_worst_have_the_lowest_scores_and_equals_are_drawn(results: Results) -> None:
    system = results.systems[1]
    scores = system.rouge_l.per_instance
    chosen = choose_worst(system, 8)
    assert len(set(chosen)) == 8
    assert scores[chosen].tolist() == sorted(scores)[:8]
    equal = mean_score("ROUGE-L", np.zeros(40), "x")
    measures = {"ROUGE-L": dataclasses.replace(system.measures["ROUGE-L"], score=equal)}
    drawn = choose_worst(dataclasses.replace(system, measures=measures), 8)
    assert drawn == choose_worst(dataclasses.replace(system, measures=measures), 8)
    assert drawn != list(range(8))
