"""OnlineLogisticClassifier against the recurrences, dense algebra and the limits it must have.

Everything on the right-hand side is written here from the formulas: no function of the learner's
own algebra is used.
"""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from mercer import GPClassifier, OnlineLogisticClassifier
from mercer.kernels import RBF, Constant

KERNEL = 2.0 * RBF(1.0) + Constant(1.0)
I = np.arange(1, 13)  # noqa: E741 - the index of the reference data
X = np.column_stack([np.sin(1.1 * I), np.cos(0.7 * I)])
S = np.where(np.sin(1.1 * I) + 0.5 * np.cos(2.3 * I) > 0.0, 1, -1)
NEW = np.array([[0.3, -0.2], [-1.0, 0.5]])


def k(A, B):
    d2 = ((A[:, None] - B[None]) ** 2).sum(axis=2)
    return 2.0 * np.exp(-0.5 * d2) + 1.0


def lam(xi):
    return np.tanh(xi / 2.0) / (4.0 * xi)


def best_xi(M, kappa, s):
    """The fixed point of (23), by bisection between 1e-9 and its value at lambda = 0."""

    def excess(xi):
        q = 1.0 / (1.0 + 2.0 * lam(xi) * kappa)
        return np.sqrt(q * kappa + q * q * (M + s * kappa / 2.0) ** 2) - xi

    return brentq(excess, 1e-9, 1.0 + np.sqrt(kappa + (M + s * kappa / 2.0) ** 2), xtol=1e-15)


def log_q(M, kappa, s, xi):
    """The closed form of the predictive bound (14)."""
    L = lam(xi)
    d = 1.0 + 2.0 * L * kappa
    own = log_expit(xi) - xi / 2.0 + L * xi * xi
    return own - 0.5 * np.log(d) + (s * M + kappa / 4.0 - 2.0 * L * M * M) / (2.0 * d)


def recurrences(A, s, Z):
    """(18)-(23) on the full table of A and Z: mean and covariance at Z, and the log bound."""
    P = np.vstack([A, Z])
    K, M, total = k(P, P), np.zeros(len(P)), 0.0
    for t, label in enumerate(s):
        kappa = K[t, t]
        xi = best_xi(M[t], kappa, label)
        total += log_q(M[t], kappa, label, xi)
        c = 2.0 * lam(xi) / (1.0 + 2.0 * lam(xi) * kappa)
        M = M + c * (label / (4.0 * lam(xi)) - M[t]) * K[t]
        K = K - c * np.outer(K[:, t], K[t])
    n = len(A)
    return M[n:], K[n:, n:], total


def average(m, v):
    """E sigma(z), z ~ N(m, v), by a fine trapezium."""
    t = np.linspace(-12.0, 12.0, 20001)
    w = np.exp(-0.5 * t * t)
    return expit(m + np.sqrt(v) * t) @ w / w.sum()


def rows(n, seed=0, d=2):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, d))
    return A, np.where(A[:, 0] * A[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1, -1)


# ---------------------------------------------------------------------- values
def test_reference_values():
    model = OnlineLogisticClassifier(KERNEL).partial_fit(X, S)
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, [1.643013507799, -0.487356132577], atol=1e-9)
    np.testing.assert_allclose(std**2, [0.721410502386, 1.111630766148], atol=1e-9)
    np.testing.assert_allclose(
        model.predict_proba(NEW)[:, 1], [0.808588402153, 0.402076891757], atol=1e-9
    )
    assert model.log_evidence_ == pytest.approx(-7.294671293426741, abs=1e-9)
    model.refine()
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, [1.659324615098, -0.484032570556], atol=1e-8)
    np.testing.assert_allclose(std**2, [0.720978128667, 1.097272368379], atol=1e-8)
    np.testing.assert_allclose(
        model.predict_proba(NEW)[:, 1], [0.810867989474, 0.402531741789], atol=1e-8
    )
    assert model.log_evidence_ == pytest.approx(-7.26746298590828, abs=1e-8)


@pytest.mark.parametrize("sizes", [[1] * 60, [60], [7, 30, 1, 22], [59, 1]])
def test_batches_of_any_size_are_the_recurrences(sizes):
    A, s = rows(60)
    Z, _ = rows(9, seed=5)
    model, at = OnlineLogisticClassifier(KERNEL), 0
    for b in sizes:
        model.partial_fit(A[at : at + b], s[at : at + b], classes=[-1, 1])
        at += b
    M, K, total = recurrences(A, s, Z)
    mean, std = model.predict_latent(Z)
    np.testing.assert_allclose(mean, M, atol=1e-10)
    np.testing.assert_allclose(std**2, K.diagonal(), atol=1e-10)
    assert model.log_evidence_ == pytest.approx(total, abs=1e-9)
    expected = [average(m, v) for m, v in zip(M, K.diagonal(), strict=True)]
    np.testing.assert_allclose(model.predict_proba(Z)[:, 1], expected, atol=1e-10)


def test_more_rows_than_a_panel():
    """Past the blocks and panels of the factor nothing changes."""
    A, s = rows(400, seed=2)
    model = OnlineLogisticClassifier(KERNEL)
    for part in np.array_split(np.arange(400), 3):
        model.partial_fit(A[part], s[part])
    M, K, total = recurrences(A, s, NEW)
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, M, atol=1e-10)
    np.testing.assert_allclose(std**2, K.diagonal(), atol=1e-10)
    assert model.log_evidence_ == pytest.approx(total, abs=1e-7)


def test_several_classes_are_one_against_the_rest():
    A, _ = rows(45, seed=3)
    y = np.array(["a", "b", "c"])[np.digitize(A[:, 0], [-0.5, 0.5])]
    model = OnlineLogisticClassifier(KERNEL, calibration=None).partial_fit(A[:20], y[:20])
    model.partial_fit(A[20:], y[20:])
    machines = [recurrences(A, np.where(y == c, 1, -1), NEW) for c in "abc"]
    p = np.array([[average(M[i], K[i, i]) for M, K, _ in machines] for i in range(2)])
    np.testing.assert_allclose(
        model.predict_proba(NEW), p / p.sum(axis=1, keepdims=True), atol=1e-10
    )
    assert model.log_evidence_ == pytest.approx(sum(total for _, _, total in machines), abs=1e-8)


# ---------------------------------------------------------------------- order, batch, second pass
def test_no_order_reaches_the_batch_and_none_is_far():
    A, s = rows(40, seed=4)
    batch = OnlineLogisticClassifier(KERNEL).fit(A, s)
    gaps = []
    for seed in range(20):
        order = np.random.default_rng(seed).permutation(40)
        one = OnlineLogisticClassifier(KERNEL).partial_fit(A[order], s[order])
        gaps.append(batch.log_evidence_ - one.log_evidence_)
        again = OnlineLogisticClassifier(KERNEL).fit(A[order], s[order])
        np.testing.assert_allclose(
            again.predict_proba(NEW), batch.predict_proba(NEW), rtol=0, atol=1e-12
        )
    assert min(gaps) > 0.0
    assert max(gaps) < 0.03 * 40  # nats
    assert np.ptp(gaps) > 1e-4  # it does depend on the order


def test_a_second_pass_is_the_batch_bound():
    A, s = rows(80, seed=6)
    model = OnlineLogisticClassifier(KERNEL)
    for i in range(0, 80, 10):
        model.partial_fit(A[i : i + 10], s[i : i + 10], classes=[-1, 1])
    model.refine()
    batch = OnlineLogisticClassifier(KERNEL).fit(A, s)
    np.testing.assert_allclose(
        model.predict_latent(NEW), batch.predict_latent(NEW), rtol=0, atol=1e-7
    )
    assert model.log_evidence_ == pytest.approx(batch.log_evidence_, abs=1e-7)
    other = GPClassifier(KERNEL, inference="bound", search=None).fit(A, s)
    np.testing.assert_allclose(
        batch.predict_proba(NEW), other.predict_proba(NEW), rtol=0, atol=1e-7
    )
    # the bound of section 5 at xi^2 = var + mean^2, which holds at its optimum only
    mean, std = batch.predict_latent(A)
    xi = np.sqrt(std**2 + mean**2)
    L = lam(xi)
    C = k(A, A) + np.diag(1.0 / (2.0 * L))
    value = np.sum(log_expit(xi) - xi / 2.0 + L * xi**2) - 0.5 * np.linalg.slogdet(C)[1]
    value += -0.5 * np.sum(np.log(2.0 * L)) + 0.25 * s @ mean
    assert batch.log_evidence_ == pytest.approx(value, abs=1e-6)
    np.testing.assert_allclose(k(A, A) @ np.linalg.solve(C, s / (4.0 * L)), mean, atol=1e-5)


# ---------------------------------------------------------------------- forgetting, drift, budget
def dense_posterior(A, s):
    """Mean and covariance at the rows A themselves, by the recurrences."""
    M, K, _ = recurrences(A, s, A)
    return M, K


@pytest.mark.parametrize("rho", [0.3, 0.9])
def test_forgetting_mixes_the_precisions(rho):
    A, s = rows(12, seed=7)
    m, V = dense_posterior(A, s)
    P, K = np.linalg.inv(V), k(A, A)
    precision = rho * P + (1.0 - rho) * np.linalg.inv(K)
    V2 = np.linalg.inv(precision)
    m2 = V2 @ (rho * P @ m)
    # what the second batch sees: its own recurrences with the changed prior
    Z, z = rows(5, seed=8)
    T = np.vstack([Z, NEW])
    back = np.linalg.solve(K, k(A, T))
    M = back.T @ m2
    C = k(T, T) - k(T, A) @ back + back.T @ V2 @ back
    for t, label in enumerate(z):
        xi = best_xi(M[t], C[t, t], label)
        c = 2.0 * lam(xi) / (1.0 + 2.0 * lam(xi) * C[t, t])
        M = M + c * (label / (4.0 * lam(xi)) - M[t]) * C[t]
        C = C - c * np.outer(C[:, t], C[t])
    model = OnlineLogisticClassifier(KERNEL, rho=rho).partial_fit(A, s).partial_fit(Z, z)
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, M[5:], atol=1e-8)  # the inverse of K above loses digits
    np.testing.assert_allclose(std**2, C.diagonal()[5:], atol=1e-8)


def test_the_first_batch_has_nothing_to_forget():
    A, s = rows(20)
    one = OnlineLogisticClassifier(KERNEL).partial_fit(A, s)
    for options in ({"rho": 0.2}, {"drift": 0.5}):
        other = OnlineLogisticClassifier(KERNEL, **options).partial_fit(A, s)
        np.testing.assert_array_equal(other.predict_proba(NEW), one.predict_proba(NEW))


def test_a_projection_keeps_the_law_of_the_kept_and_says_what_it_costs():
    A, s = rows(30, seed=9)
    whole = OnlineLogisticClassifier(KERNEL).partial_fit(A, s)
    part = OnlineLogisticClassifier(KERNEL, budget=12).partial_fit(A, s)
    kept = part.stream_.points
    assert len(kept) <= 12
    assert {tuple(p) for p in kept} <= {tuple(a) for a in A}
    np.testing.assert_allclose(
        part.predict_latent(kept), whole.predict_latent(kept), rtol=0, atol=1e-8
    )
    # elsewhere: the prior's law given the kept points
    M, V, _ = recurrences(A, s, np.vstack([kept, NEW, A]))
    r = len(kept)
    Kzz, cross = k(kept, kept), k(kept, NEW)
    back = np.linalg.solve(Kzz, cross)
    mean, std = part.predict_latent(NEW)
    np.testing.assert_allclose(mean, back.T @ M[:r], atol=1e-6)
    expected = k(NEW, NEW) - cross.T @ back + back.T @ V[:r, :r] @ back
    np.testing.assert_allclose(std**2, expected.diagonal(), atol=1e-6)
    # KL(q | projected q) over all rows, the kept ones first
    other = [i for i in range(30) if tuple(A[i]) not in {tuple(p) for p in kept}]
    P = np.vstack([kept, A[other]])
    m, Q, _ = recurrences(A, s, P)
    back = np.linalg.solve(k(kept, kept), k(kept, P))
    m2 = back.T @ m[:r]
    Q2 = k(P, P) - k(P, kept) @ back + back.T @ Q[:r, :r] @ back
    gap = m2 - m
    kl = 0.5 * (
        np.trace(np.linalg.solve(Q2, Q))
        + gap @ np.linalg.solve(Q2, gap)
        - len(P)
        + np.linalg.slogdet(Q2)[1]
        - np.linalg.slogdet(Q)[1]
    )
    assert part.report_["budget"]["divergence_lost"] == pytest.approx(kl, abs=1e-4)
    assert part.report_["budget"]["projections"] == 1


def test_memory_is_flat_under_a_budget():
    model = OnlineLogisticClassifier(budget=40)
    sizes = set()
    for seed in range(30):
        A, s = rows(25, seed)
        model.partial_fit(A, s, classes=[-1, 1])
        sizes.add(len(model.stream_.points))
    assert max(sizes) <= 40
    assert model.score(*rows(2000, seed=99)) > 0.7
    for latent in model.stream_.latents:
        assert latent.explicit().C.shape[0] <= 40


# ---------------------------------------------------------------------- scales, prequential figures
def test_scales_are_those_of_the_first_batch():
    A, s = rows(40)
    model = OnlineLogisticClassifier().partial_fit(100.0 * A + 7.0, s)
    first = repr(model.kernel_)
    told = model.report_["scales"]
    np.testing.assert_allclose(told["x_scale"], 100.0 * A.std(axis=0), rtol=1e-12)
    np.testing.assert_allclose(told["x_shift"], 100.0 * A.mean(axis=0) + 7.0, rtol=1e-9)
    model.partial_fit(1e-3 * A, s)
    assert repr(model.kernel_) == first
    assert model.report_["scales"] == told
    # equivariant: only the units of the first batch matter
    plain = OnlineLogisticClassifier().partial_fit(A, s)
    np.testing.assert_allclose(
        OnlineLogisticClassifier().partial_fit(100.0 * A + 7.0, s).predict_proba(100.0 * NEW + 7.0),
        plain.predict_proba(NEW),
        atol=1e-9,
    )


def test_one_row_first_is_unit_scale_and_is_said():
    model = OnlineLogisticClassifier().partial_fit([[50.0, -3.0]], [1], classes=[-1, 1])
    told = model.report_["scales"]
    assert told["x_scale"] == [1.0, 1.0]
    assert "one row" in told["message"]


def test_every_example_is_predicted_before_it_is_learned():
    A, s = rows(60, seed=11)
    model, loss, right = OnlineLogisticClassifier(KERNEL), 0.0, 0
    for i in range(0, 60, 6):
        part, labels = A[i : i + 6], s[i : i + 6]
        p = model.predict_proba(part)[:, 1] if i else np.full(6, 0.5)
        loss -= np.sum(np.log(np.where(labels == 1, p, 1.0 - p)))
        right += np.sum((p > 0.5) == (labels == 1))
        model.partial_fit(part, labels, classes=[-1, 1])
    assert model.prequential_.log_loss == pytest.approx(loss / 60, abs=1e-9)
    assert model.prequential_.accuracy == pytest.approx(right / 60, abs=1e-12)


def test_sequential_evidence_of_single_examples():
    """One at a time: log_evidence_ grows by the log bound on the label given all before it."""
    A, s = rows(15, seed=12)
    model, last = OnlineLogisticClassifier(KERNEL), 0.0
    for i in range(15):
        if i:
            (mean,), (std,) = model.predict_latent(A[i : i + 1])
        else:
            mean, std = 0.0, np.sqrt(3.0)
        model.partial_fit(A[i : i + 1], s[i : i + 1], classes=[-1, 1])
        step = log_q(mean, std**2, s[i], best_xi(mean, std**2, s[i]))
        assert model.log_evidence_ - last == pytest.approx(step, abs=1e-9)
        assert step < np.log(average(s[i] * mean, std**2))  # it is a lower bound
        last = model.log_evidence_
