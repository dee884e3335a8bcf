"""Every route, and bad input at every door."""

import gzip
import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from exadec.api import load
from exadec.cli import app
from exadec.training.checkpoint import open_corpus, open_run
from exadec.training.trainer import train
from support.serving import Server, serving
from support.toys import make_guidable, toy_records, variant_config, write_splits

SOURCE = "house1 house1 house1 n3 k5"


def test_a_text_comes_with_its_exemplar_and_what_was_asked_for(server: Server, run: Path) -> None:
    status, plain, _ = server.ask("/v1/write", {"source": SOURCE})
    expected = load(run).write(SOURCE)
    assert status == 200
    assert (plain["text"], plain["score"]) == (expected.text, pytest.approx(expected.score, abs=1e-5))
    assert plain["exemplar"] == {
        "id": expected.exemplar_id,
        "text": expected.exemplar,
        "similarity": expected.similarity,
    }
    assert not {"coefficients", "pieces", "attention"} & set(plain)
    _, full, _ = server.ask("/v1/write", {"source": SOURCE, "k": 2, "coefficients": True, "explain": True})
    assert full["coefficients"] == pytest.approx(expected.coefficients.tolist(), abs=1e-5)
    assert (full["pieces"], full["memory"]) == (expected.pieces, expected.memory)
    assert len(full["attention"]) == len(full["copy_gate"]) == len(full["pieces"])
    assert [len(row) for row in full["attention"]] == [len(full["memory"])] * len(full["pieces"])
    assert len(full["alternatives"]) == 1


def test_a_given_exemplar_a_group_and_a_table_are_heard(server: Server) -> None:
    _, given, _ = server.ask("/v1/write", {"source": SOURCE, "exemplar": "up n9 k2"})
    assert given["exemplar"] == {"id": None, "text": "up n9 k2", "similarity": None}
    for group, word in (("loud", "up"), ("calm", "down")):
        _, grouped, _ = server.ask("/v1/write", {"source": SOURCE, "group": group})
        assert grouped["exemplar"]["text"].startswith(word)
    for table in ({"n": "n3", "k": 5}, [["n", "n3"], ["k", 5]]):
        _, found, _ = server.ask("/v1/write", {"table": table, "pieces": True})
        assert found["memory"] == ["n", ":", "n3", "|", "k", ":", "5"]
    assert server.ask("/v1/write", {"table": {"n": "", "k": 0}})[0] == 200  # one of them has a value
    _, triples, _ = server.ask("/v1/write", {"table": [["n3", "k", 5]], "pieces": True})
    assert triples["memory"] == ["subject", ":", "n3", "|", "k", ":", "5"]


def test_different_texts_come_each_with_its_exemplar(server: Server, run: Path) -> None:
    expected = load(run).vary("n3 k5", 3)
    _, found, _ = server.ask("/v1/vary", {"source": "n3 k5", "k": 3, "coefficients": True, "pieces": True})
    assert [one["text"] for one in found["texts"]] == [one.text for one in expected]
    nearest = server.ask("/v1/retrieve", {"source": "n3 k5", "k": 100})[1]["exemplars"]
    assert all(one["exemplar"] in nearest for one in found["texts"])
    assert [one["exemplar"]["text"] for one in found["texts"]] == [one.exemplar for one in expected]
    assert [one["exemplar"]["id"] for one in found["texts"]] == [one.exemplar_id for one in expected]
    assert found["texts"][0]["pieces"] == expected[0].pieces
    assert found["texts"][0]["coefficients"] == pytest.approx(expected[0].coefficients.tolist(), abs=1e-5)
    assert len({one["text"] for one in found["texts"]}) > 1
    _, grouped, _ = server.ask("/v1/vary", {"table": {"n": "n3"}, "group": "loud"})
    assert 0 < len(grouped["texts"]) <= 5
    assert all(one["exemplar"]["text"].startswith("up") for one in grouped["texts"])
    assert not {"coefficients", "pieces"} & set(grouped["texts"][0])


def test_different_texts_take_the_options_of_one_text(server: Server) -> None:
    def ask(**options: object) -> list[dict[str, Any]]:
        status, found, _ = server.ask("/v1/vary", {"source": "n3 k5", "k": 4, "options": options})
        assert status == 200, found
        return found["texts"]

    plain = ask()
    assert len(plain) > 1
    # Each text is what `/v1/write` answers with its exemplar and the same options.
    for options in (
        {"beginning": "down"},
        {"forbidden": ["up"]},
        {"max_characters": 5},
        {"required": ["n3 n3"]},
        {"min_length": 6, "block_ngram": 1},
        {"temperature": 2.0, "top_p": 0.9, "seed": 3},
        {"beam_size": 1},
        {"facts": "mark"},
        {"guidance": 0},
    ):
        found = ask(**options)
        assert found, options
        for one in found:
            body = {"source": "n3 k5", "exemplar": one["exemplar"]["text"], "options": options}
            assert server.ask("/v1/write", body)[1]["text"] == one["text"], options
    assert all(one["text"].startswith("down") for one in ask(beginning="down"))
    assert len({tuple(one["text"] for one in ask(temperature=2.0, seed=seed)) for seed in range(8)}) > 1
    assert [isinstance(one["facts"], list) for one in (*ask(facts="mark"), plain[0])][-2:] == [True, False]
    assert ask() == plain


VARIED_WRONG = {
    "guidance": ({"guidance": 2.0}, 409, "trained with model.exemplar_skipping=0.1"),
    "followed": ({"manner": "followed"}, 409, "leave out 'manner', or serve one"),
    "consensus": ({"choice": "consensus"}, 409, "so none can agree; leave out 'choice'."),
    "odd manner": ({"manner": "strict"}, 422, "'options.manner'"),
    "wide beam": ({"beam_size": 3}, 409, "searches with 2 at most"),
    "never ends": ({"min_length": 10_000}, 409, "'min_length' must be below"),
    "drawn": ({"required": ["up"], "temperature": 1}, 409, "required phrases need a search"),
    "strange word": ({"required": ["zebra"]}, 409, "the model cannot write 'zebra'"),
    "unknown": ({"guidence": 1}, 422, "'options.guidence' is not known here"),
}


@pytest.mark.parametrize(("options", "status", "message"), VARIED_WRONG.values(), ids=VARIED_WRONG)
def test_wrong_options_of_different_texts_are_refused(
    server: Server, options: dict[str, object], status: int, message: str
) -> None:
    found, answer, _ = server.ask("/v1/vary", {"source": SOURCE, "options": options})
    assert (found, list(answer)) == (status, ["error"])
    assert message in answer["error"]


def test_guidance_is_for_one_request(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run.parent, tmp_path / "project")
    guidable = make_guidable(open_run(tmp_path / "project" / run.name)).folder
    with serving(guidable, "--exemplars", tmp_path / "accepted") as server:
        _, guided, _ = server.ask("/v1/write", {"source": SOURCE, "options": {"guidance": 2.0}})
        _, plain, _ = server.ask("/v1/write", {"source": SOURCE})
        followed = {"source": SOURCE, "exemplar": "up : n9 ?", "options": {"manner": "followed"}}
        _, follows, _ = server.ask("/v1/write", followed)
        drawn = {**followed, "options": {"manner": "followed", "temperature": 1}}
        assert server.ask("/v1/write", drawn)[:2] == (
            409, {"error": "a followed manner needs a search; set 'temperature' to 0."},
        )  # fmt: skip
    best = load(guidable, ["search.manner=followed"]).write(SOURCE, "up : n9 ?")
    assert (follows["text"], follows["score"]) == (best.text, pytest.approx(best.score, abs=1e-5))
    expected = load(guidable).write(SOURCE, guidance=2.0)
    assert (guided["text"], guided["score"]) == (expected.text, pytest.approx(expected.score, abs=1e-5))
    assert plain["score"] != pytest.approx(expected.score, abs=1e-5)


def test_guidance_is_refused_for_a_model_that_cannot_be_guided(server: Server) -> None:
    status, problem, _ = server.ask("/v1/write", {"source": SOURCE, "options": {"guidance": 2.0}})
    assert status == 409
    assert "trained with model.exemplar_skipping=0.1" in json.dumps(problem)
    assert server.ask("/v1/write", {"source": SOURCE, "options": {"guidance": 0}})[0] == 200


def test_events_end_with_the_answer(server: Server) -> None:
    _, content, headers = server.ask("/v1/write", {"source": SOURCE, "stream": True})
    assert headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in content.strip().split("\n\n")]
    names = [name.removeprefix("event: ") for name, _ in events]
    data = [json.loads(line.removeprefix("data: ")) for _, line in events]
    assert names == ["queued", "started", *["text"] * (len(events) - 3), "done"]
    assert data[0] == {"before": 0}
    assert data[1] == {"together": 1}
    assert data[-1] == server.ask("/v1/write", {"source": SOURCE})[1]
    told = [one["text"] for one in data[2:-1]]
    assert told == sorted(set(told), key=len)
    assert all(data[-1]["text"].startswith(text) for text in told)
    _, content, _ = server.ask("/v1/write", {"source": SOURCE, "group": "nobody", "stream": True})
    name, line = content.strip().split("\n\n")[-1].split("\n")
    assert name == "event: error"
    assert json.loads(line.removeprefix("data: "))["status"] == 409


def test_an_accepted_text_is_an_exemplar_at_once_and_a_deleted_one_never_again(server: Server) -> None:
    body = {"source": f"{SOURCE} zork", "target": "up zork k5", "group": "new"}
    status, accepted, _ = server.ask("/v1/exemplars", body)
    assert status == 201
    (found,) = server.ask("/v1/retrieve", {"source": body["source"]})[1]["exemplars"]
    assert found == {"id": accepted["id"], "text": "up zork k5", "similarity": 1.0}
    assert server.ask("/v1/write", {"source": SOURCE, "group": "new"})[1]["exemplar"]["id"] == accepted["id"]
    assert server.ask(f"/v1/exemplars/{accepted['id']}")[1] == {
        "id": accepted["id"],
        "text": "up zork k5",
        "group": "new",
    }
    trained = server.ask("/v1/retrieve", {"source": SOURCE, "group": "calm"})[1]["exemplars"][0]["id"]
    for name in (accepted["id"], trained):
        assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 204
        assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 404
        assert server.ask(f"/v1/exemplars/{name}")[0] == 404
    found = server.ask("/v1/retrieve", {"source": body["source"], "k": 100})[1]["exemplars"]
    assert len(found) > 10
    assert not {accepted["id"], trained} & {one["id"] for one in found}
    status, answer, _ = server.ask("/v1/write", {"source": SOURCE, "group": "new"})
    assert (status, answer["error"]) == (409, "no exemplar has the group 'new'.")


def test_examples_with_the_most_similar_exemplars_come_first(run: Path, tmp_path: Path) -> None:
    """Records of the test set have few words that no other has, so those that are accepted here are nearest."""
    sources = [record.source for record in islice(open_corpus(load(run).run).records("test"), 8)]
    with serving(run, "--exemplars", tmp_path) as server:
        for name in server.ask("/v1/retrieve", {"source": " ".join(sources), "k": 100})[1]["exemplars"]:
            server.ask(f"/v1/exemplars/{name['id']}", method="DELETE")
        server.ask("/v1/exemplars", {"source": sources[5], "target": "up n3"})
        shown = [one["source"] for one in server.ask("/v1/examples")[1]["examples"]]
    assert shown[0] == sources[5]
    assert sorted(shown) == sorted(sources)


def test_an_example_has_the_table_of_its_record(tmp_path: Path) -> None:
    records = toy_records(120, seed=0)
    pairs = [["where", "house1 house1 house1"], ["what", "n3 k5"]]
    triples = [["house1", "where", "n4"], ["house1", "what", "k5"]]
    for number, record in enumerate(records):
        table = (pairs, triples, None)[number % 3]
        if table:
            record["table"] = table
            if number % 2:
                del record["source"]  # otherwise the record has a source of its own, which the model reads
    write_splits(tmp_path, records)
    run = train(variant_config(tmp_path, "adadec", epochs=1, evaluation_size=5), tmp_path / "run").folder
    with serving(run) as server:
        examples = server.ask("/v1/examples")[1]["examples"]
        assert len({json.dumps(one["table"]) for one in examples}) == 3
        for one in examples:
            if one["table"] is not None:
                assert one["source"].startswith("where : " if len(one["table"][0]) == 2 else "subject : house1 | where")
                body = {"coefficients": True, "pieces": True}
                found = [server.ask("/v1/write", body | {key: one[key]})[1] for key in ("table", "source")]
                assert found[0] == found[1]


def test_the_same_text_is_accepted_once(server: Server) -> None:
    body = {"source": "house9 zork", "target": "up zork k5"}
    status, first, _ = server.ask("/v1/exemplars", body)
    assert status == 201
    assert server.ask("/v1/exemplars", body)[:2] == (200, first)
    for other in ({"target": "down zork k5"}, {"source": "house9 zork zork"}, {"group": "loud"}):
        status, answer, _ = server.ask("/v1/exemplars", body | other)
        assert (status, answer != first) == (201, True)
        server.ask(f"/v1/exemplars/{answer['id']}", method="DELETE")
    assert server.ask(f"/v1/exemplars/{first['id']}", method="DELETE")[0] == 204
    status, again, _ = server.ask("/v1/exemplars", body)  # ids are never used again
    assert (status, again != first) == (201, True)
    server.ask(f"/v1/exemplars/{again['id']}", method="DELETE")


def test_what_is_cut_of_an_accepted_exemplar_is_counted(server: Server) -> None:
    limit = server.ask("/v1/model")[1]["max_target"]
    body = {"source": f"{SOURCE} xylo", "target": "up n3 " * limit}
    name = server.ask("/v1/exemplars", body)[1]["id"]
    found = server.ask("/v1/write", {"source": body["source"]})[1]
    given = server.ask("/v1/write", {"source": body["source"], "exemplar": body["target"]})[1]
    assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] == 204
    assert found["exemplar"]["id"] == name
    assert found["exemplar_truncated"] == given["exemplar_truncated"] == limit


def test_what_runs_here_is_told(server: Server, run: Path) -> None:
    status, model, _ = server.ask("/v1/model")
    assert status == 200
    assert (model["variant"], model["reads_exemplars"], model["beam_size"]) == ("adadec", True, 2)
    assert (sorted(model["groups"]), model["group_count"]) == (["calm", "loud"], 2)
    limits = {name: value for name, value in model.items() if name.startswith("max_") or name == "batch_size"}
    search, corpus = load(run).run.config.search, load(run).run.config.corpus
    assert limits == {
        "batch_size": search.batch_size,
        "max_source": corpus.max_source,
        "max_target": corpus.max_target,
        "max_length": search.max_length,
        "max_bytes": 200_000,
        "max_waiting": 256,
        "max_seconds": 30.0,
    }
    status, examples, _ = server.ask("/v1/examples")
    assert all(one["source"].startswith("house") for one in examples["examples"])
    assert len(examples["examples"]) == 8
    assert server.ask("/healthz")[:2] == (200, {"status": "ok"})
    status, text, _ = server.ask("/metrics")
    assert 'exadec_requests_total{route="/v1/model",status="200"}' in text
    assert "exadec_waiting 0.0" in text
    assert server.ask("/")[0] in (200, 307)
    assert server.ask("/nothing")[0] == 404
    status, _, headers = server.ask("/v1/exemplars/own-0", method="PUT")
    assert (status, headers["allow"]) == (405, "GET, DELETE")


def test_thousands_of_groups_are_counted_and_searched(tmp_path: Path) -> None:
    records = toy_records(4000, seed=0)
    for number, record in enumerate(records):
        record["group"] = f"Outlet {number % 3990}"  # ten of them have two
    write_splits(tmp_path, records)
    config = variant_config(tmp_path, "adadec", epochs=1, evaluation_size=5)
    with serving(train(config, tmp_path / "run").folder) as server:
        model = server.ask("/v1/model")[1]
        assert (len(model["groups"]), len(json.dumps(model)) < 2000) == (20, True)
        total = server.ask("/v1/groups?k=1")[1]["count"]
        assert model["group_count"] == total > 3000
        begun = [server.ask(f"/v1/groups?start={start}&k=1000")[1]["groups"] for start in range(0, total, 1000)]
        names = [one["name"] for page in begun for one in page]
        assert len(names) == len(set(names)) == total
        counts = [one["exemplars"] for page in begun for one in page]
        assert counts == sorted(counts, reverse=True)
        assert counts[0] == 2
        assert set(names[: counts.index(1)]) <= set(model["groups"])
        found = server.ask(f"/v1/groups?search={names[-1].swapcase().replace(' ', '%20')}")[1]
        assert names[-1] in {one["name"] for one in found["groups"]}
        assert found["count"] == sum(names[-1] in name for name in names) == len(found["groups"]) < 20
        body = {"source": SOURCE, "target": "up n3", "group": "A new one"}
        name = server.ask("/v1/exemplars", body)[1]["id"]
        assert server.ask("/v1/groups?search=new")[1] == {"count": 1, "groups": [{"name": "A new one", "exemplars": 1}]}
        server.ask(f"/v1/exemplars/{name}", method="DELETE")
        assert server.ask("/v1/groups?search=new")[1] == {"count": 0, "groups": []}
        for wrong in ("k=0", "k=x", "start=-1", f"search={'a' * 1001}"):
            status, answer, _ = server.ask(f"/v1/groups?{wrong}")
            assert (status, list(answer)) == (422, ["error"])
            assert answer["error"].startswith(f"'{wrong.split('=')[0]}' must ")


def test_requests_that_arrive_together_are_written_together(server: Server) -> None:
    sources = [f"house{i} house{i} n{i % 12} k{i % 7}" for i in range(60)]
    alone = [server.ask("/v1/write", {"source": source})[1] for source in sources]
    assert len({one["text"] for one in alone}) > 10
    with ThreadPoolExecutor(60) as pool:
        together = list(pool.map(lambda source: server.ask("/v1/write", {"source": source})[1], sources))
    assert [one["text"] for one in together] == [one["text"] for one in alone]
    assert [one["score"] for one in together] == pytest.approx([one["score"] for one in alone], abs=1e-5)
    text = server.ask("/metrics")[1]
    numbers = dict(line.split() for line in text.splitlines() if line.startswith("exadec_batch_size_"))
    assert float(numbers["exadec_batch_size_sum"]) > float(numbers["exadec_batch_size_count"])


LONG = "a " * 500_000
BAD = {
    "empty body": (b"", 422, "must be a JSON object, with the header Content-Type: application/json"),
    "no JSON": (b"{", 422, "not JSON"),
    "no object": (b"[]", 422, "must be a JSON object"),
    "not UTF-8": (b'{"source": "\xff"}', 400, "the body is not UTF-8 (byte 12)."),
    "deep": (b"[" * 100_000, 400, "the body is nested too deeply."),
    "long number": (b'{"source": "a", "k": ' + b"9" * 5000 + b"}", 400, "has more than 4,300 digits."),
    "compressed": (gzip.compress(b'{"source": "a"}'), 400, "the body is compressed, which this server does not read"),
    "half a character": (b'{"source": "\\ud800"}', 422, "'source' is not valid UTF-8."),
    "no source": ({}, 422, "'source' or 'table' is missing"),
    "empty": ({"source": ""}, 422, "'source' must be text that is not empty"),
    "blank": ({"source": " \n\t"}, 422, "'source' must be text that is not empty"),
    "control characters": ({"source": "a\x00b"}, 422, "'source' has a control character (U+0000); take it out."),
    "a megabyte": ({"source": LONG}, 413, "larger than 200,000 bytes"),
    "wrong type": ({"source": 3}, 422, "'source' must be text."),
    "both": ({"source": "a", "table": {"a": "b"}}, 422, "give 'source' or 'table', not both"),
    "nested table": ({"table": {"a": {"b": "c"}}}, 422, "'table' must be"),
    "empty table": ({"table": {}}, 422, "'table' must be"),
    "blank table": ({"table": {"": "", " ": "a", "b": " "}}, 422, "'table' must be"),
    "blank pairs": ({"table": [["", ""], ["a", "\t"]]}, 422, "not empty or blank"),
    "blank triples": ({"table": [["a", "b", ""], ["a", "", "b"]]}, 422, "not empty or blank"),
    "uneven table": ({"table": [["a", "b"], ["a", "b", "c"]]}, 422, "'table' must be"),
    "nested pairs": ({"table": [["a", ["b"]]]}, 422, "without control characters."),
    "unknown key": ({"source": "a", "sauce": 1}, 422, "'sauce' is not known here"),
    "unknown half key": ({"source": "a", "\ud800": 1}, 422, "keys that are valid text"),
    "unknown option": ({"source": "a", "options": {"guidence": 1}}, 422, "'options.guidence' is not known here"),
    "text for a number": ({"source": "a", "k": "2"}, 422, "'k' must be a whole number."),
    "half a number": ({"source": "a", "k": 1.5}, 422, "'k' must be a whole number."),
    "large number": ({"source": "a", "options": {"max_characters": 10**6}}, 422, "must be at most 100,000."),
    "no list": ({"source": "a", "options": {"required": "b"}}, 422, "'options.required' must be a list."),
    "long list": ({"source": "a", "options": {"required": ["b"] * 21}}, 422, "must have at most 20 in its list."),
    "no switch": ({"source": "a", "explain": 1}, 422, "'explain' must be true or false."),
    "no choice": ({"source": "a", "options": {"manner": "x"}}, 422, "'options.manner' must be 'free' or 'followed'."),
    "too many": ({"source": "a", "k": 3}, 409, "the beam of this model has 2"),
    "long word": ({"source": "a" * 20_000}, 409, "20,000 characters without a space"),
    "wide beam": ({"source": "a", "options": {"beam_size": 3}}, 409, "searches with 2 at most"),
    "more than the beam": ({"source": "a", "k": 2, "options": {"beam_size": 1}}, 409, "the beam of this model has 1"),
    "never ends": ({"source": "a", "options": {"min_length": 10_000}}, 409, "'min_length' must be below"),
    "negative": ({"source": "a", "options": {"guidance": -1}}, 422, "'options.guidance' must be at least 0."),
    "no number": (b'{"source": "a", "options": {"guidance": NaN}}', 422, "'options.guidance' must be a"),
    "unknown group": ({"source": "a", "group": "x"}, 409, "no exemplar has the group 'x'"),
    "exemplar and group": ({"source": "a", "exemplar": "up", "group": "loud"}, 409, "use only one"),
    "emoji alone": ({"source": "a", "exemplar": "🙂"}, 409, "no word the model knows"),
    "right to left": ({"source": "a", "exemplar": "שלום"}, 409, "no word the model knows"),
}


@pytest.mark.parametrize(("body", "status", "message"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_and_the_next_request_works(
    server: Server, body: object, status: int, message: str
) -> None:
    found, answer, _ = server.ask("/v1/write", body)
    assert (found, list(answer)) == (status, ["error"])
    assert message in answer["error"]
    assert "\n" not in answer["error"]
    assert len(answer["error"]) < 500
    assert server.ask("/v1/write", {"source": SOURCE})[0] == 200


@pytest.mark.parametrize("path", ["/v1/retrieve", "/v1/exemplars"])
def test_other_doors_refuse_bad_input_too(server: Server, path: str) -> None:
    more = {"target": "up"} if path == "/v1/exemplars" else {}
    assert server.ask(path, {"source": "n3 k5", **more})[0] in (200, 201)
    for body, status, _ in BAD.values():
        if status == 422 and isinstance(body, dict) and not {"k", "options"} & set(body):
            found, answer, _ = server.ask(path, {**body, **more})
            assert (found, list(answer)) == (422, ["error"]), body
    assert server.ask(path, b"[" * 100_000)[0] == 400
    assert server.ask(path, {"source": LONG, **more})[0] == 413
    assert server.ask("/v1/exemplars", {"source": "a"})[1] == {"error": "'target' is missing."}
    status, answer, _ = server.ask("/v1/exemplars", {"source": "a", "target": "zzqq"})
    assert (status, answer["error"][:46]) == (409, "the exemplar 'zzqq' has no word the model know")
    for name in ("own-", "train--1", "own-01", "x", "train-9999999", "%00", "own-" + "9" * 30):
        assert server.ask(f"/v1/exemplars/{name}", method="DELETE")[0] in (404, 422), name
    assert server.ask(path, {"source": "n3 k5", **more})[0] in (200, 201)


DOORS = {
    "source": ("POST", "/v1/write", lambda value: {"source": value}),
    "exemplar": ("POST", "/v1/write", lambda value: {"source": SOURCE, "exemplar": value}),
    "group": ("POST", "/v1/write", lambda value: {"source": SOURCE, "group": value}),
    "style": ("POST", "/v1/write", lambda value: {"source": SOURCE, "style": value}),
    "mixture": ("POST", "/v1/write", lambda value: {"source": SOURCE, "mixture": [{"exemplar": value}]}),
    "beginning": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": {"beginning": value}}),
    "required": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": {"required": [value]}}),
    "forbidden": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": {"forbidden": [value]}}),
    "limit": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": {"max_characters": value}}),
    "facts": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": {"facts": value}}),
    "options": ("POST", "/v1/write", lambda value: {"source": SOURCE, "options": value}),
    "table": ("POST", "/v1/write", lambda value: {"table": value}),
    "stream": ("POST", "/v1/write", lambda value: {"source": SOURCE, "stream": value}),
    "varied source": ("POST", "/v1/vary", lambda value: {"source": value}),
    "varied group": ("POST", "/v1/vary", lambda value: {"source": SOURCE, "group": value}),
    "varied options": ("POST", "/v1/vary", lambda value: {"source": SOURCE, "options": value}),
    "varied demand": ("POST", "/v1/vary", lambda value: {"source": SOURCE, "options": {"required": [value]}}),
    "varied number": ("POST", "/v1/vary", lambda value: {"source": SOURCE, "k": value}),
    "retrieved": ("POST", "/v1/retrieve", lambda value: {"source": value}),
    "accepted source": ("POST", "/v1/exemplars", lambda value: {"source": value, "target": "up"}),
    "accepted target": ("POST", "/v1/exemplars", lambda value: {"source": SOURCE, "target": value}),
    "accepted group": ("POST", "/v1/exemplars", lambda value: {"source": SOURCE, "target": "up", "group": value}),
    "placed": ("POST", "/v1/place", lambda value: {"texts": [value]}),
    "coefficients": ("POST", "/v1/coefficients", lambda value: {"texts": value}),
    "style's exemplar": ("PUT", "/v1/styles/brief", lambda value: {"exemplars": [{"exemplar": value}]}),
    "style's weight": ("PUT", "/v1/styles/brief", lambda value: {"exemplars": [{"exemplar": "up", "weight": value}]}),
    "unknown": ("POST", "/v1/vary", lambda value: {"source": SOURCE, "colour": value}),
}
"""How to put a value into each part of a body."""
NEVER = ["", " \n\t", "a\x00b", "\x1b[2J", [["a"]], {"a": {"b": "c"}}, {"a\x00": "b"}, [None], 1e400, LONG]
"""What no part of a body may be."""


@pytest.mark.parametrize("door", DOORS)
def test_what_is_never_right_is_refused_at_every_door(server: Server, door: str) -> None:
    method, path, body = DOORS[door]
    for value in NEVER:
        status, answer, _ = server.ask(path, body(value), method)
        assert status in (413, 422), (value, answer)
        assert list(answer) == ["error"]
        assert "\n" not in answer["error"]
        assert 10 < len(answer["error"]) < 500
    # What is text, but in no script that the model has seen, is written, or refused with a reason.
    for value in ("🙂👨\u200d👩\u200d👧", "\u202eשלום مرحبا", "e\u0301\ufeff", 3, True, "a" * 20_000):  # noqa: RUF001
        status, answer, _ = server.ask(path, body(value), method)
        assert status in (200, 201, 409, 422), (value, answer)
        assert status < 400 or list(answer) == ["error"]
    assert server.ask("/v1/write", {"source": SOURCE})[0] == 200
    server.ask("/v1/styles/brief", method="DELETE")  # other tests have the same run


def test_bad_names_in_a_path_are_refused(server: Server) -> None:
    style = {"exemplars": [{"exemplar": "up"}]}
    with_controls = ("a%00b", "a%0a", "%0aa", "a%0db", "a%7f")
    for name in ("", "%20", *with_controls, "%F0%9F%99%82", "%E2%80%AE", "a" * 65, "a%2Fb", "%FF"):
        for method, body in (("PUT", style), ("GET", None), ("DELETE", None)):
            status, answer, _ = server.ask(f"/v1/styles/{name}", body, method)
            assert status == (422 if method == "PUT" else 404), (name, method, answer)
            assert list(answer) == ["error"]
        for method in ("GET", "DELETE"):
            status, answer, _ = server.ask(f"/v1/exemplars/{name}", method=method)
            assert status in (404, 422), (name, answer)
    assert server.ask("/v1/exemplars/7")[1] == {"error": "'id' must be that of an exemplar, such as train-7 or own-7."}
    assert server.ask("/v1/write", {"source": "a", "options": 3})[1] == {"error": "'options' must be a JSON object."}
    long = "b" * 20_000  # the model could not be told of it later
    for body in ({"source": long, "target": "up"}, {"source": "a", "target": "up", "group": long}):
        assert server.ask("/v1/exemplars", body)[0] == 409


def test_the_page_about_the_server_names_every_route_and_option(server: Server) -> None:
    page = (Path(__file__).parents[2] / "docs" / "server.md").read_text("utf-8")
    told = {
        (method.lower(), path.replace("ID", "{id}").replace("NAME", "{name}"))
        for method, path in re.findall(r"\| `([A-Z]+) (/\S+)`", page)
    }
    paths = server.ask("/openapi.json")[1]["paths"]
    assert told == {(method, path) for path, methods in paths.items() for method in methods}
    verbs = [get_command(app).commands[name] for name in ("serve", "generate", "swap")]
    options = {option for verb in verbs for parameter in verb.params for option in parameter.opts}
    assert set(re.findall(r"--[a-z-]{3,}", page)) <= options


def test_texts_in_any_script_are_written(server: Server) -> None:
    for source in ("🙂 n3", "שלום n3", "n3\tk5\nhouse1", "e\u0301 \u202e n3"):
        assert server.ask("/v1/write", {"source": source})[0] == 200, source


def test_demands_and_draws_are_for_one_request(server: Server) -> None:
    def ask(**options: object) -> dict[str, Any]:
        status, found, _ = server.ask("/v1/write", {"source": SOURCE, "options": options})
        assert status == 200, found
        return found

    plain = ask()
    assert ask(beginning="down")["text"].startswith("down")
    assert "up" not in ask(forbidden=["up"])["text"].split()
    assert len(ask(max_characters=3)["text"]) <= 3
    assert "n3 n3" in ask(required=["n3 n3"])["text"]
    assert len(ask(min_length=6)["text"].split()) >= 6 > len(plain["text"].split())
    pieces = ask(min_length=6, block_ngram=1)["text"].split()
    assert len(pieces) == len(set(pieces))
    assert ask(beam_size=1)["alternatives"] == []
    drawn = {ask(temperature=2.0, seed=seed)["text"] for seed in range(8)}
    assert len(drawn) > 1
    assert ask(temperature=2.0, seed=3) == ask(temperature=2.0, seed=3)
    assert ask() == plain
    assert plain["facts"] is None
    assert isinstance(ask(facts="mark")["facts"], list)
    status, found, _ = server.ask("/v1/write", {"source": SOURCE, "options": {"required": ["zebra"]}})
    assert (status, found["error"][:29]) == (409, "the model cannot write 'zebra")
    status, found, _ = server.ask("/v1/write", {"source": SOURCE, "options": {"required": ["up"], "temperature": 1}})
    assert (status, found["error"]) == (409, "required phrases need a search; set 'temperature' to 0.")
