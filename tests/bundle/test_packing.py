"""What is exported is the run: the same texts, the same exemplars, in a file that any program can look into."""

import os
import shutil
import stat
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exadec.api import Generation, Writer, load
from exadec.bundle import packing
from exadec.bundle.packed import open_bundle
from exadec.bundle.packing import export
from exadec.config import VARIANTS
from exadec.errors import InputError, RequestError
from exadec.exemplars.growing import GrowingRetriever
from exadec.exemplars.journal import Accepted, Journal, journal_folder
from exadec.exemplars.retriever import Retriever
from exadec.reading.archive import ALIGNMENT
from exadec.request import Request
from exadec.styles import Mixture
from exadec.training.checkpoint import Run, open_corpus, open_run
from exadec.training.trainer import train
from support.tiny_runs import config_beyond_the_paper
from support.toys import config_for, toy_records, variant_config, write_splits

SOURCES = ["house1 house1 n3 k5", "house4 house4 house4 n1 k2", "n7 unheard-of", "東京"]


def shown(generations: list[Generation]) -> list[object]:
    return [
        (one.text, one.score, one.exemplars, one.similarity, one.memory, one.alternatives, one.truncated)
        for one in generations
    ]


def assert_same(one: Writer, other: Writer, **options: object) -> None:
    assert shown(one.write_all(SOURCES, **options)) == shown(other.write_all(SOURCES, **options))


def test_the_file_writes_what_the_folder_writes(run: Run, bundle: Path, tmp_path: Path) -> None:
    """Elsewhere, with nothing of the run beside it."""
    moved = shutil.copy(bundle, tmp_path / "another-name.exadec")
    ours, theirs = load(run.folder), load(moved)
    assert_same(ours, theirs)
    assert_same(ours, theirs, group="g1", n_best=2)
    assert_same(ours, theirs, exemplars="up n1 k1")
    assert_same(ours, theirs, group=["g0", None, "g2", None])
    assert ours.retrieve(SOURCES) == theirs.retrieve(SOURCES)
    assert theirs.retrieve(SOURCES[:1])[0][0] is not None
    assert shown(load(moved, {"search.beam_size": 1}).write(SOURCES)) == shown(
        load(run.folder, {"search.beam_size": 1}).write(SOURCES)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["another-name.exadec"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_model_can_be_exported(tmp_path: Path, variant: str) -> None:
    write_splits(tmp_path, toy_records(60, seed=0))
    config = variant_config(tmp_path, variant, epochs=1)
    settings = {"features": "pieces", "weighting": "tfidf", "exclude_same_source": True, "policy": "sample"}
    config = config.replace("exemplars", **settings)
    run = train(config, tmp_path / "work" / "run")
    reads = config.model.reads_exemplars
    out = export(run.folder, tmp_path / "a.exadec", with_exemplars=reads)
    assert_same(load(run.folder), load(out))
    if not reads:
        with pytest.raises(InputError, match="does not read exemplars; export it without"):
            export(run.folder, tmp_path / "b.exadec", with_exemplars=True)


def test_a_run_beyond_the_paper_can_be_exported(tmp_path: Path) -> None:
    write_splits(tmp_path, toy_records(60, seed=0))
    corpus = config_for(tmp_path, vocabulary_size=340).corpus
    run = train(config_beyond_the_paper(tmp_path / "work", "adadec+attexp", corpus), tmp_path / "work" / "run")
    out = export(run.folder, tmp_path / "a.exadec", with_exemplars=True)
    assert_same(load(run.folder), load(out))
    assert_same(load(run.folder), load(out), guidance=0.5)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_the_bank_comes_along_on_request(run: Run, tmp_path: Path, precision: str) -> None:
    out = export(run.folder, tmp_path / "a.exadec", precision, with_exemplars=True, with_bank=True)
    writer = load(out)
    bank = writer.bank()
    assert bank.dtype == np.float16
    assert not list(tmp_path.glob("*.bank"))  # it is not made again
    exemplars = [writer.exemplar_text(number) for number in range(len(bank))]
    expected = [one for one in writer.read_coefficients(exemplars) if one is not None]
    np.testing.assert_allclose(bank, np.stack(expected), rtol=2e-3, atol=1e-3)
    if precision == "float32":
        np.testing.assert_array_equal(bank, load(run.folder).bank())
    with zipfile.ZipFile(out) as archive:
        size = archive.getinfo("coefficients.npy").file_size
        assert f"λ of all exemplars {size:,}" in archive.read("README.md").decode()


def test_what_a_server_deleted_is_not_in_the_file(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Neither found nor to be read, by whatever policy; the others keep their numbers, and λ of their targets."""
    shutil.copytree(run.folder.parent, tmp_path / "work")
    place = tmp_path / "work" / run.folder.name
    ours = load(place)
    before = ours.write_all(SOURCES[:2])
    deleted = [int(str(one.exemplar_id).removeprefix("train-")) for one in before]
    journal = Journal(journal_folder(place), run.facts["corpus"])
    for number in (*deleted, 10**6):  # the second is none of this corpus
        journal.delete_training(number)
    journal.accept(Accepted("house1 n3", "up n3"))
    out = export(place, tmp_path / "a.exadec", with_exemplars=True, with_bank=True)  # while a server runs
    journal.close()
    folder = journal_folder(place)
    assert f"texts that a server accepted (1) are not in this file; to retrieve them with it: exadec serve {out} " in (
        caplog.text
    )
    theirs = load(out)
    served = GrowingRetriever(ours.run.open_retriever(), Journal(folder, run.facts["corpus"]))
    served.delete("own-0")
    packed = theirs.run.open_retriever()
    assert packed.find_several(SOURCES, None, 5) == served.find_several(SOURCES, None, 5)
    assert packed.find_several(SOURCES, "g1", 5) == served.find_several(SOURCES, "g1", 5)
    served.journal.close()
    drawing = Retriever(packed.corpus, packed.index, replace(packed.config, policy="random"))
    drawn = {one.number for one in drawing.find([f"n{i}" for i in range(2000)])}
    assert drawn == set(range(theirs.bank().shape[0])) - set(deleted)
    kept = [number for number in range(len(theirs.bank())) if number not in deleted]
    np.testing.assert_allclose(theirs.bank()[kept], ours.bank()[kept], rtol=2e-3, atol=1e-3)
    assert [theirs.exemplar_text(number) for number in kept] == [ours.exemplar_text(number) for number in kept]
    for number in deleted:
        assert theirs.exemplar_text(number) == "<unk>"
        assert packed.corpus.groups("train")[number] == -1
    assert len(packed.index) == len(kept)
    with zipfile.ZipFile(out) as archive:
        assert f"| exemplars inside | {len(kept)} training targets" in archive.read("README.md").decode()
    growing = GrowingRetriever(packed, Journal(tmp_path / "new", run.facts["corpus"]))
    assert [growing.find_number(f"train-{number}") for number in deleted] == [None] * len(deleted)
    growing.journal.close()
    moved = shutil.move(folder, tmp_path / "elsewhere")
    again = export(place, out, with_exemplars=True, force=True, exemplars=moved)
    assert len(load(again).run.open_retriever().index) == len(kept)
    assert len(load(export(place, out, with_exemplars=True, force=True)).run.open_retriever().index) == len(ours.bank())


def test_a_file_without_a_single_exemplar_left_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: no server has kept exemplars there"):
        export(run.folder, tmp_path / "a.exadec", with_exemplars=True, exemplars=tmp_path / "nowhere")
    journal = Journal(tmp_path / "kept", run.facts["corpus"])
    for number in range(open_corpus(run).size("train")):
        journal.delete_training(number)
    journal.close()
    with pytest.raises(InputError, match="all training exemplars were deleted; export the run without exemplars"):
        export(run.folder, tmp_path / "a.exadec", with_exemplars=True, exemplars=tmp_path / "kept")
    assert not (tmp_path / "a.exadec").exists()


def test_a_bank_without_exemplars_is_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"add `with_exemplars=True`"):
        export(run.folder, tmp_path / "a.exadec", with_bank=True)
    write_splits(tmp_path, toy_records(60, seed=0))
    plain = train(variant_config(tmp_path, "attexp", epochs=1), tmp_path / "work" / "plain")
    with pytest.raises(InputError, match=r"\(attexp\) does not adapt; export it without bank"):
        export(plain.folder, tmp_path / "a.exadec", with_exemplars=True, with_bank=True)
    assert not (tmp_path / "a.exadec").exists()


def test_requests_that_bring_an_exemplar_do_not_suffer_from_others(run: Run, tmp_path: Path) -> None:
    writer = load(export(run.folder, tmp_path / "a.exadec"))
    source = "house1 house1 n3 k5"
    found = writer.answer([Request(source, "up n1 k1"), Request(source), Request(source, "down k1 n1")])
    assert [type(one) for one in found] == [Generation, RequestError, Generation]
    assert "no exemplar can be retrieved" in str(found[1])
    alone = writer.answer([Request(source)] * 2)  # what else is in the batch makes no difference
    assert [type(one) for one in alone] == [RequestError] * 2
    assert str(alone[0]) == str(found[1])


def test_without_exemplars_it_says_what_is_missing(run: Run, tmp_path: Path) -> None:
    out = export(run.folder, tmp_path / "a.exadec")
    writer = load(out)
    assert_same(writer, load(run.folder), exemplars="up n1 k1")
    with pytest.raises(InputError, match=r"a.exadec: no exemplar can be retrieved, .*`with_exemplars=True`"):
        writer.write(SOURCES[0])
    corpus = open_corpus(run).folder
    assert_same(load(out, corpus=corpus), load(run.folder))
    with pytest.raises(InputError, match=r"a.exadec: the corpus of this run is not part of this file; say where"):
        open_corpus(open_bundle(out))
    with pytest.raises(InputError, match=r"a.exadec: a file, not a run folder"):
        open_run(out)


def test_bfloat16_rounds_the_weights_and_halves_them(run: Run, bundle: Path, tmp_path: Path) -> None:
    out = export(run.folder, tmp_path / "a.exadec", precision="bfloat16", with_exemplars=True)
    exact, rounded = (load(path).model.state_dict() for path in (bundle, out))
    for name, tensor in exact.items():
        wanted = tensor.bfloat16().float() if tensor.is_floating_point() else tensor
        assert torch.equal(rounded[name], wanted), name
    sizes = [zipfile.ZipFile(path).getinfo("weights.safetensors").file_size for path in (bundle, out)]
    saved = 2 * sum(tensor.numel() for tensor in exact.values() if tensor.is_floating_point())
    assert abs(sizes[0] - sizes[1] - saved) < 100  # the headers differ, too
    assert load(out).retrieve(SOURCES) == load(bundle).retrieve(SOURCES)


def test_house_styles_come_along(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "work" / "run"
    shutil.copytree(run.folder, folder)
    path = tmp_path / "elsewhere" / "run.exadec"
    brief, long = Mixture.of(["up n9 k2", "up n1"]), Mixture.of(["down k2 n9 k1"])
    own = Writer(open_run(folder))
    own.save_style("brief", brief)
    own.save_style("long", long)
    packed = load(export(folder, path))
    assert packed.styles.all() == {"brief": brief, "long": long}
    requests = [Request("house3 n4 k5", style=style) for style in ("brief", "long")]
    assert [one.text for one in packed.answer(requests)] == [one.text for one in own.answer(requests)]
    with pytest.raises(RequestError, match="came with the model and cannot be removed"):
        packed.styles.remove("brief")
    packed.styles.save("brief", long)  # beside the file, and it goes before the one inside
    assert load(path).styles.get("brief") == long
    packed.styles.remove("brief")
    assert load(path).styles.get("brief") == brief
    with pytest.raises(RequestError, match="there is no style 'curt'; choose one of these: brief, long"):
        packed.styles.remove("curt")


def test_any_program_can_look_inside(bundle: Path, run: Run) -> None:
    with zipfile.ZipFile(bundle) as file:
        assert file.testzip() is None
        assert file.read("README.md").decode().startswith("# work: adadec\n")
        infos = file.infolist()
        everything = b"".join(file.read(info) for info in infos)
    assert all(info.compress_type == zipfile.ZIP_STORED for info in infos)
    for member in open_bundle(bundle).archive.members.values():
        assert member.begin % ALIGNMENT == 0
    assert b"secret-folder" not in everything  # no path of whoever trained the run
    assert run.config.folder.endswith("secret-folder/work")
    assert open_bundle(bundle).config.folder == "work"


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_file_has_the_permissions_of_the_umask(run: Run, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        out = export(run.folder, tmp_path / "new" / "a.exadec")
    finally:
        os.umask(before)
    assert stat.S_IMODE(out.stat().st_mode) == mode
    assert list(out.parent.iterdir()) == [out]


def test_what_cannot_be_written_is_refused(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "a.exadec"
    for name in ("a", "a.zip", "a.exadec.txt"):
        with pytest.raises(InputError, match=r"choose a name that ends in .exadec"):
            export(run.folder, tmp_path / name)
    with pytest.raises(InputError, match="`precision` must be one of"):
        export(run.folder, out, precision="int4")
    out.write_text("mine")
    with pytest.raises(InputError, match="the file exists; choose another name, or replace it with `force=True`"):
        export(run.folder, out)
    assert out.read_text() == "mine"
    with monkeypatch.context() as patch:
        patch.setattr(packing, "LARGEST", 1_060_000)
        with pytest.raises(InputError, match="would be larger than 1,060,000 bytes"):
            export(run.folder, out, force=True, with_exemplars=True)
    assert (out.read_text(), list(tmp_path.iterdir())) == ("mine", [out])
    export(run.folder, out, force=True)
    assert load(out).write(SOURCES[0], "up n1 k1").exemplar == "up n1 k1"


def test_a_run_without_its_corpus_is_exported_without_exemplars(run: Run, tmp_path: Path) -> None:
    alone = shutil.copytree(run.folder, tmp_path / "alone" / "run")
    out = export(alone, tmp_path / "a.exadec")
    assert "not known: the corpus was not there" in zipfile.ZipFile(out).read("README.md").decode()
    with pytest.raises(InputError, match=r"alone/run: the corpus of this run is not in .*`corpus=FOLDER`"):
        export(alone, tmp_path / "b.exadec", with_exemplars=True)
    assert not (tmp_path / "b.exadec").exists()
    corpus = open_corpus(run).folder
    packed = export(alone, tmp_path / "b.exadec", with_exemplars=True, corpus=corpus)
    assert_same(load(packed), load(run.folder))


def test_paths_are_cut_to_names(run: Run) -> None:
    config = replace(run.config, folder="/home/me/news").replace("model", glove="/data/glove.txt", embedding=50)
    config = packing.without_paths(config)
    assert (config.folder, config.model.glove, config.corpus.train) == ("news", "glove.txt", "train.jsonl")
    assert config.training.start_from is None
