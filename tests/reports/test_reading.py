"""What makes a report readable: where it is from, few bars, axes that fit, no solver's advice."""

from __future__ import annotations

import itertools
import re
import warnings
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import mercer
from mercer.app.fit import made_by
from mercer.tables.choose.screen import NUMERICS, told
from mercer.tables.report.curves import AlongDisplay
from mercer.tables.report.page import Chapter, Page, html

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


def test_a_page_says_where_it_is_from():
    made = made_by("fit", "my houses.csv", {"target": "y", "kernel": None, "candidates": ["a", "b"],
                                            "drop_missing": True, "seed": 3})  # fmt: skip
    said = "mercer fit 'my houses.csv' --target y --candidates a,b --drop-missing --seed 3"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d: " + re.escape(said), made)
    text = html(Page("y, from <houses>.csv", "a quantity", [Chapter("In short")], [], made))
    assert "<title>y, from &lt;houses&gt;.csv: model report</title>" in text
    assert "--candidates a,b --drop-missing --seed 3" in text


def test_small_probabilities_have_an_axis_of_their_own():
    at = np.linspace(0, 1, 5)
    display = AlongDisplay("x", "probability", at, {"yes": np.linspace(0.06, 0.1, 5)}).plot()
    low, high = display.ax_.get_ylim()
    assert -0.03 <= low < 0.06 < 0.1 < high < 0.2
    display = AlongDisplay("x", "probability", at, {"yes": np.linspace(0.1, 0.8, 5)}).plot()
    assert display.ax_.get_ylim() == (-0.03, 1.03)


@pytest.mark.parametrize("kind", ["number", "date"])
def test_ticks_do_not_run_together(kind):
    at = np.linspace(0, 200_000, 60)
    if kind == "date":
        at = np.datetime64("2020-01-01T00:00:00") + (86400 * at / 50).astype("timedelta64[s]")
    display = AlongDisplay("x", "y", at, {"": np.ones(60)}, np.ones(60)).plot()
    display.figure_.set_size_inches(3.0, 3.2)
    display.figure_.canvas.draw()
    low, high = display.ax_.get_xlim()
    labels = [t for t in display.ax_.get_xticklabels() if low <= t.get_position()[0] <= high]
    boxes = [t.get_window_extent() for t in labels if t.get_text()]
    assert len(boxes) >= 2
    assert all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def test_curves_that_leave_the_target_are_noticed():
    y = np.array([0.0, 55.0])
    display = AlongDisplay("x", "y", y, {"": np.array([10.0, 70.0])}, np.ones(2))
    assert not display.leaves(y)
    assert replace(display, curves={"": np.array([-2000.0, 1000.0])}).leaves(y)
    assert not replace(display, curves={"a": np.array([99.0, 99.0])}, half=None).leaves(y)


def test_advice_about_solvers_is_apart():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("give inference=Variational(max_iter=...)", ConvergenceWarning, stacklevel=1)
        warnings.warn("a class is rare", UserWarning, stacklevel=1)
    notes = told(caught)
    assert notes == [NUMERICS + "give inference=Variational(max_iter=...)", "a class is rare"]
    x = np.linspace(0, 5, 30)
    model = mercer.fit({"x": x, "y": 14_000.0 + 3e4 * np.sin(x)}, "y", candidates=["linear"])
    model.notes_[:] = notes
    from mercer.tables.report import table_report

    text = table_report(model, file="t.csv")
    remarks = text[text.index('id="remarks"') :].split("</section>")[0]
    assert "a class is rare" in remarks
    assert "Variational" not in remarks
    assert "Of the computation: give inference=Variational(max_iter=...)" in text
    assert "<h1>y, from t.csv</h1>" in text
    assert not re.search(r">[^<]*\de\+0[4-8]", text.split("The model in words</h2>")[0])


def test_pictures_follow_a_dark_page():
    css = files("mercer.tables.report").joinpath("report.css").read_text(encoding="utf-8")
    dark = [part.split("} }")[0] for part in css.split("(prefers-color-scheme: dark)")[1:]]
    assert any("figure img" in part and "invert(1)" in part for part in dark)
