"""A basis with a flat prior beside any loss: limits, brute force, gradients, what is refused."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest

from mercer import losses
from mercer.inference import EP, Bound, Exact, Laplace, Variational
from mercer.kernels import RBF, Constant, Linear
from mercer.linalg import DenseGram
from mercer.linalg.reduced.gram import ReducedGram
from mercer.search import EvidenceCriterion, Space, simple_problem
from tests.reference.gp import slope

SITES = [Laplace(), EP(tol=1e-9), Variational(tol=1e-9), Bound(tol=1e-9)]
KERNEL = 1.3 * RBF(0.7)


def table(loss, n=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    y = loss.example_targets(rng, n)
    if loss.response == "real":
        y = 2.0 * X[:, 0] + 0.4 * rng.standard_t(3, size=n)
    H = np.column_stack([np.ones(n), X[:, 0]])
    return X, y[:, None], H, rng.uniform(0.5, 2.0, n)


def evidence(inference, gram, y, loss, **given):
    found = inference.solve(gram, y, loss, **given)
    assert found.report.converged, found.report
    return inference.evidence(gram, y, loss, found).value, found


def limit(inference, X, y, loss, H, w, new):
    """Evidence, mean and variance for coefficients N(0, b), b to infinity by extrapolation."""
    found = []
    for b in (2e4, 4e4):
        both = np.vstack([X, new])
        h = np.vstack([H, np.column_stack([np.ones(len(new)), new[:, 0]])])
        K = KERNEL(both) + b * h @ h.T
        n = len(X)
        gram = DenseGram.given(np.ascontiguousarray(K[:n, :n]))
        value, s = evidence(inference, gram, y, loss, weights=w)
        A = K[:n, n:]
        mean = A.T @ s.alpha[:, 0]
        var = np.diagonal(K[n:, n:]) - np.diagonal(A.T @ s.factor.solve(A))
        # a density N(0, b) at the origin, in place of one
        found.append((value + np.log(2 * np.pi * b) * H.shape[1] / 2, mean, var))
    return [2.0 * large - small for small, large in zip(*found, strict=True)]


CASES = [
    (Laplace(), losses.Logistic()),
    (Laplace(), losses.Poisson()),
    (Laplace(), losses.StudentT(scale=0.4, df=3.0)),
    (EP(tol=1e-9), losses.Probit()),
    (EP(tol=1e-9), losses.Poisson()),
    (EP(tol=1e-9), losses.LaplaceNoise(scale=0.5)),
    (Variational(tol=1e-9), losses.Logistic()),
    (Variational(tol=1e-8), losses.StudentT(scale=0.4, df=3.0)),
    (Bound(tol=1e-9), losses.Logistic()),
]


@pytest.mark.parametrize(("inference", "loss"), CASES, ids=str)
def test_limit_of_a_wide_prior(inference, loss) -> None:
    X, y, H, w = table(loss)
    new = np.array([[-0.3], [0.2], [2.5]])
    value, mean, var = limit(inference, X, y, loss, H, w, new)
    own, s = evidence(inference, DenseGram(KERNEL, X, keep=True), y, loss, basis=H, weights=w)
    assert own == pytest.approx(value, abs=2e-6)
    A, h = KERNEL(X, new), np.column_stack([np.ones(3), new[:, 0]])
    np.testing.assert_allclose(A.T @ s.alpha[:, 0] + h @ s.beta[:, 0], mean, atol=1e-5)
    np.testing.assert_allclose(KERNEL.diag(new) - s.factor.operator().reduce_diag(A, h), var, 1e-5)
    np.testing.assert_allclose(H.T @ s.alpha, 0.0, atol=1e-8)


@pytest.mark.parametrize("inference", SITES[:3], ids=str)
def test_gaussian_noise_is_exact(inference) -> None:
    loss = losses.Gaussian(noise=0.3)
    X, y, H, w = table(loss)
    gram = DenseGram(KERNEL, X, keep=True)
    value, s = evidence(inference, gram, y, loss, basis=H, weights=w)
    exact, e = evidence(Exact(), gram, y, loss, basis=H, weights=w)
    assert value == pytest.approx(exact, abs=1e-8)
    np.testing.assert_allclose(s.alpha, e.alpha, atol=1e-8)
    np.testing.assert_allclose(s.beta, e.beta, atol=1e-8)
    np.testing.assert_allclose(s.factor.diag(), e.factor.diag(), rtol=1e-8)
    np.testing.assert_allclose(s.factor.cov_diag(), e.factor.cov_diag(), rtol=1e-7)


def truth(y, K):
    """The integral of the labels' probability over f ~ N(0, K) and a flat constant, on a grid."""
    n, t = len(y), np.linspace(-14.0, 14.0, 71)
    inverse, ones = np.linalg.inv(K), np.ones(n)
    P = inverse - np.outer(inverse @ ones, ones @ inverse) / (ones @ inverse @ ones)
    g = np.array(list(product(t, repeat=n)))
    log = -np.logaddexp(0.0, -y * g).sum(axis=1) - 0.5 * np.einsum("ij,jk,ik->i", g, P, g)
    total = np.logaddexp.reduce(log) + n * np.log(t[1] - t[0])
    constant = (n - 1) * np.log(2 * np.pi) + np.linalg.slogdet(K)[1]
    return total - 0.5 * (constant + np.log(ones @ inverse @ ones))


def test_brute_force_on_three_rows() -> None:
    X, y = np.array([[0.0], [0.9], [2.0]]), np.array([1.0, -1.0, 1.0])
    K, H = KERNEL(X), np.ones((3, 1))
    exact = truth(y, K)
    gram = DenseGram(KERNEL, X, keep=True)
    value = [evidence(i, gram, y[:, None], losses.Logistic(), basis=H)[0] for i in SITES]
    assert value[1] == pytest.approx(exact, abs=0.01)  # EP
    assert exact - 0.2 < value[2] < exact + 1e-6  # the variational bound is one
    assert value[3] < value[2]
    assert value[0] == pytest.approx(exact, abs=0.4)


@pytest.mark.parametrize(
    ("inference", "loss"),
    [*CASES[:4], (EP(tol=1e-9), losses.Gamma(2.0)), *CASES[6:]],
    ids=str,
)
def test_gradient_by_differences(inference, loss) -> None:
    X, y, H, _ = table(loss)
    space = Space({"kernel": 0.8 * RBF(0.9) + 0.3 * Linear(), "loss": loss})
    problem = simple_problem(X, y, H)
    found = EvidenceCriterion(space, problem, inference, partial(DenseGram, keep=True))
    numeric = slope(lambda u: found(u)[0], space.start)
    np.testing.assert_allclose(found(space.start)[1], numeric, rtol=2e-5, atol=2e-6)


def test_several_outputs_are_each_alone() -> None:
    loss = losses.Poisson()
    X, y, H, w = table(loss)
    both = np.column_stack([y[:, 0], np.roll(y[:, 0], 3) + 1])
    gram = DenseGram(KERNEL, X, keep=True)
    value, s = evidence(Laplace(), gram, both, loss, basis=H, weights=w)
    alone = [evidence(Laplace(), gram, both[:, [j]], loss, basis=H, weights=w) for j in (0, 1)]
    assert value == pytest.approx(alone[0][0] + alone[1][0], abs=1e-9)
    np.testing.assert_allclose(s.beta, np.hstack([one.beta for _, one in alone]), atol=1e-9)
    space = Space({"kernel": 0.8 * RBF(0.9), "loss": loss})
    found = EvidenceCriterion(
        space, simple_problem(X, both, H), Laplace(), partial(DenseGram, keep=True)
    )
    numeric = slope(lambda u: found(u)[0], space.start)
    np.testing.assert_allclose(found(space.start)[1], numeric, rtol=1e-5, atol=1e-6)


def test_rows_that_say_nothing_keep_their_digits() -> None:
    """Labels far on their side have W of nearly zero: no difference of large numbers."""
    X = np.array([[-1.0], [-0.2], [0.1], [0.4], [0.9], [60.0]])
    y = np.array([-1.0, 1.0, -1.0, 1.0, -1.0, 1.0])[:, None]
    H = np.column_stack([np.ones(6), X])
    few, loss = DenseGram(KERNEL, X[:5], keep=True), losses.Logistic()
    y[-1] = np.sign(Laplace().solve(few, y[:5], loss, basis=H[:5]).beta[1])
    s = Laplace().solve(DenseGram(KERNEL, X, keep=True), y, loss, basis=H)
    assert s.W[-1] < 1e-3
    K, C = KERNEL(X), np.diag(s.W)
    # Sigma of f in the limit: through the precision of contrasts and the data
    Q = np.linalg.qr(H, mode="complete")[0][:, 2:]
    precision = Q @ np.linalg.inv(Q.T @ K @ Q) @ Q.T + C
    np.testing.assert_allclose(s.factor.cov_diag(), np.diagonal(np.linalg.inv(precision)), 1e-7)


def test_inducing_points_take_the_basis() -> None:
    """With all points inducing the reduced prior is the whole."""
    loss = losses.Poisson()
    X, y, H, w = table(loss, n=15)
    whole = DenseGram(KERNEL, X, keep=True)
    few = ReducedGram(KERNEL, X, X, corrected=True)
    for inference in (Laplace(), EP(tol=1e-9), Variational(tol=1e-8)):
        value, s = evidence(inference, whole, y, loss, basis=H, weights=w)
        near, r = evidence(inference, few, y, loss, basis=H, weights=w)
        assert near == pytest.approx(value, abs=1e-4)
        np.testing.assert_allclose(r.beta, s.beta, atol=1e-3)


def test_what_has_no_evidence_is_refused() -> None:
    X = np.linspace(-1.0, 1.0, 8)[:, None]
    H = np.column_stack([np.ones(8), X])
    apart = np.where(X > 0.0, 1.0, -1.0)
    with pytest.raises(ValueError, match="separate"):
        Laplace().check_basis(losses.Logistic(), apart, H)
    mixed = apart * np.array([1, -1, 1, 1, 1, 1, -1, 1])[:, None]
    Laplace().check_basis(losses.Logistic(), mixed, H)
    with pytest.raises(ValueError, match="no finite evidence"):
        EP().check_basis(losses.Flip(eps=0.1), apart, H)
    counts = np.zeros((8, 1))
    with pytest.raises(ValueError, match="count"):
        Laplace().check_basis(losses.Poisson(), counts, H)
    counts[2] = 3.0
    with pytest.raises(ValueError, match="count"):  # a line may be zero there and fall elsewhere
        Laplace().check_basis(losses.Poisson(), np.roll(counts, -2), H)
    counts[5] = 1.0
    Laplace().check_basis(losses.Poisson(), counts, H)
    Laplace().check_basis(losses.StudentT(), apart, H)
    with pytest.raises(ValueError, match="factors=None"):
        Variational(factors=2).check_basis(losses.Logistic(), mixed, H)
    gram = DenseGram(KERNEL, X, keep=True)
    with pytest.raises(ValueError, match="separates"):  # asked directly, too
        EP().solve(gram, apart, losses.Probit(), basis=H)
    alone = np.column_stack([np.ones(8), np.arange(8) == 3])
    with pytest.raises(ValueError, match="a row alone determines"):
        EP().solve(gram, mixed, losses.LaplaceNoise(), basis=alone)


# ---------------------------------------------------------------------- several classes at once
def classes(n=18, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 1))
    y = np.digitize(X[:, 0] + 1.2 * rng.normal(size=n), [-0.6, 0.6]).astype(float)
    return X, y[:, None], np.column_stack([np.ones(n), X[:, 0]]), rng.uniform(0.5, 2.0, n)


def test_softmax_is_the_limit_of_a_wide_prior() -> None:
    X, y, H, w = classes()
    loss, new = losses.Softmax(), np.array([[-0.5], [0.4], [2.0]])
    h, found = np.column_stack([np.ones(3), new[:, 0]]), []
    for b in (2e4, 4e4):
        kernel = KERNEL + b * (Constant() + Linear())
        value, s = evidence(Laplace(), DenseGram(kernel, X, keep=True), y, loss, weights=w)
        A = kernel(X, new)
        blocks = kernel.diag(new)[:, None, None] * np.eye(3) - s.factor.operator().blocks(A)
        # two contrasts of the classes, two functions each; those alone are seen
        N = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]])
        seen = np.einsum("ac,pce,be->pab", N, blocks, N)
        found.append((value + 2.0 * np.log(2 * np.pi * b), (A.T @ s.alpha) @ N.T, seen))
    value, mean, seen = (2.0 * large - small for small, large in zip(*found, strict=True))
    own, s = evidence(Laplace(), DenseGram(KERNEL, X, keep=True), y, loss, basis=H, weights=w)
    assert own == pytest.approx(value, abs=1e-5)
    A = KERNEL(X, new)
    np.testing.assert_allclose((A.T @ s.alpha + h @ s.beta) @ N.T, mean, atol=1e-5)
    blocks = KERNEL.diag(new)[:, None, None] * np.eye(3) - s.factor.operator().blocks(A, h)
    np.testing.assert_allclose(np.einsum("ac,pce,be->pab", N, blocks, N), seen, rtol=1e-4)
    np.testing.assert_allclose(H.T @ s.alpha, 0.0, atol=1e-8)
    np.testing.assert_allclose(s.beta.sum(axis=1), 0.0, atol=1e-10)


def test_softmax_gradient_by_differences() -> None:
    X, y, H, _ = classes()
    space = Space({"kernel": 0.8 * RBF(0.9) + 0.3 * Linear(), "loss": losses.Softmax()})
    found = EvidenceCriterion(
        space, simple_problem(X, y, H), Laplace(), partial(DenseGram, keep=True)
    )
    numeric = slope(lambda u: found(u)[0], space.start)
    np.testing.assert_allclose(found(space.start)[1], numeric, rtol=2e-5, atol=2e-6)


def test_classes_that_lines_tell_apart_are_refused() -> None:
    X, y, H, _ = classes()
    Laplace().check_basis(losses.Softmax(), y, H)
    apart = np.digitize(X, [-0.6, 0.6]).astype(float)
    with pytest.raises(ValueError, match=r"tell some of the classes apart.*Constant"):
        Laplace().check_basis(losses.Softmax(), apart, H)
