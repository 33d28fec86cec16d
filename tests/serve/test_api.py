"""The service over HTTP, in its own process: models, rows, versions, refusals, hostile requests."""

from __future__ import annotations

import ast
import io
import json
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from tests.serve.service import Client, Service

import mercer
from mercer.app.main import main

RNG = np.random.default_rng(7)
LOGISTIC = {"learner": "logistic", "target": "y", "options": {"budget": 40}}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("served") / "models", "--max-models", "15")
    yield running
    said = running.stop()
    assert running.process.returncode == 0
    assert "Traceback" not in said


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with service.client() as found:
        yield found


def batch(n: int = 30) -> tuple[np.ndarray, list[str]]:
    X = RNG.normal(size=(n, 2)).round(3)
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other").tolist()


def conforms(client: Client, method: str, path: str, status: int, answer: Any) -> None:
    """Check an answer of JSON against the document that the service hands out."""
    document = client.get("/openapi.json").json
    operation = document["paths"][path][method]
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    jsonschema.Draft202012Validator(schema | {"components": document["components"]}).validate(
        answer
    )


def test_a_learner_from_the_first_batch_to_an_export(client: Client, tmp_path: Path) -> None:
    """Every answer is that of the estimator, given the same batches, to the last bit."""
    made = client.send("PUT", "/models/flow", LOGISTIC)
    assert made.status == 201
    conforms(client, "put", "/models/{name}", 201, made.json)
    empty = client.predict("flow", {"X": [[0, 0]]})
    assert (empty.status, empty.json["error"]["code"]) == (409, "empty")
    own = mercer.OnlineLogisticClassifier(budget=40)
    for i in range(6):
        X, y = batch()
        rows = [{"b": float(b), "a": float(a), "y": c} for (a, b), c in zip(X, y, strict=True)]
        if i == 0:  # three forms of the same
            body: Any = {"columns": {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "y": y}}
        else:
            body = {"rows": rows} if i % 2 else {"X": X.tolist(), "y": y}
        answer = client.learn("flow", body, f"batch {i}".replace(" ", "-"))
        assert (answer.status, answer.json["version"]) == (200, i + 1), answer.body
        conforms(client, "post", "/models/{name}/learn", 200, answer.json)
        own.partial_fit(X, y)
    again = client.learn("flow", body, "batch-5").json
    assert (again["version"], again["repeated"]) == (6, True)
    other = client.learn("flow", {"X": [[1, 1]], "y": ["same"]}, "batch-5")
    assert (other.status, other.json["error"]["code"]) == (422, "key")
    new = RNG.normal(size=(5, 2))
    found = client.predict("flow", {"X": new.tolist()})
    conforms(client, "post", "/models/{name}/predict", 200, found.json)
    p = own.predict_proba(new)
    assert found.json["columns"]["p_other"] == p[:, 0].tolist()
    assert found.json["columns"]["prediction"] == own.predict(new).tolist()
    state = client.get("/models/flow").json
    conforms(client, "get", "/models/{name}", 200, state)
    assert state["scores"]["accuracy"] == pytest.approx(own.prequential_.accuracy)
    assert state["scores"]["log_loss"] == pytest.approx(own.prequential_.log_loss)
    assert (state["rows"], state["points"]) == (180, len(own.stream_.points))
    history = client.get("/models/flow/scores?most=3").json
    conforms(client, "get", "/models/{name}/scores", 200, history)
    assert [one["version"] for one in history["batches"]] == [4, 5, 6]
    assert history["batches"][-1]["total"] == state["scores"]
    # the file works without the service, and goes back into it
    exported = client.get("/models/flow/export")
    path = tmp_path / "flow.mercer"
    path.write_bytes(exported.body)
    table = tmp_path / "new.csv"
    table.write_text("b,a\n" + "\n".join(f"{b!r},{a!r}" for a, b in new.tolist()))
    assert main(["predict", str(path), str(table), "-q", "-o", str(tmp_path / "out.csv")]) == 0
    told = np.genfromtxt(tmp_path / "out.csv", delimiter=",", names=True)
    np.testing.assert_array_equal(told["p_other"], p[:, 0])
    sent = {"kind": "application/octet-stream"}
    assert client.send("PUT", "/models/second", exported.body, **sent).status == 201
    assert client.predict("second", {"X": new.tolist()}).json["columns"] == found.json["columns"]
    X, y = batch()
    assert client.learn("second", {"X": X.tolist(), "y": y}, "1").json["version"] == 1


def test_csv_and_arrow_say_the_same_as_json(client: Client) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    X, y = batch(40)
    for name in ("asjson", "ascsv", "asarrow"):
        assert client.send("PUT", f"/models/{name}", LOGISTIC).status == 201
    text = "a,b,y\n" + "\n".join(
        f"{a!r},{b!r},{c}" for (a, b), c in zip(X.tolist(), y, strict=True)
    )
    table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "y": y})
    sink = io.BytesIO()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = "application/vnd.apache.arrow.stream"
    body = {"columns": {"a": X[:, 0].tolist(), "b": X[:, 1].tolist(), "y": y}}
    assert client.learn("asjson", body, "1").status == 200
    assert client.learn("ascsv", text.encode(), "1", kind="text/csv").status == 200
    assert client.learn("asarrow", sink.getvalue(), "1", kind=arrow).status == 200
    found = [
        client.predict(name, {"X": [[0.3, 0.7]]}).json["columns"]
        for name in ("asjson", "ascsv", "asarrow")
    ]
    assert found[0] == found[1] == found[2]
    answer = client.predict("ascsv", b"b,a\n0.7,0.3\n", kind="text/csv", accept="text/csv")
    lines = answer.body.decode().splitlines()
    assert lines[0] == "prediction,p_other,p_same"
    assert float(lines[1].split(",")[1]) == found[0]["p_other"][0]
    stream = client.predict("asarrow", {"X": [[0.3, 0.7]]}, accept=arrow)
    with pyarrow.ipc.open_stream(stream.body) as reader:
        assert reader.read_all()["p_other"].to_pylist() == found[0]["p_other"]
    sink = io.BytesIO()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd")
    with pyarrow.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    packed = client.learn("asarrow", sink.getvalue(), "2", kind=arrow)
    assert (packed.status, packed.json["error"]["code"]) == (400, "arrow")
    for cut in (b"", b"\xff\xff\xff\xff\xff\xff\xff\x7f", sink.getvalue()[:300], b"x" * 500):
        assert client.learn("asarrow", cut, "2", kind=arrow).status in (400, 422)


def test_refused_batches_change_nothing_and_name_the_row(client: Client) -> None:
    client.send("PUT", "/models/strict", LOGISTIC | {"inputs": ["a", "b"], "classes": ["x", "z"]})
    X, _ = batch()
    good = {"X": X.tolist(), "y": ["x", "z"] * 15}
    assert client.learn("strict", good, "0").status == 200
    before = client.predict("strict", {"X": [[1, 2]]}).body
    bad: list[tuple[Any, int | None, str | None]] = [
        ({"rows": [{"a": 1, "b": 1, "y": "x"}, {"a": 1, "b": None, "y": "x"}]}, 2, "b"),
        ({"rows": [{"a": 1, "b": 1, "y": "x"}, {"a": 1, "b": "1", "y": "x"}]}, 2, "b"),
        ({"rows": [{"a": 1, "b": True, "y": "x"}]}, 1, "b"),
        ({"rows": [{"a": 1, "b": 1, "y": "x"}, {"a": 1, "b": 1, "y": "w"}]}, 2, "y"),
        ({"rows": [{"a": 1, "b": 1, "y": None}]}, 1, "y"),
        ({"rows": [{"a": 1, "b": 1, "c": 3, "y": "x"}]}, None, "c"),
        ({"rows": [{"a": 1, "b": 1, "y": "x"}, {"a": 1, "y": "x"}]}, 2, "b"),
        ({"rows": [{"a": 1, "y": "x"}]}, None, "b"),
        ({"X": [[1, 2], [1, 2, 3]], "y": ["x", "x"]}, 2, None),
        ({"X": [[1, 2]], "y": ["x", "x"]}, None, None),
        ({"X": [], "y": []}, None, None),
    ]  # fmt: skip
    for body, row, column in bad:
        answer = client.learn("strict", body, "k")
        assert answer.status == 422, (body, answer.body)
        conforms(client, "post", "/models/{name}/learn", 422, answer.json)
        assert (answer.json["error"]["row"], answer.json["error"]["column"]) == (row, column)
    csv = b"a,b,y\n1,2,x\n1,nan,x\n"
    assert client.learn("strict", csv, "k", kind="text/csv").json["error"]["row"] == 2
    for text in (b'{"X": [[NaN, 1]], "y": ["x"]}', b'{"X": [[1e999, 1]], "y": ["x"]}', b"[" * 10**6,
                 b'{"X": ' + b"[" * 10**5, b"\xff", b'{"zzz": 1}'):  # fmt: skip
        assert client.learn("strict", text, "k").status == 400
    assert client.learn("strict", good, "").status == 400
    assert client.send("POST", "/models/strict/learn", good).json["error"]["code"] == "key"
    assert client.predict("strict", {"X": [[1, 2]]}).body == before
    assert client.get("/models/strict").json["version"] == 1


def test_versions_are_rolled_back_and_forth(client: Client) -> None:
    client.send("PUT", "/models/back", LOGISTIC)
    seen = []
    for i in range(4):
        X, y = batch()
        client.learn("back", {"X": X.tolist(), "y": y}, str(i))
        seen.append(client.predict("back", {"X": [[1, 2]]}).json["columns"])
    answer = client.send("POST", "/models/back/rollback", {"version": 2}, key="r")
    assert answer.json["version"] == 5
    assert client.send("POST", "/models/back/rollback", {"version": 2}, key="r").json["repeated"]
    assert client.predict("back", {"X": [[1, 2]]}).json["columns"] == seen[1]
    X, y = batch()
    assert client.learn("back", {"X": X.tolist(), "y": y}, "9").json["version"] == 6
    assert client.send("POST", "/models/back/rollback", {"version": 4}, key="r4").status == 200
    assert client.predict("back", {"X": [[1, 2]]}).json["columns"] == seen[3]
    versions = client.get("/models/back/versions").json
    conforms(client, "get", "/models/{name}/versions", 200, versions)
    assert (versions["oldest"], versions["newest"]) == (0, 7)
    assert client.send("POST", "/models/back/rollback", {"version": 99}, key="x").status == 422
    assert client.send("POST", "/models/back/rollback", {"version": 0}, key="z").status == 200
    assert client.predict("back", {"X": [[1, 2]]}).status == 409
    assert client.send("DELETE", "/models/back").json == {"deleted": "back"}
    assert client.get("/models/back").status == 404


@pytest.mark.parametrize("learner", ["med", "lapmed"])
def test_other_learners_with_words_among_their_inputs(client: Client, learner: str) -> None:
    made = client.send("PUT", f"/models/{learner}", {"learner": learner, "target": "y"})
    assert made.status == 201, made.body
    for i in range(3):
        X, y = batch()
        rows = [
            {"a": a, "b": b, "shop": "north" if a > 0 else "south", "y": label}
            for (a, b), label in zip(X.tolist(), y, strict=True)
        ]
        if learner == "lapmed":
            rows[3]["y"] = None
        answer = client.learn(learner, {"rows": rows}, str(i))
        assert answer.status == 200, answer.body
    state = client.get(f"/models/{learner}").json
    assert (state["words"], state["version"]) == (["shop"], 3)
    assert state["scores"]["accuracy"] > 0.4
    found = client.predict(learner, {"rows": [{"a": 1, "b": 1, "shop": "west"}]})
    assert found.json["columns"]["prediction"][0] in ("same", "other")


def test_a_quantity_is_learned_and_goes_on_after_an_export(client: Client) -> None:
    about = {"learner": "quantity", "target": "t", "options": {"budget": 30, "forget": 0.999}}
    assert client.send("PUT", "/models/amount", about).status == 201
    own = mercer.OnlineRegressor(budget=30, forget=0.999)
    for i in range(6):
        X = RNG.normal(size=(25, 2)).round(3)
        t = (np.sin(X[:, 0]) + 0.1 * RNG.normal(size=25)).round(4)
        answer = client.learn("amount", {"X": X.tolist(), "y": t.tolist()}, str(i))
        assert answer.status == 200, answer.body
        own.partial_fit(X, t)
        if i == 3:  # the version before stays as it was, and goes on from a file to the same bits
            body = client.get("/models/amount/export").body
            sent = client.send("PUT", "/models/twin", body, kind="application/octet-stream")
            assert (sent.status, sent.json["target"]) == (201, "t"), sent.body
        if i > 3:
            client.learn("twin", {"X": X.tolist(), "y": t.tolist()}, str(i))
    new = RNG.normal(size=(4, 2)).round(3)
    found = client.predict("amount", {"X": new.tolist()}).json["columns"]
    mean, std = own.predict(new, return_std=True)
    assert (found["prediction"], found["std"]) == (mean.tolist(), std.tolist())
    assert client.predict("twin", {"X": new.tolist()}).json["columns"] == found
    state = client.get("/models/amount").json
    assert state["scores"]["rmse"] < 0.6
    assert state["scores"]["log_density"] == pytest.approx(-own.prequential_.nlpd, abs=0.3)
    assert client.learn("amount", {"X": [[1, 1]], "y": ["high"]}, "w").json["error"]["row"] == 1


def test_a_table_is_fitted_as_a_job(client: Client) -> None:
    x = np.linspace(0, 6, 40)
    text = "x,y\n" + "\n".join(f"{a},{np.sin(a)}" for a in x)
    assert (
        client.send("POST", "/models/sine/fit?target=z", text.encode(), kind="text/csv").status
        == 422
    )
    path = "/models/sine/fit?target=y&time_budget=2"
    begun = client.send("POST", path, text.encode(), kind="text/csv")
    assert begun.status == 202, begun.body
    conforms(client, "post", "/models/{name}/fit", 202, begun.json)
    job = f"/jobs/{begun.json['id']}"
    events = client.get(job + "/events").body.decode().strip().split("\n\n")
    last = json.loads(events[-1].removeprefix("data: "))
    conforms(client, "get", "/jobs/{job}", 200, last)
    assert (last["status"], last["message"]) == ("done", None)
    answer = client.predict("sine", {"columns": {"x": [1.0]}}).json["columns"]
    assert answer["prediction"][0] == pytest.approx(np.sin(1.0), abs=0.02)
    assert answer["low"][0] < answer["prediction"][0] < answer["high"][0]
    assert client.learn("sine", {"columns": {"x": [1.0], "y": [1.0]}}, "k").status == 409
    page = client.get(job + "/report")
    assert "sandbox" in page.headers["content-security-policy"]
    assert page.body.startswith(b"<!DOCTYPE html>") or b"<html" in page.body[:200]


def test_the_token_is_asked_for_and_private(service: Service, client: Client) -> None:
    assert stat.S_IMODE((service.folder / "token").stat().st_mode) == 0o600
    with Client(service.port, "wrong") as stranger:
        assert stranger.get("/health").status == 200
        for path in ("/", "/models", "/openapi.json", "/metrics", "/models/x/predict", "/no"):
            answer = stranger.get(path)
            assert (answer.status, answer.json["error"]["code"]) == (401, "token")
    assert client.get("/nothing").status == 404
    assert client.send("PATCH", "/models").status == 405


def test_the_document_lists_every_route(client: Client) -> None:
    from mercer.serve.http.openapi import OPERATIONS

    document = client.get("/openapi.json").json
    known = {(m, p) for p, methods in document["paths"].items() for m in methods}
    assert known == set(OPERATIONS)
    for method, path in known:  # each is routed: none is answered as unknown or not allowed
        concrete = path.replace("{name}", "nobody").replace("{job}", "0" * 16)
        if path != "/models/{name}" or method == "get":
            answer = client.send(method.upper(), concrete, {} if method == "post" else None)
            assert (answer.status, b"nothing here" in answer.body) != (404, True)
            assert answer.status != 405
    metrics = client.get("/metrics").body.decode()
    assert 'mercer_requests_total{route="/openapi.json",status="200"}' in metrics


def test_the_client_of_the_examples(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(service.folder.parent)
    text = (Path(__file__).parents[2] / "examples" / "service_client.py").read_text()
    assert sum(bool(line.strip()) for line in text.split('"""')[2].splitlines()) <= 20
    there = text.replace(":8787/", f":{service.port}/")
    exec(compile(there, "service_client.py", "exec"), {"__name__": "__main__"})
    *learned, told = map(ast.literal_eval, capsys.readouterr().out.splitlines())
    assert [answer["version"] for answer in learned] == [1, 2, 3]
    assert told["columns"]["prediction"] == ["True"]


HOSTILE = ["<script>alert(1)</script>", "../../etc/passwd", "..", "\x1b[31mred", "a/b", "x" * 65,
           "%2e%2e%2f", "é", ".hidden", "a\nb", "' OR 1=1 --"]  # fmt: skip


def test_hostile_names_are_inert(service: Service, client: Client) -> None:
    from urllib.parse import quote

    before = sorted(path.name for path in service.folder.iterdir())
    for name in HOSTILE:
        answer = client.send("PUT", "/models/" + quote(name, safe=""), LOGISTIC)
        assert answer.status in (404, 405, 422), (name, answer.body)
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert b"\x1b" not in answer.body
    assert sorted(path.name for path in service.folder.iterdir()) == before
    # hostile columns and labels are contents like others
    rows = [{"<script>": i % 3, "\x1b[2J": i % 2, "y": HOSTILE[i % 2]} for i in range(12)]
    made = client.send("PUT", "/models/odd", LOGISTIC | {"batch": {"rows": rows}})
    assert made.status == 201, made.body
    assert b"\x1b" not in made.body
    assert client.get("/models/odd").json["classes"] == sorted(HOSTILE[:2])
    assert "<script>" not in client.get("/metrics").body.decode()


def raw(service: Service, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
        try:
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it may hang up before it has heard all
        found = b""
        try:
            while part := connection.recv(65536):
                found += part
        except ConnectionResetError:
            pass
        return found


def test_hostile_requests_leave_the_service_as_it_was(service: Service, client: Client) -> None:
    long = b"GET /health HTTP/1.1\r\nhost: a\r\nx: " + b"a" * (1 << 20) + b"\r\n\r\n"
    for data in (
        long,
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
        b"\x00\xff" * 1000,
        b"POST /models/a/learn HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
    ):
        found = raw(service, data)
        assert not found.startswith(b"HTTP/1.1 200"), found[:80]
    token = f"authorization: Bearer {service.token}\r\n".encode()
    huge = (
        b"POST /models/a/fit HTTP/1.1\r\nhost: a\r\n"
        + token
        + b"content-length: 99999999999\r\n\r\n"
    )
    assert b" 413 " in raw(service, huge)[:20]
    assert client.predict("flow", b'{"X": [[' + b"1" * (1 << 21) + b"]]}").status == 400
    rows = {"columns": {"a": [0.0] * 100_001, "b": [0.0] * 100_001}}
    assert client.predict("flow", rows).status == 413
    deep: Any = {"learner": "logistic", "target": "y", "options": {"kernel": "__import__('os')"}}
    made = client.send("PUT", "/models/deep", deep)
    assert made.status == 422
    if made.status == 201:
        X, y = batch()
        assert client.learn("deep", {"X": X.tolist(), "y": y}, "1").status == 422
    assert (
        client.send("PUT", "/models/junk", b"not a model", kind="application/octet-stream").status
        == 422
    )
    assert client.get("/health").json["status"] == "ok"


def test_the_number_of_models_is_limited(client: Client) -> None:
    """The last test of the module: it fills the shelf."""
    answers = [client.send("PUT", f"/models/many{i}", LOGISTIC).status for i in range(16)]
    assert set(answers) == {201, 409}
    names = [model["name"] for model in client.get("/models").json["models"]]
    assert len(names) == 15
    conforms(client, "get", "/models", 200, client.get("/models").json)


def test_an_end_does_not_wait_for_those_who_watch(service: Service, client: Client) -> None:
    """The very last: it ends the service, while a fit is watched that would go on for a minute."""
    x = np.linspace(0, 6, 400).tolist()
    body = {
        "target": "y",
        "time_budget": 60,
        "table": {"columns": {"x": x, "y": np.sin(x).tolist()}},
    }
    client.send("DELETE", "/models/odd")
    job = client.send("POST", "/models/long/fit", body).json["id"]
    with socket.create_connection(("127.0.0.1", service.port), timeout=60) as watching:
        head = (
            f"GET /jobs/{job}/events HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {service.token}"
        )
        watching.sendall(head.encode() + b"\r\n\r\n")
        assert watching.recv(1000).startswith(b"HTTP/1.1 200")
        service.process.send_signal(signal.SIGTERM)
        service.process.wait(50)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--host", "0.0.0.0"], "--token-file"),
        (["--token-file", "open"], "chmod 600"),
        (["--token-file", "short"], "at least 16"),
    ],
)
def test_an_unsafe_start_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    for name, text, mode in (("open", "x" * 30, 0o644), ("short", "abc", 0o600)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    given = [str(tmp_path / word) if word in ("open", "short") else word for word in options]
    assert main(["serve", "--models", str(tmp_path / "models"), "--port", "0", *given]) == 1
    assert sentence in capsys.readouterr().err
