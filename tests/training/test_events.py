"""Events of training, and the lines of `metrics.jsonl` that some of them become."""

import json
from dataclasses import replace

import pytest

from exadec.errors import InputError
from exadec.training.events import Evaluated, LossLine, format_line, keep_until, parse_lines

LOSS = '{"kind": "loss", "learning_rate": 0.02, "step": 25, "epoch": 1.3158, "seconds": 0.241, "loss": 1.25}'
SCORE = (
    '{"kind": "evaluation", "metric": "ROUGE-L", "value": 62.5, "signature": "rouge-L|f1", "step": 38, "epoch": 2.0, '
    '"seconds": 0.352, "surprise": 1.5, "scores": {"BLEU": 31.25}, "instances": 2000, "split_size": 22421}'
)
EARLIER = (
    '{"kind": "evaluation", "metric": "ROUGE-L", "value": 62.5, "signature": "rouge-L|f1", "step": 38, "epoch": 2.0, '
    '"seconds": 0.352}'
)
NEWER = '{"kind": "memory", "step": 30, "bytes": 7}'


def test_lines_become_events_and_the_same_lines_again() -> None:
    events = parse_lines(f"{LOSS}\n{SCORE}\n", "here")
    assert events == [
        LossLine(learning_rate=0.02, step=25, epoch=1.3158, seconds=0.241, loss=1.25),
        Evaluated("ROUGE-L", 62.5, "rouge-L|f1", 38, 2.0, 0.352, 1.5, {"BLEU": 31.25}, 2000, 22421),
    ]
    assert [format_line(event) for event in events] == [LOSS, SCORE]


def test_lines_of_an_earlier_version_are_read() -> None:
    assert parse_lines(EARLIER, "here") == [Evaluated("ROUGE-L", 62.5, "rouge-L|f1", step=38, epoch=2.0, seconds=0.352)]


def test_a_score_of_a_sample_says_of_how_many() -> None:
    (event,) = parse_lines(SCORE, "here")
    assert isinstance(event, Evaluated)
    assert event.sample == "2,000 of 22,421"
    assert replace(event, instances=22421).sample == ""
    assert replace(event, instances=None, split_size=None).sample == ""  # of an earlier version


def test_what_a_newer_version_added_is_skipped() -> None:
    more = json.dumps({**json.loads(LOSS), "gradient_norm": 0.5})
    assert parse_lines(f"{NEWER}\n{more}\n", "here") == parse_lines(LOSS, "here")


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"step": 1}', '{"kind": "loss", "step": 1}', '{"kind": "evaluation", "step": 1}']
)
def test_damaged_line_is_named(line: str) -> None:
    with pytest.raises(InputError, match="here:2: not a line of metrics"):
        parse_lines(f"{LOSS}\n{line}\n", "here")


def test_lines_up_to_a_step_are_kept_as_they_are() -> None:
    text = f"{LOSS}\n{NEWER}\n{SCORE}\n"
    assert keep_until(text, 38) == text
    assert keep_until(text, 30) == f"{LOSS}\n{NEWER}\n"
    assert keep_until(text, 24) == ""
    assert keep_until(text + LOSS[:40], 38) == text  # cut off by a power failure


@pytest.mark.parametrize("rest", ['{"kind": "lo', "5", "", '{"kind": "loss", "step": 1', "\ufffd"])
def test_an_incomplete_last_line_is_left_out(rest: str) -> None:
    whole = f"{LOSS}\n{SCORE}\n"
    if rest != "5":  # which is a line of JSON, but none of metrics
        assert parse_lines(whole + rest, "here") == parse_lines(whole, "here")
    assert keep_until(whole + rest, 100) == whole


@pytest.mark.parametrize(
    "line",
    ["5", "[]", "{", '{"kind": ["loss"]}', '{"kind": "loss"}', LOSS.replace("25", '"x"'), SCORE.replace("62.5", "NaN")],
)
def test_damaged_lines_are_refused_by_number(line: str) -> None:
    with pytest.raises(InputError, match="here:2: not a line of metrics; delete this line"):
        parse_lines(f"{LOSS}\n{line}\n{SCORE}\n", "here")
    assert LOSS in keep_until(f"{LOSS}\n{line}\n{SCORE}\n", 100)
