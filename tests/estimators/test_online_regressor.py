"""OnlineRegressor against dense formulas, through files, through changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import mercer
from mercer import GPRegressor, OnlineRegressor, RiverRegressor
from mercer.kernels import RBF
from mercer.losses import Gaussian, Ordinal

KERNEL = 1.5 * RBF(1.2)


def table(n=120, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(n, 2))
    return X, np.sin(2.0 * X[:, 0] + shift) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=n)


def streamed(model, X, y, size=20):
    for i in range(0, len(X), size):
        model.partial_fit(X[i : i + size], y[i : i + size])
    return model


def signed(loss, y):
    """Return labels as GPRegressor takes them."""
    return 2.0 * y - 1.0 if loss == "logistic" else y


def test_exact_until_the_budget_is_full():
    X, y = table(60)
    model = streamed(OnlineRegressor(KERNEL, noise=0.04, search=None), X, y)
    dense = GPRegressor(KERNEL, loss=Gaussian(0.04), search=None).fit(X, y)
    new = table(9, 1)[0]
    for found, expected in zip(
        model.predict(new, return_std=True), dense.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-7)
    assert model.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-5)
    low, high = model.predict_interval(new, 0.8)
    np.testing.assert_allclose([low, high], dense.predict_interval(new, 0.8), atol=1e-5)
    np.testing.assert_allclose(model.predict_latent(new), dense.predict_latent(new), atol=1e-7)


def test_level_of_the_noise_is_conjugate():
    """(O19) by dense formulas: b grows by y'(K + noise)^-1 y / 2."""
    X, y = table(40)
    model = OnlineRegressor(KERNEL, loss=Gaussian(0.04), search=None)
    streamed(model, X, 3.0 * y, size=7)
    S = KERNEL(X) + 0.04 * np.eye(40)
    quad = float(9.0 * y @ np.linalg.solve(S, y))
    assert model.scale_.a == pytest.approx(2.0 + 20.0)
    assert model.scale_.b == pytest.approx(2.0 + 0.5 * quad, rel=1e-6)
    law = stats.multivariate_t(np.zeros(40), 2.0 / 2.0 * S, df=4.0)  # 2 a degrees, b / a
    assert model.log_evidence_ == pytest.approx(float(law.logpdf(3.0 * y)), rel=1e-5)
    new = table(5, 1)[0]
    mean = KERNEL(new, X) @ np.linalg.solve(S, 3.0 * y)
    var = KERNEL.diag(new) - np.sum(KERNEL(new, X).T * np.linalg.solve(S, KERNEL(X, new)), axis=0)
    scale = np.sqrt(model.scale_.b / model.scale_.a * (var + 0.04))
    expected = stats.t(44.0, mean, scale)
    said = np.linspace(-2.0, 2.0, 5)
    found = model.predictive_log_density(new, said)
    np.testing.assert_allclose(found, expected.logpdf(said), rtol=1e-5)
    np.testing.assert_allclose(model.predict_interval(new)[1], expected.ppf(0.95), rtol=1e-5)
    np.testing.assert_allclose(model.predict(new, return_std=True)[1], expected.std(), rtol=1e-5)


@pytest.mark.parametrize("loss", ["poisson", "logistic", Ordinal([-0.5, 0.5])])
def test_sites_of_one_batch_are_those_of_all_rows(loss):
    X, f = table(30)
    y = {"poisson": np.round(np.exp(f)), "logistic": (f > 0) * 1.0}.get(
        loss if isinstance(loss, str) else "", np.digitize(f, [-0.5, 0.5]).astype(float)
    )
    model = OnlineRegressor(KERNEL, loss=loss, search=None).fit(X, y)
    dense = GPRegressor(KERNEL, loss=loss, search=None).fit(X, signed(loss, y))
    assert model.log_evidence_ == pytest.approx(dense.log_evidence_, abs=1e-4)
    new = table(9, 1)[0]
    np.testing.assert_allclose(model.predict_latent(new), dense.predict_latent(new), atol=2e-5)
    np.testing.assert_allclose(model.predict(new), dense.predict(new), atol=1e-5)


@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_sites_one_after_the_other(loss):
    X, f = table(160)
    rng = np.random.default_rng(5)
    y = rng.poisson(np.exp(f)) if loss == "poisson" else rng.random(160) < 1 / (1 + np.exp(-3 * f))
    model = streamed(OnlineRegressor(KERNEL, loss=loss, search=None, budget=80), X, y.astype(float))
    dense = GPRegressor(KERNEL, loss=loss, search=None).fit(X, signed(loss, y.astype(float)))
    new, _ = table(200, 1)
    gap = model.predict(new) - dense.predict(new)
    assert np.sqrt(np.mean(gap**2)) < 0.1 * np.std(dense.predict(new))


def test_forgetting_returns_to_the_prior():
    X, y = table(60)
    model = OnlineRegressor(KERNEL, noise=0.04, search=None, forget=0.9, budget=80)
    streamed(model, X, y)
    far = np.array([[50.0, 50.0]])
    for _ in range(60):
        model.partial_fit(far + np.zeros((20, 2)), np.zeros(20))
    mean, std = model.predict_latent(X)
    np.testing.assert_allclose(mean, 0.0, atol=1e-8)
    np.testing.assert_allclose(std, np.sqrt(1.5), rtol=1e-8)


CONFIGURATIONS = {
    "plain": {},
    "small": {"budget": 10, "reservoir": 50},
    "forgets": {"forget": 0.98, "budget": 15},
    "drifts": {"drift": "auto", "budget": 15},
    "given": {"kernel": KERNEL, "search": None, "noise": 0.01},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_checkpoint_continues_bit_for_bit(name, tmp_path):
    X, y = table(400)
    y[200:] = table(400, shift=2.0)[1][200:]
    whole = OnlineRegressor(**CONFIGURATIONS[name])
    parts = OnlineRegressor(**CONFIGURATIONS[name])
    for i in range(0, 400, 20):
        whole.partial_fit(X[i : i + 20], y[i : i + 20])
        parts.partial_fit(X[i : i + 20], y[i : i + 20])
        if i in (0, 160, 300):
            mercer.save(parts, tmp_path / "part.mercer")
            parts = mercer.load(tmp_path / "part.mercer")
    for found, expected in zip(
        parts.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    assert parts.prequential_ == whole.prequential_
    assert parts.log_evidence_ == whole.log_evidence_
    assert parts.report_ == whole.report_


def test_prequential_figures_are_of_rows_not_yet_learned():
    X, y = table(100)
    model = OnlineRegressor(KERNEL, noise=0.01, search=None).partial_fit(X[:40], y[:40])
    assert np.isnan(model.prequential_.nlpd)
    logs, errors = [], []
    for i in range(40, 100, 15):
        part = slice(i, min(i + 15, 100))
        logs.append(model.predictive_log_density(X[part], y[part]))
        errors.append(y[part] - model.predict(X[part]))
        model.partial_fit(X[part], y[part])
    assert model.prequential_.nlpd == pytest.approx(-np.mean(np.concatenate(logs)))
    assert model.prequential_.rmse == pytest.approx(np.sqrt(np.mean(np.concatenate(errors) ** 2)))


def test_a_change_is_found_and_the_kernel_learned_again():
    X, y = table(900)
    rng = np.random.default_rng(3)
    X2 = rng.uniform(-3.0, 3.0, size=(700, 2))
    y2 = np.sin(7.0 * X2[:, 0]) + 0.1 * rng.normal(size=700)
    model = streamed(OnlineRegressor(reservoir=300, budget=100), X, y, size=50)
    assert model.report_["drift"]["changes"] == 0
    streamed(model, X2, y2, size=50)
    report = model.report_
    assert report["drift"]["changes"] >= 1
    assert 880 <= report["drift"]["rows"][0] <= 960
    assert report["kernel"]["again"] >= 1
    assert "learned again" in str(model.summary())
    error = y2[-100:] - model.predict(X2[-100:])
    assert np.sqrt(np.mean(error**2)) < 0.3
    assert len(model.latest_.table) == 300


def test_drift_auto_renews_when_the_function_changed():
    X, y = table(400)
    model = OnlineRegressor(KERNEL, noise=0.01, search=None, drift="auto", budget=100)
    shares = []
    for i in range(0, 400, 20):
        change = 3.0 if i >= 300 else 0.0
        model.partial_fit(X[i : i + 20], y[i : i + 20] + change)
        shares.append(model.report_["drift"]["share"])
    assert shares[15] > 0.0
    assert max(shares[5:15]) == 0.0


def test_points_follow_the_rows():
    rng = np.random.default_rng(0)
    model = OnlineRegressor(KERNEL, noise=0.01, search=None, budget=20, reservoir=50)
    for i in range(40):
        X = rng.uniform(0.0, 2.0, size=(20, 2)) + (6.0 if i >= 10 else 0.0)
        model.partial_fit(X, np.sin(X[:, 0]))
    assert model.report_["budget"]["replaced"] > 0
    assert len(model.stream_.points) <= 20
    error = model.predict(X) - np.sin(X[:, 0])
    assert np.abs(error).max() < 0.2


def test_weights_are_repeated_rows_and_order_is_none_in_fit():
    X, y = table(40)
    w = np.random.default_rng(0).integers(1, 4, 40)
    one = OnlineRegressor(KERNEL, search=None).fit(X, y, sample_weight=w.astype(float))
    several = OnlineRegressor(KERNEL, search=None).fit(np.repeat(X, w, 0), np.repeat(y, w))
    np.testing.assert_allclose(
        one.predict(X, return_std=True), several.predict(X, return_std=True), rtol=1e-9
    )
    assert one.log_evidence_ == pytest.approx(several.log_evidence_, rel=1e-9)


def test_bad_input_changes_nothing():
    X, y = table(60)
    model = OnlineRegressor(KERNEL, search=None).partial_fit(X, y)
    before, said = model.report_, model.predict(X)
    for bad_X, bad_y in ((X[:, :1], y), (X, np.where(y > 0, np.nan, y)), (X * np.inf, y)):
        with pytest.raises(ValueError, match=r"X|y|Input"):
            model.partial_fit(bad_X, bad_y)
    assert model.report_ == before
    np.testing.assert_array_equal(model.predict(X), said)
    for wrong in ({"noise": -1.0}, {"forget": 0.0}, {"reservoir": 3}, {"loss": "student_t"}):
        with pytest.raises(ValueError, match=r"must|needs"):
            OnlineRegressor(**wrong).fit(X, y)
    far = OnlineRegressor(noise=0.1)
    with pytest.raises(ValueError, match="give the variance in the units of y, squared"):
        far.partial_fit(X, 1e-100 * y)
    assert not hasattr(far, "report_")
    mean, std = far.partial_fit(X, 1e-20 * y).predict(X[:3], return_std=True)  # all is noise
    assert np.abs(mean).max() <= np.abs(1e-20 * y).max()
    np.testing.assert_allclose(std, np.sqrt(0.1))
    model.noise = 0.3
    with pytest.raises(ValueError, match="changed in the middle of a stream"):
        model.partial_fit(X, y)


def test_river():
    X, y = table(120)
    model = RiverRegressor(OnlineRegressor(KERNEL, search=None), first=40, batch=20)
    assert model.predict_one({"a": 0.0, "b": 0.0}) == 0.0
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(zip("ab", row, strict=True)), target)
    expected = OnlineRegressor(KERNEL, search=None).partial_fit(X[:40], y[:40])
    streamed(expected, X[40:], y[40:])
    at = {"a": 0.5, "b": -0.5}
    assert model.predict_one(at) == expected.predict([[0.5, -0.5]])[0]
    low, high = model.predict_interval_one(at)
    assert low < model.predict_one(at) < high
    assert model.report_["rows"]["seen"] == 120


def test_points_that_leave_much_unknown_do_not_follow_it():
    """A rough function of far rows on twenty points: with the noise of all rows, errors of 28."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(3, size=(1500, 4))
    y = np.abs(np.sin(1.5 * X)).sum(axis=1) + 0.01 * rng.normal(size=1500)
    model, errors = OnlineRegressor("matern32", budget=20, reservoir=300), []
    for i in range(0, 1500, 50):
        if i > 500:
            errors.append(model.predict(X[i : i + 50]) - y[i : i + 50])
        model.partial_fit(X[i : i + 50], y[i : i + 50])
    assert np.sqrt(np.mean(np.square(errors))) < y.std()
    assert model.report_["kernel"]["noise_raised"]
