"""What a report says of rows left out: cards and pictures of a quantity, and of classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.words import shape, shown
from mercer.plots.classes import DiscriminationDisplay, ReliabilityDisplay
from mercer.plots.regression import CoverageDisplay, ObservedDisplay, ResidualDisplay
from mercer.plots.rows import note_of_step
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.report.page import Card, Grid, Picture, picture

CONSTANT = (
    "the probabilities are nearly constant, and leaving out a row moves them away from its own "
    "class, so that it looks worse than guessing"
)
MOST = 12  # classes in the table of mistakes


def quantity_cards(left: LeftOutTable) -> list[Card]:
    """Return the figures of a quantity in large print.

    The mean log density is the score of the ranking: none above what the steps of y allow.
    """
    found, cut = left.quality, note_of_step(left.log_density, left.y)
    r2 = "none" if np.isnan(found["r2"]) else f"{found['r2']:.3f}"
    density = "mean log density of the rows left out; greater is better"
    return [
        Card(r2, "R²: the share of the target's variance that is predicted"),
        Card(
            f"{100 * found['coverage90']:.1f} %",
            "of the rows lie in their 90 % interval, when left out",
        ),
        Card(shape(found["rmse"]), "root mean square error, in the target's units"),
        Card(f"{found['log_density']:.3f}", f"{density}; {cut}" if cut else density),
    ]


def quantity_pictures(left: LeftOutTable, target: str, source: str) -> list[Picture]:
    """Return the pictures of rows that were predicted from ``source``, in words."""
    arrays = (left.y, left.mean, left.std)
    share = f"{100 * left.quality['coverage90']:.1f} %"
    over = ResidualDisplay.compute(*arrays)
    outside = int(np.sum(np.abs(over.residuals) > 3))
    return [
        Picture(
            "Predictions with 90 % bands",
            picture(ObservedDisplay.compute(*arrays, target=target)),
            f"Observed against predicted values of {len(left.y)} rows with 90 % intervals; "
            f"{share} of the rows lie inside theirs.",
            f"Every row is predicted from {source}. The closer to the diagonal the better; the "
            "bands should contain nine rows out of ten.",
        ),
        Picture(
            "Calibration of the intervals",
            picture(
                CoverageDisplay.compute(*left.normal, weights=left.weights), width=4.8, height=4.4
            ),
            "Share of left-out rows inside their interval against its probability; at 90 % it is "
            f"{share}.",
            "Honest intervals follow the diagonal within the shaded band. Below it the intervals "
            "are too narrow, above it too wide.",
        ),
        Picture(
            "Residuals",
            picture(over, height=3.8),
            "Residuals of the left-out rows in units of their predicted deviation, against the "
            f"prediction, and their histogram beside the normal density; {outside} of "
            f"{len(left.y)} are beyond three deviations.",
            "Nine residuals out of ten belong into the shaded band. A bend or a funnel says that "
            "the model misses a structure.",
        ),
    ]


def class_cards(left: LeftOutTable, classes: Any) -> list[Card]:
    """Return the figures of classes (k,) in large print."""
    counts = np.bincount(left.codes, left.weights, len(classes))
    common = float(counts.max() / counts.sum())
    right = float(np.average(left.proba.argmax(axis=1) == left.codes, weights=left.weights))
    roc = DiscriminationDisplay.compute(left.codes, left.proba, classes, weights=left.weights)
    area = float(np.mean([curve.area for curve in roc.curves]))
    return [
        Card(
            f"{100 * right:.1f} %",
            f"of the rows get the right class, when left out; always saying the most frequent "
            f"one is right for {100 * common:.1f} %",
        ),
        Card(f"{-left.score:.3f}", "log loss per row, in nats; smaller is better"),
        Card(
            f"{100 * left.calibration:.1f} %",
            "is how far stated probabilities and observed shares are apart, on average",
        ),
        Card(
            f"{area:.3f}" if area >= 0.5 else "none",
            "area under the ROC curve: how often a row of one class gets more probability of it "
            "than a row of another one"
            if area >= 0.5
            else f"area under the ROC curve: {CONSTANT}",
        ),
    ]


def worse_than_guessing(left: LeftOutTable, classes: Any) -> bool:
    """Whether the rows left out are ranked the wrong way round, on average over the classes."""
    roc = DiscriminationDisplay.compute(left.codes, left.proba, classes, weights=left.weights)
    return float(np.mean([curve.area for curve in roc.curves])) < 0.5


def class_pictures(left: LeftOutTable, classes: Any, source: str) -> list[Picture]:
    """Return the pictures of rows that were predicted from ``source``, in words."""
    given: Any = (left.codes, left.proba, classes)
    reliable = ReliabilityDisplay.compute(*given, weights=left.weights, same=left.same)
    roc, pr = (
        DiscriminationDisplay.compute(*given, kind=kind, weights=left.weights)
        for kind in ("roc", "pr")
    )
    areas, means = (
        ", ".join(f"{shown(c.label, 20)} {c.area:.3f}" for c in display.curves)
        for display in (roc, pr)
    )
    each = "" if len(classes) == 2 else " Each class against all the others."
    return [
        Picture(
            "Calibration of the probabilities",
            picture(reliable, width=4.8, height=4.4),
            f"Observed share against the predicted probability of {shown(reliable.event, 40)} in "
            f"{len(reliable.bins.counts)} groups of rows; mean distance from the diagonal "
            f"{100 * reliable.bins.error:.1f} %.",
            f"Every row is predicted from {source}. Of the rows that were given 70 %, seven out of "
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


def mistakes(left: LeftOutTable, classes: Any) -> list[Grid]:
    """Return how often each class was taken for which; nothing with too many classes to read."""
    k = len(classes)
    if k > MOST:
        return []
    counts = np.zeros((k, k))
    taken = (left.codes, left.proba.argmax(axis=1))
    np.add.at(counts, taken, 1.0 if left.weights is None else left.weights)
    names = [shown(str(c), 24) for c in classes]
    rows = [
        [name, *(f"{v:.6g}" for v in line)]
        for name, line in zip(names, counts.tolist(), strict=True)
    ]
    caption = "Rows by what they are (down) and what they were taken for (across), when left out"
    return [Grid(caption, ["is", *[f"taken for {name}" for name in names]], rows)]
