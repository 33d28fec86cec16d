"""What a report says of a regression: cards and pictures from predictions of rows left out.

What a report says of a classification: cards and pictures from rows left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.words import shape, shown
from mercer.plots.classes import DiscriminationDisplay, ReliabilityDisplay
from mercer.plots.regression import CoverageDisplay, ObservedDisplay, ResidualDisplay, coverage
from mercer.plots.rows import note_of_step, recorded
from mercer.tables.report.page import Card, Grid, Picture, picture


def quantity_cards(
    y: Array, mean: Array, std: Array, log_density: Array, weights: Array | None = None
) -> list[Card]:
    """Return the figures in large print; all arguments (n,), rows predicted without themselves.

    The mean log density is the score of the ranking: none above what the steps of y allow.
    """
    w = np.ones(len(y)) if weights is None else weights
    error = float(np.average((y - mean) ** 2, weights=w))
    spread = float(np.average((y - np.average(y, weights=w)) ** 2, weights=w))
    share = float(coverage(y, mean, std, np.array([0.9]), w)[0])
    cut = note_of_step(log_density, y)
    r2 = f"{1.0 - error / spread:.3f}" if spread > 0 else "none"
    return [
        Card(r2, "R²: the share of the target's variance that is predicted"),
        Card(f"{100 * share:.1f} %", "of the rows lie in their 90 % interval, when left out"),
        Card(shape(float(np.sqrt(error))), "root mean square error, in the target's units"),
        Card(
            f"{float(np.average(recorded(log_density, y), weights=w)):.3f}",
            "mean log density of the rows left out; greater is better"
            + (f"; {cut}" if cut else ""),
        ),
    ]


def quantity_pictures(
    y: Array,
    mean: Array,
    std: Array,
    target: str,
    left: str = "all the others",
    weights: Array | None = None,
) -> list[Picture]:
    """Return the pictures of rows that were predicted from ``left``."""
    share = float(coverage(y, mean, std, np.array([0.9]), weights)[0])
    observed = ObservedDisplay.compute(y, mean, std, target=target)
    covered = CoverageDisplay.compute(y, mean, std, weights=weights)
    over = ResidualDisplay.compute(y, mean, std)
    outside = int(np.sum(np.abs(over.residuals) > 3))
    return [
        Picture(
            "Predictions with 90 % bands",
            picture(observed),
            f"Observed against predicted values of {len(y)} rows with 90 % intervals; "
            f"{100 * share:.1f} % of the rows lie inside theirs.",
            f"Every row is predicted from {left}. The closer to the diagonal the better; the "
            "bands should contain nine rows out of ten.",
        ),
        Picture(
            "Calibration of the intervals",
            picture(covered, width=4.8, height=4.4),
            "Share of left-out rows inside their interval against its probability; at 90 % it is "
            f"{100 * share:.1f} %.",
            "Honest intervals follow the diagonal within the shaded band. Below it the intervals "
            "are too narrow, above it too wide.",
        ),
        Picture(
            "Residuals",
            picture(over, height=3.8),
            "Residuals of the left-out rows in units of their predicted deviation, against the "
            f"prediction, and their histogram beside the normal density; {outside} of {len(y)} "
            "are beyond three deviations.",
            "Nine residuals out of ten belong into the shaded band. A bend or a funnel says that "
            "the model misses a structure.",
        ),
    ]


MOST = 12  # classes in the table of mistakes


def class_cards(
    codes: Index,
    proba: Array,
    classes: Any,
    weights: Array | None = None,
    calibration: float | None = None,
) -> list[Card]:
    """Return the figures in large print of codes (n,) and their probabilities (n, k).

    ``weights`` (n,) say how often each row counts, here and below. ``calibration`` is the error
    that the ranking states; None: that of the picture.
    """
    n, k = proba.shape
    counts = np.bincount(codes, weights, k)
    right = float(np.average(proba.argmax(axis=1) == codes, weights=weights))
    common = float(counts.max() / counts.sum())
    own = np.maximum(proba[np.arange(n), codes], np.finfo(float).tiny)
    if calibration is None:
        calibration = ReliabilityDisplay.compute(codes, proba, classes, weights=weights).bins.error
    cards = [
        Card(
            f"{100 * right:.1f} %",
            f"of the rows get the right class, when left out; always saying the most frequent "
            f"one is right for {100 * common:.1f} %",
        ),
        Card(
            f"{-float(np.average(np.log(own), weights=weights)):.3f}",
            "log loss per row, in nats; smaller is better",
        ),
        Card(
            f"{100 * calibration:.1f} %",
            "is how far stated probabilities and observed shares are apart, on average",
        ),
    ]
    curves = DiscriminationDisplay.compute(codes, proba, classes, weights=weights).curves
    area = float(np.mean([curve.area for curve in curves]))
    what = "a row of one class gets more probability of it than a row of another one"
    return [*cards, Card(f"{area:.3f}", f"area under the ROC curve: how often {what}")]


def class_pictures(
    codes: Index,
    proba: Array,
    classes: Any,
    left: str = "all the others",
    weights: Array | None = None,
) -> list[Picture]:
    """Return the pictures of rows that were predicted from ``left``."""
    reliable = ReliabilityDisplay.compute(codes, proba, classes, weights=weights)
    roc = DiscriminationDisplay.compute(codes, proba, classes, kind="roc", weights=weights)
    pr = DiscriminationDisplay.compute(codes, proba, classes, kind="pr", weights=weights)
    areas = ", ".join(f"{shown(c.label, 20)} {c.area:.3f}" for c in roc.curves)
    means = ", ".join(f"{shown(c.label, 20)} {c.area:.3f}" for c in pr.curves)
    each = "" if len(classes) == 2 else " Each class against all the others."
    return [
        Picture(
            "Calibration of the probabilities",
            picture(reliable, width=4.8, height=4.4),
            f"Observed share against the predicted probability of {shown(reliable.event, 40)} in "
            f"{len(reliable.bins.counts)} groups of rows; mean distance from the diagonal "
            f"{100 * reliable.bins.error:.1f} %.",
            f"Every row is predicted from {left}. Of the rows that were given 70 %, seven out of "
            "ten should be what was said: honest probabilities lie on the diagonal, within the "
            "grey bars of chance.",
        ),
        Picture(
            "Finding a class (ROC)",
            picture(roc, width=4.8, height=4.4),
            f"ROC curve: share found against share of false alarms; areas: {areas}.",
            "How many false alarms must be accepted to find a given share. The nearer to the upper "
            f"left corner the better; guessing follows the diagonal.{each}",
        ),
        Picture(
            "Precision and recall",
            picture(pr, width=4.8, height=4.4),
            f"Precision against recall; average precisions: {means}.",
            "How many alarms are right (precision) when a given share is to be found (recall). The "
            f"thin line is what guessing reaches.{each}",
        ),
    ]


def mistakes(codes: Index, proba: Array, classes: Any, weights: Array | None = None) -> Grid | None:
    """Return how often each class was taken for which; None with too many classes to read."""
    k = len(classes)
    if k > MOST:
        return None
    counts = np.zeros((k, k))
    np.add.at(counts, (codes, proba.argmax(axis=1)), 1.0 if weights is None else weights)
    names = [shown(str(c), 24) for c in classes]
    rows = [
        [name, *(f"{v:.6g}" for v in line)]
        for name, line in zip(names, counts.tolist(), strict=True)
    ]
    caption = "Rows by what they are (down) and what they were taken for (across), when left out"
    return Grid(caption, ["is", *[f"taken for {name}" for name in names]], rows)
