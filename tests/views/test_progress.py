"""Progress: what is shown for each event, on a terminal and in a log."""

import io
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from exadec.config import Config
from exadec.training.events import WITHOUT, Evaluated, Evaluating, Failed, Finished, LossLine, Started, Waiting
from exadec.training.side_by_side import Job
from exadec.views.progress import Display, RunsDisplay, parameter_table
from support.shown import show

STARTED = Started(parameters={"decoder P and Q": 1024, "all": 2048}, cell="4 gates × 4d²", total_steps=40)
LOSS = LossLine(loss=1.25, learning_rate=0.01, step=25, epoch=1.5, seconds=2.0)
SCORE = Evaluated(metric="ROUGE-L", value=62.5, signature="s", step=38, epoch=2.0, seconds=3.0, surprise=1.5)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=100)


def shown_by(display: Display) -> str:
    """The bars as they stand now."""
    return show(display.progress.get_renderable())


def test_stages_are_counted_and_give_way_to_training() -> None:
    with Display(terminal()) as display:
        display.report("read", 1200)
        assert "1,200 records" in shown_by(display)
        display.report("retrieve", 30, 60)
        bars = shown_by(display)
        assert "read" not in bars
        assert "30 of 60 records" in bars
        display.observe(STARTED)
        assert "retrieve" not in shown_by(display)
        display.observe(LOSS)
        assert "loss 1.250" in shown_by(display)
        display.observe(SCORE)
        assert "dev ROUGE-L 62.50, -log p 1.500" in shown_by(display)
        display.observe(replace(SCORE, instances=2000, split_size=22421))
        assert "dev ROUGE-L 62.50, -log p 1.500 on 2,000 of 22,421" in shown_by(display)
        display.observe(replace(SCORE, scores={WITHOUT: 1.6251}))
        assert "dev ROUGE-L 62.50, -log p 1.500 (1.625 without exemplars)" in shown_by(display)
        display.observe(replace(SCORE, surprise=None))  # of a run that an earlier version began
        assert "log p" not in shown_by(display)
        assert display.training is not None
        assert display.progress.tasks[display.training].percentage == 95  # 38 of 40 steps


def test_each_run_has_a_line_and_a_failure_says_why() -> None:
    console = terminal()
    config = Config.from_dict({"folder": "x", "training": {"epochs": 4}})
    first, second = Job(config, Path("a")), Job(config, Path("b"), evaluate=True)
    with RunsDisplay(console) as display:
        for job in (first, second):
            display.follow(job, Waiting())
        assert shown_by(display).count("waiting") == 2
        display.follow(first, STARTED)
        display.follow(first, LOSS)
        assert "loss 1.250" in shown_by(display)
        assert display.progress.tasks[display.runs[Path("a")]].percentage == 100 * 1.5 / 4
        display.follow(first, Failed("out of [memory]"))
        display.follow(second, Finished())
        assert "failed" in shown_by(display)
        assert "trained, test set written" in shown_by(display)
    assert "a: out of [memory]" in console.file.getvalue()


class Log:
    """A console without a terminal, and a clock to set."""

    def __init__(self) -> None:
        self.console, self.now = Console(file=io.StringIO(), force_terminal=False, width=30), 0.0

    def lines(self) -> list[str]:
        return self.console.file.getvalue().splitlines()


def test_a_log_gets_a_line_a_minute_and_no_bar() -> None:
    log = Log()
    with Display(log.console, lambda: log.now) as display:
        for second in range(0, 150, 10):
            log.now = second
            display.report("retrieving for [train]", second, 200)
    assert log.lines() == [f"retrieving for [train]: {count} of 200 records" for count in (60, 120)]


def test_a_short_stage_is_no_line_of_a_log() -> None:
    log = Log()
    with Display(log.console, lambda: log.now) as display:
        display.report("read", 1200)
        log.now = 59.0
        display.report("read", 2400)
        log.now = 70.0
        display.report("retrieve", 1)
    assert log.lines() == []


def test_a_log_gets_every_evaluation_and_a_loss_a_minute() -> None:
    log = Log()
    with Display(log.console, lambda: log.now) as display:
        display.observe(STARTED)
        before = len(log.lines())
        for second in (0, 30, 61, 62):
            log.now = second
            display.observe(replace(LOSS, seconds=float(second)))
        display.observe(SCORE)
        display.observe(SCORE)
    loss = "training: step 25 of 40, epoch 1.50, 1.0 min: loss 1.250"
    score = "training: step 38 of 40, epoch 2.00, 0.1 min: dev ROUGE-L 62.50, -log p 1.500"
    assert log.lines()[before:] == [loss, score, score]


def test_a_log_gets_a_line_a_minute_of_a_long_evaluation() -> None:
    log, job = Log(), Job(Config.from_dict({"folder": "x"}), Path("a"))
    with Display(log.console, lambda: log.now) as alone, RunsDisplay(log.console, lambda: log.now) as several:
        alone.observe(STARTED)
        alone.observe(LOSS)
        several.follow(job, STARTED)
        before = len(log.lines())
        for second in range(0, 150, 10):
            log.now = second
            alone.observe(Evaluating("decoding", "valid", 10 * second, 22421))
            several.follow(job, Evaluating("decoding", "test", 10 * second, 2000))
    expected = []
    for done in (600, 1200):
        expected += [f"training: decoding the development set, {done:,} of 22,421"]
        expected += [f"a: decoding the test set, {done:,} of 2,000"]
    assert log.lines()[before:] == expected


def test_a_log_gets_a_line_a_minute_of_scoring_and_of_surprise() -> None:
    log, job = Log(), Job(Config.from_dict({"folder": "x"}), Path("a"))
    with Display(log.console, lambda: log.now) as alone, RunsDisplay(log.console, lambda: log.now) as several:
        alone.observe(STARTED)
        alone.observe(LOSS)
        several.follow(job, STARTED)
        before = len(log.lines())
        for second in range(200):
            log.now = float(second)
            event = Evaluating("scoring", "valid", 2000)
            if second > 100:
                event = Evaluating("computing -log p of", "valid", second, 2000)
            alone.observe(event)
            several.follow(job, event)
    expected = []
    for note in (
        "scoring the development set, 2,000 texts",
        "computing -log p of the development set, 120 of 2,000",
        "computing -log p of the development set, 180 of 2,000",
    ):
        expected += [f"training: {note}", f"a: {note}"]
    assert log.lines()[before:] == expected


def test_a_log_tells_runs_apart() -> None:
    log, config = Log(), Config.from_dict({"folder": "x"})
    first, second = Job(config, Path("a")), Job(config, Path("b"))
    with RunsDisplay(log.console, lambda: log.now) as display:
        for job in (first, second):
            display.follow(job, Waiting())
            display.follow(job, STARTED)
        log.now = 60.0
        display.follow(first, LOSS)
        display.follow(first, LOSS)
        display.follow(second, SCORE)
        display.follow(first, Finished())
    assert log.lines() == [
        "a: training starts",
        "b: training starts",
        "a: epoch 1.50, 0.0 min: loss 1.250",
        "b: epoch 2.00, 0.1 min: dev ROUGE-L 62.50, -log p 1.500",
        "a: trained",
    ]


def test_a_terminal_gets_no_such_line() -> None:
    console, now = terminal(), iter(range(0, 1000, 100))
    with Display(console, lambda: float(next(now))) as display:
        display.observe(STARTED)
        display.observe(SCORE)
    assert "training: step" not in console.file.getvalue()


def test_parameter_table_has_a_row_for_each_part() -> None:
    lines = show(parameter_table(STARTED.parameters, STARTED.cell)).splitlines()
    rows = [" ".join(line.split()) for line in lines]
    assert rows[-2:] == ["decoder P and Q 1,024 4 gates × 4d²", "all 2,048"]
