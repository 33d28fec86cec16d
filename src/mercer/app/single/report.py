"""The report of a regression with one machine: the page of :mod:`mercer.tables.report`."""

from __future__ import annotations

import numpy as np

from mercer.app.single.fitted import Fitted
from mercer.app.single.inputs import effects_of_inputs, slice_along
from mercer.app.single.remarks import remarks
from mercer.app.single.results import QUALITY_NAMES, quality_cells
from mercer.app.terminal import require
from mercer.core.arrays import Array
from mercer.core.words import shape, shown
from mercer.plots.inputs import RelevanceDisplay
from mercer.plots.regression import BandDisplay
from mercer.tables.report.chapters import table_report as render_table
from mercer.tables.report.figures import quantity_cards, quantity_pictures
from mercer.tables.report.page import Chapter, Grid, Page, Picture, html, picture, write_report
from mercer.tables.report.surprises import surprising_quantities
from mercer.tables.report.words import facts_of, in_words

__all__ = ["render", "render_table", "write_report"]


def render(fitted: Fitted, held_out: dict[str, dict[str, float]] | None = None) -> str:
    """Return the report as HTML; ``held_out`` holds figures of several methods by name."""
    require("jinja2", "the report")
    loo = fitted.model.loo_
    counted = loo.weights > 0
    y, mean, std, density = (
        np.asarray(a)[counted] for a in (fitted.y, loo.mean, loo.std, loo.log_density)
    )
    effects = effects_of_inputs(fitted)
    main = [int(j) for j in np.argsort(effects)[::-1][:3]]
    inputs = {fitted.names[j]: fitted.X[counted, j].tolist() for j in main}
    surprises = surprising_quantities(
        y, mean, std, density, np.flatnonzero(counted), inputs, "those used"
    )
    cards = quantity_cards(fitted.y, loo.mean, loo.std, loo.log_density, loo.weights)
    pictures = [
        *quantity_pictures(y, mean, std, fitted.target, weights=np.asarray(loo.weights)[counted]),
        *_inputs(fitted, effects, main),
    ]
    words = Chapter("The model in words", in_words(fitted.model), facts=facts_of(fitted.model))
    chapters = [
        Chapter("At a glance", cards=cards),
        *_held_out(held_out),
        Chapter("Pictures", pictures=pictures),
        Chapter("Rows that surprise it", grids=[surprises]),
        words,
        _units(fitted),
    ]
    count = len(fitted.names)
    subtitle = (
        f"Gaussian process regression on {len(fitted.y)} rows and {count} "
        f"input{'' if count == 1 else 's'} of {shown(fitted.source, 120)}"
    )
    notes = [shown(r, 600) for r in remarks(fitted)]
    return html(Page(shown(fitted.target, 80), subtitle, chapters, notes))


def _inputs(fitted: Fitted, effects: Array, main: list[int]) -> list[Picture]:
    first = shown(fitted.names[main[0]], 40)
    unit = "change of the predictions / deviation of the target"
    bars = RelevanceDisplay(effects, fitted.names, None, unit)
    bands = []
    for j in main:
        grid, mean, std = slice_along(fitted, j)
        bands.append(BandDisplay(grid, mean, std, name=fitted.names[j], target=fitted.target))
    others = "" if len(fitted.names) == 1 else " The other inputs stay at their medians."
    return [
        Picture(
            "Relevance of the inputs",
            picture(bars, height=1.2 + 0.26 * min(len(effects), 30)),
            f"Bar chart of the effect of each input; the greatest is that of {first}.",
            "How far the predictions move when the values of one column are shuffled among the "
            "rows: root mean square, in standard deviations of the target.",
        ),
        Picture(
            "Along the most relevant inputs",
            picture(*bands, width=9.0, height=3.0),
            f"Prediction with 90 % band along {len(bands)} inputs, the first is {first}.",
            "The prediction for a new observation and its 90 % band." + others,
            wide=True,
        ),
    ]


def _held_out(held_out: dict[str, dict[str, float]] | None) -> list[Chapter]:
    if not held_out:
        return []
    rows = [[name, *quality_cells(figures)] for name, figures in held_out.items()]
    head = ["method", "rows", *QUALITY_NAMES]
    grid = Grid("Figures of rows that no method saw", head, rows)
    return [Chapter("On rows that were held out", grids=[grid])]


def _units(fitted: Fitted) -> Chapter:
    """What was standardised: column, subtracted, divided by."""
    units = fitted.model.report_.get("standardize") or {}
    title = "What was standardised"
    if not units.get("on"):
        return Chapter(title, ["Nothing: columns and target were used as they are."])
    columns = zip(fitted.names, units["x_shift"], units["x_scale"], strict=True)
    target = (fitted.target, units["y_shift"][0], units["y_scale"][0])
    rows = [[shown(name, 60), shape(a), shape(b)] for name, a, b in [*columns, target]]
    text = (
        "Inside the model every column is shifted and divided as below; predictions, kernel and "
        "noise above are in the units of the table."
    )
    grid = Grid("Columns and target", ["column", "subtracted", "divided by"], rows)
    return Chapter(title, [text], grids=[grid])
