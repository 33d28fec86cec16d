"""Whatever mercer.fit returns can predict; the unit of the target decides nothing."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import GPRegressor, KernelRegressor
from mercer.kernels import RBF
from mercer.losses import StudentT
from mercer.tables.choose import refit, screen
from mercer.tables.choose.left_out import check_predictions

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


def prices(unit: float, n: int = 60) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    area, quality = rng.uniform(40, 250, n), rng.integers(1, 10, n).astype(float)
    price = np.exp(10 + 0.006 * area + 0.12 * quality + 0.2 * rng.normal(size=n))
    return {"area": area, "quality": quality, "price": price / unit}


def skewed(k: float, n: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return {"x": x, "y": np.exp(k * x + 0.2 * rng.normal(size=n))}


@pytest.mark.slow
def test_the_unit_of_prices_decides_nothing() -> None:
    """Same ranking, figures and predictions; a power of two has no rounding."""
    first = mercer.fit(prices(1.0), target="price")
    for unit in (2.0**10, 2.0**17):
        table = prices(unit)
        other = mercer.fit(table, target="price")
        assert [row.name for row in other.ranking_] == [row.name for row in first.ranking_]
        for mine, theirs in zip(other.ranking_, first.ranking_, strict=True):
            if theirs.score is not None:
                assert mine.score - np.log(unit) == pytest.approx(theirs.score, abs=1e-6)
                assert mine.error * unit == pytest.approx(theirs.error, rel=1e-6)
        np.testing.assert_allclose(unit * other.predict(table), first.predict(table), rtol=1e-6)
        ends = zip(other.predict_interval(table), first.predict_interval(table), strict=True)
        for mine, theirs in ends:
            np.testing.assert_allclose(unit * mine, theirs, rtol=1e-6)


@pytest.mark.parametrize("name", ["heavy tails", "support vector regression"])
def test_candidates_of_other_units(name: str) -> None:
    found, scores = [], []
    for unit in (1.0, 2.0**17):
        table = prices(unit, 20)
        del table["quality"]
        model = mercer.fit(table, target="price", candidates=[name])
        low, high = model.predict_interval(table)
        found.append(unit * np.array([model.predict(table), low, high]))
        scores.append(model.left_out_.score - np.log(unit))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)
    assert scores[1] == pytest.approx(scores[0], abs=1e-6)


def test_a_skewed_target_can_be_predicted() -> None:
    table = skewed(3.0)
    model = mercer.fit(table, target="y", candidates=["heavy tails"])
    low, high = model.predict_interval(table)
    assert np.all(np.isfinite(model.predict(table)) & np.isfinite(low) & np.isfinite(high))
    assert np.all(low < high)
    assert model.machine_.loss_.df < 2.0  # such a target, in these units, has no variance
    assert any("infinite variance" in note for note in model.notes_)
    with pytest.warns(UserWarning, match="predict_spread"):
        std = model.predict(table, return_std=True)[1]
    assert np.all(np.isinf(std))
    spread = model.predict_spread(table)
    inside = np.array(model.predict_interval(table, 0.6826894921370859))
    np.testing.assert_allclose(spread, 0.5 * (inside[1] - inside[0]), rtol=1e-9)
    # a figure of rows left out that is no constant of the infinite deviation
    assert np.all(np.isfinite(model.left_out_.std))
    assert model.left_out_.calibration < 0.45


def test_the_spread_of_a_gaussian_is_its_deviation() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 1))
    model = GPRegressor(search=None).fit(X, X[:, 0])
    std = model.predict(X, return_std=True)[1]
    np.testing.assert_allclose(model.predict_spread(X), std, rtol=1e-9)


def test_a_latent_variance_of_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where f is known to rounding, intervals and densities are those of the noise."""
    X = np.linspace(0.0, 1.0, 6)[:, None]
    loss = StudentT(scale=0.1, df=3.0)
    model = KernelRegressor(RBF(0.3), loss=loss, inference="laplace", search=None)
    model.fit(X, np.sin(X[:, 0]))
    monkeypatch.setattr(type(model.posteriors_[0]), "var", lambda self, X: np.zeros(len(X)))
    f = model.predict(X)
    low, high = model.predict_interval(X)
    np.testing.assert_allclose(high - f, 0.1 * stats.t.ppf(0.95, 3.0), rtol=1e-9)
    np.testing.assert_allclose(f - low, 0.1 * stats.t.ppf(0.95, 3.0), rtol=1e-9)
    density = stats.t.logpdf(0.2, 3.0, scale=0.1)
    np.testing.assert_allclose(model.predictive_log_density(X, f + 0.2), density, rtol=1e-9)


class Broken(GPRegressor):
    """A machine with good figures that cannot predict."""

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Any:
        raise ValueError("no intervals today")


def test_a_machine_that_cannot_predict_does_not_win(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.linspace(-3.0, 3.0, 40)
    table = {"x": x, "y": np.sin(2.0 * x)}
    chosen = screen.Candidate("broken", "fails", lambda X, w: [Broken("rbf")], "evidence")
    linear = screen.Candidate("linear", "a line", lambda X, w: [GPRegressor("linear")], "evidence")
    monkeypatch.setattr(
        sys.modules["mercer.tables.learn"], "candidates_for", lambda *a, **k: [chosen, linear]
    )
    model = mercer.fit(table, target="y")
    assert model.chosen_.name == "linear"
    row = next(row for row in model.ranking_ if row.name == "broken")
    assert row.by == "failed: no intervals today"
    # and one that fails on all rows only gives way to the next
    monkeypatch.setattr(screen, "ROWS", 30)
    monkeypatch.setattr(screen.sample, "__defaults__", (30,))
    chosen = screen.Candidate("late", "fails", lambda X, w: [Late("rbf")], "evidence")
    monkeypatch.setattr(
        sys.modules["mercer.tables.learn"], "candidates_for", lambda *a, **k: [chosen, linear]
    )
    model = mercer.fit(table, target="y")
    assert model.chosen_.name == "linear"
    assert any("late failed on all rows" in note for note in model.notes_)


class Late(GPRegressor):
    """A machine that cannot be fitted to all rows."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        if len(X) > 30:
            raise ValueError("too many rows")
        return super().fit(X, y, sample_weight)


def test_predictions_that_are_checked() -> None:
    class Odd:
        def predict(self, X: Any) -> np.ndarray:
            return np.array([1.0, np.nan, 3.0])

        def predict_interval(self, X: Any) -> Any:
            return np.zeros(3), np.full(3, 4.0)

        def predict_proba(self, X: Any) -> np.ndarray:
            return np.array([[0.5, 0.5], [0.1, 0.1], [1.0, 0.0]])

    for k in (0, 2):
        with pytest.raises(ValueError, match="1 of its own rows"):
            check_predictions(Odd(), np.zeros((3, 1)), k)
    assert refit.check_predictions is check_predictions


def test_a_positive_target_is_bounded_by_zero() -> None:
    table = skewed(3.0)
    model = mercer.fit(table, target="y", candidates=["Gaussian process", "logarithm"])
    assert model.chosen_.name == "logarithm"
    low, high = model.predict_interval(table)
    assert np.all(low > 0.0)
    assert 0.8 < np.mean((low <= table["y"]) & (table["y"] <= high)) <= 1.0
    other = {"x": table["x"], "y": table["x"] + 0.1 * table["y"] - 5.0}
    with pytest.raises(ValueError, match="no candidate 'logarithm'"):
        mercer.fit(other, target="y", candidates=["logarithm"])
