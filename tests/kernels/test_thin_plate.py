"""The thin-plate Green's function and the kernel anchored at points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from tests.reference import gp

from mercer import GPRegressor
from mercer.basis import PolynomialBasis
from mercer.kernels import RBF, ThinPlate
from mercer.kernels.thin_plate import constant, green, least_order
from mercer.losses import Gaussian

PAIRS = [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3), (4, 3), (5, 3)]


def null_contrasts(X: np.ndarray, m: int) -> np.ndarray:
    H = PolynomialBasis(m - 1)(X)
    return np.linalg.qr(H, mode="complete")[0][:, H.shape[1] :]


@pytest.mark.parametrize(
    ("m", "D", "value"),
    [
        (1, 1, -1 / 2),
        (2, 1, 1 / 12),
        (3, 1, -1 / 240),
        (2, 2, 1 / (8 * np.pi)),
        (3, 2, -1 / (128 * np.pi)),
        (2, 3, -1 / (8 * np.pi)),
    ],
)
def test_constants(m: int, D: int, value: float) -> None:
    assert constant(m, D) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(("D", "m"), PAIRS)
def test_positive_on_contrasts_only(D: int, m: int, rng: np.random.Generator) -> None:
    k = PolynomialBasis(m - 1).size(D)
    X = rng.normal(size=(k + 12, D))
    G = green(X, X, m)
    Z = null_contrasts(X, m)
    assert np.linalg.eigvalsh(Z.T @ G @ Z)[0] > 0.0
    assert np.linalg.eigvalsh(G)[0] < 0.0


@pytest.mark.parametrize("m", [1, 2, 3])
def test_quadratic_form_is_the_penalty_in_one_column(m: int, rng: np.random.Generator) -> None:
    X = np.sort(rng.uniform(0, 2, (7, 1)), axis=0)
    Z = null_contrasts(X, m)
    a = Z @ rng.normal(size=Z.shape[1])
    # the m-th derivative of c |x|^(2m-1): c (2m-1)! / (m-1)! |x|^(m-1) sign(x)^m
    front = constant(m, 1) * np.prod(np.arange(m, 2 * m))

    def derivative(x: float) -> float:
        r = x - X[:, 0]
        return float(a @ (front * np.abs(r) ** (m - 1) * np.sign(r) ** m))

    pieces = [
        quad(lambda x: derivative(x) ** 2, low, high, epsabs=1e-13)[0]
        for low, high in zip(X[:-1, 0], X[1:, 0], strict=True)
    ]
    assert derivative(X[-1, 0] + 1.0) == pytest.approx(0.0, abs=1e-10)
    assert a @ green(X, X, m) @ a == pytest.approx(sum(pieces), rel=1e-9)


def test_quadratic_form_is_the_penalty_in_the_plane(rng: np.random.Generator) -> None:
    """GPML (6.11), m = D = 2: f_xx^2 + 2 f_xy^2 + f_yy^2 in polar coordinates."""
    X = rng.uniform(-0.5, 0.5, (5, 2))
    Z = null_contrasts(X, 2)
    a = Z @ rng.normal(size=Z.shape[1])
    u = np.linspace(-9.0, 8.0, 1701)  # radius e^u about each point in turn would be exact; a fine
    angle = np.linspace(0, 2 * np.pi, 1441)[:-1]  # common grid reaches 1e-3
    r, t = np.exp(u)[:, None], angle[None]
    x, y = r * np.cos(t), r * np.sin(t)
    xx, yy, xy = np.zeros(x.shape), np.zeros(x.shape), np.zeros(x.shape)
    c = constant(2, 2)
    for weight, (px, py) in zip(a, X, strict=True):
        dx, dy = x - px, y - py
        s = dx**2 + dy**2
        xx += weight * c * (np.log(s) + 1.0 + 2.0 * dx**2 / s)
        yy += weight * c * (np.log(s) + 1.0 + 2.0 * dy**2 / s)
        xy += weight * c * 2.0 * dx * dy / s
    density = (xx**2 + 2.0 * xy**2 + yy**2) * r**2
    total = density.sum() * (u[1] - u[0]) * (angle[1] - angle[0])
    assert a @ green(X, X, 2) @ a == pytest.approx(total, rel=2e-3)


@pytest.mark.parametrize(("D", "m"), [(1, 2), (2, 2), (3, 2), (2, 3)])
def test_posterior_does_not_depend_on_the_anchors(D: int, m: int, rng: np.random.Generator) -> None:
    X, new = rng.uniform(-1, 1, (25, D)), rng.uniform(-2, 2, (6, D))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=25)
    fits = []
    for rows in (X[:14], X[11:]):
        kernel = 3.0 * ThinPlate.anchored(rows, m)
        fit = GPRegressor(kernel, basis=m - 1, search=None, loss=Gaussian(noise=0.05)).fit(X, y)
        fits.append((*fit.predict(new, return_std=True), fit.log_evidence_))
    for one, other in zip(*fits, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_anchored_kernel_vanishes_at_its_anchors(rng: np.random.Generator) -> None:
    X = rng.normal(size=(12, 2))
    kernel = ThinPlate.anchored(X, 3)
    assert kernel.anchors.shape == (6, 2)
    np.testing.assert_allclose(kernel(kernel.anchors, X), 0.0, atol=1e-12)
    assert kernel.null_degree == 2


@pytest.mark.parametrize("anchored", [False, True])
def test_units(anchored: bool, rng: np.random.Generator) -> None:
    X, shift, s = rng.normal(size=(9, 2)), np.array([1.0, -3.0]), 2.5
    inside = (X - shift) / s
    kernel = ThinPlate.anchored(inside) if anchored else ThinPlate(2)
    outside = kernel.in_units(shift, np.full(2, s))
    difference = outside(X) - kernel(inside)
    if not anchored:  # the same on contrasts
        Z = null_contrasts(X, 2)
        difference = Z.T @ difference @ Z
    np.testing.assert_allclose(difference, 0.0, atol=1e-13)
    stretched = ThinPlate.anchored(inside).in_units(shift, np.array([s, 1.0]))
    np.testing.assert_allclose(
        stretched(X), ThinPlate.anchored(inside)((X - shift) / np.array([s, 1.0])), atol=1e-14
    )


def test_can_be_added_to_other_kernels(rng: np.random.Generator) -> None:
    X = rng.uniform(-1, 1, (30, 3))
    y = X[:, 0] ** 2 + np.sin(3 * X[:, 2]) + 0.05 * rng.normal(size=30)
    plate = ThinPlate.anchored(X[:, :2]).on([0, 1])
    model = GPRegressor(1.0 * plate + 1.0 * RBF().on(2), basis="linear").fit(X, y)
    K = model.kernel_(X)
    H = PolynomialBasis(1)(X)
    Ky = K + model.loss_.noise * np.eye(30)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y, H), rel=1e-8)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="the smallest that will do is 3"):
        ThinPlate(2)(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="needs 2 \\* order > 4"):
        ThinPlate(2).diag(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="use ThinPlateSpline, or ThinPlate"):
        GPRegressor(1.0 * ThinPlate()).fit(np.arange(10.0).reshape(5, 2), np.arange(5.0))
    with pytest.raises(ValueError, match="anchors of shape \\(3, 2\\), got \\(2, 2\\)"):
        ThinPlate(2, np.zeros((2, 2)))(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="vanishes on all anchors"):
        ThinPlate(2, np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]))(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="linearly dependent on these 4 points"):
        ThinPlate.anchored(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [5.0, 5.0]]))
    with pytest.raises(ValueError, match="linearly dependent on these 2 points"):
        ThinPlate.anchored(np.array([[0.0, 0.0], [1.0, 1.0]]))
    with pytest.raises(ValueError, match="order must be an integer of at least 1"):
        ThinPlate(0)(np.zeros((1, 1)))


def test_least_order() -> None:
    for D in range(1, 9):
        m = least_order(D)
        assert 2 * m > D >= 2 * (m - 1)
