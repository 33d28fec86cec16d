"""``mercer demo``: the main job on a table that a formula makes: circuits and their impedance."""

from __future__ import annotations

import numpy as np

import mercer
from mercer.app import terminal as console
from mercer.app.files.outputs import check_outputs
from mercer.app.fit import check_printing, made_by
from mercer.app.results import plain_of, show_model
from mercer.app.terminal import progress
from mercer.core.arrays import Array
from mercer.plots.rows import normal_log_density
from mercer.tables import TableModel
from mercer.tables.quality import QUALITY_NAMES, quality, quality_cells

TARGET = "impedance"
NAMES = ("resistance", "frequency", "inductance", "capacitance")
ROWS, NOISE = 400, 40.0  # circuits; ohm, the error of a measurement
TITLE = "Held-out quality: a quarter of the circuits, not seen by the fit"


def run(*, report: str | None, seed: int, quiet: bool, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    from sklearn.datasets import make_friedman2

    check_outputs([report])
    check_printing(report)
    X, y = make_friedman2(ROWS, noise=NOISE, random_state=seed)  # rows in random order
    train, test, names = slice(ROWS // 4, None), slice(0, ROWS // 4), NAMES
    columns = dict(zip(names, X[train].T, strict=True)) | {TARGET: y[train]}
    with progress(quiet or as_json) as advance:
        model = mercer.fit(columns, TARGET, kernel="rbf", seed=seed, progress=advance)
    if model.interrupted_:
        raise KeyboardInterrupt
    held_out = compare(model, X[train], y[train], dict(zip(names, X[test].T, strict=True)), y[test])
    if report is not None:
        from mercer.tables.report import table_report, write_report

        made = made_by("demo", None, {"seed": seed})
        write_report(report, table_report(model, held_out=held_out, made=made))
    if as_json:
        console.print_json(plain_of(model) | {"held_out": held_out, "report": report})
    elif not quiet:
        show_model(model)
        rows = [[name, *quality_cells(figures)] for name, figures in held_out.items()]
        console.print_table(TITLE, ["method", *QUALITY_NAMES], rows)
        if report is not None:
            console.say(f"report written to {report}")


def compare(
    model: TableModel, X: Array, y: Array, new: dict[str, Array], truth: Array
) -> dict[str, dict[str, float]]:
    """Return held-out figures of the model and of two plain baselines, by name.

    The baselines predict with a Gaussian: around the mean of the training targets, or around a
    least-squares line with the residual variance SS / (n - d - 1).
    """
    from sklearn.linear_model import LinearRegression

    n, d = X.shape
    line = LinearRegression().fit(X, y)
    spread = np.sqrt(((y - line.predict(X)) ** 2).sum() / (n - d - 1))
    predictions = {
        type(model.machine_).__name__: model.predict(new, return_std=True),
        "linear regression": (line.predict(np.column_stack(list(new.values()))), spread),
        "mean of the targets": (np.full(len(truth), y.mean()), y.std(ddof=1)),
    }
    figures = {}
    for name, (mean, std) in predictions.items():
        wide = np.broadcast_to(std, truth.shape)
        figures[name] = quality(truth, mean, wide, normal_log_density(truth, mean, wide))
    return figures
