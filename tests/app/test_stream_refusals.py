"""``mercer stream``: bad rows, files and columns, classes, usage: refusals with file and line."""

from __future__ import annotations

import json
import os
import subprocess

import numpy as np
import pytest
from tests.app.streams import COMMAND, folder, lines, run, table, text

import mercer

__all__ = ["folder"]  # a fixture: pytest finds it by its name here


# ---------------------------------------------------------------------- bad rows
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("1,x,same", "bad.csv, line 23: column 'b' holds 'x', not a number"),
        ("1,,same", "bad.csv, line 23: column 'b' has no value"),
        ("1,inf,same", "bad.csv, line 23: column 'b' holds"),
        ("1,2", "bad.csv, line 23: 2 fields, but the header has 3"),
        ("1,2,", "bad.csv, line 23: column 'y' has no label; pass --drop-missing"),
        ('1,2,"same', "bad.csv, line 23: not valid CSV"),
    ],
)
def test_a_bad_row_is_named_and_the_rows_before_are_kept(folder, capsys, row, message):
    good = text(*table(30, 2)).splitlines()
    (folder / "bad.csv").write_text("\n".join([*good[:22], row, *good[22:]]) + "\n")
    arguments = ["bad.csv", "-t", "y", "--batch", 10, "-o", "m.mercer"]
    code, _, err = run(capsys, *arguments, "--json")
    assert code == 1
    assert message in err
    assert "m.mercer holds the first 2 batches: go on from there with --resume" in err
    X, y = table(30, 2)
    model = mercer.OnlineLogisticClassifier(budget=300)
    model.partial_fit(X[:10], y[:10]).partial_fit(X[10:20], y[10:20])
    assert mercer.load("m.mercer").log_evidence_ == model.log_evidence_
    (folder / "bad.csv").write_text("\n".join(good) + "\n")  # mended
    assert run(capsys, *arguments, "--resume", "-q")[0] == 0
    model.partial_fit(X[20:], y[20:])
    assert mercer.load("m.mercer").log_evidence_ == model.log_evidence_


def test_rows_with_gaps_can_be_left_out(folder, capsys):
    X, y = table(30, 2)
    rows = text(X, y).splitlines()
    gaps = [*rows[:6], ",1,same", "2,3,", *rows[6:]]
    (folder / "gaps.csv").write_text("\n".join(gaps) + "\n")
    arguments = ["gaps.csv", "-t", "y", "--batch", 16, "-o", "m.mercer", "--drop-missing"]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    assert (lines(out)[-1]["rows"], lines(out)[-1]["left_out"]) == (30, 2)
    model = mercer.OnlineLogisticClassifier(budget=300)
    model.partial_fit(X[:14], y[:14]).partial_fit(X[14:], y[14:])
    assert mercer.load("m.mercer").log_evidence_ == model.log_evidence_
    (folder / "gaps.csv").write_text("a,b,y\n1,,same\n,2,other\n")
    code, _, err = run(capsys, *arguments[:-3], "--drop-missing")
    assert code == 1
    assert "no row to learn from: each of its 2 rows has a missing value" in err


def test_files_and_columns(folder, capsys):
    (folder / "empty.csv").write_text("b,y,a\n")
    (folder / "short.csv").write_text("a,y\n1,same\n")
    assert run(capsys, "1.csv", "empty.csv", "2.csv", "-t", "y", "-q")[0] == 0
    code, _, err = run(capsys, "empty.csv", "-t", "y")
    assert code == 1
    assert "no row to learn from" in err
    code, _, err = run(capsys, "1.csv", "short.csv", "-t", "y")
    assert code == 1
    assert "short.csv has no column 'b' (an input)" in err
    code, _, err = run(capsys, "1.csv", "-t", "Y")
    assert code == 1
    assert "did you mean 'y'?" in err
    code, _, err = run(capsys, "nowhere.csv", "-t", "y")
    assert code == 1
    assert "nowhere.csv" in err
    code, _, err = run(capsys, "1.csv", "-t", "y", "-o", "1.csv")
    assert code == 1
    assert "would overwrite" in err


def test_classes(folder, capsys):
    X, y = table(40, 4)
    order = np.argsort(y, kind="stable")
    (folder / "sorted.csv").write_text(text(X[order], y[order]))
    code, _, err = run(capsys, "sorted.csv", "-t", "y", "--batch", 5)
    assert code == 1
    assert "sorted.csv, line 2 to 6: the first batch has only the label 'different'" in err
    assert "--classes a,b,..." in err
    arguments = ["sorted.csv", "-t", "y", "--batch", 5, "--json", "--classes"]
    code, out, _ = run(capsys, *arguments, "same,different,neither")
    assert code == 0
    assert lines(out)[-1]["classes"] == ["different", "neither", "same"]
    for wrong in ("same", "same,same"):
        code, _, err = run(capsys, *arguments, wrong)
        assert code == 2
        assert "at least two labels, each of them once" in err


def test_usage(folder, capsys):
    cases = [
        (["1.csv"], "--target"),
        (["1.csv", "-t", "y", "--learner", "med", "--forget", 0.5], "--forget is not an option of"),
        (
            ["1.csv", "-t", "y", "--learner", "lapmed", "--drift", "auto"],
            "--drift is not an option of",
        ),
        (["1.csv", "-t", "y", "--drift", "1"], "give a number from 0 to below 1, or auto"),
        (["1.csv", "-t", "y", "--forget", "0"], "--forget"),
        (["1.csv", "-t", "y", "--resume"], "--resume needs --checkpoint"),
        (["1.csv", "-t", "y", "--from", "m.mercer", "--budget", 3], "cannot be combined with"),
        (["-", "1.csv", "-", "-t", "y"], "standard input can be read once only"),
    ]
    for arguments, message in cases:
        code, _, err = run(capsys, *arguments)
        assert (code, message in err) == (2, True), err
    code, _, err = run(capsys, "1.csv", "-t", "y", "--kernel", "rbff")
    assert code == 1
    assert "there is no kernel 'rbff'" in err


@pytest.mark.skipif(os.name == "nt", reason="pipes differ on Windows")
def test_a_reader_that_goes_away_leaves_a_checkpoint(folder):
    with subprocess.Popen(
        [*COMMAND, "-t", "y", "--batch", "10", "--every", "100", "--json", "-o", "m.mercer"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        source = (folder / "1.csv").read_text().splitlines(keepends=True)
        process.stdin.writelines(source[:11])
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["rows"] == 10
        process.stdout.close()
        process.stdin.writelines(source[11:21])
        process.stdin.close()
        process.wait(timeout=120)
        err = process.stderr.read()
    assert (process.returncode, err) == (1, "")
    assert mercer.load("m.mercer").report_["rows"]["seen"] == 20
