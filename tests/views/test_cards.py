"""Examples: tables are tables, faults are visible, and everything is escaped."""

import dataclasses

from exadec.corpus.record import linearize
from exadec.views.cards import sample_cards, source_block, swap_card
from exadec.views.results import Results
from exadec.views.swap import Swap
from support.shown import generation

PAIRS = (("name", "Ada <b>"), ("born", "1815"))
TRIPLES = (("Ada", "born", "1815"), ("Ada", "field", "mathematics"))


def test_a_source_that_is_a_table_is_shown_as_one() -> None:
    shown = source_block(linearize(PAIRS), PAIRS)
    assert '<th scope="col">Field</th><th scope="col">Value</th>' in shown
    assert '<tr><th scope="row">name</th><td>Ada &lt;b&gt;</td></tr>' in shown
    assert "name :" not in shown
    triples = source_block(linearize(TRIPLES), TRIPLES)
    assert '<th scope="col">Subject</th>' in triples
    assert '<tr><td>Ada</td><th scope="row">field</th><td>mathematics</td></tr>' in triples
    assert '<tr><td></td><th scope="row">name</th>' in source_block("", TRIPLES + PAIRS)


def test_a_source_in_other_words_is_shown_beside_its_table() -> None:
    assert source_block("Tell me of <Ada>.", PAIRS).startswith("<p>Tell me of &lt;Ada&gt;.</p><table")
    assert source_block("only <text>", None) == "only &lt;text&gt;"


def test_swaps_and_samples_show_the_table(results: Results) -> None:
    source = linearize(PAIRS)
    card = swap_card(Swap(source, [generation("Ada", "Bob")], table=PAIRS))
    assert '<table class="record">' in card
    assert source not in card
    systems = [
        dataclasses.replace(
            system, outputs=[dataclasses.replace(output, source=source, table=PAIRS) for output in system.outputs]
        )
        for system in results.systems
    ]
    card = sample_cards(dataclasses.replace(results, systems=systems), [3])
    assert card.count('<table class="record">') == 1
    assert source not in card


def test_samples_show_scores_and_faults_of_every_system(results: Results) -> None:
    systems = [
        dataclasses.replace(
            system, outputs=[dataclasses.replace(output, text="A zeppelin <i>") for output in system.outputs]
        )
        for system in results.systems
    ]
    other = dataclasses.replace(systems[1].outputs[3], exemplar="Airship <u>")
    systems[1].outputs[3] = other
    card = sample_cards(dataclasses.replace(results, systems=systems), [3])
    assert card.count("written with another exemplar: Airship &lt;u&gt;") == 1
    assert card.count("<mark>zeppelin") == 2
    assert card.count("in neither source, reference nor exemplar: zeppelin") == 2
    assert "<i>" not in card
    for system in systems:
        assert f"ROUGE-L {system.rouge_l.per_instance[3]:.1f}" in card
