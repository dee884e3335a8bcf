"""The command `exadec`, which is also `python -m exadec`."""

import os
import signal


def main() -> None:
    """Import the command line, and run it. Until that is there, Ctrl-C has nothing to interrupt."""
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    # OpenMP reads this when torch is loaded. By default its threads spin for so long while they wait for each other
    # that a step takes up to a hundred times as long if another process is busy.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from exadec.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
