"""The commands for data: `prepare`, `retrieve`, `inspect`.

In: a CONFIG. Out: a prepared corpus with its exemplars, and statistics about both.
"""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from exadec.cli.console import ConfigFile, Overrides, messages, say
from exadec.corpus.record import SPLITS
from exadec.errors import InputError
from exadec.settings import load_config
from exadec.views.progress import Display


def prepare(config: ConfigFile, set_: Overrides = None) -> None:
    """Read the data that CONFIG names, learn its pieces, and write token ids."""
    settings = load_config(config, set_)
    from exadec.corpus.prepare import prepare as run_prepare

    with Display(messages) as display:
        corpus = run_prepare(settings, display.report)
    facts = corpus.manifest
    counts = ", ".join(f"{count:,} {split}" for split, count in facts["records"].items())
    say(f"{corpus.folder}: {counts} records; {facts['vocabulary']['size']:,} pieces in the vocabulary.")
    lengths = [facts["pieces"][f"train {side}s"] / facts["records"]["train"] for side in ("source", "target")]
    say(f"Mean length of training texts in pieces: source {lengths[0]:.1f}, target {lengths[1]:.1f}.")


def retrieve(
    config: ConfigFile,
    device: Annotated[str, typer.Option(help="Where to search: auto (a GPU if there is one), cpu or cuda.")] = "auto",
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Search on the Ray cluster at host:port; `local` starts one.")
    ] = None,
    set_: Overrides = None,
) -> None:
    """Find an exemplar for each instance: by default the training target whose source is nearest.

    exadec retrieve CONFIG --set exemplars.group=only        from the instance's own outlet, author or product line
    exadec retrieve CONFIG --set exemplars.policy=random     a control: unrelated exemplars
    """
    settings = load_config(config, set_)
    from exadec.corpus.prepare import prepare as run_prepare
    from exadec.exemplars.join import choose_device, wake_gpu
    from exadec.exemplars.retrieve import retrieve as run_retrieve

    wake_gpu(device)
    with Display(messages) as display:
        corpus = run_prepare(settings, display.report)
        exemplars = run_retrieve(corpus, settings.exemplars, display.report, choose_device(device), cluster)
    for split in SPLITS:
        facts = exemplars.manifest[split]
        similarity, none = facts["mean_similarity"], facts["without_exemplar"]
        say(f"{split}: mean similarity {similarity:.3f}; {none:,} without an exemplar.")


def inspect(
    corpus: Annotated[Path, typer.Argument(metavar="CORPUS", help="Prepared corpus, or the CONFIG it was made from.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    set_: Overrides = None,
) -> None:
    """Show statistics of a corpus: lengths, coverage, copyable words, exemplars, leakage between splits.

    With a CONFIG, prepares the data and retrieves exemplars first, if needed.
    """
    from exadec.corpus.prepare import prepare as run_prepare
    from exadec.exemplars.retrieve import retrieve as run_retrieve
    from exadec.views.inspection import inspect_corpus, inspection_to_json
    from exadec.views.inspection_tables import render_inspection

    if corpus.suffix == ".exadec":
        raise InputError(f"{corpus}: this is an exported run; give the folder of a corpus, or a CONFIG.")
    if not corpus.is_dir():
        settings = load_config(corpus, set_)
        with Display(messages) as display:
            prepared = run_prepare(settings, display.report)
            run_retrieve(prepared, settings.exemplars, display.report)
        inspection = inspect_corpus(prepared.folder, settings.exemplars)
    elif set_:
        raise InputError("--set changes a CONFIG, but a folder was given.")
    else:
        _require_corpus(corpus)
        inspection = inspect_corpus(corpus)
    if as_json:
        print(json.dumps(inspection_to_json(inspection), ensure_ascii=False, indent=1))
    else:
        Console().print(render_inspection(inspection))


def _require_corpus(folder: Path) -> None:
    from exadec.corpus.stage import MANIFEST

    if (folder / MANIFEST).is_file():
        return
    found = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}") if path.parent.name == "corpus")
    remedy = f"did you mean {found[0]}?" if found else "name the folder of a corpus, or the CONFIG it is made from."
    raise InputError(f"{folder}: not a prepared corpus (there is no {MANIFEST}); {remedy}")
