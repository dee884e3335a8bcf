"""Records, pieces, ids: what goes in comes out, and what is wrong is refused by its line."""

import gzip
import json
import lzma
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from toys import config_for, write_splits

import exadec.corpus.record as recording
import exadec.corpus.workers as working
from exadec.config import Config, ConfigError
from exadec.corpus.prepare import Corpus, prepare
from exadec.corpus.record import Record, fingerprint, linearize, read_records, write_records
from exadec.corpus.segment import JOINER, BpeSegmenter, Segmenter, WordSegmenter
from exadec.corpus.sequences import ArrayFile, Sequences, fingerprints
from exadec.corpus.stage import hash_file
from exadec.corpus.vectors import read_vectors
from exadec.corpus.vocabulary import SPECIALS, UNK, PieceTable, Vocabulary
from exadec.errors import InputError

GOOD = '{"source": "a b", "target": "c"}\n'


def spaced(text: str) -> str:
    return " ".join(text.split())


texts = st.text(max_size=60).map(spaced)


# Records --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no records"),
        (b"\n \n", "holds no records"),
        (GOOD.encode() + b"{oops}\n", r":2: not JSON"),
        (b"[1, 2]\n", r":1: expected a JSON object, but found a list"),
        (b'{"source": "a"}\n', r":1: the record has no 'target'"),
        (b'{"target": "a"}\n', r":1: the record has no 'source'"),
        (b'{"source": "a", "target": " "}\n', r":1: the record's 'target' is empty"),
        (b'{"source": 3, "target": "b"}\n', r":1: 'source' must be text, but is a int"),
        (b'{"table": [], "target": "b"}\n', r":1: 'table' is empty"),
        (b'{"table": [["a"]], "target": "b"}\n', r":1: 'table' must be a list of \[attribute, value\] pairs"),
        (b'{"source": "a", "target": "b", "references": [1]}\n', r":1: 'references' must be a list of texts"),
        (GOOD.encode() * 2 + b'{"source": "\xff", "target": "b"}\n', r":3: not valid UTF-8 \(byte 13"),
    ],
)
def test_bad_jsonl_is_refused_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(read_records(path))
    assert "\n" not in str(caught.value)


def test_missing_file_and_unknown_format_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(read_records(tmp_path / "absent.jsonl"))
    (tmp_path / "data.parquet").touch()
    with pytest.raises(InputError, match="unknown format"):
        list(read_records(tmp_path / "data.parquet"))


def test_truncated_compressed_file_is_refused(tmp_path: Path) -> None:
    whole = lzma.compress((GOOD * 1000).encode())
    (tmp_path / "cut.jsonl.xz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged or truncated"):
        list(read_records(tmp_path / "cut.jsonl.xz"))


@pytest.mark.parametrize("compress", [gzip.compress, lzma.compress, bytes], ids=["gz", "xz", "plain"])
def test_compression_follows_the_ending(tmp_path: Path, compress) -> None:
    ending = {gzip.compress: ".gz", lzma.compress: ".xz", bytes: ""}[compress]
    path = tmp_path / f"data.jsonl{ending}"
    path.write_bytes(compress((GOOD * 3).encode()))
    assert [record.uid for record in read_records(path)] == ["0", "1", "2"]


def test_tsv_takes_quotation_marks_as_text_and_csv_follows_rfc_4180(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('source\ttarget\n"so" he said\tHe said "so"\n', "utf-8")
    (tmp_path / "a.csv").write_text('source,target,group\n"one, ""two""\nthree",x,g\n', "utf-8")
    assert next(read_records(tmp_path / "a.tsv")).source == '"so" he said'
    assert next(read_records(tmp_path / "a.csv")) == Record("0", 'one, "two" three', "x", group="g")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("source\ttarget\na\tb\nc\n", ":3: expected 2 columns, but found 1"),
        ("source\ttitle\na\tb\n", ":1: unknown column 'title'"),
        ("source\na\n", ":2: the record has no 'target'"),
        ("", "holds no records"),
    ],
)
def test_bad_tsv_is_refused_by_its_line(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "bad.tsv").write_text(content, "utf-8")
    with pytest.raises(InputError, match=message):
        list(read_records(tmp_path / "bad.tsv"))


@given(
    st.lists(
        st.builds(
            Record,
            uid=st.text(min_size=1, max_size=5),
            source=texts.filter(bool),
            target=texts.filter(bool),
            references=st.lists(texts, max_size=2).map(tuple),
            group=st.none() | st.text(max_size=5),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_records_survive_a_round_trip(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> None:
    path = tmp_path_factory.mktemp("records") / "r.jsonl"
    assert write_records(path, records) == len(records)
    assert list(read_records(path)) == records


def test_tables_are_kept_and_linearised(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"table": [["name", "Ada"], ["born", "1815"]], "target": "x"}\n', "utf-8")
    (record,) = read_records(tmp_path / "t.jsonl")
    assert record.table == (("name", "Ada"), ("born", "1815"))
    assert record.source == linearize(record.table) == "name : Ada | born : 1815"
    write_records(tmp_path / "u.jsonl", [record])
    assert list(read_records(tmp_path / "u.jsonl")) == [record]


# Pieces ---------------------------------------------------------------------------------------------------------------


@given(texts)
def test_words_join_to_the_same_text(text: str) -> None:
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    assert segmenter.join(segmenter.segment(text)) == spaced(text.replace(JOINER, " "))


def test_words_by_hand() -> None:
    segmenter = WordSegmenter(pretokenized=False, lower_case=False)
    assert segmenter.segment('The U.S. paid $4,000.50, Norway\'s "aid".') == [
        "The", "U.S.", "paid", "$", "￭4,000.50", "￭,", "Norway's", '"', "￭aid", '￭"', "￭."
    ]  # fmt: skip
    assert WordSegmenter(pretokenized=True, lower_case=True).segment("-LRB- a.b , c") == ["-lrb-", "a.b", ",", "c"]


@pytest.fixture(scope="module")
def bpe() -> BpeSegmenter:
    return BpeSegmenter.learn(["the lower the newer", "the widest Ünïcode 東京"] * 5, 300, lower_case=False)


@given(text=texts)
def test_bpe_joins_to_the_same_text(bpe: BpeSegmenter, text: str) -> None:
    assert bpe.join(bpe.segment(text)) == text


def test_bpe_is_saved_and_opened(bpe: BpeSegmenter, tmp_path: Path) -> None:
    bpe.save(tmp_path)
    opened = BpeSegmenter.open(tmp_path, lower_case=False)
    assert opened.segment("the newest 東京") == bpe.segment("the newest 東京")
    assert opened.pieces() == bpe.pieces()


def test_vocabulary_keeps_the_most_frequent_and_breaks_ties_by_the_alphabet() -> None:
    vocabulary = Vocabulary.most_frequent(Counter({"b": 2, "a": 2, "c": 3, "d": 1}), len(SPECIALS) + 3)
    assert vocabulary.pieces == (*SPECIALS, "c", "a", "b")


def test_piece_table_numbers_unknown_pieces_and_gives_them_back() -> None:
    table = PieceTable(Vocabulary(["a", "b"]))
    ids = table.encode(["a", "x", "y", "x", "<pad>"])
    assert ids == [5, 7, 8, 7, 9]
    assert table.decode(ids) == ["a", "x", "y", "x", "<pad>"]
    assert table.decode([0, 2, 5, 3, UNK]) == ["a", "<unk>"]


def test_vectors_ignore_joiners_and_count_numbers_from_the_right(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("a 1 2\n. . . 3 4\n, 5 6\n", "utf-8")
    vectors = read_vectors(tmp_path / "v.txt", Vocabulary(["a", "￭,", "b", ". . ."]), 2)
    assert vectors[len(SPECIALS) :].tolist()[:2] == [[1, 2], [5, 6]]
    assert np.isnan(vectors[len(SPECIALS) + 2]).all()
    assert vectors[len(SPECIALS) + 3].tolist() == [3, 4]
    with pytest.raises(InputError, match=r"v.txt:1: expected a word and 5 numbers"):
        read_vectors(tmp_path / "v.txt", Vocabulary(["a"]), 5)


@pytest.mark.parametrize("lower_case", [False, True])
@given(text=texts)
def test_pieces_of_a_text_are_those_of_its_words(bpe: BpeSegmenter, text: str, lower_case: bool) -> None:
    segmenters: list[Segmenter] = [WordSegmenter(pretokenized, lower_case) for pretokenized in (False, True)]
    for segmenter in (*segmenters, BpeSegmenter(bpe.tokenizer, lower_case)):
        assert [piece for word in text.split() for piece in segmenter.segment(word)] == segmenter.segment(text)


@pytest.mark.parametrize("lower_case", [False, True])
def test_bpe_learns_from_counts_what_it_learns_from_texts(lower_case: bool) -> None:
    random = np.random.default_rng(0)
    odd = "The U.S. isn't paying $4,000.50 — Norway’s “aid” 東京 naïve re-elected the they'll"
    words = [*odd.split(" "), "x" * 70]
    texts = [" ".join(random.choice(words, 12)) for _ in range(900)]
    oracle = Tokenizer(models.BPE())
    oracle.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=330, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False
    )
    oracle.train_from_iterator((text.lower() if lower_case else text for text in texts), trainer)
    learnt = json.loads(BpeSegmenter.learn(texts, 330, lower_case).tokenizer.to_str())
    assert learnt["model"] == json.loads(oracle.to_str())["model"]
    assert learnt["pre_tokenizer"] == json.loads(oracle.to_str())["pre_tokenizer"]
    assert len(learnt["model"]["merges"]) > 50


# Sequences ------------------------------------------------------------------------------------------------------------

sequences = st.lists(st.lists(st.integers(0, 9), max_size=5), min_size=1, max_size=12)


def as_sequences(rows: list[list[int]]) -> Sequences:
    return Sequences(np.array([number for row in rows for number in row], np.int32), np.cumsum([0, *map(len, rows)]))


@given(rows=sequences, parts=st.lists(st.lists(st.integers(0, 99), max_size=3), min_size=10, max_size=10))
def test_sequences_are_expanded_block_by_block(rows: list[list[int]], parts: list[list[int]]) -> None:
    packed, table, expanded = as_sequences(rows), as_sequences(parts), []
    blocks = list(packed.blocks(4))
    assert [end for _, end in blocks[:-1]] == [begin for begin, _ in blocks[1:]]
    for begin, end in blocks:
        ids, lengths = packed.expand(table, begin, end)
        expanded += [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    assert expanded == [[part for number in row for part in parts[number]] for row in rows]


@given(sequences)
def test_fingerprints_are_equal_for_equal_sequences_alone(rows: list[list[int]]) -> None:
    rows = [[number % 2 for number in row] or [7] for row in rows]  # few kinds of them
    found = fingerprints(as_sequences(rows).ids, as_sequences(rows).lengths).tolist()
    assert [a == b for a in found for b in found] == [a == b for a in rows for b in rows]


def test_array_files_are_those_of_numpy(tmp_path: Path) -> None:
    values = np.arange(100_000, dtype=np.int64)
    for count in (0, 7, 100_000):
        with ArrayFile(tmp_path / "grown.npy", np.int64) as file:
            for part in np.array_split(values[:count], 3):
                file.append(part)
        np.save(tmp_path / "whole.npy", values[:count])
        assert (tmp_path / "grown.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


# Prepared corpora -----------------------------------------------------------------------------------------------------


RECORDS = [
    {"source": "The cat sat on the mat.", "target": "Cat sits"},
    {"source": "A zyzzyva ate the mat!", "target": "Zyzzyva eats", "references": ["It eats"]},
]


@pytest.mark.parametrize("corpus", [{"segmentation": "words", "vocabulary_size": 8}, {"vocabulary_size": 300}])
def test_corpus_gives_the_texts_back(tmp_path: Path, corpus: dict[str, object]) -> None:
    write_splits(tmp_path, RECORDS)
    prepared = prepare(config_for(tmp_path, **corpus))
    for split in ("train", "valid", "test"):
        assert prepared.size(split) == 2
        for i, record in enumerate(prepared.records(split)):
            assert prepared.text(prepared.sources(split)[i]) == record.source == RECORDS[i]["source"]
            assert prepared.text(prepared.targets(split)[i]) == record.target
    assert next(prepared.records("test")).uid == "test-0"


@pytest.mark.parametrize("corpus", [{"segmentation": "words", "vocabulary_size": 40}, {"vocabulary_size": 300}])
def test_many_processes_make_the_same_corpus_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corpus: dict[str, object]
) -> None:
    random = np.random.default_rng(0)
    records: list[dict[str, object]] = [
        {"source": " ".join(f"w{n}" for n in random.integers(0, 99, 9)), "target": f"t{i} 東京", "group": f"g{i % 3}"}
        for i in range(200)
    ]
    write_splits(tmp_path, records)
    monkeypatch.setattr(recording, "_CHUNK_LENGTH", 1000)
    manifests = []
    for cores in (1, 3):
        monkeypatch.setattr(working, "cores", lambda cores=cores: cores)
        prepared = prepare(config_for(tmp_path, **corpus))
        manifests.append(prepared.manifest)
        shutil.rmtree(prepared.folder)
    assert manifests[0] == manifests[1]  # with the hashes of all files


def test_what_a_corpus_keeps_is_what_its_records_hold(tmp_path: Path) -> None:
    groups = ["b", None, "a", "b"]
    records = [
        {"source": f"X  y{i % 2}", "target": f"Y {i}"} | ({"group": g} if g else {}) for i, g in enumerate(groups)
    ]
    write_splits(tmp_path, records)
    prepared = prepare(config_for(tmp_path, segmentation="words", lower_case=True))
    words = prepared.word_list()
    for split in ("train", "valid", "test"):
        texts = prepared.words(split, "source")
        kept = [" ".join(words[number] for number in texts[i]) for i in range(4)]
        assert kept == [record.source for record in prepared.records(split)] == ["X y0", "X y1", "X y0", "X y1"]
        names = [*prepared.group_names, None]
        assert [names[number] for number in prepared.groups(split)] == groups
        assert prepared.uids(split).tolist() == [fingerprint(f"{split}-{i}") for i in range(4)]
        same = prepared.fingerprints(split, "source")
        assert same.tolist() == prepared.fingerprints("train", "source").tolist()
        assert (same[:2] == same[2:]).all()
        assert same[0] != same[1]
        assert prepared.contents(split) == {"tables": 0, "several_references": 0, "groups": 2}
    assert [prepared.target(i) for i in range(4)] == [f"Y {i}" for i in range(4)]


def test_corpus_of_an_earlier_version_is_made_again_with_the_same_key(tmp_path: Path) -> None:
    write_splits(tmp_path, RECORDS)
    config = config_for(tmp_path, segmentation="words")
    before = prepare(config)
    manifest = json.loads((before.folder / "manifest.json").read_text("utf-8"))
    del manifest["contents"]
    manifest["files"] = {name: facts for name, facts in manifest["files"].items() if "words" not in name}
    (before.folder / "manifest.json").write_text(json.dumps(manifest), "utf-8")
    with pytest.raises(InputError, match=r"made by an earlier version of exadec; run `exadec prepare` again"):
        Corpus(before.folder).groups("train")
    assert prepare(config).manifest == before.manifest


def test_long_texts_are_cut_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_splits(tmp_path, RECORDS)
    prepared = prepare(config_for(tmp_path, segmentation="words", max_source=6))
    assert prepared.manifest["truncated"]["train sources"] == 1
    assert prepared.sources("train").lengths.tolist() == [6, 6]
    assert "train sources: 1 were longer than the limit and were cut." in caplog.text


def test_stage_is_run_again_only_when_its_inputs_change(tmp_path: Path) -> None:
    write_splits(tmp_path, RECORDS)
    config = config_for(tmp_path, segmentation="words")
    first = prepare(config)
    made = (first.folder / "manifest.json").stat().st_mtime_ns
    assert prepare(config).hash == first.hash
    assert (first.folder / "manifest.json").stat().st_mtime_ns == made
    write_splits(tmp_path, [*RECORDS, RECORDS[0]])
    assert prepare(config).size("train") == 3
    assert prepare(config_for(tmp_path, segmentation="words", lower_case=True)).hash != first.hash


def test_manifest_holds_the_hashes_of_inputs_and_files(tmp_path: Path) -> None:
    write_splits(tmp_path, RECORDS)
    corpus = prepare(config_for(tmp_path, segmentation="words"))
    assert corpus.manifest["inputs"]["train"] == hash_file(tmp_path / "train.jsonl")
    for name, facts in corpus.manifest["files"].items():
        assert facts["sha256"] == hash_file(corpus.folder / name)
    assert {"vocabulary.json", "train.source.ids.npy", "test.target.offsets.npy"} <= corpus.manifest["files"].keys()


def test_damaged_stage_is_made_again(tmp_path: Path) -> None:
    write_splits(tmp_path, RECORDS)
    config = config_for(tmp_path, segmentation="words")
    ids = prepare(config).folder / "train.source.ids.npy"
    ids.write_bytes(ids.read_bytes()[:-4])
    assert prepare(config).text(prepare(config).sources("train")[1]) == RECORDS[1]["source"]


def test_failure_leaves_what_was_there(tmp_path: Path) -> None:
    write_splits(tmp_path, RECORDS)
    config = config_for(tmp_path, segmentation="words")
    before = prepare(config)
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write("not json\n")
    with pytest.raises(InputError, match=r"test.jsonl:3: not JSON"):
        prepare(config)
    assert Corpus(before.folder).hash == before.hash
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["corpus"]


def test_missing_inputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"`corpus.train` is missing"):
        prepare(Config.from_dict({"folder": str(tmp_path)}))
    with pytest.raises(InputError, match=r"train.jsonl: no such file \(named by `corpus.train`\)"):
        prepare(config_for(tmp_path))
