"""Feed files that atheris makes up to the readers of published data sets: it looks for inputs that reach new code.

    pip install atheris
    python tests/campaign/guided.py webnlg -max_total_time=300

In: the name of a reader of `fuzz.py`, and options of libFuzzer. Out: libFuzzer's report; it stops at the first
exception other than `InputError`. It begins with the files in `seeds/`. What it adds to them is temporary.

atheris is no part of the development environment, because nothing else needs it.
"""

import logging
import shutil
import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["exadec.corpus", "exadec.reading"]):
    from campaign.fuzz import PUBLISHED, SEEDS, read_published

    from exadec.corpus.readers import FORMATS
    from exadec.errors import InputError


def main() -> None:
    name, *options = sys.argv[1:]
    logging.disable()
    with tempfile.TemporaryDirectory() as made:
        home, kept = Path(made) / name, Path(made) / "kept"
        shutil.copytree(SEEDS / name, home)
        kept.mkdir()
        files = [(path, split) for split in PUBLISHED[name][1] for path in FORMATS[name].files(home, split)]
        whole = {path: path.read_bytes() for path, _ in files}
        for number, (path, _) in enumerate(files):
            (kept / f"seed{number}").write_bytes(bytes([number]) + whole[path])

        def one(data: bytes) -> None:
            """The first byte says which file the others are."""
            path, split = files[data[0] % len(files) if data else 0]
            path.write_bytes(data[1:])
            try:
                read_published(name, home, split)
            except InputError:
                pass
            finally:
                path.write_bytes(whole[path])

        atheris.Setup([sys.argv[0], *options, str(kept)], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
