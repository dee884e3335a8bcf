"""The command `exadec`, which is also `python -m exadec`."""

import os
import signal


def main() -> None:
    """Import the command line, and run it. Until that is there, Ctrl-C has nothing to interrupt."""
    before = signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))
    from exadec.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
