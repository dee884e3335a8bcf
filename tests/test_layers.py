"""The tree is the architecture: parts import only from the parts before them, and tests mirror modules."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "exadec"
ORDER = {
    # Below the data: what every part may use.
    "errors": "what a user can get wrong; the command line turns it into exit status 2",
    "cores": "how many processes and threads there is room for",
    "files": "writing a file completely or not at all",
    "compiled": "loops in machine code, for whatever part has them",
    "reading": "reading a file that may be damaged, or a stranger's; nothing is used before it is checked",
    "strict_yaml": "a mapping becomes a dataclass, or an error that names the key",
    "presets": "settings by name, for a configuration to start from",
    "search_config": "the choices of a search, which runs and requests may change",
    "config": "every choice of an experiment; all stages read their own section",
    # The data flow, from raw files to a page.
    "corpus": "raw data become records and token ids: nothing comes before it",
    "styles": "a house style is some exemplars under a name",
    "request": "what to write is said in the fields of a record",
    "textmetrics": "text is read and scored as it is; exemplars can be chosen by what it finds",
    "generation": "what was written; a server sends it, and a client reads it",
    "remote": "asks a server for what a model here would write",
    "exemplars": "exemplars are found among the corpus's training records",
    "loading": "ids and exemplars become padded batches",
    "model": "a batch becomes log-probabilities",
    "search": "a model's probabilities become text",
    "settings": "looks names of a configuration up in the lists of the packages above",
    "training": "loads, fits, searches and scores in one loop; its result is a run on disk",
    "bank": "what a run's model makes of all training targets",
    "bundle": "packs a run into one file, and opens such a file as a run; or exports it as ONNX",
    "inputs": "requests become what the model of a run reads",
    "api": "trains a run from Python, or opens one and writes new text",
    "views": "shows corpora, runs and what a Writer wrote",
    # What sits in front of the user.
    "experiment": "trains what a plan names, side by side, and makes tables and figures of the results",
    "demo": "the whole flow once, with its progress",
    "server": "answers requests over HTTP with what `api` writes",
    "cli": "the verbs; each calls one public function of the parts above",
}
"""Part (a package or a module) -> why it stands where it does. Imports go to the same part or to an earlier one."""

TESTED_IN = {
    "cli/console": "cli/test_cli.py",
    "cli/score_files": "cli/test_scoring.py",
    "corpus/wire_lexicon": "corpus/test_wire.py",
    "demo": "test_readme.py",
    "errors": "cli/test_runs.py",
    "exemplars/candidates": "exemplars/test_join.py",
    "exemplars/gpu_kernels": "exemplars/test_cuda.py",
    "exemplars/index_files": "exemplars/test_index.py",
    "exemplars/kernels": "exemplars/test_join.py",
    "exemplars/segments": "exemplars/test_index.py",
    "inputs": "test_api.py",
    "loading/resident_kernels": "loading/test_resident.py",
    "model/backends/streams": "test_cuda.py",
    "model/cells/cell": "model/test_adaptive.py",
    "model/cells/elman": "model/test_adaptive.py",
    "model/cells/gru": "model/test_adaptive.py",
    "model/cells/lstm": "model/test_adaptive.py",
    "presets": "test_config.py",
    "search/cpu_kernels": "search/test_cpu.py",
    "search/gpu": "test_cuda.py",
    "search/gpu_kernels": "search/test_fused.py",
    "search/split": "training/test_evaluation.py",
    "search_config": "test_config.py",
    "server/desk": "server/test_app.py",
    "server/door": "server/test_running.py",
    "server/metrics": "server/test_app.py",
    "server/refusals": "server/test_app.py",
    "server/schema": "server/test_app.py",
    "strict_yaml": "test_config.py",
    "training/interrupts": "training/test_trainer.py",
    "training/step": "test_cuda.py",
    "views/inspection_tables": "views/test_inspection.py",
    "views/page": "views/test_inspection.py",
}
"""Module without a test file of its own name -> the file that tests it."""

OF_NO_MODULE = {
    "benchmarks/test_tables_page.py": "the page on real text",
    "benchmarks/test_training.py": "the programs that measure training",
    "cli/test_cli.py": "every verb once",
    "model/backends/test_equivalence.py": "all backends compute the same",
    "test_cuda.py": "the GPU, end to end",
    "test_damage.py": "damaged and hostile files, through every command",
    "test_docs.py": "the pages",
    "test_frozen.py": "what earlier versions wrote",
    "test_kills.py": "kills at any instant",
    "test_layers.py": "the tree",
    "test_readme.py": "the commands of the README",
    "test_realdata.py": "real corpora, end to end",
    "test_tour.py": "the notebook",
    "views/test_browser.py": "the report in a real browser",
    "textmetrics/test_rouge_parity.py": "the official script",
}
"""Test files that belong to no single module -> what they test."""

TESTS = Path(__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))
PACKAGES = sorted(path.parent for path in ROOT.rglob("__init__.py"))
SETUPTOOLS = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]


def dotted(path: Path) -> str:
    """`exadec/corpus/record.py` -> `exadec.corpus.record`; a package's `__init__.py` stands for the package."""
    return ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__")


NAMES = {dotted(path) for path in MODULES}


def imports(tree: ast.AST) -> Iterator[str]:
    """The modules of exadec that a syntax tree imports, inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("exadec"))
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module and node.module.split(".")[0] == "exadec":
                below = [f"{node.module}.{alias.name}" for alias in node.names]
                yield from (name if name in NAMES else node.module for name in below)


def by_path(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_part_has_its_place_and_its_reason() -> None:
    parts = {path.stem for path in ROOT.glob("*.py")} | {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert set(ORDER) == parts - {"__init__", "__main__"}
    assert all(ORDER.values())


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_imports_go_to_earlier_parts(path: Path) -> None:
    part = path.relative_to(ROOT).with_suffix("").parts[0]
    if part not in ORDER:
        return  # `exadec/__init__.py` and `__main__.py` stand above all
    earlier = list(ORDER)[: list(ORDER).index(part) + 1]
    for name in imports(ast.parse(path.read_text("utf-8"))):
        assert name.split(".")[1] in earlier, f"{part} must not import {name}"


def test_no_modules_import_each_other() -> None:
    """Within a part, too. Imports inside functions do not count: they happen after all modules are there."""
    graph = {}
    for path in MODULES:
        tree = ast.parse(path.read_text("utf-8"))
        top = ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])
        graph[dotted(path)] = set(imports(top)) - {dotted(path)}
    assert sum(map(len, graph.values())) > 200
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules


def test_nobody_but_its_reader_knows_the_wire() -> None:
    """Everyone else asks `known_styles`, so that another corpus with known styles is one file and one line."""
    knowing = [dotted(path) for path in MODULES if "exadec.corpus.wire" in imports(ast.parse(path.read_text("utf-8")))]
    assert knowing == ["exadec.corpus.readers.generated_wire"]


@pytest.mark.parametrize("path", MODULES, ids=by_path)
def test_module_imports_and_says_what_comes_in_and_goes_out(path: Path) -> None:
    if path.stem == "__main__":
        return
    module = importlib.import_module(dotted(path))
    assert module.__doc__
    if path.stem != "__init__":
        assert "In: " in module.__doc__
        assert "Out: " in module.__doc__


def test_every_package_is_shipped() -> None:
    """The list is written out because `exadec.configs` lies outside the package's folder in a checkout."""
    assert sorted(SETUPTOOLS["packages"]) == sorted(
        [*(dotted(path / "__init__.py") for path in PACKAGES), "exadec.configs"]
    )


def test_every_other_file_is_shipped() -> None:
    patterns = SETUPTOOLS["package-data"]
    shipped = {path for pattern in patterns["exadec.configs"] for path in (ROOT.parent / "configs").glob(pattern)}
    for package in PACKAGES:
        for pattern in [*patterns.get("*", []), *patterns.get(dotted(package / "__init__.py"), [])]:
            shipped |= set(package.glob(pattern))
    folders = [ROOT, ROOT.parent / "configs"]
    files = {path for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert {path for path in files if path.suffix != ".py" and path.parent.name != "__pycache__"} <= shipped


def test_files_and_functions_stay_small() -> None:
    for path in MODULES:
        text = path.read_text("utf-8")
        assert text.count("\n") <= 500, f"{path}: split it by meaning"
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno - node.lineno < 80, f"{path}: {node.name}"


@pytest.mark.parametrize("path", sorted((ROOT / "model").glob("*.py")), ids=lambda path: path.stem)
def test_files_of_the_paper_ask_for_no_device(path: Path) -> None:
    code = path.read_text("utf-8")
    assert not re.search(r"is_cuda|cuda|device\.type|autocast|capability|triton|hopper", code.lower())


def test_cells_ask_for_no_device_either() -> None:
    paths = sorted((ROOT / "model" / "cells").glob("*.py"))
    assert len(paths) == 5
    assert not any(re.search(r"cuda|device|autocast", path.read_text("utf-8")) for path in paths)


def files_for(module: str) -> list[str]:
    """`corpus/record` -> its own test file, then the file for all modules of its package."""
    path = Path(module)
    places = [path, path.parent] if len(path.parts) > 1 else [path]
    return [str(place.with_name(f"test_{place.name}.py")) for place in places]


def test_tests_mirror_modules() -> None:
    names = [str(path.relative_to(ROOT).with_suffix("")) for path in MODULES]
    modules = {name for name in names if Path(name).stem not in ("__init__", "__main__")}
    packages = {str(path.relative_to(ROOT)) for path in PACKAGES if path != ROOT}
    files = {str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")}
    without = {module for module in modules if not files & set(files_for(module))}
    assert without == set(TESTED_IN), "every module has a test file, or a line in `TESTED_IN`"
    assert set(TESTED_IN.values()) <= files
    expected = {files_for(name)[0] for name in modules | packages}
    assert files - expected == set(OF_NO_MODULE), "every test file has a module, or a line in `OF_NO_MODULE`"


def test_no_test_file_imports_another() -> None:
    """Folders of tests have the names of programs in `benchmarks/`: which is found depends on the order."""
    importing = [
        f"{path.relative_to(TESTS)}: {line}"
        for path in TESTS.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if re.match(r"\s*(from|import) (\w+\.)*test_", line)
    ]
    assert importing == [], "what two files of tests need belongs into `tests/support`"
