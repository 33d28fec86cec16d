"""The mistakes of a first day: each is answered with a sentence that names the remedy."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor
from mercer.app.main import main
from mercer.kernels import Kernel, Stationary
from mercer.tables import as_frame, infer_columns
from mercer.tables.data.target import read_target


def refused(capsys, *arguments):
    assert main([str(a) for a in arguments]) == 1
    return capsys.readouterr().err


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\xd0\xcf\x11\xe0"])
@pytest.mark.parametrize("command", ["fit", "stream"])
def test_a_spreadsheet_is_no_csv(tmp_path, capsys, start, command):
    book = tmp_path / "book.csv"
    book.write_bytes(start + bytes(200))
    said = refused(capsys, command, book, "--target", "y", "-o", tmp_path / "m.mercer")
    assert "as CSV (UTF-8)" in said


def test_a_table_is_no_model(tmp_path, capsys):
    table = tmp_path / "table.csv"
    table.write_text("day,y\n" + "1,2\n" * 50, encoding="utf-8")
    said = refused(capsys, "info", table)
    assert "is not a model file as mercer.save and `mercer fit` write it" in said


@pytest.mark.parametrize("named", [False, True])
def test_a_stream_of_quantities(tmp_path, capsys, named):
    table = tmp_path / "t.csv"
    values = [f"{0.3 * i:.1f}7" for i in range(40)]
    table.write_text("a,y\n" + "".join(f"{i},{v}\n" for i, v in enumerate(values)), "utf-8")
    call = ["stream", str(table), "--target", "y"]
    if named:
        assert main([*call, "--classes", ",".join(values)]) == 0
        return
    assert main(call) == 0
    assert "quantity" in "".join(capsys.readouterr())


def test_many_whole_labels_that_repeat_are_classes(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a,y\n" + "".join(f"{i},{i % 32}\n" for i in range(100)), "utf-8")
    assert main(["stream", str(table), "--target", "y", "--quiet"]) == 0


@pytest.mark.parametrize(
    ("texts", "advice"),
    [
        ([f"{i % 28 + 1}.{i % 12 + 1}.2025" for i in range(60)], "look like dates"),
        ([f"{i % 12 + 1:02}/{i % 28 + 1:02}/2025 08:15" for i in range(60)], "look like dates"),
        ([f"{i % 28 + 1} March 2025" for i in range(60)], "look like dates"),
        ([f"{i},{i % 10}" for i in range(60)], "decimal point"),
        ([f"$1,{i:03}.50" for i in range(60)], "decimal point"),
        ([f"{i} %" for i in range(60)], "decimal point"),
        ([f"A-{i}" for i in range(60)], None),
        ([*(f"{i},5" for i in range(59)), "north"], None),
    ],
)
def test_texts_that_were_meant_otherwise(texts, advice):
    (column,) = infer_columns(as_frame({"c": texts}))
    assert ("look like" in column.rule) == (advice is not None)
    assert advice is None or advice in column.rule
    if len(set(texts)) == 60:  # too many for classes: the same hint
        with pytest.raises(ValueError, match=advice or "choose another target"):
            read_target(as_frame({"c": texts}), "c")


def test_two_fractions_are_classes():
    table = {"x": np.arange(30.0), "y": np.where(np.arange(30) % 3 == 0, 10.5, 2.5)}
    target = read_target(as_frame(table), "y")
    assert target.kind == "binary"
    assert target.classes.tolist() == ["10.5", "2.5"]
    assert target.labels(np.arange(3)).tolist() == ["10.5", "2.5", "2.5"]
    model = mercer.fit(table, target="y", candidates=["linear"])
    assert set(model.predict(table)) <= {"10.5", "2.5"}


class NoSlope(Stationary):
    def profile(self, s):
        return 1.0 / (1.0 + s)


class NoDiagonal(Kernel):
    def __call__(self, X, Z=None):
        return np.ones((len(X), len(X if Z is None else Z)))


def test_an_unfinished_kernel_says_what_it_lacks():
    X = np.arange(8.0)[:, None]
    with pytest.raises(NotImplementedError, match=r"NoSlope does not state slope\(s\)"):
        GPRegressor(NoSlope()).fit(X, X[:, 0])
    GPRegressor(NoSlope(), search=None).fit(X, X[:, 0])  # the remedy that the sentence names
    with pytest.raises(NotImplementedError, match=r"NoDiagonal does not state diag\(X\)"):
        GPRegressor(NoDiagonal()).fit(X, X[:, 0])


def test_the_units_of_a_table_model_are_not_called_yours(tmp_path, capsys):
    table = tmp_path / "t.csv"
    rows = "".join(f"{100 * i},{np.sin(i / 3):.3f}\n" for i in range(30))
    table.write_text("x,y\n" + rows, "utf-8")
    call = ["fit", str(table), "--target", "y", "-o", str(tmp_path / "m.mercer")]
    assert main([*call, "--candidates", "Gaussian process"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Hyperparameters (lengths in standard deviations of the columns" in out


def test_the_name_of_a_file_is_no_table():
    with pytest.raises(TypeError, match=r"read it first, as with mercer\.read_table"):
        mercer.fit("table.csv", target="y")


def test_long_lists_are_shortened(tmp_path, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 60))
    X[:, 50:] = 1.0
    names = [f"c{j}" for j in range(60)]
    rows = [",".join(map(repr, [*row.tolist(), float(row[0])])) for row in X]
    (tmp_path / "t.csv").write_text("\n".join([",".join([*names, "y"]), *rows]) + "\n")
    call = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", str(tmp_path / "m.mercer")]
    assert main([*call, "--candidates", "linear"]) == 0
    out = capsys.readouterr().out
    assert "and 40 more; --json lists all of them" in out
    assert "(each of 50)" in " ".join(out.split())
    assert "'c54' and 5 more: left out" in out
    columns, _, rest = out.partition("Ranking")
    assert columns.count("c20") == out.count("c59") == 0
    slopes = rest.partition("Slopes")[2].partition("Data")[0]
    assert slopes.split().count("±") == 20  # the largest beside their errors
    assert "and 30 more; --json lists all of them" in slopes
    assert "leave-one-out, nested: R2" in out
    assert "leave-one-out, nested: in 90 %" in out


def test_an_empty_column_is_no_warning_in_a_report(tmp_path, recwarn):
    pytest.importorskip("matplotlib")
    x = np.linspace(0, 5, 30)
    table = {"x": x, "empty": np.full(30, np.nan), "y": np.sin(x)}
    mercer.fit(table, "y", candidates=["linear"]).plot("along")
    assert not [w for w in recwarn if "NaN" in str(w.message)]
