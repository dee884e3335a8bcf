"""Settings of Sphinx for `make docs`, and the pages of the API reference.

In: the pages of this folder, and the docstrings of `exadec`. Out: docs/_build/html. The pages of the reference are
written anew by each build, so a module that moves needs no change here.
"""

import ast
import inspect
import re
import shutil
from pathlib import Path
from typing import Any

import exadec

DOCS = Path(__file__).parent
PACKAGE = Path(exadec.__file__).parent
COMPILED = {"numba", "triton"}
"""Modules that import these are kernels: internal, and their functions are no Python functions any more."""

project = "exadec"
author = "The exadec developers"
copyright = author
version = release = exadec.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "exadec"
html_show_copyright = False

default_role = "code"
autodoc_mock_imports = ["ray", "triton"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_inherit_docstrings = False
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
# Two fields of plans are named `set`, as in their YAML, so the type of that name has two targets.
suppress_warnings = ["ref.python"]


def write_reference(folder: Path) -> None:
    """Write a page of the public names, and one for each package, with a section for each module."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    public = ["# Public names", "", "`import exadec` gives these. Everything else is listed by package.", ""]
    for name in exadec.__all__:
        kind = "autoclass" if inspect.isclass(getattr(exadec, name)) else "autofunction"
        public += _directive(f"{kind}:: exadec.{name}")
    (folder / "public.md").write_text("\n".join(public), "utf-8")
    for package in sorted(path.parent for path in PACKAGE.rglob("__init__.py")):
        name = ".".join(("exadec", *package.relative_to(PACKAGE).parts))
        modules = [path for path in sorted(package.glob("*.py")) if not path.stem.startswith("__")]
        lines = [f"# {name}", "", inspect.cleandoc(ast.get_docstring(_parse(package / "__init__.py")) or ""), ""]
        for path in modules:
            if not COMPILED & _imports(path):
                lines += [f"## {name}.{path.stem}", "", *_directive(f"automodule:: {name}.{path.stem}")]
        (folder / f"{name}.md").write_text("\n".join(lines), "utf-8")


def _directive(text: str) -> list[str]:
    return ["```{eval-rst}", f".. {text}", "```", ""]


def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _imports(path: Path) -> set[str]:
    """The first parts of what a module imports at its top level."""
    names: set[str] = set()
    for node in _parse(path).body:
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def render_docstring(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Plain prose to reStructuredText: names in backticks are code, aligned or indented blocks stay as they are."""
    rendered: list[str] = []
    for paragraph in "\n".join(lines).strip("\n").split("\n\n"):
        rows = paragraph.split("\n")
        is_list = all(re.match(r"- |  ", row) for row in rows) and rows[0].startswith("- ")
        is_block = any(re.search(r"^ |\S {3,}\S", row) for row in rows) and not is_list
        rendered += ["::", "", *(f"    {row}" for row in rows)] if is_block else [_escape(row) for row in rows]
        rendered.append("")
    lines[:] = rendered


def _escape(row: str) -> str:
    """`name` becomes code; what else reStructuredText would read as markup becomes plain text."""
    parts = re.split(r"(`[^`]+`)", row)
    plain = [re.sub(r"([*_|])", r"\\\1", part) for part in parts[::2]]
    # An escaped space is no space: it ends the markup before a letter, as in `Record`s.
    code = [f"\\ `{part}`\\ " for part in parts[1::2]]
    return "".join(piece for pair in zip(plain, [*code, ""], strict=True) for piece in pair)


def setup(app: Any) -> None:
    """Called by Sphinx."""
    write_reference(DOCS / "api")
    app.connect("autodoc-process-docstring", render_docstring)
