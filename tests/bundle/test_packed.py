"""Bundles from strangers: what is not as it should be is refused by name, whoever signed it."""

import json
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load as parse_tensors
from safetensors.torch import save

from exadec.api import load
from exadec.bundle.packed import open_bundle
from exadec.errors import InputError
from support.damage import read_members, write_members

Members = dict[str, bytes]


def read(path: Path) -> None:
    """All that is inside."""
    writer = load(path)
    writer.write("house1 house1 n3 k5", group="g1")


def change_json(name: str, **values: object) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        members[name] = json.dumps({**json.loads(members[name]), **values}).encode()

    return change


def change_array(name: str, value: int) -> Callable[[Members], None]:
    def change(members: Members) -> None:
        header, numbers = members[name][:128], np.frombuffer(members[name][128:], np.int64).copy()
        numbers[len(numbers) // 2] = value
        members[name] = header + numbers.tobytes()

    return change


def change_weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Members], None]:
    def changed(members: Members) -> None:
        tensors = parse_tensors(members["weights.safetensors"])
        name = "model.decoder.embedding.weight"
        members["weights.safetensors"] = save({**tensors, name: change(tensors[name]).contiguous()})

    return changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_json("manifest.json", format=2), "of another format than 1; open it with the version of exadec that"),
        (change_json("manifest.json", records="60"), "manifest.json: .*does not hold what it should"),
        (change_json("manifest.json", records=59), "not an index of these training records|its shape"),
        (change_json("run.json", format=9), "a run of another format"),
        (change_json("run.json", corpus="0" * 64), "index/manifest.json: .*not an index of the words of this corpus"),
        (change_json("run.json", vocabulary="0" * 64), "vocabulary.json: .*not the vocabulary of run.json"),
        (change_json("run.json", groups=[1]), "run.json: .*does not hold what it should"),
        (change_array("train.target.offsets.npy", 1 << 40), "train.target.offsets.npy: .*do not ascend"),
        (change_array("train.groups.npy", 3), "train.groups.npy: .*a number in it is not from -1 to 2"),
        (change_weights(lambda one: one * torch.nan), "weights.safetensors: .*some weights are not finite"),
        (change_weights(lambda one: one[1:]), "weights.safetensors: .*another shape than the model's"),
        (change_weights(lambda one: one.double()), "weights.safetensors: .*another dtype than the model's"),
        (lambda members: members.update({"weights.safetensors": b"x" * 99}), "weights.safetensors: .*no tensors"),
        (lambda members: members.update({"config.yaml": b"model: {hidden: 60000}"}), "the file is damaged"),
        (lambda members: members.update({"config.yaml": b"!!python/object:os.system"}), "config.yaml: .*not YAML"),
        (lambda members: members.pop("train.target.ids.npy"), "train.target.ids.npy: .*the manifest does not list it"),
        (lambda members: members.pop("weights.safetensors"), "weights.safetensors: .*the manifest does not list it"),
        (lambda members: members.pop("index/000001.0.ids.npy"), "index/000001.0.ids.npy: no such file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_stranger_signs_is_checked(
    bundle: Path, tmp_path: Path, change: Callable[[Members], object], message: str
) -> None:
    path = tmp_path / "a.exadec"
    members = read_members(bundle)
    change(members)
    write_members(path, members)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


def test_what_is_only_written_again_is_the_same(bundle: Path, tmp_path: Path) -> None:
    write_members(tmp_path / "a.exadec", read_members(bundle))
    assert load(tmp_path / "a.exadec").write("n7").text == load(bundle).write("n7").text


def zip_with(path: Path, members: Members, change: Callable[[zipfile.ZipInfo], None], **options: int) -> None:
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = options.get("compression", zipfile.ZIP_STORED)
            change(info)
            file.writestr(info, content)


def test_other_zip_files_are_refused(bundle: Path, tmp_path: Path) -> None:
    path, members = tmp_path / "a.exadec", read_members(bundle)

    def nothing(info: zipfile.ZipInfo) -> None:
        pass

    def link(info: zipfile.ZipInfo) -> None:
        info.external_attr = (stat.S_IFLNK | 0o777) << 16

    for changed, change, options, message in (
        (members, nothing, {"compression": zipfile.ZIP_DEFLATED}, "is compressed or encrypted"),
        (members, link, {}, "is a link or a folder"),
        (members, nothing, {}, "is not aligned"),
        ({"../../etc/passwd": b""}, nothing, {}, "an entry of its list of files is damaged"),
        ({"/etc/passwd": b""}, nothing, {}, "an entry of its list of files is damaged"),
        ({"a\nb": b""}, nothing, {}, "an entry of its list of files is damaged"),
    ):
        zip_with(path, changed, change, **options)
        with pytest.raises(InputError, match=f"a.exadec: not a file that exadec has written, or damaged: .*{message}"):
            open_bundle(path)


def test_what_a_zip_file_says_twice_must_agree(bundle: Path, tmp_path: Path) -> None:
    path, whole = tmp_path / "a.exadec", bundle.read_bytes()
    directory = whole.index(b"PK\1\2")
    second = whole.index(b"PK\1\2", directory + 4)
    entry, rest = whole[directory:second], whole[second:-22]
    count = struct.unpack("<H", whole[-12:-10])[0]

    def end(entries: int, size: int) -> bytes:
        return struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, entries, entries, size, directory, 0)

    local = bytearray(whole)
    local[26] += 1  # the length of the first name, in its header only
    encrypted = bytearray(whole)
    encrypted[directory + 8] |= 1
    for changed, message in (
        (b"#!/bin/sh\n" + whole, "its list of files is not at its end"),
        (whole + b"more", "its list of files is not at its end"),
        (whole[:-2] + b"\4\0text", "its list of files is not at its end"),
        (whole[:-40], "its list of files is not at its end"),
        (whole[:10], "too small or too large"),
        (b"", "too small or too large"),
        (bytes(local), "differs from its entry in the list of files"),
        (bytes(encrypted), "is compressed or encrypted"),
        (whole[:directory] + entry * 2 + rest + end(count + 1, 2 * len(entry) + len(rest)), "something between"),
        (whole[:directory] + rest + end(count - 1, len(rest)), "something between its members"),
        (whole[:directory] + entry + end(1, len(entry)), "something beside its members"),
        (whole[:directory] + entry + rest + end(9999, len(entry + rest)), "too many members"),
        (whole[:directory] + entry + rest + end(count + 1, len(entry + rest)), "it ends too early"),
    ):
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"a.exadec: not a file that exadec has written, or damaged: .*{message}"):
            open_bundle(path)


def test_any_changed_byte_of_a_member_is_found(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.exadec"
    for name, member in open_bundle(bundle).archive.members.items():
        changed = bytearray(bundle.read_bytes())
        changed[member.begin + member.size // 2] ^= 1
        path.write_bytes(changed)
        with pytest.raises(InputError, match=f"a.exadec/{name}: the file is damaged: it is not what was written"):
            open_bundle(path).archive.verify()


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.exadec: no such file"):
        load(tmp_path / "a.exadec")
    with pytest.raises(InputError, match="a: not a run folder: there is nothing of this name; check the path"):
        load(tmp_path / "a")
    with pytest.raises(InputError, match=r"not a run folder \(there is no config.yaml\)"):
        load(tmp_path)


def test_settings_of_a_search_can_change_and_no_others(bundle: Path) -> None:
    assert load(bundle, ["search.beam_size=1"]).run.config.search.beam_size == 1
    with pytest.raises(InputError, match=r"only search.\* settings of a trained run can change"):
        load(bundle, ["model.hidden=3"])


def test_arrays_are_mapped_where_they_are(bundle: Path, tmp_path: Path) -> None:
    """Nothing is unpacked, and the kernels get aligned numbers."""
    path = shutil.copy(bundle, tmp_path / "a.exadec")
    retriever = open_bundle(Path(path)).open_retriever()
    ids = retriever.corpus.targets("train").ids
    assert isinstance(ids.base, np.memmap | np.ndarray)
    assert ids.flags.aligned
    assert not ids.flags.writeable
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.exadec"]
