"""What the tests of ``mercer stream`` share: files, their batches by hand, a run of the command."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from mercer.app.main import main

COMMAND = [sys.executable, "-m", "mercer.app.main", "stream"]


def run(capsys, *arguments):
    code = main(["stream", *(str(a) for a in arguments)])
    out, err = capsys.readouterr()
    return code, out, err


def lines(out):
    return [json.loads(line) for line in out.splitlines()]


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 50.0]
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "different")


def text(X, y, header="a,b,y"):
    rows = [f"{a!r},{b!r},{label}" for (a, b), label in zip(X.tolist(), y, strict=True)]
    return "\n".join([header, *rows]) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """1.csv of 130 rows, 2.csv of 70, and partly.csv in which one label in four is known."""
    monkeypatch.chdir(tmp_path)
    for name, n in (("1.csv", 130), ("2.csv", 70)):
        (tmp_path / name).write_text(text(*table(n, n)))
    X, y = table(120, 5)
    y = np.where(np.arange(120) % 4 == 0, y, "")
    (tmp_path / "partly.csv").write_text(text(X, y))
    return tmp_path


def batches_of(*names, size):
    """The batches by hand: (X, y), those of each file end with it."""
    for name in names:
        X, y = table(int({"1.csv": 130, "2.csv": 70}[name]), int(name == "1.csv") * 60 + 70)
        for i in range(0, len(y), size):
            yield X[i : i + size], y[i : i + size]
