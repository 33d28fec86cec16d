"""SmoothingSpline against dense matrices, scipy, refits and its own definition."""

from __future__ import annotations

import gzip
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import make_smoothing_spline

from mercer import GPRegressor, SmoothingSpline
from mercer.kernels import Spline
from mercer.losses import Gaussian
from mercer.process.process import Process
from mercer.rkhs import representer
from tests.reference.spline import dense, reml

ORDERS = [1, 2, 3]


def curve(rng, n=40, noise=0.2):
    x = rng.uniform(0.0, 8.0, n)
    return x, np.sin(x) + noise * rng.normal(size=n)


def repeated(rng):
    """Unsorted rows with ties and weights that are not one; some rows without weight."""
    x, y = curve(rng, 30)
    x = np.concatenate([x, x[:6], x[:2]])
    y = np.concatenate([y, y[:6] + 0.3, y[:2] - 0.2])
    w = rng.choice([0.0, 1.0, 2.0, 3.0], len(x), p=[0.1, 0.4, 0.3, 0.2])
    return x, y, w


def expanded(x, y, w):
    """Every row as often as its weight says."""
    index = np.repeat(np.arange(len(x)), w.astype(int))
    return x[index], y[index]


# ---------------------------------------------------------------------- the same as dense
@pytest.mark.parametrize("m", ORDERS)
def test_equals_dense_inside_and_outside(rng, m):
    x, y, w = repeated(rng)
    lam = 0.7
    model = SmoothingSpline(m, lam=lam).fit(x[:, None], y, w)
    at = np.concatenate([rng.uniform(0.0, 8.0, 20), [-1.5, 9.5], x[:3]])
    X, Y = expanded(x, y, w)
    mean, var, logdet, q, _ = dense(X, Y, np.ones(len(X)), m, lam, origin=-2.0, at=at)
    noise = q / (len(X) - m)
    assert model.loss_.noise == pytest.approx(noise, rel=1e-8)
    got, std = model.predict_latent(at[:, None])
    np.testing.assert_allclose(got[:20], mean[:20], atol=1e-8)
    np.testing.assert_allclose(got, mean, atol=1e-7)
    np.testing.assert_allclose(std[:20] ** 2, noise * var[:20], atol=1e-8)
    np.testing.assert_allclose(
        std**2, noise * var, rtol=1e-4
    )  # the dense form loses digits outside
    _, total = model.predict(at[:, None], return_std=True)
    np.testing.assert_allclose(total**2, std**2 + noise, rtol=1e-12)
    value = -0.5 * (q / noise + logdet + (len(X) - m) * np.log(2.0 * np.pi * noise))
    assert model.log_evidence_ == pytest.approx(value, abs=1e-8)
    value = reml(X, Y, np.ones(len(X)), m, lam, noise)
    assert model.log_evidence_ == pytest.approx(value, abs=1e-8)


def test_equals_a_gaussian_process_with_a_spline_kernel(rng):
    x, y = curve(rng)
    spline = SmoothingSpline().fit(x[:, None], y)
    loss = Gaussian(noise=spline.loss_.noise)
    dense_model = GPRegressor(spline.kernel_, loss=loss, basis=1, search=None).fit(x[:, None], y)
    assert dense_model.log_evidence_ == pytest.approx(spline.log_evidence_, abs=1e-7)
    X = np.linspace(x.min(), 8.0, 30)[:, None]
    for ours, theirs in zip(
        spline.predict(X, return_std=True), dense_model.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-8)
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(
            getattr(spline.loo_, name), getattr(dense_model.loo_, name), atol=1e-7
        )
    np.testing.assert_allclose(
        spline.predict_interval(X, 0.8), dense_model.predict_interval(X, 0.8), atol=1e-8
    )


@pytest.mark.parametrize("m", ORDERS)
def test_derivatives(rng, m):
    x, y = curve(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    at = np.concatenate([rng.uniform(x.min(), x.max(), 30), [x.min() - 1.0, x.max() + 1.0]])
    h = 1e-4
    for k in range(1, 2 * m):
        high, low = (model.derivative(at[:, None] + s, k - 1) for s in (h, -h))
        found = model.derivative(at[:, None], k)
        np.testing.assert_allclose(
            found, (high - low) / (2 * h), atol=2e-5 * (1 + abs(found).max())
        )
    assert np.all(model.derivative(at[:, None], 2 * m) == 0.0)
    assert np.all(model.derivative(at[-2:, None], m) == 0.0)  # natural: degree m - 1 outside
    last = model.derivative([[x.max()]], 2 * m - 1)
    assert last == pytest.approx(model.derivative([[x.max() - 1e-9]], 2 * m - 1), rel=1e-6)
    np.testing.assert_array_equal(model.derivative(at[:, None], 0), model.predict(at[:, None]))


@pytest.mark.parametrize("m", [2, 3])
def test_deviations_of_derivatives(rng, m):
    x, y = curve(rng, 20)
    model = SmoothingSpline(m, lam=0.5).fit(x[:, None], y)
    at = np.concatenate([rng.uniform(x.min(), x.max(), 5), x[:2], [-1.0, 9.0]])
    h = 1e-3
    for k in range(1, m):
        _, std = model.derivative(at[:, None], k, return_std=True)
        for t, s in zip(at, std, strict=True):
            # variance of a difference quotient of the derivative before
            grid = t + h * np.arange(-k, k + 1.0, 2.0)
            weights = np.array({1: [-1.0, 1.0], 2: [1.0, -2.0, 1.0]}[k]) / (2 * h) ** k
            _, cov = model.predict(grid[:, None], return_cov=True)
            cov = cov - model.loss_.noise * np.eye(len(grid))
            assert np.sqrt(weights @ cov @ weights) == pytest.approx(s, rel=5e-3)
    with pytest.raises(ValueError, match="it has no deviation"):
        model.derivative(at[:, None], m, return_std=True)


@pytest.mark.parametrize("m", ORDERS)
def test_integral(rng, m):
    x, y = curve(rng)
    model = SmoothingSpline(m).fit(x[:, None], y + 5.0)
    for a, b in [(1.0, 6.5), (-2.0, 3.0), (4.0, 11.0), (-3.0, -1.0), (9.0, 10.0), (x[3], x[8])]:
        knots = np.sort(x[(x > min(a, b)) & (x < max(a, b))])
        slow = quad(lambda t: float(model.predict([[t]])[0]), a, b, points=knots, limit=300)[0]
        assert model.integral(a, b) == pytest.approx(slow, abs=1e-8)
    assert model.integral(6.0, 2.0) == pytest.approx(-model.integral(2.0, 6.0), rel=1e-14)
    with pytest.raises(ValueError, match="two finite ends"):
        model.integral(0.0, np.inf)


@pytest.mark.parametrize("m", ORDERS)
def test_representer_form(rng, m):
    """GPML (6.29) and exercise 6.7.3: the weights are orthogonal to the polynomials."""
    x, y = curve(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    f = representer(model)
    at = np.linspace(x.min(), 12.0, 40)[:, None]
    np.testing.assert_allclose(f(at), model.predict(at), atol=1e-8)
    alpha, points = model.posteriors_[0].alpha[:, 0], model.posteriors_[0].points[:, 0]
    for j in range(m):
        assert abs(alpha @ points**j) < 1e-8 * np.abs(alpha * points**j).sum()
    # |f|^2 under variance k is the penalty over the variance
    ends = np.sort(x)
    pairs = pairwise(ends)
    roughness = sum(
        quad(lambda t: float(model.derivative([[t]], m)[0]) ** 2, a, b)[0] for a, b in pairs
    )
    assert f.norm() ** 2 == pytest.approx(roughness / model.kernel_.variance, rel=1e-6)


@pytest.mark.parametrize("m", ORDERS)
def test_natural_outside(rng, m):
    """Exercise 6.7.3: differences of order m vanish left and right of the data."""
    x, y = curve(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    for start in (x.min() - 5.0, x.max()):
        values = model.predict(np.linspace(start, start + 5.0, 11)[:, None])
        assert np.abs(np.diff(values, m)).max() < 1e-10


def test_covariance_and_draws(rng):
    x, y = curve(rng, 15)
    model = SmoothingSpline(lam=0.5).fit(x[:, None], y)
    at = np.concatenate([rng.uniform(-1.0, 9.0, 6), x[:2], [3.0, 3.0]])
    mean, cov = model.predict(at[:, None], return_cov=True)
    _, std = model.predict(at[:, None], return_std=True)
    np.testing.assert_allclose(np.diag(cov), std**2, rtol=1e-9)
    kernel, basis = model.kernel_, 1
    loss = Gaussian(noise=model.loss_.noise)
    shifted = model.kernel_.variance * Spline(2, -2.0)
    slow = GPRegressor(shifted, loss=loss, basis=basis, search=None).fit(x[:, None], y)
    np.testing.assert_allclose(cov, slow.predict(at[:, None], return_cov=True)[1], atol=1e-8)
    assert kernel.kernel.origin == x.min()
    draws = model.sample_y(at[:, None], 20000, random_state=0)
    assert draws.shape == (len(at), 20000)
    latent = cov - model.loss_.noise * np.eye(len(at))
    scale = np.sqrt(np.diag(latent))
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=5 * scale.max() / np.sqrt(20000))
    error = (np.cov(draws) - latent) / np.outer(scale, scale)
    assert np.abs(error).max() < 0.05
    np.testing.assert_array_equal(draws[-1], draws[-2])  # one curve, one value at 3
    np.testing.assert_array_equal(draws, model.sample_y(at[:, None], 20000, random_state=0))
    with pytest.raises(ValueError, match="flat prior"):
        model.sample_prior(at[:, None])


# ---------------------------------------------------------------------- the same as others
@pytest.mark.parametrize("gaps", [1e-2, 1.0, 1e2, 1e4])
def test_equals_scipy_for_a_given_lam(rng, gaps):
    x = np.linspace(-3.0, 12.0, 200)
    y, w = np.sin(x) + 0.2 * rng.normal(size=200), rng.uniform(0.5, 2.0, 200)
    lam = gaps * (x[1] - x[0]) ** 3
    theirs = make_smoothing_spline(x, y, w, lam)
    ours = SmoothingSpline(lam=lam).fit(x[:, None], y, w)
    at = np.linspace(-3.0, 12.0, 777)
    np.testing.assert_allclose(ours.predict(at[:, None]), theirs(at), atol=1e-8)
    slopes = theirs.derivative(1)(at)
    np.testing.assert_allclose(ours.derivative(at[:, None]), slopes, atol=1e-7)
    assert ours.integral(-2.0, 10.0) == pytest.approx(float(theirs.integrate(-2.0, 10.0)), abs=1e-8)


def test_gcv_finds_the_curve_of_scipy(rng):
    x = np.linspace(0.0, 10.0, 150)
    y = np.sin(2 * x) + 0.3 * rng.normal(size=150)
    ours = SmoothingSpline(search="gcv").fit(x[:, None], y)
    np.testing.assert_allclose(ours.predict(x[:, None]), make_smoothing_spline(x, y)(x), atol=1e-4)


def read_mcycle(folder):
    path = folder / "mcycle" / "mcycle.csv.gz"
    if not path.exists():
        pytest.skip("the motorcycle data are not in the data folder")
    with gzip.open(path) as file:
        table = np.loadtxt(file, delimiter=",", skiprows=1)
    return table[:, :1], table[:, 1]


@pytest.mark.parametrize(
    ("m", "lam", "std", "edf", "value"),
    [
        (1, 1.826, 22.15, 27.50, -625.029),
        (2, 10.58, 22.58, 13.93, -620.674),
        (3, 64.76, 22.64, 11.89, -622.620),
    ],
)
def test_motorcycle_by_evidence(data_folder, m, lam, std, edf, value):
    X, y = read_mcycle(data_folder)
    model = SmoothingSpline(m).fit(X, y)
    assert model.lam_ == pytest.approx(lam, rel=1e-3)
    assert np.sqrt(model.loss_.noise) == pytest.approx(std, rel=3e-4)
    assert model.edf_ == pytest.approx(edf, abs=0.01)
    assert model.log_evidence_ == pytest.approx(value, abs=1e-3)


def test_motorcycle_by_gcv(data_folder):
    X, y = read_mcycle(data_folder)
    model = SmoothingSpline(search="gcv").fit(X, y)
    assert model.lam_ == pytest.approx(18.63, rel=2e-3)
    assert model.edf_ == pytest.approx(12.25, abs=0.01)
    assert model.predict([[20.0]])[0] == pytest.approx(-110.66, abs=0.01)


# ---------------------------------------------------------------------- the choice of lam
def score(model, x, y, w, search):
    """The criterion from its definition, at the model's lam and noise."""
    if search == "evidence":
        return model.log_evidence_
    if search == "loo":
        return model.loo_.total
    N, edf = w.sum(), model.edf_
    return -N * (w @ (y - model.predict(x[:, None])) ** 2) / (N - edf) ** 2


@pytest.mark.parametrize("m", ORDERS)
@pytest.mark.parametrize("search", ["evidence", "gcv", "loo"])
def test_no_other_lam_is_better(rng, m, search):
    x, y, w = repeated(rng)
    best = SmoothingSpline(m, search=search).fit(x[:, None], y, w)
    top = score(best, x, y, w, search)
    for factor in (0.1, 0.9, 0.99, 1.01, 1.1, 10.0, 1e4):
        other = SmoothingSpline(m, lam=factor * best.lam_).fit(x[:, None], y, w)
        if search == "loo":  # at the noise that is best for that lam
            loo = other.loo_
            ratio = w @ ((y - loo.mean) ** 2 / loo.variance) / w.sum()
            density = -0.5 * (
                np.log(2 * np.pi * loo.variance * ratio)
                + (y - loo.mean) ** 2 / (loo.variance * ratio)
            )
            assert w @ density < top
        else:
            assert score(other, x, y, w, search) < top
    assert best.report_["search"]["criterion"] == search
    assert best.report_["search"]["at_bounds"] == []


def test_two_scales_the_higher_maximum_is_found(rng):
    """A slow wave with a fast one of the same size as the noise: two maxima of the evidence."""
    x = np.linspace(0.0, 10.0, 400)
    for size in (0.05, 0.2, 0.6):
        y = np.sin(x) + size * np.sin(60 * x) + 0.2 * rng.normal(size=400)
        best = SmoothingSpline().fit(x[:, None], y)
        for lam in np.exp(np.linspace(-25.0, 15.0, 200)):
            other = SmoothingSpline(lam=lam).fit(x[:, None], y)
            assert other.log_evidence_ < best.log_evidence_ + 1e-6


def test_leave_one_out_by_refits(rng):
    x, y, w = repeated(rng)
    model = SmoothingSpline(lam=0.3).fit(x[:, None], y, w)
    noise = model.loss_.noise
    for i in range(0, len(x), 3):
        rest = w.copy()
        rest[i] -= min(1.0, rest[i])  # a weight of two is two rows, of which one stays
        other = SmoothingSpline(lam=0.3).fit(x[:, None], y, rest)
        mean, std = other.predict_latent(x[i : i + 1, None])
        variance = std**2 * noise / other.loss_.noise + noise
        assert model.loo_.mean[i] == pytest.approx(mean[0], abs=1e-8)
        assert model.loo_.variance[i] == pytest.approx(variance[0], rel=1e-8)
        density = -0.5 * (np.log(2 * np.pi * variance) + (y[i] - mean) ** 2 / variance)
        assert model.loo_.log_density[i] == pytest.approx(density[0], abs=1e-7)


def test_degrees_of_freedom_are_the_trace(rng):
    x, y = curve(rng, 15)
    fits = [SmoothingSpline(lam=0.4).fit(x[:, None], e).predict(x[:, None]) for e in np.eye(15)]
    model = SmoothingSpline(lam=0.4).fit(x[:, None], y)
    assert model.edf_ == pytest.approx(np.trace(fits), rel=1e-10)


# ---------------------------------------------------------------------- invariance
@pytest.mark.parametrize("search", ["evidence", "gcv", "loo"])
def test_weights_are_rows(rng, search):
    x, y, w = repeated(rng)
    X, Y = expanded(x, y, w)
    one = SmoothingSpline(search=search).fit(x[:, None], y, w)
    order = rng.permutation(len(X))
    two = SmoothingSpline(search=search).fit(X[order, None], Y[order])
    assert one.lam_ == pytest.approx(two.lam_, rel=1e-6)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-8)
    assert one.loss_.noise == pytest.approx(two.loss_.noise, rel=1e-8)
    assert one.loo_.total == pytest.approx(two.loo_.total, abs=1e-6)


@pytest.mark.parametrize("m", ORDERS)
def test_units(rng, m):
    x, y = curve(rng)
    one = SmoothingSpline(m).fit(x[:, None], y)
    two = SmoothingSpline(m).fit(1e4 * x[:, None] - 3e5, 1e-3 * y + 7.0)
    at = np.linspace(-1.0, 9.0, 50)
    for ours, scaled in zip(
        one.predict(at[:, None], return_std=True),
        two.predict(1e4 * at[:, None] - 3e5, return_std=True),
        strict=True,
    ):
        shift = 0.0 if scaled[0] < 1.0 else 7.0
        np.testing.assert_allclose(ours, 1e3 * (scaled - shift), atol=1e-6)
    assert two.lam_ == pytest.approx(one.lam_ * 1e4 ** (2 * m - 1), rel=1e-6)
    change = (len(x) - m) * np.log(1e-3) + 0.5 * m * (m - 1) * np.log(1e4)
    assert two.log_evidence_ == pytest.approx(one.log_evidence_ - change, abs=1e-5)


# ---------------------------------------------------------------------- right by default
def quality(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, 10000)
    y = np.sin(3 * x) + 0.3 * rng.normal(size=10000)
    mean, std = SmoothingSpline().fit(x[:, None], y).predict_latent(x[:, None])
    error = mean - np.sin(3 * x)
    return np.sqrt(np.mean(error**2)), np.mean(np.abs(error) < 1.96 * std)


def test_uneven_data_of_ten_thousand_rows():
    """Where scipy's choice raises or is flat on most draws."""
    figures = np.array([quality(seed) for seed in range(20)])
    assert np.all(figures[:, 0] < 0.03)
    assert np.all(figures[:, 1] >= 0.90)
    error, coverage = figures.mean(axis=0)
    assert error < 0.022
    assert 0.95 <= coverage <= 0.99


def test_many_rows_in_little_memory():
    """One hundred thousand rows: far beyond what an n x n array would allow."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 100_000)
    y = np.sin(20 * x) + 0.3 * rng.normal(size=len(x))
    model = SmoothingSpline().fit(x[:, None], y)
    mean, std = model.predict_latent(x[:1000, None])
    assert np.sqrt(np.mean((mean - np.sin(20 * x[:1000])) ** 2)) < 0.02
    assert model.sample_y(x[:5, None], 2, random_state=0).shape == (5, 2)
    assert np.isfinite(model.loo_.total)
    assert std.max() < 0.05


@pytest.mark.parametrize("given", [{}, {"loss": "poisson"}, {"period": 5.0}, {"lam": np.inf}])
def test_report_speaks_the_common_words(rng, given):
    x = rng.uniform(0.0, 10.0, 60)
    y = rng.poisson(np.exp(1.0 + np.sin(1.2 * x))).astype(float)
    model = SmoothingSpline(**given).fit(x[:, None], y)
    common = {"rows", "standardize", "search", "inference", "gram", "degrees_of_freedom"}
    assert common <= model.report_.keys()
    ended = {"name", "converged", "iterations", "gap", "message"}
    assert ended <= model.report_["inference"].keys()
    assert model.report_["standardize"]["on"] == ("loss" not in given)
    assert model.report_["degrees_of_freedom"] == model.edf_
    assert isinstance(model.posteriors_[0], Process)
    assert model.loo_ is model.left_out_
    assert model.left_out_.mean.shape == (60,)
    sections = [row[0] for row in model.summary().rows()]
    assert sections == sorted(sections, key=sections.index)  # every section in one piece
