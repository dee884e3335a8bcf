"""A folder of ONNX files writes what the run writes, and holds nothing but standard operators, weights and JSON."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from exadec.api import Writer, load
from exadec.bundle import onnx_folder
from exadec.bundle.graphs import OPSET, Graph, Port
from exadec.bundle.onnx_folder import export_onnx
from exadec.config import PRESETS, VARIANTS, Config
from exadec.corpus.vocabulary import SPECIALS
from exadec.errors import InputError
from exadec.loading.batch import Batch, Instance, collate
from exadec.training.checkpoint import Run, open_corpus
from exadec.training.trainer import train
from support.onnx_models import OnnxModel, assert_same_steps
from support.toys import toy_records, variant_config, write_splits

PAGE = (Path(__file__).parents[2] / "docs" / "onnx.md").read_text("utf-8")
SOURCES = [str(record["source"]) for record in toy_records(60, seed=1)]
EXEMPLARS = [str(record["target"]) for record in toy_records(60, seed=2)]


def config_of(name: str, folder: Path) -> Config:
    """A toy of a model of the paper, or of our preset."""
    if name in VARIANTS:
        return variant_config(folder, name, epochs=6).replace("corpus", pretokenized=False)
    config = variant_config(folder, "adadec", epochs=6).replace("exemplars", **PRESETS["exadec"]["exemplars"])
    config = config.replace("model", **PRESETS["exadec"]["model"] | {"rank": 4, "exemplar_hidden": 4})
    config = config.replace("search", max_length=20)
    return config.replace("corpus", segmentation="bpe_either_case", pretokenized=False, vocabulary_size=340)


@pytest.fixture(scope="module", params=[*VARIANTS, "preset"])
def exported(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run, and its ONNX files."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("onnx") / "secret-folder"
    folder.mkdir()
    write_splits(folder, toy_records(200, seed=0))
    run = train(config_of(request.param, folder), folder / "work" / "run")
    return SimpleNamespace(name=request.param, run=run, folder=export_onnx(run.folder, folder / "onnx"))


def onnx_model(run: Run, folder: Path) -> OnnxModel:
    encoder, step = ((folder / name).read_bytes() for name in ("encoder.onnx", "step.onnx"))
    return OnnxModel(encoder, step, run.config.model, len(run.vocabulary))


def random_batch(run: Run, count: int, seed: int) -> Batch:
    """Texts of different lengths, with words outside the vocabulary."""
    random, model = np.random.default_rng(seed), run.config.model

    def ids(longest: int) -> np.ndarray:
        return random.integers(len(SPECIALS), len(run.vocabulary) + 3, random.integers(1, longest + 1))

    instances = [Instance(ids(9), tuple(ids(6) for _ in range(model.exemplars_read)), ids(2)) for _ in range(count)]
    return collate(instances, len(run.vocabulary), model.attend_exemplar)


def test_onnxruntime_writes_the_same_texts(exported: Any) -> None:
    """Whatever the size of a batch, with retrieved exemplars and with given ones."""
    for size in (64, 7):
        ours = load(exported.run.folder, {"search.batch_size": size})
        model = onnx_model(exported.run, exported.folder)
        theirs = Writer(ours.run, model)
        given = [{}, {"exemplar": EXEMPLARS}] if exported.run.config.model.reads_exemplars else [{}]
        for options in given:
            expected, found = ours.write(SOURCES, **options), theirs.write(SOURCES, **options)
            assert [one.text for one in found] == [one.text for one in expected]
            assert [one.score for one in found] == pytest.approx([one.score for one in expected], abs=1e-4)
        assert model.steps > len(SOURCES) / size
    assert len({one.text for one in expected}) > 20  # it has learnt something to write


def test_log_p_of_every_next_word_agrees(exported: Any) -> None:
    model, theirs = load(exported.run.folder).model, onnx_model(exported.run, exported.folder)
    for count in (1, 5, 16):
        assert_same_steps(model, theirs, random_batch(exported.run, count, seed=count))


def test_the_graphs_hold_standard_operators_and_weights_alone(exported: Any) -> None:
    for name in ("encoder.onnx", "step.onnx"):
        content = (exported.folder / name).read_bytes()
        model = onnx.load_from_string(content)
        onnx.checker.check_model(model, full_check=True)
        assert [(one.domain, one.version) for one in model.opset_import] == [("", OPSET)]
        assert {node.domain for node in model.graph.node} == {""}
        assert not model.functions
        assert not any(attribute.HasField("g") for node in model.graph.node for attribute in node.attribute)
        assert not any(one.data_location for one in model.graph.initializer)  # all weights are in the file
        for trace in (b"secret-folder", b"site-packages", b".py"):
            assert trace not in content
    files = {path.name for path in exported.folder.iterdir()}
    segmentation = {"bpe.json"} if exported.name == "preset" else set()
    assert files == {"encoder.onnx", "step.onnx", "manifest.json", "vocabulary.json"} | segmentation
    assert "secret-folder" not in (exported.folder / "manifest.json").read_text("utf-8")


def test_coefficients_enter_as_numbers_and_never_as_a_matrix(exported: Any) -> None:
    """No tensor of a batch has the size of P, (batch, D, D) or more."""
    content = onnx.load_from_string((exported.folder / "step.onnx").read_bytes())
    inferred = onnx.shape_inference.infer_shapes(content, data_prop=True)
    hidden = exported.run.config.model.hidden
    shapes = [[one.dim_value for one in value.type.tensor_type.shape.dim] for value in inferred.graph.value_info]
    assert len(shapes) > 50
    assert not any(shape[0] == 0 and shape.count(hidden) > 1 for shape in shapes if shape)


def test_the_manifest_says_how_to_use_it(exported: Any) -> None:
    run, folder = exported.run, exported.folder
    manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    assert manifest["format"] == "exadec ONNX 1"
    assert manifest["model"] == run.config.model.variant
    for name, entry in manifest["files"].items():
        assert entry["bytes"] == (folder / name).stat().st_size
    model = onnx_model(run, folder)
    for part, session in (("encoder", model.encoder), ("step", model.decoder)):
        for side, found in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
            types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(bool)": "bool"}
            assert manifest[part][side] == [
                {"name": one.name, "type": types[one.type], "shape": list(one.shape)} for one in found
            ]
    state = {port["name"]: port for port in manifest["encoder"]["outputs"]}
    taken = {port["name"]: port for port in manifest["step"]["inputs"]}
    assert set(taken) == {"words", "unknown_words", *state}
    pieces = json.loads((folder / manifest["vocabulary"]["file"]).read_text("utf-8"))
    assert tuple(pieces) == run.vocabulary.pieces
    assert [pieces[number] for number in manifest["special"].values()] == list(SPECIALS)
    assert manifest["exemplars"]["read"] == {"seq2seq": 0, "preset": 4}.get(exported.name, 1)
    assert manifest["search"]["beam_size"] == 2


@pytest.mark.parametrize("exported", ["adadec"], indirect=True)
def test_the_program_of_the_page_writes_what_exadec_writes(exported: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The page shows a model of words that reads one exemplar."""
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(program.replace('"adadec-onnx"', repr(str(exported.folder))), names)
    assert len(capsys.readouterr().out.splitlines()) == 1
    writer = load(exported.run.folder, {"search.beam_size": 1})
    expected = [one.text for one in writer.write(SOURCES[:20], EXEMPLARS[:20])]
    assert [names["write"](*texts) for texts in zip(SOURCES[:20], EXEMPLARS[:20], strict=True)] == expected
    assert len(set(expected)) > 5


def fake_trace(model: object) -> tuple[Graph, Graph]:
    graph = Graph(b"a graph", [Port("source", "int64", ["batch", "source_length"])], [])
    return graph, graph


def test_only_a_folder_of_ours_is_replaced(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_folder, "trace", fake_trace)
    out = export_onnx(run.folder, tmp_path / "new" / "onnx")
    names = {"bpe.json", "encoder.onnx", "manifest.json", "step.onnx", "vocabulary.json"}
    assert {path.name for path in out.iterdir()} == names
    with pytest.raises(InputError, match="exists; choose another name, or replace it with `force=True`"):
        export_onnx(run.folder, out)
    (out / "step.onnx").write_bytes(b"damaged")
    export_onnx(run.folder, out, force=True)
    assert (out / "step.onnx").read_bytes() == b"a graph"
    (out / "mine.txt").touch()
    with pytest.raises(InputError, match=r"mine.txt: exadec did not write this"):
        export_onnx(run.folder, out, force=True)
    corpus = shutil.copytree(open_corpus(run).folder, tmp_path / "corpus")
    for other in (corpus, tmp_path):
        with pytest.raises(InputError, match="not a folder of ONNX files that exadec wrote"):
            export_onnx(run.folder, other, force=True)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: exists"):
        export_onnx(run.folder, tmp_path / "file")
    assert (corpus / "manifest.json").is_file()


def test_a_failure_leaves_nothing_behind(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Graph(None, [], [])  # type: ignore[arg-type]
    monkeypatch.setattr(onnx_folder, "trace", lambda model: (fake_trace(model)[0], broken))
    with pytest.raises(TypeError):
        export_onnx(run.folder, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []


def test_one_file_is_exported_as_its_run_is(
    run: Run, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_folder, "trace", fake_trace)
    folders = [export_onnx(path, tmp_path / name) for name, path in (("a", run.folder), ("b", bundle))]
    manifests = [json.loads((folder / "manifest.json").read_text("utf-8")) for folder in folders]
    assert manifests[0] == manifests[1]
    assert manifests[0]["source"]["groups"] == ["g0", "g1", "g2"]
    assert manifests[0]["segmentation"] == {"kind": "bpe", "lower_case": False, "file": "bpe.json"}


@pytest.mark.parametrize("absent", ["onnxscript", "onnx_ir"])
def test_without_the_extra_it_says_what_to_install(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(InputError, match=r"pip install 'exadec\[onnx\]'"):
        export_onnx(run.folder, tmp_path / "onnx")
    assert list(tmp_path.iterdir()) == []
