"""The targets of `fuzz.py`, with changes that atheris chooses instead of chance: it keeps what reaches new code.

    pip install atheris
    python tests/campaign/guided.py webnlg -max_total_time=300

In: the name of a target, and options of libFuzzer. Out: libFuzzer's report; it stops at the first exception other than
`InputError`. What it keeps is temporary.

atheris is no part of the development environment, because nothing else needs it.
"""

import logging
import random
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["exadec", "yaml"]):
    from campaign.fuzz import TARGETS, make_project

    from exadec.errors import InputError


class Chosen(random.Random):
    """Numbers that are read from bytes, so that whoever chooses the bytes chooses the numbers; zeros at their end."""

    def __init__(self, content: bytes):
        super().__init__(0)
        self._rest = iter(content)

    def getrandbits(self, k: int, /) -> int:
        count = (k + 7) // 8
        return int.from_bytes(bytes(next(self._rest, 0) for _ in range(count)), "big") >> (8 * count - k)

    def random(self) -> float:
        return self.getrandbits(53) / (1 << 53)


def main() -> None:
    name, *options = sys.argv[1:]
    logging.disable()
    with tempfile.TemporaryDirectory() as made:
        home, kept = Path(made) / "home", Path(made) / "kept"
        home.mkdir()
        kept.mkdir()
        if name in ("run", "bundle"):
            make_project(home / "project")
            shutil.rmtree(home / "project" / "work" / "corpus")
        for number in range(100):  # somewhere to start from
            (kept / f"{number}").write_bytes(random.Random(number).randbytes(100))
        target = TARGETS[name](home)

        def one(content: bytes) -> None:
            with suppress(InputError):
                target(Chosen(content))

        atheris.Setup([sys.argv[0], *options, str(kept)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
