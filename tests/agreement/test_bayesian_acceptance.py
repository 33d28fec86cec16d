"""Bayesian classification against its specification: what the tests of single parts leave open.

The acceptance tests of the specification, and where each is met:

1 derivatives of losses, sums of probabilities: losses/test_mathematics; averages on its grid: here
2 closed forms = quadrature, bound on E log Z: losses/test_mathematics, inference/test_variational
3 hyperparameter gradients loss by loss: inference/test_*, test_gradient; all pairs, weighted: here
4 F is the dense formula, n factors, Woodbury: inference/test_variational, test_factored
5 EP at n = 1, the values at n = 2: inference/test_ep, test_variational (test_two_points)
6 order of the evidences: inference/test_variational, test_bound (logistic); all likelihoods: here
8 normalised hinge, negative W, F falls: inference/test_variational
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, gammaln, logsumexp, ndtr

from mercer import losses
from mercer.inference import EP, Bound, Exact, Laplace, Newton, Variational
from mercer.kernels import RBF, Constant, White
from mercer.linalg import DenseGram
from mercer.search import EvidenceCriterion, Problem, Space
from tests.losses.cases import CLASSES

FLIP = losses.Flip(None, eps=0.1)
# SquaredProbit is exact by another criterion: search/test_plsc; several latent functions have a
# kernel each: inference/test_latents
LOSSES = [
    *(c.example() for c in CLASSES if c is not losses.SquaredProbit and not c.example().latents),
    FLIP,
]
KINKED = ("EpsilonInsensitive", "LaplaceNoise", "NormalizedHinge", "Pinball")
METHODS = {
    "Exact": Exact(),
    "Laplace": Laplace(),
    "EP": EP(tol=1e-9),
    "Variational": Variational(tol=1e-9),
    "Bound": Bound(tol=1e-9),
}


def sensible(method: str, loss: losses.Loss) -> bool:
    """Whether the specification gives the pair a meaning; said here without asking the code."""
    name = type(loss).__name__
    if method == "Exact":
        return name == "Gaussian"
    if method == "Bound":
        return name == "Logistic"
    if not loss.normalised:
        return False
    if name == "Softmax":
        return method == "Laplace"
    return not (method == "Laplace" and (name in KINKED or loss is FLIP))


PAIRS = [(m, loss) for m in METHODS for loss in LOSSES if sensible(m, loss)]
REFUSED = [(m, loss) for m in METHODS for loss in LOSSES if not sensible(m, loss)]


def label(value: object) -> str:
    return value if isinstance(value, str) else repr(value)


def table(loss: losses.Loss, n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, loss.example_targets(rng, n)[:, None]


# ---------------------------------------------------------------------- (a) formula (3)
@pytest.mark.parametrize("each", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("method", "loss"), PAIRS, ids=label)
def test_gradient_of_every_pair(method, loss, each):
    """Kernel and loss parameters, rows of several weights, a noise part in the kernel.

    All parameters move together in two directions; among the slow tests ``each`` by itself.
    """
    n = 14
    X, y = table(loss, n)
    w = np.random.default_rng(5).choice([0.5, 1.0, 2.0], size=n)
    problem = Problem(X, y, w, np.zeros_like(y), None, np.arange(n), y, w)
    kernel = 3.3 * RBF([0.8, 1.5]) + Constant(0.4) + White(0.2)
    space = Space({"kernel": kernel, "loss": loss.__sklearn_clone__()})
    make = DenseGram if method == "Exact" else partial(DenseGram, keep=True)
    criterion = EvidenceCriterion(space, problem, METHODS[method], make)
    u, h = space.start, 1e-4
    _, gradient, solution = criterion.evaluate(u)
    assert solution.report.converged
    assert any(entry.part == "loss" for entry in space.entries) == bool(loss.free)

    def height(v):
        return criterion.height(v, solution)[0]

    some = np.random.default_rng(7).choice([-1.0, 1.0], size=(2, len(u)))
    for direction in np.eye(len(u)) if each else some:
        step = h * direction
        near = (height(u + step) - height(u - step)) / (2 * h)
        far = (height(u + 2 * step) - height(u - 2 * step)) / (4 * h)
        slope = float(gradient @ direction)
        assert slope == pytest.approx((4 * near - far) / 3, abs=2e-6, rel=2e-6), space.entries


# ---------------------------------------------------------------------- (b) Gaussian noise
@pytest.mark.parametrize("method", ["Laplace", "EP", "Variational"])
def test_gaussian_noise_is_exact_with_weights_and_two_outputs(method):
    n, loss = 16, losses.Gaussian(noise=0.3)
    X, first = table(loss, n)
    y, w = np.hstack([first, np.cos(first)]), np.random.default_rng(1).uniform(0.2, 3.0, n)
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    want, got = (m.solve(gram, y, loss, weights=w) for m in (Exact(), METHODS[method]))
    np.testing.assert_allclose(got.alpha, want.alpha, atol=1e-6)
    values = [
        m.evidence(gram, y, loss, s).value for m, s in ((Exact(), want), (METHODS[method], got))
    ]
    assert values[1] == pytest.approx(values[0], abs=1e-8)


# ---------------------------------------------------------------------- (c) order of the evidences
BINARY = [
    losses.Logistic(),
    losses.Probit(scale=0.7),
    losses.LaplaceProbit(C=1.5),
    losses.NormalizedHinge(C=1.0),
    losses.NormalizedHinge(C=2.5),
    losses.Flip(losses.Probit(), eps=0.05),
    FLIP,
]


class Given:
    """A matrix in place of a kernel."""

    def __init__(self, K):
        self.K = K

    def __call__(self, X, Z=None):
        return self.K.copy()

    def diag(self, X):
        return np.diagonal(self.K).copy()


def evidence(method, K, y, loss):
    gram = DenseGram(Given(K), np.zeros((len(K), 1)), keep=True)
    solution = method.solve(gram, y[:, None], loss)
    assert solution.report.converged
    return method.evidence(gram, y[:, None], loss, solution).value, solution


def in_order(K, y, loss, exact, error):
    """-exact against every method; ``error`` is that of ``exact``."""
    bounds = [evidence(Variational(), K, y, loss)[0]]
    if isinstance(loss, losses.Logistic):
        bounds.append(evidence(Bound(), K, y, loss)[0])
        assert bounds[1] < bounds[0] + 1e-9
    assert all(value < exact + error for value in bounds)
    if loss.convex:
        gram = DenseGram(Given(K), np.zeros((len(K), 1)), keep=True)
        a = Newton().solve(gram, y[:, None], loss).alpha[:, 0]
        highest = -loss.value(y, K @ a).sum() - 0.5 * a @ K @ a
        assert exact - error < highest
    assert abs(evidence(EP(), K, y, loss)[0] - exact) < 0.3


@pytest.mark.parametrize("loss", BINARY, ids=repr)
@pytest.mark.parametrize("rho", [-0.6, 0.9])
@pytest.mark.parametrize("variance", [0.5, 20.0])
def test_order_for_two_points(loss, rho, variance):
    """Exact by a sum over the plane: f_1 given f_0 by dense panels, f_0 by adaptive rules."""
    K, y = variance * np.array([[1.0, rho], [rho, 1.5]]), np.array([1.0, -1.0])

    def over_second(f):
        m, v = K[0, 1] / K[0, 0] * f, K[1, 1] - K[0, 1] ** 2 / K[0, 0]
        density = np.exp(-loss.value(1.0, f) - 0.5 * f * f / K[0, 0])
        return float(density * np.exp(brute(loss, -1.0, m, v)) / np.sqrt(2 * np.pi * K[0, 0]))

    far = 9.0 * np.sqrt(K[0, 0])
    z = sum(
        integrate.quad(over_second, low, high, epsabs=1e-10, limit=200)[0]
        for low, high in zip([-far, -1, 0, 1], [-1, 0, 1, far], strict=True)
    )
    in_order(K, y, loss, np.log(z), 1e-7)


@pytest.mark.parametrize("loss", BINARY[:5], ids=repr)
@pytest.mark.parametrize("seed", [0, 1])
def test_order_for_a_dozen_points(loss, seed):
    """Exact by importance sampling from the EP Gaussian with heavy tails."""
    n, rng = 12, np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    K = 8.0 * RBF(1.0)(X) + 1e-3 * np.eye(n)
    _, q = evidence(EP(), K, y, loss)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(q.W))
    L, LK, dof, draws = np.linalg.cholesky(0.5 * (S + S.T)), np.linalg.cholesky(K), 6.0, 100_000
    e = rng.standard_normal((n, draws)) / np.sqrt(rng.chisquare(dof, draws) / dof)
    f = q.z + L @ e
    proposal = gammaln((dof + n) / 2) - gammaln(dof / 2) - n / 2 * np.log(dof * np.pi)
    proposal -= np.log(np.diag(L)).sum()
    proposal = proposal - (dof + n) / 2 * np.log1p((e * e).sum(axis=0) / dof)
    prior = -0.5 * np.square(np.linalg.solve(LK, f)).sum(axis=0) - np.log(np.diag(LK)).sum()
    prior -= n / 2 * np.log(2 * np.pi)
    weights = prior - loss.value(y[:, None], f).sum(axis=0) - proposal
    exact = logsumexp(weights) - np.log(draws)
    ratio = np.exp(weights - exact)
    in_order(K, y, loss, exact, 4.0 * ratio.std() / np.sqrt(draws) + 1e-9)


# ---------------------------------------------------------------------- (d) refusals
@pytest.mark.parametrize(("method", "loss"), REFUSED, ids=label)
def test_senseless_pairs_name_the_cause_and_an_alternative(method, loss):
    with pytest.raises(ValueError, match=type(loss).__name__) as caught:
        METHODS[method].check(loss)
    text = str(caught.value)
    assert method in text
    missing = [name for name in METHODS[method].needs if not loss.offers(name)]
    cause = (*missing, "not a likelihood", "twice differentiable", "one per class")
    assert any(word in text for word in cause)
    others = [*set(METHODS) - {method}, "laplace", "dual", "NormalizedHinge", "Laplace"]
    assert any(other in text for other in others)


# ---------------------------------------------------------------------- averages
PANEL = np.polynomial.legendre.leggauss(40)


def brute(loss: losses.Loss, y: float, m: float, v: float) -> float:
    """log int exp(-g) N(f | m, v) df for a binary loss, by a dense sum over panels."""
    s = np.sqrt(v)
    cuts = [-40, -14, -5, -1, 0, 1, 5, 14, 40, *(m + s * np.linspace(-9, 9, 13))]
    edges = np.unique(np.clip(cuts, m - 9 * s, m + 9 * s))
    x, w = PANEL
    half = 0.5 * np.diff(edges)[:, None]
    f = (0.5 * (edges[:-1] + edges[1:])[:, None] + half * x).ravel()
    log = -loss.value(y, f) - 0.5 * np.square((f - m) / s) - 0.5 * np.log(2 * np.pi * v)
    return float(logsumexp(log, b=(half * w).ravel()))


@pytest.mark.parametrize("loss", BINARY, ids=repr)
@pytest.mark.parametrize("v", [0.01, 0.3, 1.0, 4.0, 30.0])
def test_averages_on_the_grid_of_the_specification(loss, v):
    m = np.linspace(-6.0, 6.0, 25)
    y, h = np.ones(25), 1e-2 * np.sqrt(v)

    def slope(function, at, step):
        near, far = (
            (function(at + k * step) - function(at - k * step)) / (2 * k * step) for k in (1.0, 2.0)
        )
        return (4 * near - far) / 3

    value, dm, dv = loss.expected(y, m, np.full(25, v))
    scale = 1.0 + np.abs(value)
    by_m = slope(lambda x: loss.expected(y, x, np.full(25, v))[0], m, h)
    by_v = slope(lambda x: loss.expected(y, m, np.full(25, x))[0], v, 1e-2 * v)
    # fourth-order differences err by about h^4 times the fifth derivative of the average
    np.testing.assert_allclose(dm, by_m, atol=1e-6 * np.max(scale))
    np.testing.assert_allclose(dv, by_v, atol=1e-6 * np.max(scale) / v)


@pytest.mark.parametrize("loss", [*BINARY[:6]], ids=repr)
@pytest.mark.parametrize("v", [1e-300, 1e-100, 1e-30, 1e-18])
def test_a_latent_variance_of_nothing_is_the_value_at_the_mean(loss, v):
    m, y = np.array([-30.0, -0.7, 0.3, 5.0, 1e3]), np.ones(5)
    got = loss.log_predictive(y, m, np.full(5, v))
    np.testing.assert_allclose(got, -loss.value(y, m), rtol=1e-12, atol=1e-12)


def test_softmax_of_correlated_latents_against_a_plane():
    """Three classes depend on two differences: a tensor rule over the plane."""
    rng, x, w = np.random.default_rng(2), *np.polynomial.hermite_e.hermegauss(160)
    w = w / w.sum()
    for scale in (0.4, 1.5, 3.0):
        A = scale * rng.normal(size=(3, 3))
        m, V = scale * rng.normal(size=3), A @ A.T
        D = np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
        L = np.linalg.cholesky(D @ V @ D.T)
        u, t = np.meshgrid(x, x, indexing="ij")
        d = (D @ m)[:, None] + L @ np.stack([u.ravel(), t.ravel()])
        f = np.vstack([d, np.zeros(d.shape[1])])
        p = np.exp(f - logsumexp(f, axis=0)) @ np.outer(w, w).ravel()
        np.testing.assert_allclose(losses.Softmax().predict(m[None], V[None])[0], p, atol=1e-4)


@pytest.mark.parametrize(
    ("loss", "probability"),
    [
        (losses.Logistic(), expit),
        (losses.Probit(scale=0.7), lambda f: ndtr(f / 0.7)),
        (losses.NormalizedHinge(), lambda f: expit(np.clip(f, -1, 1) + f)),
    ],
    ids=["logistic", "probit", "hinge"],
)
def test_probabilities_to_ten_digits(loss, probability):
    """Written out, not taken from the loss: sigma, Phi, and exp(-hinge) normalised."""
    for m in (-8.0, -1.0, 0.2, 3.0):
        for v in (1e-4, 0.5, 9.0, 900.0):
            s = np.sqrt(v)
            x, w = np.polynomial.legendre.leggauss(60)
            cuts = [-30, -5, -1, 0, 1, 5, 30, *(m + s * np.linspace(-9, 9, 19))]
            edges = np.unique(np.clip(cuts, m - 9 * s, m + 9 * s))
            half = 0.5 * np.diff(edges)[:, None]
            f = 0.5 * (edges[:-1] + edges[1:])[:, None] + half * x
            density = np.exp(-0.5 * np.square((f - m) / s)) / (s * np.sqrt(2 * np.pi))
            want = float((half * w * density * probability(f)).sum())
            assert loss.predict(np.array([m]), np.array([v]))[0] == pytest.approx(want, abs=1e-10)
