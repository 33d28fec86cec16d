"""Pictures of the how-to pages: the example of each page, drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mercer import AdditiveRegressor, GPRegressor, OnlineRegressor
from mercer.kernels import RBF, Constant, Stationary
from mercer.losses import Gaussian
from mercer.plots import BandDisplay, CriteriaDisplay, TermDisplay
from pictures.sheet import BLUE, GREEN, GREY, INK, ORANGE, band, paper, waves


def _sines() -> tuple[Any, Any]:
    """Return the rows that the pages on GPy, GPyTorch and scikit-learn share."""
    x = np.linspace(0, 6, 25)[:, None]
    return x, np.sin(2 * x[:, 0]) + 0.3 * np.cos(9 * x[:, 0])


def from_gpy() -> Any:
    """The band of GPy's program at the given parameters, and after the search."""
    figure, *axes = paper(2, sharey=True)
    x, y = _sines()
    kernel = 2.0 * RBF(0.8) + Constant(0.5)
    for ax, search in zip(axes, (None, "evidence"), strict=True):
        model = GPRegressor(kernel, loss=Gaussian(0.05), search=search, random_state=0).fit(x, y)
        BandDisplay.from_estimator(model, x, y, target="y", ax=ax)
        ax.set_title(f"log evidence {model.log_evidence_:.2f}")
    return figure


def from_gpytorch() -> Any:
    """Deviations of the function, and the wider ones of an observation."""
    figure, ax = paper()
    x, y = _sines()
    model = GPRegressor(1.0 * RBF(), basis="constant", random_state=0).fit(x, y)
    at = np.linspace(-1, 7.5, 200)
    band(ax, at, *model.predict(at[:, None], return_std=True), "likelihood(model(x))", BLUE)
    band(ax, at, *model.predict_latent(at[:, None]), "model(x)", ORANGE)
    ax.plot(x[:, 0], y, "o", color=INK, ms=3)
    ax.set(xlabel="x")
    ax.legend()
    return figure


def from_mgcv() -> Any:
    """Two centred effects with partial residuals and 95 % bands, as plot.gam shows them."""
    figure, *axes = paper(2, sharey=True)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"dose": rng.uniform(0, 6, 300), "age": rng.uniform(20, 80, 300)})
    y = np.sin(table["dose"]) + 0.02 * table["age"] + 0.2 * rng.normal(size=300)
    model = AdditiveRegressor(random_state=0).fit(table, y)
    for ax, name in zip(axes, ("dose", "age"), strict=True):
        TermDisplay.compute(model, name, table, y).plot(ax)
    return figure


def from_river() -> Any:
    """Error of each batch before it is learned: a jump of the level is forgotten in few batches."""
    figure, ax = paper()
    rng = np.random.default_rng(0)
    learner, errors = OnlineRegressor(budget=60), []
    for t in range(22):
        X = rng.uniform(0, 10, size=(40, 2))
        y = np.sin(X[:, 0]) + 0.2 * X[:, 1] + (4.0 if t >= 12 else 0.0) + 0.1 * rng.normal(size=40)
        if t:
            errors.append(np.sqrt(np.mean((learner.predict(X) - y) ** 2)))
        learner.partial_fit(X, y)
    rows = 40 * np.arange(1, 22)
    ax.semilogy(rows, errors, "o-", color=ORANGE, ms=3, label="RMSE of the next 40 rows")
    ax.axvline(480, color=GREY, lw=0.8, label="the level jumps")
    found = learner.report_["drift"]["rows"][0]
    ax.axvline(found, color=BLUE, ls="--", lw=1, label=f"found: row {found}")
    ax.set(xlabel="rows seen")
    ax.legend()
    return figure


def from_sklearn_gp() -> Any:
    """Deviations with the noise, as predict gives them, and of the function alone."""
    figure, ax = paper()
    x, y = _sines()
    kernel = 2.0 * RBF(0.8) + Constant(0.5)
    model = GPRegressor(kernel, loss=Gaussian(0.05), search=None).fit(x, y)
    at = np.linspace(0, 6, 200)
    ax.plot(at, model.predict(at[:, None], return_std=True)[1], color=BLUE, label="predict")
    ax.plot(at, model.predict_latent(at[:, None])[1], color=ORANGE, label="predict_latent")
    ax.axhline(np.sqrt(0.05), color=GREY, lw=0.8, ls="--", label="the noise")
    ax.set(xlabel="x", ylabel="standard deviation", ylim=(0, None))
    ax.legend()
    return figure


def own_kernel() -> Any:
    """The profile of the page's kernel beside that of RBF, and the fit with it."""
    figure, left, right = paper(2)

    class InverseMultiquadric(Stationary):
        """k = (1 + s)^(-1/2)."""

        def profile(self, s: Any) -> Any:
            return 1.0 / np.sqrt(1.0 + s)

        def slope(self, s: Any) -> Any:
            return -0.5 / (1.0 + s) ** 1.5

    r, zero = np.linspace(0, 6, 200)[:, None], np.zeros((1, 1))
    left.plot(r, InverseMultiquadric()(r, zero), color=ORANGE, label="(1 + r^2)^(-1/2)")
    left.plot(r, RBF()(r, zero), color=GREEN, ls="--", label="RBF")
    left.set(xlabel="distance, in length scales", ylabel="k", ylim=(0, 1.05))
    left.legend()
    rng = np.random.default_rng(0)
    X = rng.uniform(0.1, 5, (40, 1))
    y = np.sqrt(X[:, 0]) + 0.05 * rng.normal(size=40)
    model = GPRegressor(1.0 * InverseMultiquadric(), random_state=0).fit(X, y)
    BandDisplay.from_estimator(model, X, y, target="y", ax=right)
    return figure


def tune_without_cv() -> Any:
    """Evidence and left-out density along the length scale: their tops lie close together."""
    figure, ax = paper()
    X, y = waves(60, 0.3)
    model = GPRegressor(1.0 * RBF(), random_state=0).fit(X, y)
    CriteriaDisplay.from_estimator(model, X, y, "kernel__kernel__length_scale", ax=ax)
    return figure
