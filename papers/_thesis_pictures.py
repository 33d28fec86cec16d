"""Figure 4.1 of the thesis, box plots of test errors, and a picture of the inputs that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import _picture
import numpy as np
from _thesis_data import SETS
from _thesis_numbers import thesis
from _thesis_relevance import kept

# the order of the thesis' legend (table 4.6), then what it did not have
BOXES = (
    ("fasvm", "no", "err_mode", "FA-SVM ŷ"),
    ("fasvm", "no", "err", "FA-SVM μ"),
    ("fasvm", "ln", "err_mode", "FA-SVM LN ŷ"),
    ("fasvm", "ln", "err", "FA-SVM LN μ"),
    ("fagp", "no", "err_mode", "FA-GP ŷ"),
    ("fagp", "no", "err", "FA-GP μ"),
    ("fagp", "ln", "err_mode", "FA-GP LN ŷ"),
    ("fagp", "ln", "err", "FA-GP LN μ"),
    ("lap", "no", "err", "Laplace"),
    ("lap", "ln", "err", "Laplace LN"),
    ("svm", "no", "err", "SVM 10-CV"),
    ("lin", "no", "err", "linear"),
    ("vbsvm", "no", "err", "VB-SVM μ"),
    ("vbgp", "no", "err", "VB-GP μ"),
    ("ep", "no", "err", "EP"),
    ("ep", "iso", "err", "EP, one scale"),
)


def errors(
    store: dict[Any, dict[str, Any]], data: str, method: str, variant: str, key: str
) -> list[float]:
    """Test errors in per cent over the splits."""
    rows = [row for cell, row in store.items() if cell == (data, cell.seed, method, variant)]
    return [100.0 * row[key] / SETS[data].tests for row in rows if key in row]


def published(data: str, method: str, variant: str, key: str) -> float | None:
    """The thesis' own run in per cent, if it has one."""
    text = thesis("err", variant, data, method)
    parts = [part for part in text.split("/") if part.strip()]
    if not parts:
        return None
    return 100.0 * float(parts[-1 if key == "err_mode" else 0]) / SETS[data].tests


def draw(store: dict[Any, dict[str, Any]], folder: str) -> None:
    """Save thesis_boxes.png and thesis_relevance.png."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [name for name in SETS if name != "pima-ripley"]
    fig, axes = plt.subplots(2, 3, figsize=(11, 7.5), layout="constrained", sharex=True)
    for ax, data in zip(axes.ravel(), names, strict=True):
        found = [errors(store, data, *box[:3]) for box in BOXES]
        ax.boxplot(found, widths=0.6, flierprops={"ms": 3}, medianprops={"color": "C1"})
        single = [published(data, *box[:3]) for box in BOXES]
        at = [i + 1 for i, value in enumerate(single) if value is not None]
        ax.plot(at, [v for v in single if v is not None], "kx", ms=4, label="thesis, one run")
        ax.set(title=data)
        ax.set_xticks(range(1, len(BOXES) + 1), [box[3] for box in BOXES], rotation=90, fontsize=7)
        rest = [row for box, row in zip(BOXES, found, strict=True) if box[0] != "lin"]
        ax.set_ylim(0.0, 1.1 * max(max(row) for row in rest if row))
    axes[0][0].legend(fontsize=8)
    for row in axes:
        row[0].set_ylabel("test errors, per cent")
    _picture.save(fig, Path(folder) / "thesis_boxes.png")
    fig, axes = plt.subplots(2, 3, figsize=(11, 4.2), layout="constrained")
    for ax, data in zip(axes.ravel(), names, strict=True):
        for shift, variant, colour in ((-0.2, "no", "C0"), (0.2, "ln", "C1")):
            share = kept(store, data, variant)
            label = {"no": "no hyperprior", "ln": "lognormal hyperprior"}[variant]
            ax.bar(np.arange(1, len(share) + 1) + shift, share, 0.4, color=colour, label=label)
        ax.set(title=data, ylim=(0, 1.02), xlabel="input")
    axes[0][0].legend(fontsize=7, loc="upper left")
    for row in axes:
        row[0].set_ylabel("share of searches")
    _picture.save(fig, Path(folder) / "thesis_relevance.png")
