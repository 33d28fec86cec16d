"""Quantiles: a pinball loss answers the quantile asked for, QuantileRegressor several at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.metrics import mean_pinball_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import GPRegressor, KernelRegressor, QuantileRegressor, SmoothingSpline
from mercer.estimators.quantile.estimator import weighted_quantile
from mercer.kernels import RBF
from mercer.linalg import Inducing
from mercer.losses import Pinball
from mercer.search import HMC


def line(n=30, seed=0):
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n)[:, None]
    return x, np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=n)


MACHINES = {
    "mode": KernelRegressor(RBF(0.3), loss=Pinball(0.9, 0.1), search=None),
    "ep": GPRegressor(RBF(0.3), loss=Pinball(0.9, 0.1), inference="ep", search=None),
    "variational": GPRegressor((1.0 * RBF(0.3)).fix(), loss=Pinball(0.9, 0.1)),
    "committee": GPRegressor(
        RBF(0.3), loss=Pinball(0.9, 0.1), search=HMC(samples=4, warmup=4, chains=1, keep=3)
    ),
    "spline": SmoothingSpline(loss=Pinball(0.9, 0.1)),
}


@pytest.mark.filterwarnings("ignore")  # a committee of four draws
@pytest.mark.parametrize("model", MACHINES.values(), ids=list(MACHINES))
def test_predict_of_a_pinball_loss_is_the_quantile(model):
    x, t = line()
    model.fit(x[::2], t[::2])
    new = np.array([[0.11], [0.52]])
    quantile = model.predict(new)
    np.testing.assert_array_equal(quantile, model.predict_latent(new)[0])
    assert 0.75 < (t <= model.predict(x)).mean() <= 1.0
    if model.posteriors_[0].has_spread:
        # the quantile beside the deviation of an observation, which is that of the noise and f
        with_std, std = model.predict(new, return_std=True)
        np.testing.assert_allclose(with_std, quantile, rtol=1e-12)
        low, high = model.predict_interval(new, coverage=0.8)
        density = model.predictive_log_density(new, low)
        assert np.all((low < quantile) & (quantile < high + std) & np.isfinite(density))
    left_out = model.left_out_.mean
    assert 0.5 < (t[::2] <= left_out)[np.isfinite(left_out)].mean() <= 1.0
    assert model.loss_.level == 0.9


def test_a_level_is_asked_for_and_never_learned():
    assert set(Pinball(0.9).free) == {"scale"}
    x, t = line()
    model = GPRegressor((1.0 * RBF(0.3)).fix(), loss=Pinball(0.9, 0.1)).fit(x[::2], t[::2])
    assert model.loss_.level == 0.9
    assert model.loss_.scale != 0.1


# ---------------------------------------------------------------------- QuantileRegressor
FAST = QuantileRegressor((0.1, 0.5, 0.9), kernel=RBF(0.3), C=3.0, search=None)


def spreading(n, seed=0, columns=1):
    """Rows whose spread grows with the first column."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, columns))
    return X, np.sin(6 * X[:, 0]) + (0.1 + 0.5 * X[:, 0]) * rng.normal(size=n)


def test_each_level_is_the_optimum_of_another_solver():
    """Up to the constant, which left-out rows have moved: proximal Newton steps against SMO."""
    X, y = spreading(40, columns=2)
    model = clone(FAST).fit(X, y)
    unit = y.std()
    for j, q in enumerate(model.levels_):
        machine = KernelRegressor(
            unit**2 * RBF(0.3),
            loss=Pinball(q, unit / 3.0),
            inference="dual",
            basis="constant",
            search=None,
        ).fit(X, y)
        raw = model.units_.y_in_user_units(model.posteriors_[j].mean(X))[:, 0]
        moved = model.report_["levels"][j]["moved"]
        np.testing.assert_allclose(raw - moved, machine.predict(X), atol=1e-6)


def test_landmarks_at_all_rows_are_the_exact_machine(monkeypatch):
    monkeypatch.setattr("mercer.estimators.quantile.estimator.LANDMARK_TOL", 1e-9)
    X, y = spreading(60, columns=2)
    w = np.random.default_rng(1).integers(1, 4, size=60).astype(float)
    exact = clone(FAST).fit(X, y, w)
    ours = clone(FAST).set_params(gram=Inducing(X + 1e-9)).fit(X, y, w)
    np.testing.assert_allclose(ours.predict(X), exact.predict(X), atol=1e-4)
    np.testing.assert_allclose(ours.left_out_.quantiles, exact.left_out_.quantiles, atol=1e-4)


def test_quantiles_on_landmarks(tmp_path):
    X, y = spreading(1000)
    model = clone(FAST).set_params(gram=Inducing(m=30)).fit(X, y)
    Z, z = spreading(4000, seed=1)
    f = model.predict(Z)
    assert np.all(np.diff(f, axis=1) >= 0)
    assert within((z[:, None] <= f).mean(axis=0), model.levels_, 4000, 1000)
    truth = np.sin(6 * Z) + (0.1 + 0.5 * Z) * np.array([-1.2816, 0.0, 1.2816])
    assert np.sqrt(np.mean((f - truth) ** 2)) < 0.08
    assert model.report_["inducing"]["points"] <= 30
    assert model.report_["inference"]["gap"] <= 1e-4 * model.report_["inference"]["objective"]
    assert "30 inducing points" in str(model.summary())
    mercer.save(model, tmp_path / "quantiles.mercer")
    assert np.array_equal(mercer.load(tmp_path / "quantiles.mercer").predict(Z), f)


def test_weighted_quantile():
    rng = np.random.default_rng(0)
    r, copies = rng.normal(size=50), rng.integers(1, 4, size=50)
    for q in (0.1, 0.37, 0.5, 0.9):
        wanted = np.quantile(np.repeat(r, copies), q, method="averaged_inverted_cdf")
        assert weighted_quantile(r, q, copies.astype(float)) == pytest.approx(wanted, abs=1e-15)
        assert weighted_quantile(-r, 1 - q, np.ones(50)) == pytest.approx(
            -weighted_quantile(r, q, np.ones(50))
        )


def within(below, levels, n, fitted):
    """Whether the shares of held-out rows lie within 3 standard errors, those of the fit too."""
    levels = np.asarray(levels)
    error = np.sqrt(levels * (1 - levels) * (1 / n + 1 / fitted))
    return np.all(np.abs(below - levels) < 3 * error)


def test_coverage_where_the_spread_varies():
    X, y = spreading(300)
    model = QuantileRegressor().fit(X, y)
    Z, z = spreading(4000, seed=1)
    f = model.predict(Z)
    assert f.shape == (4000, 3)
    assert np.all(np.diff(f, axis=1) >= 0)
    assert within((z[:, None] <= f).mean(axis=0), model.levels_, 4000, 300)
    for part in (Z[:, 0] < 0.5, Z[:, 0] >= 0.5):  # not only on the whole
        assert np.all(np.abs((z[part, None] <= f[part]).mean(axis=0) - model.levels_) < 0.08)
    truth = np.sin(6 * Z) + (0.1 + 0.5 * Z) * np.array([-1.2816, 0.0, 1.2816])
    assert np.sqrt(np.mean((f - truth) ** 2)) < 0.12
    # left out as told: the share below is the level, whatever was learned
    share = (y[:, None] <= model.left_out_.quantiles).mean(axis=0)
    np.testing.assert_allclose(share, model.levels_, atol=0.01)
    low, high = model.predict_interval(Z, coverage=0.8)
    np.testing.assert_array_equal(np.column_stack([low, high]), f[:, [0, 2]])
    with pytest.raises(ValueError, match=r"levels=\(0.05, 0.95\)"):
        model.predict_interval(Z, coverage=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["boston", "concrete"])
def test_coverage_on_a_table(data_folder, name):
    file = np.load(data_folder / name / f"{name}.npz")
    X, y = file["X"], file["y"]
    pick = np.random.default_rng(0).permutation(len(y))
    train, test = pick[: len(y) // 2], pick[len(y) // 2 :]
    model = QuantileRegressor().fit(X[train], y[train])
    below = (y[test][:, None] <= model.predict(X[test])).mean(axis=0)
    assert within(below, model.levels_, len(test), len(train))
    assert model.score(X[test], y[test]) > 0.5


def test_shift_and_scale_of_the_target():
    X, y = spreading(80, columns=2)
    for model in (QuantileRegressor((0.2, 0.8)), clone(FAST)):
        f = clone(model).fit(X, y).predict(X)
        for a, b in ((1e5, 3.7e-4), (-250.0, 1234.5)):
            moved = clone(model).fit(X, a + b * y).predict(X)
            np.testing.assert_allclose((moved - a) / b, f, rtol=0, atol=1e-6)


def test_units_of_the_columns():
    X, y = spreading(60, columns=2)
    f = QuantileRegressor(0.5).fit(X, y).predict(X)
    moved = X * [1e3, 1e-3] + [5.0, -7.0]
    np.testing.assert_allclose(QuantileRegressor(0.5).fit(moved, y).predict(moved), f, atol=1e-6)


def test_quantiles_never_cross_and_crossings_are_counted():
    X, y = spreading(40, columns=2)
    levels = np.linspace(0.3, 0.7, 9)
    model = QuantileRegressor(levels, kernel=RBF(0.3), C=10.0, search=None).fit(X, y)
    raw = np.column_stack([p.mean(X)[:, 0] for p in model.posteriors_])
    crossed = int((np.diff(raw, axis=1) < 0).any(axis=1).sum())
    assert model.report_["crossed"] == crossed > 0
    assert np.all(np.diff(model.predict(X), axis=1) >= 0)
    assert np.all(np.diff(model.left_out_.quantiles, axis=1) >= 0)
    # Chernozhukov, Fernandez-Val & Galichon: in order, the loss is not larger on the whole
    before = model.units_.y_in_user_units(raw)
    loss = [
        sum(mean_pinball_loss(y, f[:, j], alpha=q) for j, q in enumerate(levels))
        for f in (before, model.predict(X))
    ]
    assert loss[1] <= loss[0]


def test_weights_are_copies():
    X, y = spreading(40)
    copies = np.random.default_rng(0).integers(0, 4, size=40)
    weighted = clone(FAST).fit(X, y, sample_weight=copies)
    repeated = clone(FAST).fit(np.repeat(X, copies, axis=0), np.repeat(y, copies))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-9)
    assert weighted.left_out_.quantiles.shape == (40, 3)
    unused = copies == 0
    np.testing.assert_array_equal(weighted.left_out_.quantiles[unused], weighted.predict(X[unused]))


def test_one_level_is_a_vector(tmp_path):
    X, y = spreading(30)
    model = clone(FAST).set_params(levels=0.9).fit(X, y)
    f = model.predict(X)
    assert f.shape == (30,)
    several = clone(FAST).set_params(levels=[0.9]).fit(X, y)
    np.testing.assert_array_equal(several.predict(X), f[:, None])
    loss = mean_pinball_loss(y, f, alpha=0.9)
    constant = mean_pinball_loss(y, np.full(30, np.quantile(y, 0.9)), alpha=0.9)
    assert model.score(X, y) == pytest.approx(1 - loss / constant, abs=1e-12)
    mercer.save(model, tmp_path / "q.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "q.mercer").predict(X), f)


def test_in_scikit_learn():
    X, y = spreading(60, columns=2)
    frame = pd.DataFrame(X, columns=["age", "load"])
    piped = make_pipeline(StandardScaler(), clone(FAST)).fit(frame, y)
    assert cross_val_predict(piped, frame, y, cv=3).shape == (60, 3)
    grid = GridSearchCV(clone(FAST), {"kernel__length_scale": [1e-3, 0.3]}, cv=3).fit(frame, y)
    assert grid.best_params_["kernel__length_scale"] == 0.3
    assert list(grid.best_estimator_.feature_names_in_) == ["age", "load"]


def test_a_precomputed_kernel():
    X, y = spreading(40)
    K, f = RBF(0.3)(X), clone(FAST).set_params(levels=0.5).fit(X, y).predict(X)
    model = clone(FAST).set_params(kernel="precomputed", levels=0.5).fit(K, y)
    g = model.predict(K)  # in other folds: the constant is another
    np.testing.assert_allclose(g - g[0], f - f[0], atol=1e-6)


def test_a_summary_in_words():
    X, y = spreading(40)
    text = str(QuantileRegressor((0.25, 0.75)).fit(X, y).summary())
    for word in ("0.25, 0.75", "left-out pinball loss", "crossed before", "constants moved"):
        assert word in text


@pytest.mark.parametrize(
    ("params", "what"),
    [
        ({"levels": (0.5, 0.1)}, "increasing"),
        ({"levels": 1.0}, "between 0 and 1"),
        ({"levels": ()}, "levels"),
        ({"levels": "median"}, "levels"),
        ({"C": 0.0}, "C must be"),
        ({"search": "evidence"}, "search must be"),
        ({"gram": "iterative"}, "gram must be"),
        ({"gram": Inducing(m=10)}, "save nothing"),
        ({"gram": Inducing(m=3, move=True)}, "not moved"),
    ],
)
def test_refusals(params, what):
    X, y = spreading(10)
    with pytest.raises(ValueError, match=what):
        QuantileRegressor(**params).fit(X, y)


# what test_sklearn.py leaves out for three levels
@parametrize_with_checks([QuantileRegressor(0.5)])
def test_conventions_of_one_level(estimator, check):
    if check.func.__name__ == "check_regressors_train":
        check(estimator)
