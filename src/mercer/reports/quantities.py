"""What a report says of a regression: cards and pictures from predictions of rows left out."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.plots.coverage import CoverageDisplay, coverage
from mercer.plots.observed import ObservedDisplay
from mercer.plots.recorded import note_of_step, recorded
from mercer.plots.residuals import ResidualDisplay
from mercer.reports.page import Card, Picture
from mercer.reports.picture import picture
from mercer.wording import shape


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
