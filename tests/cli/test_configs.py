"""`exadec config`, in a checkout and from a wheel."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from support.command import assert_refused, exadec

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "configs").rglob("*.yaml"))


def names() -> list[str]:
    return [path.relative_to(ROOT / "configs").with_suffix("").as_posix() for path in FILES]


def test_list_describes_every_file() -> None:
    assert len(FILES) > 10
    done = exadec("config", "list")
    rows = dict(line.split("  ", 1) for line in done.stdout.splitlines())
    assert sorted(rows) == sorted(names())
    assert rows["wire"].strip().startswith("The embedded corpus: a generated news wire")
    assert all(len(description.strip()) > 20 for description in rows.values())


def test_show_prints_the_file_itself() -> None:
    for path, name in zip(FILES, names(), strict=True):
        assert exadec("config", "show", name).stdout.encode() == path.read_bytes()


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    assert_refused(exadec("config", "show", "newz"), "is named 'newz'; there are debian, e2e")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of this checkout, built in a copy and unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("exadec", "configs"):
        shutil.copytree(ROOT / name, folder / "copy" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder / "copy")
    build = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"
    command = [sys.executable, "-c", build, str(folder)]
    done = subprocess.run(command, cwd=folder / "copy", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        archive.extractall(folder / "installed")
    shutil.rmtree(folder / "copy")
    return folder / "installed"


@pytest.mark.slow
def test_a_wheel_has_all_configurations_and_says_that_it_is_typed(installed: Path) -> None:
    inside = installed / "exadec" / "configs"
    assert {path.relative_to(inside) for path in inside.rglob("*.yaml")} == {
        path.relative_to(ROOT / "configs") for path in FILES
    }
    assert (installed / "exadec" / "py.typed").is_file()


@pytest.mark.slow
def test_users_of_a_wheel_name_configurations(installed: Path, tmp_path: Path) -> None:
    sizes = ("wire_train=50", "wire_heldout=5", "wire_outlets=5", "vocabulary_size=300")
    settings = [part for size in sizes for part in ("--set", f"corpus.{size}")]
    command = [sys.executable, "-m", "exadec", "prepare", "wire", *settings]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "demo/corpus: 50 train" in done.stderr
    where = [sys.executable, "-c", "import exadec; print(exadec.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert Path(found.stdout.strip()).is_relative_to(installed)
