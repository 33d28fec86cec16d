"""Displays of terms and of a check."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from mercer import GPRegressor, plots
from mercer.kernels import RBF, Linear

rng = np.random.default_rng(2)
table = pd.DataFrame(rng.uniform(0, 5, (50, 2)), columns=["$age", "bmi"])
y = np.sin(table["$age"]).to_numpy() + 0.5 * table["bmi"] + 0.1 * rng.normal(size=50)
model = GPRegressor(1.0 * RBF(2.0).on("$age") + Linear().on("bmi")).fit(table, y)


def test_terms_are_drawn_with_their_bands() -> None:
    shown = plots.TermDisplay.from_estimator(model, "bmi", table, y)
    mean, std = model.predict_component(
        pd.DataFrame({"$age": 1.0, "bmi": shown.values}), "bmi", return_std=True, center=True
    )
    np.testing.assert_allclose(shown.mean, mean)
    np.testing.assert_allclose(shown.std, std)
    assert shown.edf == pytest.approx(model.terms().terms[1].edf)
    partial = shown.partial[1]
    own = model.predict_component(table, "bmi", center=True)
    np.testing.assert_allclose(partial - own, y - model.predict(table))
    every = plots.TermsDisplay.from_estimator(model)
    assert [one.name for one in every.displays] == ["$age", "bmi"]
    every.figure_.canvas.draw()  # a dollar sign is no mathematics
    with pytest.raises(ValueError, match="no column"):
        plots.TermDisplay.from_estimator(model, "height")


def test_a_check_draws_four_pictures() -> None:
    shown = plots.CheckDisplay.from_estimator(model, table, y)
    shown.figure_.canvas.draw()
    assert len(shown.figure_.axes) == 5
    mean, std = model.predict(table, return_std=True)
    same = plots.CheckDisplay.from_predictions(table, y, mean, std).check
    np.testing.assert_allclose(same.residuals, (y - mean) / std)
    own = plots.QuantileDisplay.from_predictions(y, mean, std)
    np.testing.assert_allclose(own.residuals, same.residuals)
    effects = {"a": plots.TermDisplay.compute(model, "bmi")}
    assert plots.TermsDisplay.from_predictions(effects).displays[0].name == "a"
    assert len(plots.QuantileDisplay(shown.check.residuals).plot().ax_.lines[1].get_xdata()) == 50
