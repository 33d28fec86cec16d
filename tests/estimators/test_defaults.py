"""What happens without being asked: standardising, starts, one length scale or several."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.kernels import RBF, Matern
from mercer.losses import Gaussian
from mercer.search import Optimize


def table(seed: int = 0, n: int = 80, d: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """X in 0..100, y about 50, only the first column matters."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 100, (n, d))
    return X, 50 + 10 * np.sin(X[:, 0] / 10) + rng.normal(size=n)


def test_report_of_standardising() -> None:
    X, y = table()
    report = GPRegressor().fit(X, y).report_["standardize"]
    assert report["on"] is True
    np.testing.assert_allclose(report["x_shift"], X.mean(axis=0))
    np.testing.assert_allclose(report["x_scale"], X.std(axis=0))
    np.testing.assert_allclose(report["y_shift"], y.mean())
    np.testing.assert_allclose(report["y_scale"], y.std())


def test_standardising_is_weighted() -> None:
    X, y = table()
    w = np.random.default_rng(1).uniform(0, 3, 80)
    report = GPRegressor(search=Optimize(restarts=0)).fit(X, y, w).report_["standardize"]
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(report["x_shift"], mean)
    np.testing.assert_allclose(
        report["x_scale"], np.sqrt(np.average((X - mean) ** 2, axis=0, weights=w))
    )


@pytest.mark.parametrize(
    ("kernel", "standardize", "on"),
    [
        (None, "auto", True),
        ("matern52", "auto", True),
        (1.0 * RBF(10.0), "auto", False),
        (None, False, False),
        ("rbf", True, True),
    ],
)
def test_auto(kernel: object, standardize: object, on: bool) -> None:
    X, y = table(d=1)
    model = GPRegressor(kernel, standardize=standardize, search=Optimize(restarts=0)).fit(X, y)
    assert model.report_["standardize"]["on"] is on
    assert ("yes: columns and target" in str(model.summary())) is on


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "matern52", "rational_quadratic"])
def test_named_kernels_work_on_raw_tables(name: str) -> None:
    X, y = table(d=1)
    assert GPRegressor(name).fit(X, y).score(X, y) > 0.95


def test_ard_is_kept_where_the_evidence_pays() -> None:
    X, y = table()
    model = GPRegressor().fit(X, y)
    ard = model.report_["ard"]
    assert ard["kept"]
    assert ard["needed"] == pytest.approx(np.log(80))  # two extra parameters, (log n)/2 each
    assert ard["gain"] > ard["needed"]
    assert model.kernel_.kernel.length_scale.shape == (3,)
    assert model.relevance_[0] > 5 * model.relevance_[1:].max()
    tied = GPRegressor("rbf", search=None).fit(X, y)
    assert model.log_evidence_ > tied.log_evidence_


def test_ard_is_not_kept_where_columns_are_alike() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(0, 100, (80, 3)) * [1.0, 50.0, 1e-3]
    y = np.sin((X / [30.0, 1500.0, 30e-3]).sum(axis=1)) + 0.1 * rng.normal(size=80)
    model = GPRegressor().fit(X, y)
    ard = model.report_["ard"]
    assert not ard["kept"]
    assert ard["gain"] <= ard["needed"]
    assert "not kept" in str(model.summary())
    np.testing.assert_allclose(model.relevance_, model.relevance_[0])
    # one length scale of standardised columns is one per column in the user's units
    scales = np.broadcast_to(model.kernel_.kernel.length_scale, 3)
    np.testing.assert_allclose(X.std(axis=0) / scales, model.relevance_, rtol=1e-9)


@pytest.mark.parametrize("search", ["evidence", "loo"])
def test_the_gain_is_the_gain_in_log_evidence(search: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By whatever the search was done: (log n)/2 is a price in log evidence."""
    X, y = table()
    found = {}
    for kept, price in ((False, 1e9), (True, -1e9)):
        monkeypatch.setattr("mercer.search.space.PRICE", price)
        found[kept] = GPRegressor(search=search).fit(X, y)
        assert found[kept].report_["ard"]["kept"] is kept
    gain = found[True].log_evidence_ - found[False].log_evidence_
    assert found[True].report_["ard"]["gain"] == pytest.approx(gain, abs=1e-6)


@pytest.mark.parametrize("d", [1, 3])
def test_given_kernels_keep_their_length_scales(d: int) -> None:
    X, y = table(d=d)
    model = GPRegressor(100.0 * RBF(30.0), basis="constant").fit(X, y)
    assert "ard" not in model.report_
    assert np.ndim(model.kernel_.kernel.length_scale) == 0


def test_ard_never_lowers_the_evidence() -> None:
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 2))
        y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40)
        assert GPRegressor().fit(X, y).report_["ard"]["gain"] > -1e-6


def test_restarts_by_default() -> None:
    X, y = table(d=1)
    assert GPRegressor().fit(X, y).report_["search"]["starts"] > 1


def test_defaults_reach_what_a_careful_search_reaches() -> None:
    X, y = table()
    default = GPRegressor().fit(X, y)
    careful = GPRegressor(
        100.0 * RBF(np.full(3, 30.0)),
        loss=Gaussian(1.0),
        search=Optimize(restarts=10, screen=None),
    ).fit(X, y - y.mean())
    assert default.log_evidence_ > careful.log_evidence_ - 0.05


def test_fits_repeat() -> None:
    X, y = table()
    a, b = GPRegressor().fit(X, y), GPRegressor().fit(X, y)
    np.testing.assert_array_equal(a.predict(X), b.predict(X))


def test_integers_lists_and_frames() -> None:
    X, y = table(d=1)
    whole = np.round(X).astype(int)
    a = GPRegressor(1.0 * Matern(nu=1.5, length_scale=10.0), search=None).fit(whole, y)
    b = GPRegressor(1.0 * Matern(nu=1.5, length_scale=10.0), search=None)
    b.fit(whole.tolist(), y.tolist())
    np.testing.assert_array_equal(a.predict(whole), b.predict(whole.astype(float)))
