"""How honest the probabilities of many classes are in a stream, with and without sharpening.

Rows of isolet, usps and waveform (``MERCER_DATA``) in a random order, and of eleven Gaussian
classes; log loss of rows before they are learned, and the calibration error of ten bins of the
probability of the class predicted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
from measure import Row, in_fresh_process

TABLES = {"isolet": 2500, "usps": 3000, "waveform": 4000, "eleven": 3000}
BATCH, BUDGET = 100, 300
BAR = "<= 0.06"


def calibration_rows(share: float) -> list[Row]:
    """Log loss and calibration error on each stream, of a share of its rows."""
    rows = []
    for name, n in TABLES.items():
        what = f"calibration before each update, {name}"
        if table(name, 10) is None:
            rows.append(Row(what, "mercer", note="MERCER_DATA has no such table"))
            continue
        found = in_fresh_process(["calibration.py", name, str(max(400, int(share * n)))])
        for who, entry in found.items():
            rows.append(
                Row(
                    what,
                    who,
                    entry["error"],
                    "calibration error",
                    BAR if who == "prequential" else "",
                    quality={"log loss": entry["log_loss"], "accuracy": entry["accuracy"]},
                )
            )
    return rows


def table(name: str, n: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return n rows in a random order, None where there is no such table."""
    rng, folder = np.random.default_rng(0), Path(os.environ.get("MERCER_DATA", ""))
    if name == "eleven":
        centres, y = 1.5 * rng.normal(size=(11, 5)), rng.integers(11, size=n)
        return centres[y] + rng.normal(size=(n, 5)), y
    files = {"isolet": "isolet/isolet.npz", "usps": "usps/usps_resampled.npz"}
    path = folder / files.get(name, "waveform_uci/waveform.csv.gz")
    if not path.exists():
        return None
    if name == "waveform":
        stored = np.genfromtxt(path, delimiter=",", skip_header=1)
        X, y = stored[:, :-1], stored[:, -1].astype(int)
    else:
        found = np.load(path, allow_pickle=False)
        if name == "isolet":
            X, y = found["X10000"], found["y"]
        else:
            X = np.vstack([found["X_train"], found["X_test"]])
            y = np.concatenate([found["y_train"], found["y_test"]])
    some = rng.permutation(len(y))[:n]
    return np.ascontiguousarray(X[some], dtype=float), y[some]


def measured(name: str, n: int) -> dict[str, dict[str, float]]:
    """Return the figures of the learner as it is and without sharpening."""
    from mercer import OnlineLogisticClassifier

    found = table(name, n)
    assert found is not None
    X, y = found
    classes, figures = np.unique(y), {}
    for who in ("none", "prequential"):
        asked = None if who == "none" else who
        model, p = OnlineLogisticClassifier(budget=BUDGET, calibration=asked), []
        for i in range(0, n, BATCH):
            if i:
                p.append(model.predict_proba(X[i : i + BATCH]))
            model.partial_fit(X[i : i + BATCH], y[i : i + BATCH], classes=classes)
        codes = np.searchsorted(classes, y[BATCH:])
        figures[who] = scored(np.vstack(p), codes)
    return figures


def scored(p: np.ndarray, codes: np.ndarray) -> dict[str, float]:
    """Log loss, accuracy and calibration error of probabilities (n, k)."""
    sure, hit = p.max(axis=1), p.argmax(axis=1) == codes
    bins = np.minimum((10 * sure).astype(int), 9)
    gaps = [abs(float((sure - hit)[bins == b].sum())) for b in range(10)]
    return {
        "log_loss": -float(np.mean(np.log(p[np.arange(len(codes)), codes]))),
        "accuracy": float(hit.mean()),
        "error": sum(gaps) / len(codes),
    }


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
