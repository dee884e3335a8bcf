"""Swaps: one source, several exemplars, and what changes marked."""

import re
from pathlib import Path

import pytest

from exadec.api import Writer, load
from exadec.corpus.prepare import prepare
from exadec.corpus.wire import style_of
from exadec.errors import InputError
from exadec.training.checkpoint import Run
from exadec.views.results import Results
from exadec.views.swap import Swap, groups_to_name, make_swap, mark_new_words, pick_swaps, render_swap
from support.shown import WIRE, generation, show
from support.toys import TWO_RECORDS, config_for, write_splits


def test_new_words_are_marked_and_nothing_is_lost() -> None:
    marked = mark_new_words('What next for Brensoft, after "71" million?', "Brensoft was bought for 71 MILLION")
    assert marked == [("What next", True), ("for Brensoft,", False), ("after", True), ('"71" million?', False)]
    assert " ".join(words for words, _ in marked) == 'What next for Brensoft, after "71" million?'
    assert mark_new_words("", "first") == []


def test_swap_rendering_highlights_what_the_first_output_lacks() -> None:
    swap = Swap("the source", [generation("alpha beta", "one", 0.5), generation("alpha gamma", "two")])
    plain = show(render_swap(swap))
    for text in ("the source", "one", "similarity 0.50", "two", "alpha gamma"):
        assert text in plain
    coloured = show(render_swap(swap), colour=True)
    assert re.search(r"\x1b\[1;33mgamma", coloured)
    assert not re.search(r"\x1b\[1;33m(alpha|beta)", coloured)


def test_house_styles_are_ticked_for_the_wire_only() -> None:
    headline = "What next for Galway after 950 Milotrans job cuts?"
    followed = "What next for Brensoft after $71 mln Zetagrid takeover?"
    generations = [generation(followed, headline), generation("some words", headline)]
    styled = show(render_swap(Swap("source", generations, WIRE)))
    assert "✓ question" in styled
    assert "✗ no house style" in styled
    assert "✓" not in show(render_swap(Swap("source", generations)))


def test_make_swap_writes_with_each_exemplar(writer: Writer, results: Results) -> None:
    source = results.baseline.outputs[0].source
    given = "What next for Galway after 950 Milotrans job cuts?"
    swap = make_swap(writer, source, [None, given])
    assert swap.styles is WIRE
    assert [found.exemplar for found in swap.generations] == [results.baseline.outputs[0].exemplar, given]
    assert swap.generations[0].similarity is not None
    assert swap.generations[1].similarity is None


def test_picked_swaps_are_the_same_every_time_and_show_three_styles(writer: Writer) -> None:
    swaps = pick_swaps(writer)
    assert len(swaps) == 3
    assert len({swap.source for swap in swaps}) == 3
    for swap in swaps:
        assert len({style_of(found.exemplar or "") for found in swap.generations}) == 3
    again = pick_swaps(load(writer.run.folder))
    assert [show(render_swap(swap)) for swap in again] == [show(render_swap(swap)) for swap in swaps]


@pytest.mark.parametrize(
    ("settings", "named"),
    [({}, set()), ({"exemplars.group": "only"}, {"a", "b"}), ({"corpus.group_in_source": True}, {"a", "b"})],
    ids=["ignored", "retrieved from", "told"],
)
def test_groups_are_named_if_the_run_uses_them(tmp_path: Path, settings: dict[str, object], named: set[str]) -> None:
    write_splits(tmp_path, [{**record, "group": group} for record, group in zip(TWO_RECORDS, "ab", strict=True)])
    config = config_for(tmp_path)
    for key, value in settings.items():
        section, name = key.split(".")
        config = config.replace(section, **{name: value})
    corpus = prepare(config)
    run = Run(tmp_path, config, {}, corpus.vocabulary, corpus.segmenter)
    assert groups_to_name(run, corpus) == named


def test_a_model_without_exemplars_has_nothing_to_swap(runs: list[Path]) -> None:
    with pytest.raises(InputError, match="nothing to swap"):
        pick_swaps(load(runs[1]))
