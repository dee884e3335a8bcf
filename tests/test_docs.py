"""The pages: links resolve, the tree lists every module, the map of the paper names what exists and leaves nothing out,
and the examples on the page about scores are true.

Whether the API reference builds without a warning is for `make docs`, which needs Sphinx.
"""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import typer
import yaml

from exadec.cli import app
from exadec.config import VARIANTS, Config
from exadec.strict_yaml import list_keys
from exadec.textmetrics import leak, support
from exadec.textmetrics.traits import YES_OR_NO, find_traits
from support.command import exadec
from support.small_wire import SMALL

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BUILT = ("_build", "api")
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.relative_to(DOCS).parts[0] not in BUILT]
TOP_LEVEL = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
TEXT = (ROOT / "docs" / "paper_map.md").read_text("utf-8")
SCORES = (ROOT / "docs" / "scores.md").read_text("utf-8")
USING = (ROOT / "docs" / "using.md").read_text("utf-8")
SPANS = list(dict.fromkeys(re.findall(r"`([^`\n]+)`", TEXT)))
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]

REFERENCES = [span for span in SPANS if "::" in span]
PATHS = [span for span in SPANS if "/" in span and "::" not in span and not span.startswith("exadec ")]
KEYS = [span for span in SPANS if re.fullmatch(r"[a-z_]+\.[a-z_]+", span)]
COMMANDS = [span for span in SPANS if span.startswith("exadec ")]


@cache
def names_defined_in(path: Path) -> set[str]:
    """Classes, functions and variables of a module, and `Class.member` for what a class defines."""
    names: set[str] = set()

    def collect(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                names.add(prefix + node.name)
            if isinstance(node, ast.ClassDef):
                collect(node.body, f"{prefix}{node.name}.")
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names.update(prefix + target.id for target in targets if isinstance(target, ast.Name))

    collect(ast.parse(path.read_text("utf-8")).body, "")
    return names


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MyST make them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_pages_have_links() -> None:
    assert sum(len(links(page)) for page in [*PAGES, *TOP_LEVEL]) >= 40


@pytest.mark.parametrize("page", [*PAGES, *TOP_LEVEL], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    for link in links(page):
        if not link.startswith(("https://", "api/")):  # the reference is there once it is built
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link


def test_every_page_is_in_the_table_of_contents() -> None:
    index = (DOCS / "index.md").read_text("utf-8")
    entries = [line for tree in re.findall(r"```{toctree}\n(.*?)```", index, re.DOTALL) for line in tree.splitlines()]
    listed = [entry for entry in entries if entry and not entry.startswith((":", "api/"))]
    found = [str(page.relative_to(DOCS).with_suffix("")) for page in PAGES]
    assert sorted([*listed, "index"]) == sorted(found)


def test_every_folder_and_file_of_tests_has_a_subject() -> None:
    """`tests/test_layers.py` keeps what lies in the folders in step with the modules."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    (table,) = re.findall(r"\| subject \|.*\n\|[-|]+\n((?:\|.*\n)+)", page)
    files = [path.name for path in (ROOT / "tests").glob("test_*.py")]
    folders = [f"{path.parent.name}/" for path in {*(ROOT / "tests").glob("*/test_*.py")}]
    assert sorted(re.findall(r"`(\w+/|test_\w+\.py)`", table)) == sorted({*files, *folders})


def test_tree_lists_every_module() -> None:
    """Folders by their indentation, so that two modules of the same name are told apart."""
    page = (DOCS / "architecture.md").read_text("utf-8")
    (tree,) = re.findall(r"```text\nexadec/\n(.*?)```", page, re.DOTALL)
    listed: list[Path] = []
    folders: list[str] = []
    for line in tree.splitlines():
        indent, name, what = re.fullmatch(r"( *)(\S+) +(\S.*)", line).groups()
        assert what, line
        folders = folders[: len(indent) // 2 - 1]
        if name.endswith("/"):
            folders.append(name.rstrip("/"))
        else:
            listed.append(Path(*folders, name))
    sources = [path for path in (ROOT / "exadec").rglob("*") if path.suffix in (".py", ".cu", ".js")]
    found = [path.relative_to(ROOT / "exadec") for path in sources]
    assert sorted(listed) == sorted(path for path in found if path.name != "__init__.py" or len(path.parts) == 1)


@pytest.mark.parametrize("reference", REFERENCES)
def test_name_exists(reference: str) -> None:
    path, _, name = reference.partition("::")
    assert (ROOT / path).is_file()
    assert name in names_defined_in(ROOT / path)


@pytest.mark.parametrize("path", PATHS)
def test_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("key", KEYS)
def test_key_exists(key: str) -> None:
    assert key in list_keys(Config)


@pytest.mark.parametrize("line", COMMANDS)
def test_command_exists_with_its_options(line: str) -> None:
    _, verb, *arguments = line.split()
    commands = typer.main.get_command(app).commands
    assert verb in commands
    options = {option for parameter in commands[verb].params for option in parameter.opts}
    assert {argument for argument in arguments if argument.startswith("--")} <= options
    if "--variant" in arguments:
        assert arguments[arguments.index("--variant") + 1 :][:1] in [[], *([variant] for variant in VARIANTS)]


def test_tests_are_named_as_tests_and_code_as_code() -> None:
    """A last cell is about tests: what it refers to lies in tests/, and is collected by pytest."""
    for cells in ROWS:
        for reference in re.findall(r"`([^`]+::[^`]+)`", cells[-1]):
            assert re.match(r"tests/(\w+/)*test_\w+\.py::test_", reference), reference
        for cell in cells[:-1]:
            assert "`tests/" not in cell, cell


def test_every_row_has_as_many_cells_as_its_header() -> None:
    tables = re.findall(r"(?:^\|.*\n)+", TEXT, re.MULTILINE)
    assert len(tables) >= 12
    for table in tables:
        header, rule, *rows = table.splitlines()
        assert set(rule) == {"|", "-"}
        assert rows
        for row in rows:
            assert row.count("|") == header.count("|"), row
            assert all(cell.strip() for cell in row.strip("|").split("|")), row


def numbers(pattern: str) -> set[int]:
    """The numbers that a pattern finds in the first cells of rows."""
    return {int(number) for cells in ROWS for number in re.findall(pattern, cells[0])}


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        (r"\((\d+)[ab]?\)", 11),  # equations
        (r"^footnote (\d+)", 14),
        (r"^Table (\d+)", 4),
        (r"^Figure (\d+)", 3),
        (r"^Algorithm (\d+)", 1),
        (r"^(\d+)$", 24),  # where the paper is silent
    ],
    ids=["equations", "footnotes", "tables", "figures", "algorithms", "questions"],
)
def test_nothing_of_the_paper_is_left_out(pattern: str, count: int) -> None:
    assert numbers(pattern) == set(range(1, count + 1))


def test_appendix_values_are_those_of_the_files() -> None:
    configs = [Config.load(ROOT / "configs" / f"{name}.yaml") for name in ("gigaword", "nyt", "wikibio")]
    compared = 0
    for cells in ROWS:
        if len(cells) == 5 and cells[1].strip("`") in KEYS and cells[2].strip("`") not in KEYS:
            section, name = cells[1].strip("`").split(".")
            found = [getattr(getattr(config, section), name) for config in configs]
            assert [yaml.safe_load(cell) for cell in cells[2:]] == found, cells[1]
            compared += 1
    assert compared >= 25


def rows_of(page: str, header: str) -> list[list[str]]:
    """The cells of the table with this header; a bar inside a cell is escaped."""
    (body,) = re.findall(rf"\| {re.escape(header)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page)
    rows = [re.split(r"(?<!\\)\|", line.strip().strip("|")) for line in body.splitlines()]
    return [[cell.strip().replace("\\|", "|") for cell in row] for row in rows]


def examples(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_examples_of_traits_are_true() -> None:
    names = {called: name for name, called in YES_OR_NO.items()}
    rows = rows_of(SCORES, "trait | a text has it if | has it | has it not")
    assert [row[0] for row in rows] == list(names)
    for called, _, have, have_not in rows:
        assert examples(have)
        assert examples(have_not)
        assert [text for text in examples(have) if not getattr(find_traits(text), names[called])] == []
        assert [text for text in examples(have_not) if getattr(find_traits(text), names[called])] == []


def test_examples_of_support_are_true() -> None:
    rows = rows_of(SCORES, "fact | in the source | in the text")
    assert len(rows) == 5
    for _, sources, texts in rows:
        (source,) = examples(sources)
        for text in examples(texts):
            score = support([text], [source])
            assert score.count, text
            assert score.value == 100, text


def test_examples_of_leak_and_skeleton_are_true() -> None:
    source, exemplar, text = re.findall(r"Source `(.*?)`, exemplar `(.*?)`, text `(.*?)`", SCORES)[0]
    assert f"leak is {leak([text], [source], [exemplar]).value:.1f}" in " ".join(SCORES.split())
    (written, skeleton) = re.findall(r"`([^`]*)` becomes `([^`]*)`", SCORES)[0]
    assert " ".join(find_traits(written).skeleton) == skeleton


def test_python_of_scores_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", SCORES, re.DOTALL)
    exec(program, {})
    shown = capsys.readouterr().out
    assert "Manner = " in shown
    assert "Leak = 0.00" in shown
    assert "(Fact(kind='weekday', key='friday'), False)" in shown


def test_commands_of_scores_exist_with_their_options() -> None:
    lines = [line for line in SCORES.splitlines() if line.startswith("exadec ")]
    assert len(lines) == 7
    for line in lines:
        test_command_exists_with_its_options(line)


def test_commands_of_using_exist_with_their_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")  # for bash, whatever started the tests
    lines = re.findall(r"^ *(exadec .*?)(?: #|$)", USING, re.MULTILINE)
    assert len(lines) >= 7
    for line in lines:
        if line.split()[1].startswith("--"):
            assert exadec(line.split()[1].replace("install", "show"), "bash").returncode == 0, line
        else:
            test_command_exists_with_its_options(line)


@pytest.mark.slow
def test_python_of_using_runs_on_a_smaller_wire(tmp_path: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", USING, re.DOTALL)
    assert '"folder": "short"}' in program
    program = program.replace('"folder": "short"}', f'"folder": "short", **{SMALL!r}}}')
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "ROUGE-1 50.0" in done.stdout


def test_the_page_is_not_empty() -> None:
    tests = [reference for reference in REFERENCES if reference.startswith("tests/")]
    assert len(tests) >= 40
    assert len(REFERENCES) - len(tests) >= 45
    assert len(KEYS) >= 35
    assert len(COMMANDS) >= 10
    assert {f"configs/{name}.yaml" for name in ("gigaword", "nyt", "wikibio", "wire")} <= set(PATHS)
