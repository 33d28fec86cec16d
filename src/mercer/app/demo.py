"""``mercer demo``: the main job on a table that comes with scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mercer.app import terminal as console
from mercer.app.files.outputs import check_outputs
from mercer.app.fit import check_printing
from mercer.app.single.fitted import Fitted, fit_table
from mercer.app.single.quality import normal_log_density, quality
from mercer.app.single.results import QUALITY_NAMES, as_plain, quality_cells, show
from mercer.app.terminal import progress
from mercer.core.arrays import Array

Indices = NDArray[np.int64]

TITLE = "Held-out quality: a quarter of the patients, not seen by the fit"


def run(*, report: str | None, seed: int, quiet: bool, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    from sklearn.datasets import load_diabetes

    check_outputs([report])
    check_printing(report)
    table = load_diabetes(scaled=False)
    train, test = _split(len(table.target), seed)
    X, y = np.ascontiguousarray(table.data), np.asarray(table.target, dtype=np.float64)
    with progress(quiet or as_json) as advance:
        names, target = list(table.feature_names), "disease progression"
        source = "the diabetes table of scikit-learn"
        fitted = fit_table(
            names, X[train], y[train], None, target, source, seed=seed, progress=advance
        )
    held_out = compare(fitted, X[test], y[test])
    if report is not None:
        from mercer.app.single.report import render, write_report

        write_report(report, render(fitted, held_out))
    if as_json:
        console.print_json(as_plain(fitted) | {"held_out": held_out, "report": report})
    elif not quiet:
        show(fitted)
        rows = [[name, *quality_cells(figures)] for name, figures in held_out.items()]
        console.print_table(TITLE, ["method", "rows", *QUALITY_NAMES], rows)
        if report is not None:
            console.say(f"report written to {report}")


def _split(n: int, seed: int) -> tuple[Indices, Indices]:
    order = np.random.default_rng(seed).permutation(n)
    return order[n // 4 :], order[: n // 4]


def compare(fitted: Fitted, X: Array, y: Array) -> dict[str, dict[str, float]]:
    """Return held-out figures of the model and of two plain baselines, by name.

    The baselines predict with a Gaussian: around the mean of the training targets, or around a
    least-squares line with the residual variance SS / (n - d - 1).
    """
    from sklearn.linear_model import LinearRegression

    mean, std = fitted.predict(X)
    result = {"GPRegressor": quality(y, mean, std, normal_log_density(y, mean, std))}
    n, d = fitted.X.shape
    line = LinearRegression().fit(fitted.X, fitted.y)
    residual = fitted.y - line.predict(fitted.X)
    plain = {
        "linear regression": (line.predict(X), np.sqrt((residual**2).sum() / (n - d - 1))),
        "mean of the targets": (np.full(len(y), fitted.y.mean()), fitted.y.std(ddof=1)),
    }
    for name, (centre, spread) in plain.items():
        wide = np.full(len(y), spread)
        result[name] = quality(y, centre, wide, normal_log_density(y, centre, wide))
    return result
