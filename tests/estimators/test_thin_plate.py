"""ThinPlateSpline against kriging by hand, scipy's interpolant and the cubic smoothing spline."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator, make_smoothing_spline

from mercer import GPRegressor, ThinPlateSpline
from mercer.basis import PolynomialBasis
from mercer.kernels import ThinPlate
from mercer.kernels.thin_plate import constant, green
from tests.reference import contrasts as slow
from tests.reference import gp


def surface(
    rng: np.random.Generator, n: int = 60, d: int = 2
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, new = rng.uniform(-3, 5, (n, d)), rng.uniform(-4, 6, (9, d))
    return X, 4.0 + np.sin(X[:, 0]) * X[:, -1] + 0.3 * rng.normal(size=n), new


@pytest.mark.parametrize(("m", "d"), [(2, 2), (3, 2), (2, 3), (1, 1), (2, 1), (3, 1), (3, 4)])
@pytest.mark.parametrize("lam", [0.02, 3.0])
def test_is_universal_kriging(m: int, d: int, lam: float, rng: np.random.Generator) -> None:
    X, y, new = surface(rng, 40, d)
    w = rng.uniform(0.5, 2.0, 40)
    model = ThinPlateSpline(m, lam=lam).fit(X, y, w)
    v, noise = model.kernel_.variance, model.loss_.noise
    assert model.lam_ == pytest.approx(lam)
    assert noise / v == pytest.approx(lam)
    basis = PolynomialBasis(m - 1)
    K, Ks, Kss = (v * green(a, b, m) for a, b in ((X, X), (X, new), (new, new)))
    mean, cov = slow.kriging(K, noise / w, basis(X), y, Ks, Kss, basis(new))
    found, std = model.predict_latent(new)
    np.testing.assert_allclose(found, mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(cov)), rtol=1e-6)
    _, joint = model.predict(new, return_cov=True)
    expected = cov + noise * np.eye(len(new))
    np.testing.assert_allclose(joint, expected, rtol=1e-5, atol=1e-6 * cov.max())
    A = slow.smoother(K, noise / w, basis(X))
    assert model.edf_ == pytest.approx(np.trace(A), rel=1e-7)


@pytest.mark.parametrize("lam", [0.0, 1e-3, 0.5, 20.0])
def test_is_the_interpolant_of_scipy(lam: float, rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline(lam=lam).fit(X, y)
    other = RBFInterpolator(X, y, kernel="thin_plate_spline", smoothing=8 * np.pi * lam)
    np.testing.assert_allclose(model.predict(new), other(new), rtol=1e-8, atol=1e-8)
    if lam == 0.0:
        np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
        np.testing.assert_allclose(model.predict_latent(X)[1], 0.0, atol=1e-5)
        assert model.loss_.noise == 0.0
        assert model.edf_ == pytest.approx(len(X))


def test_other_orders_of_scipy(rng: np.random.Generator) -> None:
    X, y, new = surface(rng, 70, 3)
    model = ThinPlateSpline(2, lam=0.4).fit(X, y)  # G = -r / (8 pi)
    other = RBFInterpolator(X, y, kernel="linear", degree=1, smoothing=0.4 / abs(constant(2, 3)))
    np.testing.assert_allclose(model.predict(new), other(new), rtol=1e-8)


@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
def test_one_column_is_the_natural_cubic_spline(lam: float, rng: np.random.Generator) -> None:
    x = np.sort(rng.uniform(0, 10, 50))
    y, w = np.sin(x) + 0.2 * rng.normal(size=50), rng.uniform(0.5, 2, 50)
    model = ThinPlateSpline(2, lam=lam).fit(x[:, None], y, w)
    inside = np.linspace(x[0], x[-1], 40)
    spline = make_smoothing_spline(x, y, w, lam=lam)
    np.testing.assert_allclose(model.predict(inside[:, None]), spline(inside), atol=1e-8)
    right = model.predict(np.array([[11.0], [12.0], [13.0]]))
    assert right[2] - 2 * right[1] + right[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("search", ["evidence", "gcv"])
def test_evidence_and_loo(search: str, rng: np.random.Generator) -> None:
    X, y, _ = surface(rng, 90)
    model = ThinPlateSpline(search=search).fit(X, y)
    Ky = model.kernel_.variance * ThinPlate.anchored(X)(X) + model.loss_.noise * np.eye(90)
    H = PolynomialBasis(1)(X)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y, H), rel=1e-9)
    mean, variance, density = gp.leave_one_out(Ky, y, H)
    np.testing.assert_allclose(model.loo_.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(model.loo_.variance, variance, rtol=1e-6)
    np.testing.assert_allclose(model.loo_.log_density, density, rtol=1e-6, atol=1e-7)


def test_no_noise_to_be_seen(rng: np.random.Generator) -> None:
    """So few points that interpolation is as probable as any smoothing: reported, and sound."""
    X, y, new = surface(rng, 35)
    model = ThinPlateSpline().fit(X, y)
    assert model.report_["search"]["at_bounds"] == ["lam (smallest)"]
    limit = ThinPlateSpline(lam=0.0).fit(X, y)
    assert model.log_evidence_ == pytest.approx(limit.log_evidence_, abs=1e-6)
    np.testing.assert_allclose(model.predict(new), limit.predict(new), rtol=1e-5)


def test_search_maximises_the_evidence_of_the_gp(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    model = ThinPlateSpline().fit(X, y)
    twin = GPRegressor(1.0 * ThinPlate.anchored(X), basis="linear").fit(X, y)
    assert model.log_evidence_ >= twin.log_evidence_ - 1e-6
    assert model.log_evidence_ == pytest.approx(twin.log_evidence_, abs=1e-4)
    np.testing.assert_allclose(model.predict(new), twin.predict(new), rtol=1e-3, atol=1e-3)


def test_gcv_is_minimal(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)

    def gcv(lam: float) -> float:
        A = slow.smoother(green(X, X, 2), np.full(len(y), lam), PolynomialBasis(1)(X))
        return float(np.mean((y - A @ y) ** 2) / (1.0 - np.trace(A) / len(y)) ** 2)

    model = ThinPlateSpline(search="gcv").fit(X, y)
    assert model.report_["search"]["gcv"] == pytest.approx(gcv(model.lam_), rel=1e-8)
    assert gcv(model.lam_) <= min(gcv(1.01 * model.lam_), gcv(model.lam_ / 1.01))
    residual = y - model.predict(X)
    expected = residual @ residual / (len(y) - model.edf_)
    assert model.loss_.noise == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(
    ("order", "lam", "noise", "edf", "E"),
    [
        (1, 1.826, 22.15, 27.50, -625.029),
        (2, 10.58, 22.58, 13.93, -620.674),
        (3, 64.76, 22.64, 11.89, -622.620),
    ],
)
def test_motorcycle(
    order: int, lam: float, noise: float, edf: float, E: float, data_folder: Path
) -> None:
    """Known values, with many ties: 133 observations at 94 times."""
    file = data_folder / "mcycle" / "mcycle.csv.gz"
    if not file.exists():
        pytest.skip("the motorcycle data are not in MERCER_DATA")
    x, y = np.loadtxt(file, delimiter=",", skiprows=1).T
    model = ThinPlateSpline(order).fit(x[:, None], y)
    assert model.lam_ == pytest.approx(lam, rel=1e-3)
    assert np.sqrt(model.loss_.noise) == pytest.approx(noise, rel=1e-3)
    assert model.edf_ == pytest.approx(edf, rel=1e-3)
    monomials = np.log([1.0, 1.0, 1.0, 2.0][order])  # the value is for x^j / j!
    assert model.log_evidence_ == pytest.approx(E - monomials, abs=2e-3)
    if order == 2:
        mean, std = model.predict_latent([[20.0]])
        assert mean[0] == pytest.approx(-112.15, abs=0.01)
        assert std[0] == pytest.approx(6.64, abs=0.01)
        other = ThinPlateSpline(2, search="gcv").fit(x[:, None], y)
        assert other.lam_ == pytest.approx(18.63, rel=1e-3)
        assert other.report_["search"]["gcv"] == pytest.approx(565.48, abs=0.01)
        assert other.predict([[20.0]])[0] == pytest.approx(-110.66, abs=0.01)


# ---------------------------------------------------------------------- symmetries
def test_rotation_translation_and_scale(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    turn = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    one = ThinPlateSpline().fit(X, y)
    mean, std = one.predict(new, return_std=True)

    def moved(A: np.ndarray) -> np.ndarray:
        return 1e4 * (A @ turn + 7.0)

    other = ThinPlateSpline().fit(moved(X), 1e-3 * y + 100.0)
    other_mean, other_std = other.predict(moved(new), return_std=True)
    np.testing.assert_allclose((other_mean - 100.0) * 1e3, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other_std * 1e3, std, rtol=1e-5)
    assert other.lam_ == pytest.approx(one.lam_ * 1e4**2, rel=1e-4)
    assert other.edf_ == pytest.approx(one.edf_, rel=1e-5)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_huge_and_tiny_units(factor: float, rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    one, other = ThinPlateSpline().fit(X, y), ThinPlateSpline().fit(factor * X, factor * y)
    np.testing.assert_allclose(other.predict(factor * new) / factor, one.predict(new), rtol=1e-6)


def test_powers_out_of_range_are_refused(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng)
    with pytest.raises(ValueError, match="give them in other units"):
        ThinPlateSpline().fit(1e100 * X, y)


def test_polynomials_are_reproduced(rng: np.random.Generator) -> None:
    X, _, new = surface(rng)
    plane = [3.0, -2.0, 0.5]

    def value(A: np.ndarray) -> np.ndarray:
        return PolynomialBasis(1)(A) @ plane

    model = ThinPlateSpline(lam=5.0).fit(X, value(X))
    np.testing.assert_allclose(model.predict(new), value(new), rtol=1e-10)
    searched = ThinPlateSpline().fit(X, value(X))
    np.testing.assert_allclose(searched.predict(new), value(new), rtol=1e-9)


def test_constant_target(rng: np.random.Generator) -> None:
    X, _, new = surface(rng)
    for value in (0.0, 7.0):
        model = ThinPlateSpline().fit(X, np.full(len(X), value))
        mean, std = model.predict(new, return_std=True)
        np.testing.assert_allclose(mean, value, atol=1e-12)
        assert np.all((std > 0.0) & (std < 1e-6))
        assert model.report_["least_noise"] > 0.0
        assert np.isfinite(model.log_evidence_)


# ---------------------------------------------------------------------- weights, copies, outputs
def test_weights_are_copies(rng: np.random.Generator) -> None:
    X, y, new = surface(rng, 30)
    counts = rng.integers(0, 4, 30)
    counts[:6] = 1
    rows = np.repeat(np.arange(30), counts)
    for lam in (None, 0.7):
        one = ThinPlateSpline(lam=lam).fit(X, y, counts)
        other = ThinPlateSpline(lam=lam).fit(X[rows], y[rows])
        np.testing.assert_allclose(one.predict(new), other.predict(new), rtol=1e-9)
        assert one.log_evidence_ == pytest.approx(other.log_evidence_, rel=1e-9)
        np.testing.assert_allclose(one.loo_.variance[rows], other.loo_.variance, rtol=1e-8)


def test_replicates_that_differ(rng: np.random.Generator) -> None:
    """Rows that share an input, against every row by itself."""
    X, _, _ = surface(rng, 20)
    X = np.repeat(X, 2, axis=0)
    y = np.sin(X[:, 0]) + 0.3 * rng.normal(size=40)
    model = ThinPlateSpline().fit(X, y)
    v, noise, H = model.kernel_.variance, model.loss_.noise, PolynomialBasis(1)(X)
    Ky = v * ThinPlate.anchored(X[::2])(X) + noise * np.eye(40)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y, H), rel=1e-9)
    mean, variance, _ = gp.leave_one_out(Ky, y, H)
    np.testing.assert_allclose(model.loo_.mean, mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(model.loo_.variance, variance, rtol=1e-6)

    def value(lam: float) -> float:
        return ThinPlateSpline(lam=lam).fit(X, y).log_evidence_

    assert model.log_evidence_ >= max(value(1.05 * model.lam_), value(model.lam_ / 1.05))


def test_several_outputs(rng: np.random.Generator) -> None:
    X, y, new = surface(rng)
    Y = np.column_stack([y, 100.0 * np.cos(X[:, 1])])
    model = ThinPlateSpline().fit(X, Y)
    mean, std = model.predict(new, return_std=True)
    assert mean.shape == std.shape == (9, 2)
    one = ThinPlateSpline(lam=model.lam_).fit(X, Y[:, 1])
    np.testing.assert_allclose(mean[:, 1], one.predict(new), rtol=1e-9)


# ---------------------------------------------------------------------- low rank
def test_few_knots(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng, 80)
    w = rng.uniform(0.5, 2.0, 80)
    knots = X[:25]
    model = ThinPlateSpline(lam=0.8, knots=knots).fit(X, y, w)
    kernel = model.kernel_.variance * ThinPlate.anchored(knots)
    K, Kz, Kzz = kernel(X), kernel(knots, X), kernel(knots)
    H = PolynomialBasis(1)(X)
    noise = model.loss_.noise
    value = slow.titsias(K, Kz, Kzz, noise / w, H, y)
    # a weight is a power of the density: N(y | f, s)^w = N(y | f, s / w) times a constant
    value += np.sum(-0.5 * (w - 1.0) * np.log(2 * np.pi * noise) - 0.5 * np.log(w))
    assert model.log_evidence_ == pytest.approx(value, rel=1e-8)
    assert model.report_["gram"] == "inducing"
    assert model.report_["knots"] == 25
    assert model.report_["evidence_is_bound"]
    left = np.diagonal(K) - np.einsum("ij,ij->j", Kz, np.linalg.pinv(Kzz, rcond=1e-13) @ Kz)
    expected = w @ left / w.sum() / noise
    assert model.report_["variance_beyond_knots"] == pytest.approx(expected, rel=1e-6)


def test_a_bound_that_grows_with_the_knots(rng: np.random.Generator) -> None:
    X, y, new = surface(rng, 120)
    exact = ThinPlateSpline().fit(X, y)
    values, errors = [], []
    for p in (15, 30, 60, 120):
        model = ThinPlateSpline(lam=exact.lam_, knots=p).fit(X, y)
        v = exact.kernel_.variance / model.kernel_.variance
        values.append(model.log_evidence_)
        errors.append(np.abs(model.predict(new) - exact.predict(new)).max())
        assert v > 0.0
    assert values == sorted(values)
    assert errors[-1] < 1e-8 < errors[1]
    assert values[-1] == pytest.approx(exact.log_evidence_, rel=1e-9)
    full = ThinPlateSpline(knots=120).fit(X, y)
    assert full.lam_ == pytest.approx(exact.lam_, rel=1e-5)
    np.testing.assert_allclose(
        full.predict(new, return_std=True), exact.predict(new, return_std=True), rtol=1e-5
    )
    np.testing.assert_allclose(full.loo_.variance, exact.loo_.variance, rtol=1e-5)


def test_error_bars_on_knots_stay_open_between_them(rng: np.random.Generator) -> None:
    X, y, _ = surface(rng, 200)
    away = np.array([[4.9, 4.9]])
    exact = ThinPlateSpline(lam=0.5).fit(X, y)
    near = X[np.argsort(np.linalg.norm(X, axis=1))[:40]]
    model = ThinPlateSpline(lam=0.5, knots=near).fit(X, y)
    ratio = np.sqrt(model.kernel_.variance / exact.kernel_.variance)
    assert model.predict_latent(away)[1] > ratio * exact.predict_latent(away)[1]


@pytest.mark.slow
def test_many_points_on_few_knots() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 1, (20_000, 2))
    truth = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1])
    y = truth + 0.3 * rng.normal(size=len(X))
    model = ThinPlateSpline(knots=150).fit(X, y)
    mean, std = model.predict_latent(X[:2000])
    assert np.sqrt(np.mean((mean - truth[:2000]) ** 2)) < 0.03
    assert np.mean(np.abs(mean - truth[:2000]) < 2 * std) > 0.9
    assert np.sqrt(model.loss_.noise) == pytest.approx(0.3, rel=0.05)


# ---------------------------------------------------------------------- calibration
def test_bands_cover_the_truth() -> None:
    inside, total = 0.0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (80, 2))
        truth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
        model = ThinPlateSpline().fit(X, truth + 0.2 * rng.normal(size=80))
        mean, std = model.predict_latent(X)
        inside += np.sum(np.abs(mean - truth) < 1.96 * std)
        total += 80
    assert 0.9 < inside / total < 0.99
