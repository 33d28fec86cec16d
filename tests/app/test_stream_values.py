"""``mercer stream``: quantities, classes that come later, rows that are set aside."""

from __future__ import annotations

import csv
import re

import numpy as np
import pytest
from tests.app.streams import folder, lines, run, table, text

import mercer

__all__ = ["folder"]  # a fixture: pytest finds it by its name here


def readings(n=240, seed=0, level=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, size=(n, 2))
    y = np.sin(X[:, 0]) + 0.2 * X[:, 1] + level + 0.1 * rng.normal(size=n)
    return X, np.round(y, 6)


def by_hand(X, y, size, **given):
    model = mercer.OnlineRegressor(budget=300, **given)
    for i in range(0, len(X), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


def test_a_quantity_is_found_said_and_learned(folder, capsys):
    X, y = readings()
    (folder / "q.csv").write_text(text(X, y))
    arguments = ["q.csv", "-t", "y", "--batch", 80, "-o", "q.mercer"]
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    *told, end = lines(out)
    model = by_hand(X, y, 80)
    assert {event["kind"] for event in (*told, end)} == {"quantity"}
    assert "taken for a quantity" in told[0]["notes"][0]
    assert told[0]["rmse"] is None
    assert end["rmse"] == pytest.approx(model.prequential_.rmse, rel=1e-12)
    assert end["nlpd"] == pytest.approx(model.prequential_.nlpd, rel=1e-12)
    written = mercer.load("q.mercer")
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(written.predict(X), model.predict(X))
    code, out, _ = run(capsys, "q.csv", "-t", "y", "--batch", 80)
    assert "RMSE" in out.splitlines()[0]
    assert "RMSE before learning" in out


def test_a_stream_of_quantities_goes_on_bit_for_bit(folder, capsys):
    X, y = readings()
    lines_of = text(X, y).splitlines()
    arguments = ["q.csv", "-t", "y", "--batch", 40, "-o", "q.mercer", "--forget", 0.9]
    (folder / "q.csv").write_text("\n".join(lines_of[:121]) + "\n")
    assert run(capsys, *arguments, "-q")[0] == 0
    (folder / "q.csv").write_text("\n".join(lines_of) + "\n")
    assert run(capsys, *arguments, "--resume", "-q")[0] == 0
    model = by_hand(X, y, 40, forget=0.9 ** (1 / 40))
    assert mercer.load("q.mercer").log_evidence_ == model.log_evidence_


def test_what_it_is_can_be_said(folder, capsys):
    X, _ = readings(60)
    (folder / "grades.csv").write_text(text(X, np.arange(60) % 5))
    arguments = ["grades.csv", "-t", "y", "--batch", 30, "--json"]
    kinds = {}
    for asked in ("", "regressor", "logistic"):
        code, out, _ = run(capsys, *arguments, *(["--learner", asked] if asked else []))
        assert code == 0
        kinds[asked] = lines(out)[-1]["kind"]
        if not asked:
            assert "--learner regressor" in lines(out)[0]["notes"][0]
    assert kinds == {"": "classes", "regressor": "quantity", "logistic": "classes"}
    code, _, err = run(capsys, *arguments, "--learner", "regressor", "--classes", "1,2")
    assert code == 2
    assert "not an option of the learner regressor" in err


def test_classes_that_come_later_are_learned_and_said(folder, capsys):
    X, y = table(120, 4)
    y = np.where((np.arange(120) >= 60) & (X[:, 0] > 1.0), "new", y)
    (folder / "new.csv").write_text(text(X, y))
    code, out, _ = run(capsys, "new.csv", "-t", "y", "--batch", 30, "--json")
    *told, end = lines(out)
    assert code == 0
    assert end["classes"] == ["different", "new", "same"]
    assert [event["new_classes"] for event in told] == [[], [], ["new"], []]
    assert "a class not seen before: 'new', from batch 3 on" in told[2]["notes"]
    code, _, err = run(capsys, "new.csv", "-t", "y", "--batch", 30, "--classes", "same,different")
    assert code == 1
    assert "is none of the classes" in err


def test_rows_that_cannot_be_read_are_set_aside(folder, capsys):
    X, y = readings(120)
    good = text(X, y).splitlines()
    bad = [*good[:10], "x,1,2", *good[10:50], "1,2,", "1,inf,2", "1,2", *good[50:], "1,2,3,4"]
    (folder / "bad.csv").write_text("\n".join(bad) + "\n")
    arguments = ["bad.csv", "-t", "y", "--batch", 41, "--quarantine", "aside.csv", "-o", "m.mercer"]
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    assert (lines(out)[-1]["rows"], lines(out)[-1]["aside"]) == (120, 5)
    with open("aside.csv", newline="", encoding="utf-8") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["row"].split()[1]))
    assert [row["row"] for row in rows] == [f"line {i}" for i in (11, 52, 53, 54, 126)]
    assert [row["reason"] for row in rows[3:]] == [
        "2 fields, but the header has 3",
        "4 fields, but the header has 3",
    ]
    assert (rows[3]["a"], rows[3]["b"], rows[3]["y"]) == ("1", "2", None)
    assert rows[0]["reason"] == "column 'a' holds 'x', not a number"
    assert "column 'y' has no finite number" in rows[1]["reason"]
    assert rows[0]["a"] == "x"
    assert run(capsys, *arguments, "--resume", "-q")[0] == 0  # nothing new, nothing written again
    with open("aside.csv", encoding="utf-8") as file:
        assert len(file.readlines()) == 6


def test_a_change_of_a_quantity_is_said(folder, capsys):
    first, then = readings(600), readings(200, 1, level=5.0)
    X, y = (np.concatenate(each) for each in zip(first, then, strict=True))
    (folder / "change.csv").write_text(text(X, y))
    code, out, _ = run(capsys, "change.csv", "-t", "y", "--batch", 50)
    assert code == 0
    assert re.search(r"rows are foreseen worse since row (59|60)\d", out)
    assert re.search(r"1 change found \(after row (59|60)\d\)", out)
