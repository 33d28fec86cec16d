"""The sequential recurrences: reference values, dense algebra, blocks, forgetting, projection."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit

import mercer.inference.stream as module
from mercer._native.sequential import best_xi, curvature, curvature_slope, log_bound
from mercer.inference.stream import Explicit, Growing, absorb
from mercer.kernels import RBF, Constant
from mercer.linalg.operators import ExplicitOperator
from mercer.losses import Logistic
from mercer.losses.numbers.averages import averaged, log_averaged
from mercer.process import Posterior, Prior
from mercer.process.stream import StreamPosterior
from mercer.testing import check_process
from tests.reference import sequential as reference

NEW = np.array([[0.3, -0.2], [-1.0, 0.5]])


def twelve():
    """The data of the reference values."""
    i = np.arange(1, 13)
    X = np.column_stack([np.sin(1.1 * i), np.cos(0.7 * i)])
    S = np.where(np.sin(1.1 * i) + 0.5 * np.cos(2.3 * i) > 0, 1.0, -1.0)
    return X, S[:, None], 2.0 * RBF(1.0) + Constant(1.0)


def data(n, m=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)), np.sign(rng.normal(size=(n, m))), rng.uniform(0.2, 3.0, n)


def streamed(X, S, w, kernel, sizes):
    stream, blocks, at = StreamPosterior.empty(kernel, X.shape[1], S.shape[1]), [], 0
    for size in sizes:
        part = slice(at, at + size)
        stream, found = stream.absorb(X[part], S[part], w[part])
        blocks.append(found)
        at += size
    assert at == len(X)
    return stream, blocks


def numbers(text):
    return np.array(text.split(), dtype=float)


def test_reference_values():
    X, S, kernel = twelve()
    stream, blocks = streamed(X, S, np.ones(12), kernel, [1] * 12)
    xi = np.concatenate([b.xi for (b,) in blocks])
    M, kappa = (np.concatenate([getattr(b, n) for (b,) in blocks]) for n in ("M", "kappa"))
    np.testing.assert_allclose(
        xi,
        numbers(
            "1.648394153161 1.795701831826 1.876490395656 1.226917462351 1.151257180357 "
            "1.538738719895 1.979655913984 1.994392101687 1.178294336632 1.432481715055 "
            "0.992935348442 1.913293379760"
        ),
        atol=1e-11,
    )
    np.testing.assert_allclose(
        M,
        numbers(
            "0 0.825906289942 0.820199664653 0.987203323969 0.060229399006 0.782262934585 "
            "1.487784582038 1.498035108576 0.926761993966 -0.370917316333 -0.069958082647 "
            "1.470742832327"
        ),
        atol=1e-11,
    )
    np.testing.assert_allclose(
        kappa,
        numbers(
            "3 2.093885372609 2.398461224349 2.246128475804 1.428998356731 1.375492031868 "
            "1.252482859817 1.275459852469 2.011251853454 1.706244243687 1.057910669251 "
            "1.084041343389"
        ),
        atol=1e-11,
    )
    assert sum(b.log_q for (b,) in blocks) == pytest.approx(-7.294671293426741, abs=1e-12)
    mean, var = stream.marginals(NEW)
    np.testing.assert_allclose(mean[:, 0], [1.643013507799, -0.487356132577], atol=1e-11)
    np.testing.assert_allclose(var[:, 0], [0.721410502386, 1.111630766148], atol=1e-11)
    p = Logistic().predict(mean[:, 0], var[:, 0])
    np.testing.assert_allclose(p, [0.808588402153, 0.402076891757], atol=1e-9)
    for label, expected in (
        (1.0, [-0.234661475278, -0.917136727606]),
        (-1.0, [-1.666085986724, -0.528018932891]),
    ):
        logs = [
            log_bound(m, v, label, 1.0, best_xi(m, v, label, 1.0))
            for m, v in zip(mean[:, 0], var[:, 0], strict=True)
        ]
        np.testing.assert_allclose(logs, expected, atol=1e-11)


@pytest.mark.parametrize("sizes", [[1] * 40, [40], [7, 1, 20, 12]], ids=["single", "one", "mixed"])
@pytest.mark.parametrize("form", ["growing", "explicit"])
def test_blocks_equal_the_dense_recurrences(sizes, form, monkeypatch):
    monkeypatch.setattr(module, "PANEL", 16)  # so that panels end inside blocks
    X, S, w = data(40, m=2)
    kernel = 6.0 * RBF(0.8) + Constant(1.0)
    if form == "explicit":
        monkeypatch.setattr(Growing, "empty", lambda: Explicit(np.zeros((0, 0)), np.zeros(0), 0.0))
    stream, blocks = streamed(X, S, w, kernel, sizes)
    assert isinstance(stream.latents[0], Explicit) == (form == "explicit")
    mean, var = stream.marginals(NEW)
    K = kernel(np.vstack([X, NEW]))
    for j in range(2):
        M, C, met = reference.recurrences(K, S[:, j], 40, w)
        np.testing.assert_allclose(mean[:, j], M[40:], atol=1e-10)
        np.testing.assert_allclose(var[:, j], C.diagonal()[40:], atol=1e-10)
        for name in ("xi", "M", "kappa"):
            found = np.concatenate([getattr(b[j], name) for b in blocks])
            np.testing.assert_allclose(found, met[name], atol=1e-10)
        gain = np.linalg.slogdet(K[:40, :40])[1] - np.linalg.slogdet(C[:40, :40])[1]
        assert stream.latents[j].gain == pytest.approx(gain, abs=1e-5)  # the determinants' own


def test_chain_rule():
    X, S, _ = data(30)
    kernel = 4.0 * RBF(1.0) + Constant(1.0)
    _, blocks = streamed(X, S, np.ones(30), kernel, [10, 20])
    xi = np.concatenate([b.xi for (b,) in blocks])
    expected = reference.joint_bound(kernel(X), S[:, 0], xi)
    assert sum(b.log_q for (b,) in blocks) == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("kappa", [0.0, 1e-20, 1e-3, 1.0, 50.0, 1e4])
@pytest.mark.parametrize("M", [-3.0, 0.0, 0.7])
@pytest.mark.parametrize("w", [0.1, 1.0, 5.0])
def test_xi_maximises_a_bound(M, kappa, w):
    xi = best_xi(M, kappa, 1.0, w)
    top = log_bound(M, kappa, 1.0, w, xi)
    for factor in (0.9, 0.999, 1.001, 1.1):
        assert log_bound(M, kappa, 1.0, w, xi * factor + 1e-9) <= top + 1e-12
    if kappa >= 1e-3:
        s = np.sqrt(kappa)
        exact = quad(
            lambda t: expit(M + s * t) ** w * np.exp(-t * t / 2) / np.sqrt(2 * np.pi),
            -12,
            12,
            limit=500,
            points=[-M / s] if abs(M / s) < 12 else None,
        )[0]
        assert top <= np.log(exact) + 1e-9


def test_repeated_rows_of_a_vast_prior():
    X, S, kernel = np.zeros((6, 2)), np.ones((6, 1)), 1e12 * RBF(1.0)
    stream, blocks = streamed(X, S, np.ones(6), kernel, [3, 3])
    assert all(np.isfinite(b.R).all() and (b.kappa >= 0).all() for (b,) in blocks)
    assert np.isfinite(stream.marginals(NEW)[0]).all()


def test_two_continuations_do_not_meet():
    X, S, w = data(30)
    kernel = 4.0 * RBF(1.0)
    before, _ = streamed(X[:10], S[:10], w[:10], kernel, [10])
    first, _ = before.absorb(X[10:20], S[10:20], w[10:20])
    expected = first.marginals(NEW)
    second, _ = before.absorb(X[20:], -S[20:], w[20:])
    np.testing.assert_array_equal(first.marginals(NEW), expected)
    apart, _ = streamed(X[:10], S[:10], w[:10], kernel, [10])
    other, _ = apart.absorb(X[20:], -S[20:], w[20:])
    np.testing.assert_array_equal(second.marginals(NEW), other.marginals(NEW))


def dense(stream, j=0):
    """Mean and covariance of a latent function on the points."""
    K, latent = stream.kernel(stream.points), stream.latents[j].explicit()
    return K @ latent.alpha, K - K @ latent.C @ K, K


@pytest.mark.parametrize("rho", [0.999, 0.7, 0.1])
def test_forgetting_mixes_the_precisions(rho):
    X, S, w = data(12)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.5), [12])
    m, cov, K = dense(stream)
    after = stream.forget(rho)
    m2, cov2, _ = dense(after)
    precision = rho * np.linalg.inv(cov) + (1 - rho) * np.linalg.inv(K)
    np.testing.assert_allclose(cov2, np.linalg.inv(precision), atol=1e-10)
    np.testing.assert_allclose(
        m2, np.linalg.solve(precision, rho * np.linalg.solve(cov, m)), atol=1e-10
    )
    gain = np.linalg.slogdet(K)[1] - np.linalg.slogdet(cov2)[1]
    assert after.latents[0].gain == pytest.approx(gain, abs=1e-9)


def test_forgetting_nothing_is_the_same_object():
    X, S, w = data(5)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.5), [5])
    assert stream.forget(1.0) is stream


@pytest.mark.parametrize("rho", [1.0, 0.8])
def test_projection_keeps_the_marginal_and_states_its_cost(rho):
    X, S, w = data(14, m=3)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.6) + Constant(1.0), [14])
    stream = stream.forget(rho)
    after = stream.within(9)
    lost = after.lost()
    assert len(after.points) == 9
    for a, b in zip(stream.marginals(after.points), after.marginals(after.points), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-9)
    keep = [int(np.flatnonzero((p == X).all(axis=1))[0]) for p in after.points]
    expected = 0.0
    for j in range(3):
        m, cov, K = dense(stream, j)
        A = np.linalg.solve(K[np.ix_(keep, keep)], K[keep]).T
        rest = K - A @ K[keep]
        mean, spread = A @ m[keep], A @ cov[np.ix_(keep, keep)] @ A.T + rest
        expected += reference.divergence(m, cov, mean, spread)
        # the same as the process's own projection
        latent = stream.latents[j].explicit()
        posterior = Posterior(
            Prior(stream.kernel), X, latent.alpha[:, None], ExplicitOperator(latent.C)
        ).project(after.points)
        np.testing.assert_allclose(after.latents[j].alpha, posterior.alpha[:, 0], atol=1e-8)
        np.testing.assert_allclose(after.marginals(NEW)[1][:, j], posterior.var(NEW), atol=1e-9)
    assert lost == pytest.approx(expected, rel=1e-6)


def test_losses_of_several_projections_add():
    X, S, w = data(40, m=2)
    kernel = 4.0 * RBF(0.6) + Constant(1.0)
    stream, lost = StreamPosterior.empty(kernel, 2, 2), 0.0
    for i in range(0, 40, 8):
        part = slice(i, i + 8)
        before, _ = stream.forget(0.9).absorb(X[part], S[part], w[part])
        stream = before.within(10)
        for j in range(2 * (len(before.points) > 10)):
            for one, sign in ((before, 1.0), (stream, -1.0)):
                m, cov, K = dense(one, j)
                lost += sign * reference.divergence(m, cov, np.zeros(len(m)), K)
    assert lost > 0.01
    assert stream.lost() == pytest.approx(lost, rel=1e-6)


def test_projection_onto_a_kernel_of_low_rank_loses_nothing():
    from mercer.kernels import Linear

    X, S, w = data(30)
    stream, _ = streamed(X, S, w, 2.0 * Linear() + Constant(1.0), [30])
    after = stream.within(29)
    lost = after.lost()
    assert len(after.points) == 3
    assert lost < 1e-6
    for a, b in zip(stream.marginals(NEW), after.marginals(NEW), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-8)


def test_projection_drops_what_is_forgotten():
    rng = np.random.default_rng(0)
    kernel = 4.0 * RBF(0.3)
    stream = StreamPosterior.empty(kernel, 1, 1)
    for t in range(40):
        X = (t // 20) * 50.0 + rng.uniform(-1, 1, size=(5, 1))
        stream, _ = stream.forget(0.5).absorb(X, np.ones((5, 1)), np.ones(5))
        stream = stream.within(6)
    assert (stream.points > 25.0).all()


def test_a_block_of_none():
    block = absorb(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0))
    assert block.log_q == 0.0
    assert block.R.shape == (0, 0)


@pytest.mark.parametrize("xi", [1e-6, 0.005, 0.0101, 0.05, 0.0999, 0.1001, 1.0, 30.0])
def test_slope_of_the_curvature(xi):
    h = 1e-4 * xi
    expected = (reference.lam(xi + h) - reference.lam(xi - h)) / (2 * h)
    assert curvature(xi) == pytest.approx(reference.lam(xi), rel=1e-9)
    # 1e-16 / h is the rounding of the difference
    assert curvature_slope(xi) == pytest.approx(expected, rel=1e-6, abs=1e-16 / h)


def test_averages_of_the_logistic():
    rng = np.random.default_rng(0)
    m, v = 10.0 * rng.normal(size=2000), 10.0 ** rng.uniform(-5, 3, size=2000)
    expected = Logistic().log_predictive(np.ones(2000), m, v)
    np.testing.assert_allclose(log_averaged(m, v), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(averaged(m, v), np.exp(expected), atol=1e-12)
    np.testing.assert_allclose(averaged(m, v) + averaged(-m, v), 1.0, atol=1e-14)
    np.testing.assert_allclose(averaged(m, np.zeros(2000)), expit(m), rtol=1e-13)


def test_the_stake_of_a_point_bounds_its_loss():
    X, S, w = data(12)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.6) + Constant(1.0), [12])
    latent = stream.latents[0].explicit()
    m, cov, K = dense(stream)
    for i in range(12):
        keep = np.delete(np.arange(12), i)
        A = np.linalg.solve(K[np.ix_(keep, keep)], K[keep, i])
        v = K[i, i] - K[i, keep] @ A
        B = np.insert(np.eye(11), i, A, axis=0)
        spread = B @ cov[np.ix_(keep, keep)] @ B.T
        spread[i, i] += v
        lost = reference.divergence(m, cov, B @ m[keep], spread)
        c, a = latent.C[i, i], latent.alpha[i]
        assert 0.0 < c * v < 1.0
        assert lost >= 0.5 * (a * a * v - c * v - np.log1p(-c * v)) - 1e-9
        assert latent.stakes()[i] == pytest.approx(c + a * a, abs=1e-12)
        # the part that the running sum keeps, exactly
        moved = latent.moved(np.array([i]), np.array([[v]]))
        assert moved == pytest.approx(a * a * v - c * v, abs=1e-10)


def test_compiled_block_refuses_other_shapes():
    from mercer._native import sequential

    b = np.zeros(2)
    for cov, R, found in (
        (np.eye(3), np.empty((2, 2)), np.empty((4, 2))),
        (np.eye(2), np.empty((2, 3)), np.empty((4, 2))),
        (np.eye(2), np.empty((2, 2)), np.empty((3, 2))),
    ):
        with pytest.raises(ValueError, match="shapes"):
            sequential.absorb(b, cov, np.ones(2), np.ones(2), R, found)


def test_the_root_is_that_of_plain_iteration():
    rng = np.random.default_rng(0)
    for _ in range(200):
        M, kappa = 3.0 * rng.normal(), 10.0 ** rng.uniform(-3, 2)
        S, w = float(rng.choice([-1, 1])), rng.uniform(0.2, 3.0)
        assert best_xi(M, kappa, S, w) == pytest.approx(reference.best_xi(M, kappa, S, w), rel=1e-9)


# ------------------------------------------------------------------ the stream as a process
@pytest.mark.parametrize("sizes", [[20], [1, 12, 7]], ids=str)
def test_a_posterior_is_a_prior(sizes):
    """Conditioning a process batch by batch, by the general formulas, gives the same law."""
    X, S, w = data(20)
    kernel = 4.0 * RBF(0.8) + Constant(1.0)
    stream, blocks = streamed(X, S, w, kernel, sizes)
    process, at = Prior(kernel), 0
    for size, (block,) in zip(sizes, blocks, strict=True):
        rows = X[at : at + size]
        np.testing.assert_allclose(block.mean, process.mean(rows)[:, 0], atol=1e-10)
        np.testing.assert_allclose(block.var, process.var(rows), atol=1e-10)
        process, at = process.condition(rows, block), at + size
    np.testing.assert_allclose(stream.mean(NEW), process.mean(NEW), atol=1e-10)
    np.testing.assert_allclose(stream.cov(NEW), process.cov(NEW), atol=1e-10)
    np.testing.assert_allclose(stream(X, NEW), process(X, NEW), atol=1e-10)
    check_process(stream, NEW)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("rho", [1.0, 0.8])
def test_the_law_is_formulas_1_and_2(m, rho):
    X, S, w = data(25, m=m)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.8) + Constant(1.0), [25])
    stream = stream.forget(rho)
    posterior = Posterior(stream.parent, stream.points, stream.alpha, stream.operator)
    np.testing.assert_allclose(stream.mean(NEW), posterior.mean(NEW), atol=1e-11)
    np.testing.assert_allclose(stream.blocks(NEW), posterior.blocks(NEW), atol=1e-11)
    if m == 1:
        np.testing.assert_allclose(stream.var(NEW), posterior.var(NEW), atol=1e-11)
    else:
        with pytest.raises(NotImplementedError, match="blocks"):
            stream.var(NEW)


def test_a_block_is_a_solution():
    X, S, w = data(9)
    kernel = 4.0 * RBF(0.8)
    block = absorb(np.zeros(9), kernel(X), S[:, 0], w)
    C = np.linalg.inv(kernel(X) + np.diag(1.0 / block.W))
    factor = block.factor
    np.testing.assert_allclose(block.W, 2.0 * w * [reference.lam(xi) for xi in block.xi])
    np.testing.assert_allclose(factor.solve(block.z), block.alpha, atol=1e-11)
    np.testing.assert_allclose(factor.solve(np.eye(9)), C, atol=1e-12)
    np.testing.assert_allclose(factor.quad(X, S), X.T @ C @ S, atol=1e-11)
    np.testing.assert_allclose(factor.quad_diag(X), (X.T @ C @ X).diagonal(), atol=1e-11)
    np.testing.assert_allclose(factor.diag(), C.diagonal(), atol=1e-12)
    after = kernel(X) - kernel(X) @ C @ kernel(X)
    np.testing.assert_allclose(factor.cov_diag(), after.diagonal(), atol=1e-11)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(9) + kernel(X) * block.W)[1])
    assert factor.logdet_noisy() == pytest.approx(-np.linalg.slogdet(C)[1])
    assert block.report.converged


def test_batches_of_a_prediction_change_nothing(monkeypatch):
    X, S, w = data(25, m=2)
    stream, _ = streamed(X, S, w, 4.0 * RBF(0.8), [25])
    whole = stream.marginals(X)
    monkeypatch.setattr("mercer.process.stream.BATCH_BYTES", 8 * 25 * 4)
    for a, b in zip(stream.marginals(X), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-13)
