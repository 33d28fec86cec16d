"""What more rows would bring: the chosen machine on nested parts of its rows."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from mercer.plots.learning import LearningDisplay
from mercer.plots.rows import take_rows
from mercer.search import Optimize
from mercer.tables.report.page import Picture, picture
from mercer.tables.report.view import View

SECONDS = 10.0  # a longer curve ends earlier
STEPS = 30  # of the search on each part


def learning(view: View) -> LearningDisplay:
    """Return the learning curve of the machine on the encoded rows.

    Hyperparameters are learned anew on every part, from one start and in at most 30 steps.
    """
    machine = clone(view.machine)
    given = machine.get_params(deep=False)
    search = given.get("search")
    criterion, balance = getattr(search, "criterion", search), getattr(search, "balance", True)
    if isinstance(criterion, str) and "gram" in given:  # the others have short ones of their own
        short = Optimize(criterion, restarts=0, max_iter=STEPS, balance=balance)
        machine.set_params(search=short)
    X = view.model.encode(take_rows(view.frame, view.rows))
    y: Any = view.left.y if view.quantity else view.codes
    return LearningDisplay.compute(machine, X, y, seconds=SECONDS, weights=view.left.weights)


def learning_picture(view: View) -> Picture | None:
    """Return the picture of it, or None where there are too few rows."""
    try:
        display = learning(view)
    except ValueError:
        return None
    if display.gain is None:
        return None
    first, last = float(display.scores[0]), float(display.scores[-1])
    verdict = _verdict(*display.gain)
    rows = "labelled rows" if view.model.kind_ == "partly" else "rows"
    return Picture(
        "Learning curve",
        picture(display, height=3.8),
        f"{display.unit} of rows held out against the number of rows learned from: {first:.3f} "
        f"with {display.sizes[0]} rows, {last:.3f} with {display.sizes[-1]}.",
        f"The model learned anew from parts of at most {display.sizes[-1]} {rows} and predicted "
        f"others that it had not seen; smaller is better. {verdict}",
    )


def _verdict(gain: float, error: float) -> str:
    """What the last doubling of the rows says, from its gain and the error of that, in nats."""
    if gain > 2 * error and gain > 0.01:
        return f"The last doubling brought {gain:.3f}: more rows would probably help again."
    if gain < -2 * error and gain < -0.02:
        return (
            f"The last doubling made it worse by {-gain:.3f}: the short searches for "
            "hyperparameters on these parts found less good ones, and the curve does not say "
            "whether more rows would help."
        )
    if gain + 2 * error < 0.02:
        return "The last doubling changed nothing: more rows of the same kind would hardly help."
    return (
        f"The last doubling brought {gain:.3f} (standard error {error:.3f}): too few rows were "
        "held out to say whether more would help."
    )
