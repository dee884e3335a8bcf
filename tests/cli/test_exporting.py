"""`exadec export`, and its file in the other commands."""

import json
from pathlib import Path

import pytest

from support.command import SOURCE, assert_refused, exadec


def test_an_exported_run_writes_anywhere(run: Path, tmp_path: Path) -> None:
    done = exadec("export", run, "--out", tmp_path / "a.exadec", "--with-exemplars")
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'a.exadec'}: {(tmp_path / 'a.exadec').stat().st_size:,} bytes." in done.stderr
    expected = exadec("generate", run, "--json", stdin=SOURCE.encode()).stdout
    done = exadec("generate", "a.exadec", "--json", stdin=SOURCE.encode(), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, expected)
    assert json.loads(expected)["exemplar"]
    done = exadec("swap", "a.exadec", "--source", SOURCE, "--exemplar", "up n1 k1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert_refused(exadec("export", run, "--out", tmp_path / "a.exadec"), "or replace it with --force")
    assert_refused(
        exadec("generate", "a.exadec", "--split", "test", cwd=tmp_path), "a.exadec: a file, not a run folder"
    )
    assert_refused(exadec("swap", "a.exadec", "--study", 3, cwd=tmp_path), "is not part of this file; say where it is")


def test_without_exemplars_it_says_what_is_missing(run: Path, folder: Path, tmp_path: Path) -> None:
    done = exadec("export", run, "--out", tmp_path / "a.exadec", "--precision", "bfloat16")
    assert done.returncode == 0, done.stderr
    done = exadec("generate", tmp_path / "a.exadec", stdin=SOURCE.encode())
    assert_refused(done, "with --corpus FOLDER, or export the run again with --with-exemplars.")
    for option in (["--exemplar", "up n1 k1"], ["--corpus", folder / "work" / "corpus"]):
        done = exadec("generate", tmp_path / "a.exadec", *option, stdin=SOURCE.encode())
        assert (done.returncode, done.stderr) == (0, "")
    done = exadec("swap", tmp_path / "a.exadec", "--source", SOURCE, "--exemplar", "up n1 k1")
    assert (done.returncode, done.stdout.count("up n1 k1")) == (0, 1)
    assert done.stderr == "No exemplar can be retrieved here, so only those that you give are shown.\n"
    assert_refused(exadec("swap", tmp_path / "a.exadec", "--source", SOURCE), "no exemplar can be retrieved")
    done = exadec("swap", run, "--source", " ", "--exemplar", "up n1 k1")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)  # the source is at fault, not the exemplars


def test_records_without_an_exemplar_take_no_others_with_them(run: Path, tmp_path: Path) -> None:
    """However the lines fall into batches: here a batch has nothing but records that need a retrieved exemplar."""
    assert exadec("export", run, "--out", tmp_path / "a.exadec").returncode == 0
    given, bare = json.dumps({"source": SOURCE, "exemplar": "up n1 k1"}), json.dumps({"source": SOURCE})
    lines = "\n".join([given] * 4 + [bare] * 4 + [given] * 4)
    batches = ["--set", "search.batch_size=1"]
    done = exadec("generate", tmp_path / "a.exadec", "--records", "--json", *batches, stdin=lines.encode())
    assert done.returncode == 2
    rows = [*map(json.loads, done.stdout.splitlines())]
    assert [bool(row["text"]) for row in rows] == [True] * 4 + [False] * 4 + [True] * 4
    errors = done.stderr.splitlines()
    assert [line.split(" ")[0] for line in errors[:4]] == [f"<stdin>:{number}:" for number in range(5, 9)]
    assert all("with --corpus FOLDER, or export the run again with --with-exemplars." in line for line in errors[:4])
    assert errors[4:] == ["No text for 4 of 12 lines; their results are empty."]
    varied = exadec("generate", tmp_path / "a.exadec", "--records", "--vary", 2, stdin=lines.encode())
    assert_refused(varied, "no exemplar can be retrieved")


def test_onnx_files_are_written_and_their_sizes_said(run: Path, tmp_path: Path) -> None:
    done = exadec("export", run, "--onnx", tmp_path / "onnx")
    assert done.returncode == 0, done.stderr
    files = sorted((tmp_path / "onnx").iterdir())
    assert {"encoder.onnx", "step.onnx"} < {path.name for path in files}
    assert done.stderr.splitlines() == [f"{path}: {path.stat().st_size:,} bytes." for path in files]
    assert_refused(exadec("export", run, "--onnx", tmp_path / "onnx"), "or replace it with --force")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "one file with --out NAME.exadec, or ONNX files with --onnx FOLDER."),
        (["--out", "a.exadec", "--onnx", "b"], "one file with --out NAME.exadec, or ONNX files with --onnx FOLDER."),
        (["--onnx", "b", "--precision", "bfloat16"], "are for --out; leave them out with --onnx."),
        (["--onnx", "b", "--exemplars", "c"], "are for --out; leave them out with --onnx."),
        (["--out", "a.zip"], "a.zip: choose a name that ends in .exadec, such as a.exadec."),
        (["--out", "a.exadec", "--precision", "int8"], "`precision` must be one of float32, bfloat16"),
        (["--out", "a.exadec", "--corpus", "nowhere", "--with-exemplars"], "nowhere: not a prepared corpus"),
    ],
)
def test_mistakes_get_one_line(run: Path, tmp_path: Path, options: list[str], message: str) -> None:
    assert_refused(exadec("export", run, *options, cwd=tmp_path), message)
    assert list(tmp_path.iterdir()) == []
