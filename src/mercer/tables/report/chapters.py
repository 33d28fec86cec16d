"""The report of a model that was fitted to a table: every kind of target, one page."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.words import shown
from mercer.plots.check import CheckDisplay
from mercer.plots.classes import DiscriminationDisplay, ReliabilityDisplay
from mercer.plots.inputs import MOST, RelevanceDisplay
from mercer.plots.regression import CoverageDisplay, ObservedDisplay, ResidualDisplay
from mercer.plots.rows import take_rows
from mercer.plots.style import Display
from mercer.tables.choose.screen import NUMERICS, ROWS, Progress
from mercer.tables.quality import QUALITY_NAMES, quality_cells
from mercer.tables.report.curves import View, along, learning, learning_picture
from mercer.tables.report.figures import (
    CONSTANT,
    class_cards,
    class_pictures,
    mistakes,
    quantity_cards,
    quantity_pictures,
    worse_than_guessing,
)
from mercer.tables.report.grids import ranking_grid, surprising, why
from mercer.tables.report.page import Chapter, Grid, Page, Picture, html, picture
from mercer.tables.report.words import ENCODED, SLOPES, facts_of, in_words, largest_first

SCREENED = ROWS  # at most, by which the candidates were ranked


def table_report(
    model: Any,
    progress: Progress | None = None,
    held_out: Any = None,
    file: str = "",
    made: str = "",
) -> str:
    """Return the report of a fitted table model as HTML.

    ``progress`` is given a dictionary with "stage", "step" and "steps" before each chapter;
    ``held_out`` are figures of :func:`mercer.tables.quality.quality` by the name of the method;
    ``file`` is where the table came from, ``made`` says when and how the report was.
    """
    view = View(model)
    view.frame  # noqa: B018  # refuses a model without its rows before anything is drawn
    makers = (_short, _why, _trust, _inputs, _learning, _surprises, _words, _columns)
    chapters: list[Chapter] = []
    for step, make in enumerate(makers):
        if progress is not None:
            stage = f"report:{make.__name__.replace('_', ' ')}"
            progress({"stage": stage, "step": step, "steps": len(makers)})
        chapter = make(view)
        chapters += [] if chapter is None else [chapter]
    if held_out:
        rows = [[name, *quality_cells(figures)] for name, figures in held_out.items()]
        grid = Grid("Figures of rows that no method saw", ["method", *QUALITY_NAMES], rows)
        chapters.insert(1, Chapter("On rows that were held out", grids=[grid]))
    remarks = [shown(note, 600) for note in model.notes_ if not note.startswith(NUMERICS)]
    title = shown(view.target, 80) + (f", from {shown(file, 80)}" if file else "")
    return html(Page(title, _subtitle(view), chapters, remarks, shown(made, 400)))


def _subtitle(view: View) -> str:
    kinds = {
        "regression": "A quantity",
        "binary": "One of two classes",
        "multiclass": f"One of {0 if view.quantity else view.left.proba.shape[1]} classes",
        "partly": "A class, known for some of the rows",
    }
    rows, given, columns = len(view.model.rows_), view.model.given_, len(view.used)
    plural = "" if columns == 1 else "s"
    count = f"{rows} rows" if rows == given else f"{rows} of {given} rows"
    what = f"{kinds[view.model.kind_]}, predicted from {columns} column{plural} and {count}"
    by = view.model.weighted_by_
    weighted = ", weighted" if by is None else f", weighted by “{shown(by, 40)}”"
    return what if view.left.weights is None else what + weighted


def _short(view: View) -> Chapter:
    chosen, left = view.model.chosen_, view.left
    reason = (
        "It was chosen because it predicted rows that it had not seen better than the other "
        "candidates did."
        if view.model.ranking_[0] is chosen
        else "Why it was chosen, although another scored more, is said below."
    )
    text = [
        f"The model is “{shown(chosen.name, 60)}”: {shown(chosen.sentence, 200)}. {reason}",
        f"All figures are of rows that were predicted from {view.source}: they say what to "
        "expect of new rows of the same kind.",
    ]
    text += _beside(view)
    form, points = (view.model.representation_[name] for name in ("form", "points"))
    if form != "exact" and (points is not None or form == "iterative"):  # of members: below
        by = "by iteration" if points is None else f"through {points} points that stand for them"
        text.append(f"It knows its {len(view.model.rows_)} rows {by}.")
    if left.weights is not None:
        text.append(
            "Every row counts as often as its weight says in all figures and curves; pictures of "
            "single rows, and the relevance of inputs, take each row once."
        )
    cards = quantity_cards(left) if view.quantity else class_cards(left, view.model.classes_)
    return Chapter("In short", text, cards)


def _beside(view: View) -> list[str]:
    """Return how much it is worth beside the simplest models, a sentence for each."""
    verdict = view.model.verdict_
    if verdict is None:
        return []
    return [f"It is {one.words(view.quantity)}." for one in verdict.simple]


def _why(view: View) -> Chapter:
    rows, text = view.model.ranking_, why(view.model.ranking_)
    if len(view.left.y) > SCREENED:
        text.append(
            f"The figures of this table are of at most {SCREENED} rows; those elsewhere in the "
            f"report are of the chosen model and {len(view.left.y)} rows."
        )
    return Chapter("Why this model", text, grids=[ranking_grid(rows, view.quantity)])


def _trust(view: View) -> Chapter:
    left, classes, text, grids = view.left, view.model.classes_, [], []
    if view.quantity:
        shown_as = quantity_pictures(left, view.target, view.source)
        loss = type(getattr(view.machine, "loss_", None)).__name__
        if loss not in ("Gaussian", "NoneType"):
            text.append(
                "Intervals are drawn as those of a normal distribution; this model has another one."
            )
    else:
        shown_as = class_pictures(left, classes, view.source)
        if worse_than_guessing(left, classes):
            text.append(f"Do not read much into these pictures: {CONSTANT}.")
        grids = mistakes(left, classes)
    return Chapter("How far it can be trusted", text, pictures=shown_as, grids=grids)


def _inputs(view: View) -> Chapter:
    effects = view.effects
    first = shown(view.main[0], 40)
    curves = [d for d in (along(view, name) for name in view.main) if d is not None]
    bars, every = min(len(effects.names), MOST), len(effects.names)
    some = "" if bars == every else f" The {bars} most relevant of {every} columns are drawn."
    pictures = [
        Picture(
            "Relevance of the inputs",
            picture(_display(view, "relevance"), height=1.2 + 0.26 * bars),
            f"Bar chart of the effect of each input; the greatest is that of {first}.",
            "How far the predictions move when the values of one column are shuffled among "
            f"{effects.rows} rows. Columns that say the same can stand in for each other and share "
            f"their effect.{some}",
        )
    ]
    if curves:
        others = "" if len(view.used) == 1 else " The other columns keep a typical value."
        what = "prediction and its 90 % band" if view.quantity else "probability of the classes"
        names = ", ".join(shown(d.name, 30) for d in curves)
        lost = ", ".join(f"“{shown(d.name, 30)}”" for d in curves if d.leaves(view.left.y))
        if lost:
            others += (
                f" Along {lost} the prediction leaves the range of the target: columns that move "
                "together in the table are pulled apart here, and such rows do not occur in it."
            )
        pictures.append(
            Picture(
                "Along the most relevant inputs",
                picture(*curves, width=3.0 * max(len(curves), 2), height=3.2),
                f"The {what} along {names}.",
                f"The {what} when one column changes.{others}",
                wide=len(curves) > 1,
            )
        )
    return Chapter("What it depends on", pictures=pictures)


def _learning(view: View) -> Chapter | None:
    found = learning_picture(view)
    return None if found is None else Chapter("Would more rows help?", pictures=[found])


def _surprises(view: View) -> Chapter:
    part = take_rows(view.frame, view.rows)
    inputs = {name: part.columns[name].tolist() for name in view.main}
    for name in part.dates & set(inputs):
        inputs[name] = [_day(v) for v in inputs[name]]
    text = [
        "Look at these rows first: some may be errors in the table, others show what the model "
        "does not know."
    ]
    grid = surprising(view.left, view.model.classes_, view.rows, inputs)
    return Chapter("Rows that surprise it", text, grids=[grid])


def _day(value: float) -> str | None:
    """Return days since 1970 as a date, None where there are none."""
    if value != value:
        return None
    return str(np.datetime64("1970-01-01") + np.timedelta64(int(value // 1), "D"))


def _words(view: View) -> Chapter:
    text, how = in_words(view.machine), view.model.representation_
    if how["form"] != "exact":
        text.append(f"Of its rows: {how['words']}.")
    if text:
        text.append(
            "Lengths are measured as the machine sees the columns: numbers in their standard "
            "deviations, groups as 0 and 1."
        )
    notes = [
        shown(n.removeprefix(NUMERICS), 600) for n in view.model.notes_ if n.startswith(NUMERICS)
    ]
    text += [f"Of the computation: {note}" for note in notes]
    slopes = largest_first(view.model.coefficients(), MOST)[:MOST]
    rows = [[shown(c.column, 60), c.text] for c in slopes]
    grids = [Grid(f"{SLOPES}, with standard errors", ["column", "slope"], rows)] if rows else []
    return Chapter("The model in words", text, grids=grids, facts=facts_of(view.machine, ENCODED))


def _columns(view: View) -> Chapter:
    rows = [[shown(c.name, 60), c.kind, shown(c.rule, 300)] for c in view.model.columns_]
    text = ["What was recognised in each column, and what is done to it before the model sees it."]
    grid = Grid("Columns of the table", ["column", "kind", "what is done"], rows, words=3)
    return Chapter("The columns", text, grids=[grid])


QUANTITY = ("observed", "calibration", "residuals", "relevance", "along", "learning", "check")
CLASSES = ("calibration", "roc", "pr", "relevance", "along", "learning", "check")


def draw(model: Any, what: str = "auto", ax: Any = None) -> Display:
    """Draw a picture of a fitted table model and return the display, with ``ax_`` and ``figure_``.

    ``what``: "calibration", "relevance", "along" (the most relevant input), "learning", "check";
    for a quantity "observed" and "residuals" as well, for classes "roc" and "pr". "auto" is
    "observed" or "calibration".
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
    if what == "check":
        return CheckDisplay(view.model.check(view.frame))
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
        return CoverageDisplay.compute(*left.normal, weights=left.weights)
    given: Any = (left.codes, left.proba, view.model.classes_)
    if what == "calibration":
        return ReliabilityDisplay.compute(*given, weights=left.weights, same=left.same)
    return DiscriminationDisplay.compute(*given, kind=what, weights=left.weights)
