"""The tree is the architecture: packages sort into the data flow and import only upwards."""

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "exadec"
PACKAGES = ["corpus", "exemplars", "loading", "model", "search", "textmetrics", "training", "views"]
BELOW_ALL = {"config", "errors", "files"}
"""Modules that any package may use."""
MODULES = sorted(ROOT.rglob("*.py"))


def imported_parts(path: Path) -> set[str]:
    """The first part below `exadec` of everything a module imports."""
    parts = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("exadec"):
            below = node.module.split(".")[1:]
            parts |= {below[0]} if below else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            parts |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("exadec.")}
    return parts


def test_every_package_is_shipped() -> None:
    shipped = tomllib.loads((ROOT.parent / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    assert shipped == ["exadec", *sorted(f"exadec.{name}" for name in [*PACKAGES, "configs", "exemplars.policies"])]


def test_packages_are_the_ones_of_the_design_in_alphabetical_order() -> None:
    found = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
    assert found == PACKAGES == sorted(PACKAGES)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_up_the_data_flow(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    imported = imported_parts(path)
    if package in PACKAGES:
        allowed = set(PACKAGES[: PACKAGES.index(package) + 1]) | BELOW_ALL
        if package == "views":
            allowed |= {"api"}  # a swap is made by a Writer
        assert imported <= allowed
    elif path.stem in BELOW_ALL:
        assert imported <= BELOW_ALL


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_imports_and_says_what_comes_in_and_goes_out(path: Path) -> None:
    name = ".".join(["exadec", *path.relative_to(ROOT).with_suffix("").parts]).removesuffix(".__init__")
    if path.stem == "__main__":
        return
    module = importlib.import_module(name)
    assert module.__doc__
    if path.stem != "__init__":
        assert "In: " in module.__doc__
        assert "Out: " in module.__doc__


def test_files_and_functions_stay_small() -> None:
    for path in MODULES:
        text = path.read_text("utf-8")
        assert text.count("\n") <= 400, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno - node.lineno < 80, f"{path}: {node.name}"
