"""The leave-one-out bound of kernel classifiers beside what it bounds, across kernel widths.

For pima, banana and ringnorm: the error bound from one training pass (Jaakkola and Haussler 1999,
Lemma 1), the cavity estimate, the leave-one-out error by refitting, and the error on the test part,
for kernel logistic regression and for the support vector machine without free bias.

    MERCER_DATA=<folder> python papers/loo_bound.py [--data pima] [--quick] [--out loo_bound.png]
    python papers/loo_bound.py --no-run --out <picture> --page <page>     from what is stored

The kernel is amplitude * exp(-|x - z|^2 / (2 d width^2)) + 1, its constant in place of a bias.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import _picture
import _store
import numpy as np
from threadpoolctl import threadpool_limits

from mercer import KernelClassifier
from mercer.kernels import RBF, Constant

DATA = ("pima", "banana", "ringnorm")
MACHINES = {"logistic": 4.0, "hinge": 1.0}  # amplitude of the kernel
COLUMNS = ("bound", "cavity", "loo", "test")
STORED = Path(__file__).parent / "loo_bound.json"
PAGE = """\
# The leave-one-out bound of kernel classifiers

Lemma 1 of T. Jaakkola and D. Haussler, Probabilistic kernel regression models (1999): the error of
the rows left out is at most the share of rows whose margin does not survive losing their own term,
theory (K7) and (K8), from one fit. Beside it the cavity estimate (K9), the left-out error by
refitting, and the error on the test part, across kernel widths.

    MERCER_DATA=<folder> python papers/loo_bound.py --json papers/loo_bound.json
    python papers/loo_bound.py --no-run --out docs/papers/loo_bound.png --page <this page>

The kernel is amplitude * exp(-|x - z|^2 / (2 d width^2)) + 1, its constant in place of a bias,
which the lemma does not allow. {rows} training rows of pima (Ripley's division), banana and
ringnorm (the first distributed split of each). The paper has no figures.

![bound, estimate, left-out error and test error](loo_bound.png)

Test error of the width that is chosen by each, and by hindsight:

| data, loss | bound | cavity | left-out error | hindsight | bound less left-out error, smallest |
|---|---|---|---|---|---|
{table}

The bound is below the left-out error at {broken} of {all} widths, and has the right shape where the
data are many for their noise. It misleads the logistic machine on pima: there it is smallest for a
kernel so narrow that the machine answers with the larger class everywhere. The cavity estimate
differs from refitting by {logistic:.4f} at most for the logistic loss and {hinge:.4f} for the
hinge.
"""


def folder() -> Path:
    named = os.environ.get("MERCER_DATA")
    if not named:
        sys.exit("set MERCER_DATA to the folder that holds pima_ripley and raetsch_banana")
    return Path(named)


def pima(part: str) -> tuple[np.ndarray, np.ndarray]:
    path = folder() / "pima_ripley" / f"pima_{part}.csv.gz"
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in rows[0] if name != "type"]
    X = np.array([[float(row[name]) for name in names] for row in rows])
    return X, np.array([1.0 if row["type"] == "Yes" else -1.0 for row in rows])


def read(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test part, inputs standardised by the training part."""
    if name == "pima":
        (X, y), (Z, t) = pima("tr"), pima("te")
    else:  # the first of the distributed splits
        with np.load(folder() / f"raetsch_{name}" / f"{name}.npz", allow_pickle=False) as file:
            train = file["train_official"][0].astype(int)
            rest = np.setdiff1d(np.arange(len(file["X"])), train)
            A, label = file["X"], file["t"].astype(float)
        X, y, Z, t = A[train], label[train], A[rest], label[rest]
    centre, scale = X.mean(axis=0), X.std(axis=0)
    return (X - centre) / scale, y, (Z - centre) / scale, t


def machine(loss: str, width: float, d: int) -> KernelClassifier:
    kernel = MACHINES[loss] * RBF(length_scale=width * np.sqrt(d)) + Constant(1.0)
    return KernelClassifier(kernel, loss=loss, basis=None, search=None)


def figures(
    loss: str, width: float, X: np.ndarray, y: np.ndarray, Z: np.ndarray, t: np.ndarray
) -> tuple[float, ...]:
    """Return bound, cavity estimate, leave-one-out error by refitting, and test error."""
    model = machine(loss, width, X.shape[1]).fit(X, y)
    f = model.decision_function(X)
    wrong = y * f <= 0.0  # a tie counts as an error, as it does in the bound
    # beyond the margin the hinge is flat: such a row has no part in f, and leaving it out changes
    # nothing
    matters = y * f < 1.0 + 1e-3 if loss == "hinge" else np.ones(len(y), dtype=bool)
    for i in np.flatnonzero(matters):
        rest = np.arange(len(y)) != i
        refit = machine(loss, width, X.shape[1]).fit(X[rest], y[rest])
        wrong[i] = y[i] * refit.decision_function(X[i : i + 1])[0] <= 0.0
    test = float(np.mean(t * model.decision_function(Z) <= 0.0))
    return model.loo_.error_bound, model.loo_.cavity_error, float(wrong.mean()), test


def page(stored: dict[str, dict[str, Any]]) -> str:
    """The stored figures as a page of the documentation."""
    lines, gaps = [], dict.fromkeys(MACHINES, 0.0)
    broken = count = 0
    for name, one in stored.items():
        bound, cavity, loo = (np.array(one[key]) for key in ("bound", "cavity", "loo"))
        chosen = " | ".join(f"{one['chosen'][key]:.4f}" for key in COLUMNS)
        lines.append(f"| {name} | {chosen} | {(bound - loo).min():.3f} |")
        broken, count = broken + int(np.sum(bound < loo)), count + len(loo)
        loss = name.split(", ")[1]
        gaps[loss] = max(gaps[loss], float(np.abs(cavity - loo).max()))
    rows = next(iter(stored.values()))["rows"]
    known = {"table": "\n".join(lines), "rows": rows, "broken": broken, "all": count}
    return PAGE.format_map(known | gaps)


def picture(found: dict[tuple[str, str], np.ndarray], widths: np.ndarray, out: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(name for name, _ in found))
    fig, axes = plt.subplots(
        len(MACHINES), len(names), figsize=(4 * len(names), 6), sharex=True, squeeze=False
    )
    for i, loss in enumerate(MACHINES):
        for ax, name in zip(axes[i], names, strict=True):
            for column, style in zip(COLUMNS, ("C3-", "C1--", "k-", "C0:"), strict=True):
                ax.plot(widths, found[name, loss][:, COLUMNS.index(column)], style, label=column)
            ax.set(xscale="log", ylim=(0, None), title=f"{name}, {loss}")
        axes[i][0].set(ylabel="error")
    for ax in axes[-1]:
        ax.set(xlabel="kernel width / sqrt(columns)")
    axes[0][0].legend()
    fig.tight_layout()
    _picture.save(fig, out, 70)
    print("picture:", out)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", choices=DATA, action="append", help="default: all three")
    parser.add_argument("--rows", type=int, default=200, help="training rows of each set")
    parser.add_argument("--widths", type=int, default=9, help="number of kernel widths")
    parser.add_argument("--quick", action="store_true", help="15 rows, 3 widths: seconds")
    parser.add_argument("--out", default=None, help="where to save the picture")
    parser.add_argument("--json", default=None, help="where to store the figures")
    parser.add_argument("--page", default=None, help="write the page of the documentation")
    parser.add_argument("--no-run", action="store_true", help="take the stored figures")
    given = parser.parse_args(arguments)
    if given.no_run:
        stored = json.loads(STORED.read_text(encoding="utf-8"))
        table = {
            tuple(name.split(", ")): np.array([one[c] for c in COLUMNS]).T
            for name, one in stored.items()
        }
        if given.out:
            picture(table, np.array(next(iter(stored.values()))["widths"]), given.out)
        if given.page:
            Path(given.page).write_text(page(stored), encoding="utf-8")
        return
    if given.quick:
        given.rows, given.widths = 15, 3
    widths = np.geomspace(0.1, 10.0, given.widths)
    found, stored = {}, {}
    for name in given.data or DATA:
        X, y, Z, t = read(name)
        X, y = X[: given.rows], y[: given.rows]
        for loss in MACHINES:
            start = time.process_time()
            found[name, loss] = np.array([figures(loss, w, X, y, Z, t) for w in widths])
            seconds = time.process_time() - start
            print(f"\n{name}, {loss}, {len(X)} rows ({seconds:.0f} s)")
            print("    width     bound    cavity       LOO      test")
            for width, row in zip(widths, found[name, loss], strict=True):
                print(f"{width:9.3f}" + "".join(f"{value:10.4f}" for value in row))
            best = found[name, loss].argmin(axis=0)
            chosen = [f"{c} {found[name, loss][best[i], 3]:.4f}" for i, c in enumerate(COLUMNS)]
            print("test error of the width chosen by:", ", ".join(chosen))
            stored[f"{name}, {loss}"] = {
                "rows": len(X),
                "widths": widths.tolist(),
                **{c: found[name, loss][:, i].tolist() for i, c in enumerate(COLUMNS)},
                "chosen": {c: found[name, loss][best[i], 3] for i, c in enumerate(COLUMNS)},
            }
            bad = int((found[name, loss][:, 0] < found[name, loss][:, 2]).sum())
            print(f"bound below the leave-one-out error: {bad} of {len(widths)} widths")
    if given.json:
        _store.write(given.json, stored)
    if given.out:
        picture(found, widths, given.out)
    if given.page:
        Path(given.page).write_text(page(stored), encoding="utf-8")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
