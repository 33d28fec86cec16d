"""``mercer predict`` in parts: the same as at once, all or nothing, a bar after a second."""

from __future__ import annotations

import contextlib
import io
import json
import threading
import time

import numpy as np
import pytest

import mercer
from mercer.app import predict
from mercer.app import terminal as bars
from mercer.app.main import main


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A model of three classes, and a table of 25 rows; row 4 and rows 8 to 11 have gaps."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predict, "ROWS", 4)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(25, 2))
    fitted = mercer.SVC().fit(X, np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])])
    fitted.feature_names_in_ = np.array(["u", "v"], dtype=object)
    mercer.save(fitted, "m.mercer")
    cells = [[repr(v) for v in row] for row in X.tolist()]
    for i in (4, 8, 9, 10, 11):
        cells[i][1] = ""
    (tmp_path / "t.csv").write_text("\n".join(["u,v", *(",".join(row) for row in cells)]) + "\n")
    return tmp_path


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_parts_are_the_whole(folder, capsys, monkeypatch, name):
    arguments = ["predict", "m.mercer", "t.csv", "--allow-missing", "-o"]
    code, out, err = run(capsys, *arguments, name, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == {"output": name, "rows": 25, "empty": 5}
    monkeypatch.setattr(predict, "ROWS", 1000)
    assert run(capsys, *arguments, f"whole-{name}")[0] == 0
    assert (folder / name).read_bytes() == (folder / f"whole-{name}").read_bytes()


def test_a_part_without_any_known_row_may_be_the_first(folder, capsys):
    lines = (folder / "t.csv").read_text().splitlines()
    (folder / "t.csv").write_text("\n".join([lines[0], *lines[9:13], *lines[1:9]]) + "\n")
    code, _, _ = run(capsys, "predict", "m.mercer", "t.csv", "--allow-missing", "-o", "o.csv")
    assert code == 0
    header, *rows = (folder / "o.csv").read_text().splitlines()
    assert header.startswith("prediction,")
    assert {len(row.split(",")) for row in rows} == {len(header.split(","))}
    assert rows[0] == "," * header.count(",")
    assert rows[4].startswith(("a,", "b,", "c,"))


def test_a_mistake_in_a_later_part_leaves_nothing(folder, capsys):
    (folder / "out.csv").write_text("as it was")
    for last, message in (("1,two", "line 27: column 'v' holds 'two'"), ("1", "line 27: 1 fields")):
        text = (folder / "t.csv").read_text()
        (folder / "bad.csv").write_text(text + last + "\n")
        arguments = ["predict", "m.mercer", "bad.csv", "--allow-missing", "-o", "out.csv"]
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (1, "")
        assert message in err
        assert (folder / "out.csv").read_text() == "as it was"
    assert not [path.name for path in folder.iterdir() if path.name.endswith(".part")]
    (folder / "empty.csv").write_text("u,v\n")
    code, _, err = run(capsys, "predict", "m.mercer", "empty.csv", "-o", "out.csv")
    assert (code, err) == (1, "mercer: empty.csv has a header but no rows\n")
    assert (folder / "out.csv").read_text() == "as it was"


def test_no_more_than_a_part_is_in_memory(folder, capsys, monkeypatch):
    sizes = []
    given = predict.predictions

    def seen(machine, X, keep, coverage):
        sizes.append(len(X))
        return given(machine, X, keep, coverage)

    monkeypatch.setattr(predict, "predictions", seen)
    assert run(capsys, "predict", "m.mercer", "t.csv", "--allow-missing", "-o", "o.csv")[0] == 0
    assert sizes == [4] * 6 + [1]


def test_parquet_is_read_in_parts(folder, capsys):
    polars = pytest.importorskip("polars", reason="needs the extra data")
    rows = [line.split(",") for line in (folder / "t.csv").read_text().splitlines()[1:]]
    columns = {
        name: [float(row[j]) if row[j] else None for row in rows] for j, name in enumerate("uv")
    }
    polars.DataFrame(columns).write_parquet("t.parquet")
    for table, output in (("t.csv", "a.csv"), ("t.parquet", "b.csv")):
        arguments = ["predict", "m.mercer", table, "--allow-missing", "-o", output]
        assert run(capsys, *arguments)[0] == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert predict.rows_of("t.parquet") == predict.rows_of("t.csv") == 25
    (folder / "bad.parquet").write_text("no")
    code, _, err = run(capsys, "predict", "m.mercer", "bad.parquet", "-o", "o.csv")
    assert code == 1
    assert "is not a parquet file" in err


def test_standard_input(folder, capsys, monkeypatch):
    stdin = io.TextIOWrapper(io.BytesIO((folder / "t.csv").read_bytes()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert run(capsys, "predict", "m.mercer", "-", "--allow-missing", "-o", "p.csv")[0] == 0
    assert run(capsys, "predict", "m.mercer", "t.csv", "--allow-missing", "-o", "q.csv")[0] == 0
    assert (folder / "p.csv").read_bytes() == (folder / "q.csv").read_bytes()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def _screen(monkeypatch, terminal=True):
    from rich.console import Console

    text = Terminal()
    monkeypatch.setattr(bars, "console", lambda stderr: Console(file=text, force_terminal=terminal))
    return text


def test_a_bar_is_for_what_takes_longer(monkeypatch):
    text = _screen(monkeypatch)
    with bars.progress(False) as advance:
        advance({"stage": "short work", "step": 1, "steps": 2})
    assert "short work" not in text.getvalue()
    monkeypatch.setattr(bars, "PATIENCE", 0.0)
    with bars.progress(False) as advance:
        advance({"stage": "long work", "step": 1, "steps": 2})
        end = time.monotonic() + 10.0
        while "long work" not in text.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    assert "long work" in text.getvalue()


@pytest.mark.parametrize("quiet", [True, False])
@pytest.mark.parametrize("terminal", [True, False])
def test_how_long_it_will_take_is_said_with_and_without_a_bar(monkeypatch, quiet, terminal):
    text = _screen(monkeypatch, terminal)
    with bars.progress(quiet) as advance:
        advance({"stage": "this takes a while", "expected": 30.0, "long": True})
        advance({"stage": "the first machine"})
    assert text.getvalue() == ("" if quiet else "this takes a while\n")


@pytest.mark.parametrize("quiet", [True, False])
def test_the_bar_is_gone_after_an_error(monkeypatch, quiet):
    text = _screen(monkeypatch)
    before = set(threading.enumerate())
    with contextlib.suppress(KeyboardInterrupt), bars.progress(quiet) as advance:
        advance({"stage": "work"})
        raise KeyboardInterrupt
    assert set(threading.enumerate()) <= before
    assert not quiet or text.getvalue() == ""


@pytest.mark.parametrize("loss", ["gaussian", "student_t", "poisson"])
def test_variances_are_formed_once(loss, monkeypatch):
    """They take n^2 a row: deviations and intervals share them, to the last bit."""
    X = np.random.default_rng(0).normal(size=(30, 2))
    y = np.round(np.exp(X[:, 0])) if loss == "poisson" else X[:, 0]
    model = mercer.GPRegressor("rbf", loss=loss, search=None).fit(X, y)
    wanted = [*model.predict(X, return_std=True), *model.predict_interval(X, coverage=0.8)]
    kind, calls = type(model.posteriors_[0]), []
    plain = kind.var
    monkeypatch.setattr(kind, "var", lambda self, Z: calls.append(len(Z)) or plain(self, Z))
    found = predict.predictions(model, X, np.ones(30, dtype=bool), 0.8)
    assert calls == [30]
    once = model.predict_with_interval(X, coverage=0.8)
    assert all(np.array_equal(a, b) for a, b in zip(once, wanted, strict=True))
    for name, values in zip(("prediction", "std", "low", "high"), wanted, strict=True):
        np.testing.assert_array_equal(found[name], values)
