"""Relevance vector machines against dense algebra, their promises, and unkind data."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import RVClassifier, RVRegressor
from mercer.kernels import RBF, TFIDF


@pytest.fixture
def line(rng):
    X = np.sort(rng.uniform(-8.0, 8.0, 90))[:, None]
    return X, np.sinc(X[:, 0] / np.pi) + 0.1 * rng.normal(size=90)


@pytest.fixture
def plane(rng):
    X = rng.uniform(-2.0, 2.0, (160, 2))
    return X, np.where(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=160) > 0, "b", "a")


def gaussians(X, Z, ell=1.5):
    return np.exp(-0.5 * ((X[:, None] - Z[None]) ** 2).sum(-1) / ell**2)


# ------------------------------------------------------------------ the model
def test_posterior_and_evidence_are_those_of_the_dense_process(line):
    """GPML (6.45), (2.42) and (2.45) with a constant of flat prior."""
    X, y = line
    model = RVRegressor(RBF(1.5)).fit(X, y)
    new = np.linspace(-11.0, 11.0, 23)[:, None]
    Phi, phi = (gaussians(Z, model.relevance_vectors_) for Z in (X, new))
    alpha = model.precisions_[0]
    inverse = np.linalg.inv((Phi / alpha) @ Phi.T + model.noise_ * np.eye(len(X)))
    cross = (phi / alpha) @ Phi.T
    ones = np.ones(len(X))
    A = ones @ inverse @ ones
    level = ones @ inverse @ y / A
    rest = 1.0 - cross @ inverse @ ones
    variance = (phi**2 / alpha).sum(axis=1) - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    got, std = model.predict(new, return_std=True)
    np.testing.assert_allclose(got, level + cross @ inverse @ (y - level), atol=1e-8)
    np.testing.assert_allclose(std**2 - model.noise_, variance + rest**2 / A, atol=1e-9)
    fit = (y - level) @ inverse @ (y - level)
    scale = np.linalg.slogdet(inverse)[1] - np.log(A) - (len(y) - 1) * np.log(2.0 * np.pi)
    assert model.log_evidence_ == pytest.approx(0.5 * (scale - fit), rel=1e-9)


def test_no_change_of_a_precision_or_the_noise_is_better(line):
    X, y = line
    model = RVRegressor(RBF(1.5), bias=False).fit(X, y)
    Phi, alpha = gaussians(X, model.relevance_vectors_), model.precisions_[0]

    def evidence(a, noise):
        return multivariate_normal(cov=(Phi / a) @ Phi.T + noise * np.eye(len(X))).logpdf(y)

    best = evidence(alpha, model.noise_)
    assert best == pytest.approx(model.log_evidence_, rel=1e-9)
    for factor in (0.8, 1.25):
        assert evidence(alpha, factor * model.noise_) < best + 1e-5
        for j in range(len(alpha)):
            moved = alpha.copy()
            moved[j] *= factor
            assert evidence(moved, model.noise_) < best + 1e-5
    for j in range(len(alpha)):
        gone = alpha.copy()
        gone[j] = 1e14
        assert evidence(gone, model.noise_) < best


@pytest.mark.parametrize("kind", ["numbers", "given noise", "classes", "several classes"])
def test_the_evidence_rises_at_every_step(line, plane, kind):
    if kind == "several classes":
        X, y = load_iris(return_X_y=True)
        model = RVClassifier(RBF(1.0)).fit(StandardScaler().fit_transform(X), y)
        assert len(model.report_["machines"]) > 1
    elif kind == "classes":
        model = RVClassifier(RBF(1.0)).fit(*plane)
    else:
        model = RVRegressor(RBF(1.5), noise=0.01 if kind == "given noise" else None).fit(*line)
    for one in model.report_["machines"]:
        trace = np.array(one["evidence"])
        assert len(trace) > 3
        assert np.all(np.diff(trace) > -1e-9 * np.abs(trace[1:]))
        assert trace[-1] > trace[0] + 1.0
        assert one["converged"]


def test_equal_fits_are_equal(line, plane):
    for make, (X, y) in ((RVRegressor, line), (RVClassifier, plane)):
        one, two = (make(RBF(1.2)).fit(X, y) for _ in range(2))
        np.testing.assert_array_equal(one.relevance_rows_, two.relevance_rows_)
        np.testing.assert_array_equal(one.weights_, two.weights_)


def test_a_better_model_than_one_whose_noise_rises_early():
    """Friedman's first problem: weaker functions must come in before the noise explains them."""
    found = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(1300, 10))
        f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
        y = f + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=1300)
        model = RVRegressor(RBF(1.0)).fit(X[:300], y[:300])
        found.append((model.log_evidence_, np.mean((model.predict(X[300:]) - y[300:]) ** 2)))
    evidence, error = np.mean(found, axis=0)
    assert evidence > -605.0  # -610.8 with a noise that rises at once
    assert error < 4.0


# ------------------------------------------------------------------ healed error bars
def test_error_bars_far_away(line):
    X, y = line
    far = np.array([[-60.0], [60.0]])
    plain = RVRegressor(RBF(1.5), bias=False).fit(X, y)
    std = plain.predict(far, return_std=True)[1]
    np.testing.assert_allclose(std**2, plain.noise_, rtol=1e-9)  # the collapse
    healed = RVRegressor(RBF(1.5), bias=False, heal=0.37).fit(X, y)
    mean, std = healed.predict(far, return_std=True)
    np.testing.assert_allclose(std**2, healed.noise_ + 0.37, rtol=1e-9)
    np.testing.assert_allclose(mean, 0.0, atol=1e-9)
    near = np.linspace(-7.0, 7.0, 15)[:, None]
    assert np.all(healed.predict(near, return_std=True)[1] < std[0])
    with pytest.raises(ValueError, match="one point at a time"):
        healed.predict(near, return_cov=True)
    by_default = RVRegressor(RBF(1.5), bias=False, heal=True).fit(X, y)
    variance = by_default.predict(far, return_std=True)[1] ** 2 - by_default.noise_
    assert variance[0] == pytest.approx(np.mean(y**2), rel=0.1)


def test_healed_is_a_model_with_one_more_function(line):
    X, y = line
    model = RVRegressor(RBF(1.5), bias=False, heal=0.5).fit(X, y)
    for x in (-10.0, -1.3, 9.1):
        centres = np.vstack([model.relevance_vectors_, [[x]]])
        alpha = np.append(model.precisions_[0], 1.0 / 0.5)
        Phi, phi = gaussians(X, centres), gaussians(np.array([[x]]), centres)[0]
        precision = Phi.T @ Phi / model.noise_ + np.diag(alpha)
        mu = np.linalg.solve(precision, Phi.T @ y / model.noise_)
        mean, std = model.predict([[x]], return_std=True)
        assert mean[0] == pytest.approx(phi @ mu, abs=1e-8)
        variance = phi @ np.linalg.solve(precision, phi) + model.noise_
        assert std[0] ** 2 == pytest.approx(variance, rel=1e-8)


# ------------------------------------------------------------------ unkind data
def test_duplicate_functions_and_collinear_columns(rng, line):
    X, y = line
    doubled = RVRegressor(RBF(1.5)).fit(np.vstack([X, X[:30]]), np.append(y, y[:30]))
    assert len(np.unique(doubled.relevance_vectors_, axis=0)) == len(doubled.relevance_rows_)
    columns = rng.normal(size=(80, 3))
    Z = np.hstack([columns, columns, -2.0 * columns, columns[:, :1] + columns[:, 1:2]])
    z = columns @ [1.0, -2.0, 0.0] + 0.1 * rng.normal(size=80)
    model = RVRegressor(functions="columns").fit(Z, z)
    assert np.all(np.isfinite(model.weights_))
    np.testing.assert_allclose(model.predict(Z), z, atol=0.5)
    assert len(model.relevance_rows_) <= 3


@pytest.mark.parametrize("n", [30, 100, 300])
def test_pure_noise_is_the_constant(n):
    kept = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n, 2)), 3.0 + rng.normal(size=n)
        model = RVRegressor(RBF(1.0)).fit(X, y)
        kept.append(len(model.relevance_rows_))
        if not kept[-1]:
            np.testing.assert_allclose(model.predict(X[:3]), y.mean())
        labels = rng.integers(0, 2, n)
        machine = RVClassifier(RBF(1.0)).fit(X, labels)
        kept.append(len(machine.relevance_rows_))
        if not kept[-1]:
            np.testing.assert_allclose(1.0 / (1.0 + np.exp(-machine.intercept_)), labels.mean())
    assert np.mean(np.array(kept) == 0) >= 11 / 12


def test_refusals_leave_nothing_behind(line, plane):
    X, y = line
    hole = X.copy()
    hole[2] = np.nan
    for model, data, words in (
        (RVRegressor(), (hole, y), "NaN"),
        (RVRegressor(), (X, np.where(np.arange(90) == 4, np.inf, y)), "infinity|finite"),
        (RVClassifier(), (X, np.ones(90)), "class"),
        (RVRegressor(), (X[:1], y[:1]), "row|sample"),
        (RVRegressor(heal=-1.0), (X, y), "heal"),
        (RVRegressor(functions="columns", heal=True), (X, y), "kernel"),
        (RVRegressor(noise=0.0), (X, y), "noise"),
        (RVRegressor(tol=0.0), (X, y), "tol"),
        (RVClassifier(search="grid"), plane, "search"),
    ):
        with pytest.raises(ValueError, match=words):
            model.fit(*data)
        assert not hasattr(model, "relevance_rows_")
    fitted = RVRegressor(RBF(1.5)).fit(X, y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match="NaN"):
        fitted.fit(hole, y)
    np.testing.assert_array_equal(fitted.predict(X), before)


def test_equal_targets(line):
    model = RVRegressor().fit(line[0], np.full(90, -2.5))
    assert len(model.relevance_rows_) == 0
    np.testing.assert_allclose(model.predict([[0.0], [50.0]]), -2.5)


# ------------------------------------------------------------------ the rest of the library
def test_a_kernel_that_reads_the_data_reads_the_training_rows(rng):
    """Term weights are those of the training rows, whatever is predicted beside a row."""
    X = rng.poisson(1.0, (60, 8)).astype(float)
    X[:, 7] = 0.0
    X[0, 7] = 1.0
    y = X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=60)
    new = rng.poisson(1.0, (10, 8)).astype(float)
    for model in (
        RVRegressor(TFIDF(), search=None).fit(X, y),
        RVClassifier(TFIDF(), search=None).fit(X, y > 0),
    ):
        assert len(model.relevance_rows_) > 0
        answer = model.predict if isinstance(model, RVRegressor) else model.predict_proba
        whole = answer(new)
        alone = np.concatenate([answer(new[i : i + 1]) for i in range(10)])
        np.testing.assert_allclose(alone, whole, rtol=1e-10)
        again = type(model)(TFIDF(), search=None).fit(
            X[::-1], (y if whole.ndim == 1 else y > 0)[::-1]
        )
        assert again.log_evidence_ == pytest.approx(model.log_evidence_, rel=1e-6)


def test_grid_search_pipeline_clone_and_pandas(line, plane):
    X, y = plane
    table = pd.DataFrame(X, columns=["u", "v"])
    chain = make_pipeline(StandardScaler(), RVClassifier(RBF(1.0)))
    search = GridSearchCV(chain, {"rvclassifier__kernel__length_scale": [0.01, 1.0]}, cv=3)
    search.fit(table, y)
    assert search.best_params_["rvclassifier__kernel__length_scale"] == 1.0
    assert search.best_score_ > 0.85
    model = RVClassifier(RBF(1.0)).fit(table, y)
    assert list(model.feature_names_in_) == ["u", "v"]
    probability = model.predict_proba(table)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol=1e-12)
    assert set(model.predict(table)) == {"a", "b"}
    copied = clone(model)
    assert not hasattr(copied, "relevance_rows_")
    np.testing.assert_array_equal(copied.fit(table, y).predict_proba(table), probability)
    assert RVRegressor().fit(*line).score(*line) > 0.8


@pytest.mark.parametrize("heal", [False, True])
def test_files_keep_every_bit(tmp_path, line, plane, heal):
    for make, (X, y) in ((RVRegressor, line), (RVClassifier, plane)):
        model = make(RBF(1.2), heal=heal).fit(X, y)
        mercer.save(model, tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        if make is RVClassifier:
            np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        else:
            for one, two in zip(
                again.predict(3 * X, return_std=True),
                model.predict(3 * X, return_std=True),
                strict=True,
            ):
                np.testing.assert_array_equal(one, two)
