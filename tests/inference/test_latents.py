"""Several latent functions with kernels of their own, against dense block matrices and sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from mercer import inference as inferences
from mercer import losses
from mercer.inference import Laplace, Newton, Variational
from mercer.kernels import RBF, Matern, Several
from mercer.linalg.dense.coupled import blocked, split
from mercer.linalg.dense.several import several_gram
from mercer.losses import Loss, SeveralLatents
from mercer.process.record import OPERATOR
from tests.reference.several import blocks, laplace, stacked, true_moments

N = 12
X = np.linspace(0.0, 6.0, N)[:, None]
KERNELS = [1.5 * RBF(1.2), 0.6 * Matern(nu=1.5, length_scale=2.0)]
REAL = np.sin(X[:, 0]) + np.resize([0.1, -0.5, 0.3, 0.05], N) * np.exp(0.2 * X[:, 0])
COUNTS = np.resize([0.0, 3.0, 0.0, 1.0, 5.0, 0.0, 2.0], N)


class Correlated(SeveralLatents):
    """A convex loss that couples its two functions: y is near their sum, both are near zero."""

    latents, powers, normalised = ("one", "two"), (1.0, 1.0), True

    def value(self, y, f):
        return np.logaddexp(y - f[..., 0] - f[..., 1], f[..., 0] + f[..., 1] - y) + np.log(
            np.pi / 2
        )


CASES = [
    pytest.param(losses.Heteroscedastic(0.2), REAL, id="gaussian"),
    pytest.param(losses.HeteroscedasticT(0.3, 5.0), REAL, id="student"),
    pytest.param(losses.ZeroInflatedPoisson(), COUNTS, id="zeros"),
    pytest.param(Correlated(), REAL, id="convex"),
]


def evidence(kernels, y, loss, weights=None, start=None, inference=None):
    gram, inference = several_gram(Several(kernels), X, scratch=False), inference or Laplace()
    found = inference.solve(gram, y[:, None], loss, weights=weights, start=start)
    return gram, found, inference.evidence(gram, y[:, None], loss, found)


@pytest.mark.parametrize("weights", [None, np.resize([1.0, 2.0, 0.5], N)])
@pytest.mark.parametrize(("loss", "y"), CASES)
def test_laplace_is_that_of_dense_blocks(loss, y, weights):
    f, W, K, wanted = laplace(KERNELS, X, y, loss, weights)
    gram, found, E = evidence(KERNELS, y, loss, weights)
    assert found.report.converged
    np.testing.assert_allclose(found.z, f, atol=1e-6)
    assert E.value == pytest.approx(wanted, abs=1e-7)
    C = W @ np.linalg.inv(np.eye(2 * N) + K @ W)
    V = np.random.default_rng(0).normal(size=(N, 2))
    np.testing.assert_allclose(stacked(found.factor.solve(V)), C @ stacked(V), atol=1e-6)
    Sigma = (K - K @ C @ K).reshape(2, N, 2, N)
    each = found.factor.point_blocks(gram)
    np.testing.assert_allclose(each, np.einsum("cnen->nce", Sigma), atol=1e-6)
    A = [np.random.default_rng(j).normal(size=(N, 3)) for j in range(2)]
    both = np.einsum("cip,ciej,ejp->pce", A, C.reshape(2, N, 2, N), A, optimize=True)
    operator = found.factor.operator()
    for one in (operator, OPERATOR.read(OPERATOR.write(operator), None)):
        np.testing.assert_allclose(one.blocks(A), both, atol=1e-6)
    np.testing.assert_allclose(np.diag(operator.reduce_of(1, A[1])), both[:, 1, 1], atol=1e-6)


TIGHT = Variational(tol=1e-9)
BOTH = [pytest.param(*case.values, Laplace(), id=f"laplace-{case.id}") for case in CASES]
BOTH += [pytest.param(*case.values, TIGHT, id=f"variational-{case.id}") for case in CASES[:3:2]]


@pytest.mark.parametrize(("loss", "y", "inference"), BOTH)
def test_gradient_is_that_of_differences(loss, y, inference):
    kernel = Several(KERNELS)

    def at(kernels, loss):
        return evidence(kernels, y, loss, inference=inference)

    gram, found, E = at(KERNELS, loss)
    gradient = gram.pullback(found.alpha, found.factor, E.U, E.V)
    assert set(gradient) == {path for path, _, _ in kernel.differentiable()}
    for path, slope in gradient.items():
        theta = kernel.get_params()[path]
        ahead, back = (
            at(kernel.replaced({path: theta * (1 + h)}).parts, loss)[2].value for h in (1e-4, -1e-4)
        )
        assert slope == pytest.approx((ahead - back) / (2e-4 * theta), rel=1e-5, abs=1e-6)
    for path, slope in E.loss_gradient.items():
        theta = loss.get_params()[path]
        ahead, back = (
            at(KERNELS, loss.replaced({path: theta * (1 + h)}))[2].value for h in (1e-4, -1e-4)
        )
        assert slope == pytest.approx((ahead - back) / (2e-4 * theta), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(("loss", "y"), CASES)
def test_newton_and_a_start_end_at_the_same_mode(loss, y):
    gram, found, _ = evidence(KERNELS, y, loss)
    mode = Newton().solve(gram, y[:, None], loss)
    np.testing.assert_allclose(mode.z, found.z, atol=1e-5)
    assert not mode.factor.solve(found.alpha).any()
    near = evidence([1.3 * KERNELS[0], KERNELS[1]], y, loss)[1]
    again = evidence(KERNELS, y, loss, start=near)[1]
    np.testing.assert_allclose(again.z, found.z, atol=1e-6)


@pytest.mark.parametrize(("loss", "y"), CASES[:3])
def test_variational_is_where_the_bound_is_flat(loss, y):
    """a = -E[g'], W = 2 dE/dv, and sites a little off make the bound no larger."""
    w = np.resize([1.0, 2.0, 0.5], N)
    _, found, E = evidence(KERNELS, y, loss, w, inference=TIGHT)
    var = np.column_stack([factor.cov_diag() for factor in found.factor.factors])
    _, dm, dv = loss.expected(y, found.z, var)
    np.testing.assert_allclose(found.alpha, -w[:, None] * dm, atol=1e-6)
    np.testing.assert_allclose(found.W, 2.0 * w[:, None] * dv, rtol=1e-5, atol=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(3):
        value = 0.0
        shift = found.alpha + 0.05 * rng.normal(size=(N, 2))
        W = np.maximum(found.W, 1e-3) * np.exp(0.1 * rng.normal(size=(N, 2)))
        for c, kernel in enumerate(KERNELS):
            K = kernel(X)
            Sigma = np.linalg.inv(np.linalg.inv(K + 1e-9 * np.eye(N)) + np.diag(W[:, c]))
            var[:, c] = np.diagonal(Sigma)
            logdet = np.linalg.slogdet(np.eye(N) + K * W[:, c])[1]
            value -= 0.5 * (logdet + shift[:, c] @ K @ shift[:, c] - W[:, c] @ var[:, c])
        f = np.column_stack([k(X) @ shift[:, c] for c, k in enumerate(KERNELS)])
        assert value - w @ loss.expected(y, f, var)[0] < E.value + 1e-6


def test_three_rows_against_sampling():
    """Laplace is close to the truth where noise is not the only thing that is unknown."""
    few, y = np.array([[0.0], [1.0], [2.5]]), np.array([0.4, -0.3, 0.9])
    kernels, loss = [RBF(1.5), 0.3 * RBF(3.0)], losses.Heteroscedastic(0.3)
    mean, variance, wanted = true_moments(kernels, few, y, loss, few[:0])
    gram = several_gram(Several(kernels), few, scratch=False)
    found = Laplace().solve(gram, y[:, None], loss)
    E = Laplace().evidence(gram, y[:, None], loss, found).value
    assert wanted == pytest.approx(E, abs=0.3)
    np.testing.assert_allclose(found.z[:, 0], mean[:, 0], atol=0.08)
    np.testing.assert_allclose(found.z[:, 1], mean[:, 1], atol=0.3)
    own = np.einsum("nii->ni", found.factor.point_blocks(gram))
    np.testing.assert_allclose(own, variance, rtol=0.35)
    best = Variational().solve(gram, y[:, None], loss)
    bound = Variational().evidence(gram, y[:, None], loss, best).value
    assert wanted - 0.2 < bound < wanted + 1e-3  # a bound, and close
    np.testing.assert_allclose(best.z, mean, atol=0.1)


def test_no_noise_function_is_ordinary_regression():
    """A second function of no variance leaves the Gaussian process with one noise."""
    from mercer.inference import Exact
    from mercer.linalg import DenseGram

    gram = DenseGram(KERNELS[0], X, keep=True)
    plain = Exact().solve(gram, REAL[:, None], losses.Gaussian(0.2))
    wanted = Exact().evidence(gram, REAL[:, None], losses.Gaussian(0.2), plain).value
    _, found, E = evidence([KERNELS[0], 1e-10 * RBF()], REAL, losses.Heteroscedastic(0.2))
    assert E.value == pytest.approx(wanted, abs=1e-6)
    np.testing.assert_allclose(found.alpha[:, 0], plain.alpha[:, 0], atol=1e-6)


def test_a_split_precision_is_the_same(rng):
    L = rng.normal(size=(N, 2, 2))
    W = L @ np.swapaxes(L, 1, 2)
    D, R = split(W)
    again = D[:, :, None] * np.eye(2) - R[:, :, None] * R[:, None]
    np.testing.assert_allclose(again, W, atol=1e-12)
    factor = blocked(several_gram(Several(KERNELS), X, scratch=False), W)
    K = np.zeros((2 * N, 2 * N))
    K[:N, :N], K[N:, N:] = KERNELS[0](X), KERNELS[1](X)
    dense = np.eye(2 * N) + K @ blocks(W)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-9)
    with pytest.raises(NotImplementedError, match="diagonal"):
        split(np.ones((1, 3, 3)) + np.eye(3))


@pytest.mark.parametrize("loss", [losses.Heteroscedastic(0.3), losses.ZeroInflatedPoisson()])
def test_defaults_by_differences_are_the_formulas(loss, rng):
    """A loss that states its value alone has the same derivatives."""

    class Bare(SeveralLatents):
        latents, powers, convex = loss.latents, loss.powers, False

        def value(self, y, f):
            return loss.value(y, f)

    y = REAL if loss.response == "real" else COUNTS
    f = rng.normal(size=(N, 2))
    np.testing.assert_allclose(Bare().gradient(y, f), loss.gradient(y, f), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(Bare().hessian(y, f), loss.hessian(y, f), rtol=1e-6, atol=1e-7)
    d3 = approx_fprime(f[1], lambda at: loss.hessian(y[1:2], at[None])[0].ravel(), 1e-6)
    third = Bare().derivatives(y, f)[2][1].reshape(4, 2)
    np.testing.assert_allclose(third, d3, rtol=1e-3, atol=1e-4)


class Silent(Loss):
    """It expects two latent values, and says so nowhere."""

    normalised = True

    def value(self, y, f):
        return 0.5 * (f[..., 1] + np.square(y - f[..., 0]) * np.exp(-f[..., 1]))


def test_a_loss_that_hides_its_functions_is_refused():
    for name in ("laplace", "newton", "ep", "variational"):
        with pytest.raises(ValueError, match="SeveralLatents"):
            inferences.by_name(name).check(Silent())


def test_other_inferences_refuse_and_name_one_that_does():
    with pytest.raises(ValueError, match=r"Variational\(\)"):
        evidence(KERNELS, REAL, losses.Heteroscedastic(), inference=Variational(factors=2))
    for name in ("ep", "bound", "exact", "dual"):
        with pytest.raises(ValueError, match=r"laplace|newton"):
            inferences.by_name(name).check(losses.Heteroscedastic())

    class Untold(SeveralLatents):
        latents, powers, convex, normalised = ("a", "b"), (1.0, 0.0), False, True

        def value(self, y, f):
            return losses.Heteroscedastic().value(y, f)

    with pytest.raises(ValueError, match="write information"):
        Laplace().check(Untold())
