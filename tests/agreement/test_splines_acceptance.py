"""Smoothing splines against the definition: covariances by quadrature, contrasts, scipy."""

from math import factorial

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import make_smoothing_spline
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import SmoothingSpline

ORDERS = pytest.mark.parametrize("m", [1, 2, 3])


def covariance(x, z, m, i=0, j=0):
    """Derivatives i and j of int_0^min (x-u)^(m-1) (z-u)^(m-1) / (m-1)!^2 du, by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(m + 1)  # exact for these polynomials
    top = np.minimum.outer(x, z)
    u = 0.5 * top[..., None] * (nodes + 1.0)
    left = (x[:, None, None] - u) ** (m - 1 - i) / factorial(m - 1 - i)
    right = (z[None, :, None] - u) ** (m - 1 - j) / factorial(m - 1 - j)
    return 0.5 * top * ((left * right) @ weights)


def polynomials(x, m, i=0):
    """The i-th derivatives of x^k / k!, k < m: (len(x), m)."""
    columns = [x ** (k - i) / factorial(k - i) if k >= i else 0.0 * x for k in range(m)]
    return np.stack(columns, axis=1)


class Dense:
    """The posterior by contrasts of all rows: nothing is merged, weighted or sorted."""

    def __init__(self, x, y, m, lam, noise):
        self.origin, self.m, self.scale = x.min(), m, noise / lam
        self.x = x - self.origin
        H = polynomials(self.x, m)
        Q, R = np.linalg.qr(H, mode="complete")
        self.Z, self.lift = Q[:, m:], np.linalg.solve(R[:m], Q[:, :m].T)
        self.Ky = self.scale * covariance(self.x, self.x, m) + noise * np.eye(len(x))
        self.S = self.Z.T @ self.Ky @ self.Z
        self.a = self.Z @ np.linalg.solve(self.S, self.Z.T @ y)
        self.beta = self.lift @ (y - self.Ky @ self.a)
        self.contrasts = multivariate_normal(cov=self.S).logpdf(self.Z.T @ y)
        self.evidence = self.contrasts - np.linalg.slogdet(R[:m])[1]

    def at(self, x, i=0):
        """Mean and variance of the i-th derivative."""
        t = x - self.origin + 0.0
        cross = self.scale * covariance(t, self.x, self.m, i, 0)
        h = polynomials(t, self.m, i)
        mean = cross @ self.a + h @ self.beta
        rest = (cross - h @ self.lift @ self.Ky) @ self.Z
        w = h @ self.lift
        prior = self.scale * np.diagonal(covariance(t, t, self.m, i, i))
        own = np.einsum("ij,jk,ik->i", w, self.Ky, w) - 2.0 * np.einsum("ij,ij->i", w, cross)
        return mean, prior + own - np.einsum("ij,ji->i", rest, np.linalg.solve(self.S, rest.T))


def design(rng, n=40):
    """Unsorted rows with repeats, and the same rows with weights in place of repeats."""
    x = rng.permutation(np.concatenate([rng.uniform(2.0, 7.0, n - 6), np.full(3, 4.4), [5.0] * 3]))
    y = np.sin(2.0 * x) + 0.2 * rng.normal(size=n)
    count = rng.integers(1, 4, n)
    return x, y, count, np.repeat(x, count), np.repeat(y, count)


@ORDERS
@pytest.mark.parametrize("lam", [1e-3, 0.1, None])
def test_linear_time_is_the_dense_answer(rng, m, lam):
    x, y, count, every_x, every_y = design(rng)
    model = SmoothingSpline(m, lam=lam).fit(x[:, None], y, sample_weight=count)
    slow = Dense(every_x, every_y, m, model.lam_, model.loss_.noise)
    assert model.log_evidence_ == pytest.approx(slow.evidence, rel=1e-8)
    new = np.concatenate([x, np.linspace(x.min(), x.max() + 1.0, 29)])
    mean, std = model.predict_latent(new[:, None])
    expected, variance = slow.at(new)
    np.testing.assert_allclose(mean, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(std**2, variance, rtol=1e-7, atol=1e-9)
    for i in range(1, m):
        got, spread = model.derivative(new[:, None], i, return_std=True)
        expected, variance = slow.at(new, i)
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(spread**2, variance, rtol=1e-6, atol=1e-8)
    repeated = SmoothingSpline(m, lam=model.lam_).fit(every_x[:, None], every_y)
    assert repeated.log_evidence_ == pytest.approx(slow.evidence, rel=1e-8)
    np.testing.assert_allclose(repeated.predict(new[:, None]), mean, atol=1e-10)


@ORDERS
def test_the_slope_of_the_evidence_vanishes_at_the_choice(rng, m):
    """Chosen by evidence, lam and noise are stationary for the dense evidence, too."""
    x, y, _, _, _ = design(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    lam, noise, h = model.lam_, model.loss_.noise, 1e-3
    assert np.isfinite(lam)
    for step in ((h, 0.0), (0.0, h)):
        up, down = (
            Dense(x, y, m, lam * np.exp(s * step[0]), noise * np.exp(s * step[1])).evidence
            for s in (1.0, -1.0)
        )
        assert abs(up - down) / (2.0 * h) < 2e-3
        assert max(up, down) <= model.log_evidence_ + 1e-8


@ORDERS
def test_diffuse_evidence_is_that_of_contrasts_and_the_limit_of_proper_priors(rng, m):
    x, y, _, _, _ = design(rng)
    x = (x - x.min()) / 5.0
    model = SmoothingSpline(m, lam=0.02).fit(x[:, None], y)
    noise = model.loss_.noise
    slow = Dense(x, y, m, 0.02, noise)
    H = polynomials(x - x.min(), m)
    reml = model.log_evidence_ + 0.5 * np.linalg.slogdet(H.T @ H)[1]
    assert reml == pytest.approx(slow.contrasts, rel=1e-9)
    errors = []
    for s in (1e3, 1e5):
        C = slow.Ky + s * H @ H.T
        proper = multivariate_normal(cov=C).logpdf(y) + 0.5 * m * np.log(2.0 * np.pi * s)
        errors.append(abs(proper - model.log_evidence_))
    assert errors[1] < 1e-3
    assert errors[1] < 0.1 * errors[0]


@pytest.mark.parametrize("gaps", [0.01, 1.0, 1e4])
def test_equals_scipy_inside_uniform_designs(rng, gaps):
    x = np.linspace(-1.0, 4.0, 301)
    y = np.cos(3.0 * x) + 0.1 * rng.normal(size=301)
    w = rng.uniform(0.5, 2.0, 301)
    lam = gaps * (x[1] - x[0]) ** 3
    theirs = make_smoothing_spline(x, y, w, lam)
    mine = SmoothingSpline(lam=lam).fit(x[:, None], y, sample_weight=w)
    new = np.linspace(-1.0, 4.0, 1000)
    np.testing.assert_allclose(mine.predict(new[:, None]), theirs(new), atol=1e-8)
    slope = mine.derivative(new[:, None])
    np.testing.assert_allclose(slope, theirs.derivative()(new), atol=1e-6)
    area = mine.integral(-0.5, 3.0)
    assert area == pytest.approx(theirs.integrate(-0.5, 3.0), abs=1e-8)


@ORDERS
def test_continues_as_a_polynomial(rng, m):
    """GPML exercise 6.7.3: differences of order m vanish outside; the weights do not see them."""
    x, y, _, _, _ = design(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    for out in (x.min() - np.linspace(0.0, 3.0, 9), x.max() + np.linspace(0.0, 3.0, 9)):
        np.testing.assert_allclose(np.diff(model.predict(out[:, None]), m), 0.0, atol=1e-9)
    residual = y - model.predict(x[:, None])
    for k in range(m):
        assert abs(residual @ (x - x.mean()) ** k) < 1e-9


def test_draws_have_the_moments(rng):
    x, y, _, _, _ = design(rng)
    model = SmoothingSpline(2).fit(x[:, None], y)
    new = np.array([[1.5], [3.1], [4.4], [8.0]])
    mean, std = model.predict_latent(new)
    drawn = model.sample_y(new, 4000, random_state=0)
    drawn = drawn.reshape(4, -1)
    error = np.abs(drawn.mean(axis=1) - mean) / (std / np.sqrt(4000))
    assert error.max() < 4.5
    ratio = drawn.std(axis=1) / std
    assert np.all((ratio > 0.93) & (ratio < 1.07))


@ORDERS
def test_order_of_rows_and_units_do_not_matter(rng, m):
    x, y, _, _, _ = design(rng)
    model = SmoothingSpline(m).fit(x[:, None], y)
    order = rng.permutation(len(x))
    again = SmoothingSpline(m).fit(x[order, None], y[order])
    new = np.linspace(1.0, 9.0, 17)[:, None]
    np.testing.assert_allclose(again.predict(new), model.predict(new), rtol=1e-10)
    assert again.log_evidence_ == pytest.approx(model.log_evidence_, rel=1e-12)
    moved = SmoothingSpline(m).fit(1e3 * x[:, None], 5.0 - 1e-3 * y)
    np.testing.assert_allclose(moved.predict(1e3 * new), 5.0 - 1e-3 * model.predict(new), rtol=1e-7)
    assert moved.lam_ == pytest.approx(model.lam_ * 1e3 ** (2 * m - 1), rel=1e-4)


# ------------------------------------------------------------------ bad input
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_no_numbers(bad):
    x, y = np.arange(9.0), np.arange(9.0) ** 2
    for where in (0, 1):
        given = [x.copy(), y.copy()]
        given[where][3] = bad
        model = SmoothingSpline()
        with pytest.raises(ValueError, match=r"NaN|infinity|finite"):
            model.fit(given[0][:, None], given[1])
        assert not hasattr(model, "lam_")


@ORDERS
def test_too_few_distinct_points_and_two_points(m):
    if m > 1:
        with pytest.raises(ValueError, match="distinct"):
            SmoothingSpline(m).fit(np.repeat([[1.0]], 5, axis=0), np.arange(5.0))
        with pytest.raises(ValueError, match="distinct"):
            SmoothingSpline(3).fit([[1.0], [2.0], [1.0]], np.arange(3.0))
    model = SmoothingSpline(1, lam=1.0).fit([[0.0], [1.0]], [0.0, 2.0])
    # by hand: minimise a^2 + (2 - b)^2 + (b - a)^2
    np.testing.assert_allclose(model.predict([[0.0], [1.0]]), [2.0 / 3.0, 4.0 / 3.0])


@ORDERS
@pytest.mark.parametrize("search", ["evidence", "gcv", "loo"])
def test_equal_targets(m, search):
    model = SmoothingSpline(m, search=search).fit(np.arange(12.0)[:, None] ** 1.5, np.full(12, 7.3))
    np.testing.assert_allclose(model.predict([[-5.0], [3.3], [90.0]]), 7.3, rtol=1e-10)


@ORDERS
def test_a_huge_gap(rng, m):
    """Far apart, the parts are independent: each is as it would be alone, given the noise."""
    x = np.linspace(0.0, 1.0, 30)
    y = np.sin(6.0 * x) + 0.05 * rng.normal(size=30)
    far = 1e5
    both = SmoothingSpline(m, lam=1e-4).fit(
        np.concatenate([x, far + x])[:, None], np.concatenate([y, y[::-1]])
    )
    alone = SmoothingSpline(m, lam=1e-4).fit(x[:, None], y)
    np.testing.assert_allclose(both.predict(x[:, None]), alone.predict(x[:, None]), atol=1e-4)


@pytest.mark.parametrize(("m", "resolved"), [(2, True), (3, False), (4, False)])
@pytest.mark.parametrize("lam", [1e12, np.inf])
def test_gaps_that_cost_the_deviations_their_digits_are_refused(rng, m, resolved, lam):
    """Two groups 1e8 spacings apart, nearly a polynomial: leverages are right, or refused."""
    x = np.concatenate([rng.uniform(0.0, 1.0, 8), 1e7 + rng.uniform(0.0, 1.0, 8)])
    y = np.sin(x) + 0.1 * rng.normal(size=16)
    model = SmoothingSpline(m, lam=lam * np.ptp(x) ** (2 * m - 1))
    if resolved:
        assert model.fit(x[:, None], y).edf_ == pytest.approx(m, abs=1e-6)
    else:
        with pytest.raises(ValueError, match="parts on both sides of the long gaps"):
            model.fit(x[:, None], y)
        assert not hasattr(model, "edf_")


# ------------------------------------------------------------------ scikit-learn, pandas, files
def test_grid_search_pipeline_clone_and_pandas(rng):
    x, y, _, _, _ = design(rng, 60)
    table = pd.DataFrame({"time": x})
    search = GridSearchCV(SmoothingSpline(), {"order": [1, 2], "lam": [1e-3, 1e6]}, cv=3)
    search.fit(table, pd.Series(y))
    assert search.best_params_["lam"] == 1e-3
    assert list(search.best_estimator_.feature_names_in_) == ["time"]
    with pytest.raises(ValueError, match="feature names"):
        search.best_estimator_.predict(table.rename(columns={"time": "hour"}))
    chain = make_pipeline(StandardScaler(), SmoothingSpline()).fit(table, y)
    plain = SmoothingSpline().fit(table, y)
    np.testing.assert_allclose(chain.predict(table), plain.predict(table), rtol=1e-6)
    assert clone(plain).get_params() == plain.get_params()


@ORDERS
def test_a_file_keeps_every_bit(rng, m, tmp_path):
    x, y, count, _, _ = design(rng)
    model = SmoothingSpline(m).fit(x[:, None], y, sample_weight=count)
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    new = np.linspace(0.0, 9.0, 33)[:, None]
    for one, two in zip(model.predict_latent(new), again.predict_latent(new), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(model.derivative(new), again.derivative(new))
    assert again.log_evidence_ == model.log_evidence_
