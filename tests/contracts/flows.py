"""How many files of mercer the main flows cross: ``python tests/contracts/flows.py`` prints them.

A file counts if one of its functions runs, not if it is only imported.
"""

from __future__ import annotations

import inspect
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import mercer
from mercer import SVC, GPRegressor, OnlineLogisticClassifier, SmoothingSpline

SOURCE = str(Path(mercer.__file__).parent) + os.sep


def files_of(flow: Callable[[], Any]) -> list[str]:
    """Return the files of mercer in which a function ran while ``flow`` did."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:  # at calls: it returns None
        code = frame.f_code
        function = code.co_flags & inspect.CO_OPTIMIZED  # not the body of a module or a class
        if function and code.co_filename.startswith(SOURCE):
            seen.add(code.co_filename[len(SOURCE) :])

    before = sys.gettrace()
    sys.settrace(note)
    try:
        flow()
    finally:
        sys.settrace(before)
    return sorted(seen)


def _rows(n: int = 60) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.1 * X[:, 1]


def gaussian_process() -> None:
    """A regressor with its defaults: fit, and predict with error bars."""
    X, y = _rows()
    GPRegressor().fit(X, y).predict(X, return_std=True)


def support_vectors() -> None:
    """A support vector classifier with its defaults: fit and predict."""
    X, y = _rows()
    SVC().fit(X, y > 0).predict(X)


def stream() -> None:
    """The online learner: two batches, and probabilities."""
    X, y = _rows()
    learner = OnlineLogisticClassifier()
    learner.partial_fit(X[:30], y[:30] > 0, classes=[False, True]).partial_fit(X[30:], y[30:] > 0)
    learner.predict_proba(X)


def spline() -> None:
    """A smoothing spline: fit, and predict with error bars."""
    x = np.linspace(0, 6, 40)[:, None]
    SmoothingSpline().fit(x, np.sin(x[:, 0])).predict(x, return_std=True)


def command() -> None:
    """``mercer fit`` on a table: all candidates, the model file and the report."""
    from mercer.app.main import main

    X, y = _rows(30)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "t.csv"
        np.savetxt(table, np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="")
        given = ["fit", str(table), "-t", "y", "-o", f"{folder}/m.mercer", "-q"]
        assert main([*given, "--report", f"{folder}/r.html", "--time-budget", "20"]) == 0


# How many files a flow may cross.
MOST = {gaussian_process: 30, support_vectors: 18, stream: 20, spline: 20, command: 150}

if __name__ == "__main__":
    for flow in MOST:
        found = files_of(flow)
        print(f"{flow.__name__}: {len(found)} files (at most {MOST[flow]})")
        if "-v" in sys.argv:
            print("\n".join(f"    {name}" for name in found))
