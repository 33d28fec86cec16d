"""Thin-plate splines of counts, labels and outliers, against machines that must agree."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, SmoothingSpline, ThinPlateSpline
from mercer.kernels import ThinPlate
from mercer.losses import Gaussian, NegativeBinomial, Poisson, Softmax, StudentT


@pytest.fixture
def surface():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (45, 2))
    f = 1.0 + X[:, 0] + np.sin(3 * X[:, 1])
    return X, f, rng


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("loss", ["poisson", "logistic"])
def test_one_column_is_the_smoothing_spline(loss, inference) -> None:
    rng = np.random.default_rng(1)
    x = rng.uniform(0.0, 3.0, 25)
    f = np.sin(2 * x)
    y = (
        rng.poisson(np.exp(f + 0.5))
        if loss == "poisson"
        else (rng.random(25) < 1 / (1 + np.exp(-f)))
    )
    y, lam, new = np.asarray(y, dtype=float), 0.7, np.linspace(-0.3, 3.3, 7)[:, None]
    make = {"loss": loss, "lam": lam, "inference": inference}
    curve = SmoothingSpline(**make).fit(x[:, None], y)
    plate = ThinPlateSpline(**make).fit(x[:, None], y)
    for own, other in zip(
        plate.predict(new, return_std=True), curve.predict(new, return_std=True), strict=True
    ):
        np.testing.assert_allclose(own, other, rtol=1e-4)
    assert plate.log_evidence_ == pytest.approx(curve.log_evidence_, abs=1e-5)
    assert plate.edf_ == pytest.approx(curve.edf_, rel=1e-5)
    assert plate.lam_ == pytest.approx(lam, rel=1e-12)
    np.testing.assert_allclose(plate.left_out_.log_density, curve.left_out_.log_density, atol=1e-4)
    if loss == "logistic":
        np.testing.assert_allclose(plate.predict_proba(new)[:, 1], plate.predict(new))
        with pytest.raises(ValueError, match="no interval"):
            plate.predict_interval(new)


def test_a_surface_is_the_process_with_a_free_plane(surface) -> None:
    X, f, rng = surface
    y = rng.poisson(np.exp(f))
    plate = ThinPlateSpline(loss="poisson", lam=0.3).fit(X, y)
    kernel = (1.0 / 0.3) * ThinPlate.anchored(X[::-1])
    other = GPRegressor(kernel, loss=Poisson(), basis=1, search=None).fit(X, y)
    np.testing.assert_allclose(plate.predict(X), other.predict(X), rtol=1e-6)
    assert plate.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-6)


def test_the_search_ends_at_the_best_evidence(surface) -> None:
    X, f, rng = surface
    y = rng.poisson(np.exp(f))
    best = ThinPlateSpline(loss="poisson").fit(X, y)
    assert best.report_["search"]["converged"]
    for factor in (0.5, 2.0):
        near = ThinPlateSpline(loss="poisson", lam=factor * best.lam_).fit(X, y)
        assert near.log_evidence_ < best.log_evidence_
    assert np.corrcoef(best.predict_latent(X)[0], f)[0, 1] > 0.9
    milli = ThinPlateSpline(loss="poisson").fit(1e3 * X, y)
    np.testing.assert_allclose(milli.predict(1e3 * X), best.predict(X), rtol=1e-3)
    assert "smoothing parameter" in str(best.summary())


def test_outliers_and_own_parameters(surface) -> None:
    X, f, rng = surface
    y = 100.0 * f + 5.0 * rng.normal(size=45)
    y[::9] += 400.0
    loss = StudentT(scale=5.0, df=2.0)
    robust = ThinPlateSpline(loss=loss.fix("df"), lam=1e-5, inference="laplace").fit(X, y)
    assert 1.0 < robust.loss_.scale < 30.0
    plain = ThinPlateSpline().fit(X, y)
    clean = np.arange(45) % 9 != 0
    error = [np.abs(m.predict(X)[clean] - 100.0 * f[clean]).mean() for m in (robust, plain)]
    assert error[0] < 0.5 * error[1]


def test_files_weights_and_knots(surface, tmp_path) -> None:
    X, f, rng = surface
    y = rng.poisson(np.exp(f))
    w = np.tile([1.0, 2.0, 1.0], 15)
    plate = ThinPlateSpline(loss=NegativeBinomial(5.0).fix(), lam=0.5).fit(X, y, w)
    twice = ThinPlateSpline(loss=NegativeBinomial(5.0).fix(), lam=0.5).fit(
        np.repeat(X, w.astype(int), axis=0), np.repeat(y, w.astype(int))
    )
    np.testing.assert_allclose(plate.predict(X), twice.predict(X), rtol=1e-8)
    mercer.save(plate, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict(X), plate.predict(X))
    exact = ThinPlateSpline(loss="poisson", lam=0.5).fit(X, y)
    few = ThinPlateSpline(loss="poisson", lam=0.5, knots=35).fit(X, y)
    np.testing.assert_allclose(few.predict(X), exact.predict(X), rtol=0.1)
    mercer.save(few, tmp_path / "m.mercer")
    np.testing.assert_array_equal(mercer.load(tmp_path / "m.mercer").predict(X), few.predict(X))


def test_what_does_not_go_together_is_refused(surface) -> None:
    X, f, rng = surface
    y = rng.poisson(np.exp(f))
    for settings, words in [
        ({"loss": "poisson", "search": "gcv"}, "search='evidence'"),
        ({"loss": "poisson", "lam": 0.0}, "positive finite lam"),
        ({"loss": "poisson", "lam": np.inf}, "positive finite lam"),
        ({"loss": "poisson", "inference": "newton"}, "'laplace'"),
        ({"loss": Softmax()}, "one surface for each class"),
        ({"loss": Gaussian(0.1).fix()}, "finds the noise"),
        ({"inference": "laplace"}, "inference='auto'"),
        ({"loss": "logistic"}, "labels 0 and 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            ThinPlateSpline(**settings).fit(X, y)
    with pytest.raises(ValueError, match="separates the labels"):
        ThinPlateSpline(loss="logistic").fit(X, X[:, 0] > 0.2)
