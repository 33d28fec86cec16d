"""draw: one picture of a model that was fitted to a table."""

from __future__ import annotations

from typing import Any

from mercer.plots.classes import DiscriminationDisplay, ReliabilityDisplay
from mercer.plots.inputs import RelevanceDisplay
from mercer.plots.regression import CoverageDisplay, ObservedDisplay, ResidualDisplay
from mercer.plots.style import Display
from mercer.tables.report.along import along
from mercer.tables.report.learned import learning
from mercer.tables.report.view import View

QUANTITY = ("observed", "calibration", "residuals", "relevance", "along", "learning")
CLASSES = ("calibration", "roc", "pr", "relevance", "along", "learning")


def draw(model: Any, what: str = "auto", ax: Any = None) -> Display:
    """Draw a picture of a fitted table model and return the display, with ``ax_`` and ``figure_``.

    ``what``: "calibration", "relevance", "along" (the most relevant input), "learning"; for a
    quantity "observed" and "residuals" as well, for classes "roc" and "pr". "auto" is "observed"
    or "calibration".
    """
    view = View(model)
    known = QUANTITY if view.quantity else CLASSES
    what = known[0] if what == "auto" else what
    if what not in known:
        raise ValueError(f"there is no picture {what!r} of this kind; known: {', '.join(known)}")
    return _display(view, what).plot(ax)


def _display(view: View, what: str) -> Display:
    left = view.left
    if what == "relevance":
        e = view.effects
        return RelevanceDisplay(e.effects, e.names, e.spread, e.unit)
    if what == "learning":
        return learning(view)
    if what == "along":
        displays = (along(view, name) for name in view.main)
        found = next((d for d in displays if d is not None), None)
        if found is None:
            raise ValueError("the most relevant inputs are texts, which have no order to go along")
        return found
    if view.quantity:
        arrays = (left.y, left.mean, left.std)
        if what == "observed":
            return ObservedDisplay.compute(*arrays, target=view.target)
        if what == "residuals":
            return ResidualDisplay.compute(*arrays)
        return CoverageDisplay.compute(*arrays, weights=left.weights)
    classes = view.model.classes_
    if what == "calibration":
        return ReliabilityDisplay.compute(view.codes, left.proba, classes, weights=left.weights)
    return DiscriminationDisplay.compute(
        view.codes, left.proba, classes, kind=what, weights=left.weights
    )
