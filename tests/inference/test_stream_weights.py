"""A stream in weight space: J&H (6)-(15) as printed, and the stream on points, to rounding."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import OnlineLogisticClassifier
from mercer.inference import Laplace
from mercer.inference.sites.sequential import absorb_by_laplace, mode
from mercer.inference.stream import absorb
from mercer.kernels import RBF, Linear, Polynomial, RandomFourier
from mercer.losses.numbers.averages import log_averaged
from mercer.process.stream import StreamPosterior
from mercer.process.weights import WeightStream, weighed
from mercer.testing import check_process
from tests.reference import sequential as reference

RNG = np.random.default_rng(0)
N, D = 200, 3
X = RNG.normal(size=(N, D))
F = X @ [1.0, -2.0, 0.5] + 0.3
S = np.column_stack([np.sign(F + 0.5 * RNG.normal(size=N)), np.sign(X[:, 0] + 0.1)])
W = RNG.uniform(0.5, 2.0, size=N)
KERNEL = 2.0 * Linear() + 1.0
NEW = RNG.normal(size=(5, D))
SIZES = (1, 1, 5, 60, 100, 33)
Y = np.where(S[:, 0] > 0, "up", "down")
THREE = np.array(["u", "v", "w"])[np.digitize(F, [-1.0, 1.0])]


def as_printed(F, S):
    """Return mean and covariance of the weights by (9)-(13), one example after the other."""
    b, Sigma = np.zeros(F.shape[1]), np.eye(F.shape[1])
    for phi, s in zip(F, S, strict=True):
        kappa, M = phi @ Sigma @ phi, phi @ b
        lam = reference.lam(reference.best_xi(M, kappa, s))
        c = 2.0 * lam / (1.0 + 2.0 * lam * kappa)
        after = Sigma - c * np.outer(Sigma @ phi, Sigma @ phi)
        b = after @ (np.linalg.solve(Sigma, b) + 0.5 * s * phi)
        Sigma = after
    return b, Sigma


def test_the_weights_are_those_of_the_paper():
    stream, _ = WeightStream.empty(KERNEL, 4, D, 1).absorb(X[:50], S[:50, :1], np.ones(50))
    b, Sigma = as_printed(KERNEL.explicit(X[:50]), S[:50, 0])
    latent = stream.latents[0]
    np.testing.assert_allclose(latent.weights, b, rtol=1e-10)
    np.testing.assert_allclose(np.linalg.inv(latent.R.T @ latent.R), Sigma, rtol=1e-9, atol=1e-12)
    check_process(stream, NEW)


@pytest.mark.parametrize("offset", [None, np.array([0.5, -1.0])], ids=["", "prior mean"])
@pytest.mark.parametrize("rule", [absorb, absorb_by_laplace], ids=["bound", "laplace"])
def test_weights_and_points_are_one_posterior(rule, offset):
    """Also after forgetting and drift, which act on both."""
    points, weights = (
        StreamPosterior.empty(KERNEL, D, 2, offset),
        WeightStream.empty(KERNEL, 4, D, 2, offset),
    )
    at = 0
    for i, size in enumerate(SIZES):
        rows = slice(at, at + size)
        if i == 3:
            points, weights = points.forget(0.9), weights.forget(0.9)
        if i == 4:
            points, weights = points.drift(0.1), weights.drift(0.1)
        given, shares = (X[rows], S[rows], W[rows]), np.array([0.0, 0.3])
        np.testing.assert_allclose(
            weights.evidence(*given, shares, rule), points.evidence(*given, shares, rule), rtol=1e-9
        )
        points, one = points.absorb(*given, None, rule)
        weights, other = weights.absorb(*given, None, rule)
        assert [b.log_q for b in other] == pytest.approx([b.log_q for b in one], rel=1e-9)
        at += size
    for a, b in zip(points.marginals(NEW), weights.marginals(NEW), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(weights.blocks(NEW), points.blocks(NEW), rtol=1e-9, atol=1e-10)


def test_a_stream_turns_to_weights_and_goes_on():
    plain = StreamPosterior.empty(KERNEL, D, 2)
    plain, _ = plain.absorb(X[:150], S[:150], W[:150])
    after = weighed(plain, 300, False, None, absorb)
    assert isinstance(after, WeightStream)
    assert weighed(plain, 200, False, None, absorb) is plain  # too few rows
    assert weighed(plain, 300, False, 3, absorb) is plain  # four weights are over the budget
    for a, b in zip(plain.marginals(NEW), after.marginals(NEW), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(after.points, X[:150])
    rbf, _ = StreamPosterior.empty(RBF(), D, 1).absorb(X, S[:, :1], W)
    assert weighed(rbf, 1000, True, None, absorb) is rbf


def rows(seed, n):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, D))
    return X, np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=n) > 0, "up", "down")


GIVEN = {
    "plain": {},
    "budget": {"budget": 30},
    "forget": {"rho": 0.95},
    "drift": {"drift": "auto"},
    "laplace": {"inference": Laplace()},
    "mean": {"mean": 0.7},
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("kernel", [KERNEL, RandomFourier(2.0, size=10)], ids=["line", "fourier"])
def test_a_stored_stream_goes_on_bit_for_bit(name, kernel, tmp_path):
    given, labels = rows(1, 400)
    model = OnlineLogisticClassifier(kernel, **GIVEN[name])
    for i in range(0, 400, 80):
        model.partial_fit(given[i : i + 80], labels[i : i + 80])
    assert model.report_["gram"] == "weights"
    assert "weights" in str(model.summary())
    mercer.save(model, tmp_path / "m.mercer")
    loaded = mercer.load(tmp_path / "m.mercer")
    more, labels = rows(2, 30)
    for one in (model, loaded):
        one.partial_fit(more, labels)
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    assert loaded.log_evidence_ == model.log_evidence_
    assert loaded.report_ == model.report_


def test_small_streams_stay_on_points_and_agree(tmp_path):
    """The first 256 rows are as ever; beyond, a stream that never turned has the same numbers."""
    given, labels = rows(3, 500)
    model = OnlineLogisticClassifier(KERNEL).partial_fit(given[:200], labels[:200])
    assert model.report_["gram"] == "dense"
    mercer.save(model, tmp_path / "m.mercer")
    model.partial_fit(given[200:], labels[200:])
    assert model.report_["gram"] == "weights"
    loaded = mercer.load(tmp_path / "m.mercer").partial_fit(given[200:], labels[200:])
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    signs = np.where(labels == "up", 1.0, -1.0)[:, None]
    points, _ = StreamPosterior.empty(KERNEL, D, 1).absorb(given, signs, np.ones(500))
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, points.mean(NEW)[:, 0], rtol=1e-9)
    np.testing.assert_allclose(std**2, points.diag(NEW), rtol=1e-8)
    assert model.report_["rows"]["seen"] == 500


def test_fit_and_refine_by_weights_are_the_bound_of_all_rows():
    given, labels = rows(4, 300)
    kernel = Polynomial(2)
    model = OnlineLogisticClassifier(kernel).fit(given, labels)
    assert model.report_["gram"] == "weights"
    batch = mercer.GPClassifier(kernel, inference="bound", search=None, gram="dense")
    batch.fit(given, labels)
    assert model.log_evidence_ == pytest.approx(batch.log_evidence_, rel=1e-8)
    np.testing.assert_allclose(
        model.predict_latent(NEW)[1], batch.predict_latent(NEW)[1], rtol=1e-6
    )
    stream = OnlineLogisticClassifier(kernel).partial_fit(given, labels).refine()
    assert stream.log_evidence_ == pytest.approx(model.log_evidence_, rel=1e-8)
    bounded = OnlineLogisticClassifier(kernel, budget=50).partial_fit(given, labels)
    with pytest.raises(ValueError, match="needs all examples"):
        bounded.refine()


# ---------------------------------------------------------------------- Laplace, mean, q(S)
def test_the_mode_of_one_example():
    for M, kappa, s, w in [(0.3, 2.0, 1.0, 1.0), (-4.0, 50.0, 1.0, 2.5), (1.0, 0.0, -1.0, 1.0)]:
        f = mode(M, kappa, s, w)
        grid = f + np.linspace(-1e-4, 1e-4, 5)
        value = -w * np.logaddexp(0.0, -s * grid) - (grid - M) ** 2 / (2.0 * max(kappa, 1e-300))
        assert value.argmax() == 2


def test_sequential_laplace_of_one_row_is_laplace():
    """One row at a time has nothing before it: evidence and posterior are those of the batch."""
    kernel, x, y = 3.0 * RBF(), np.array([[0.2]]), np.array([["up"]])[0]
    labels = np.array(["down", "up"])
    stream = OnlineLogisticClassifier(kernel, inference=Laplace())
    stream.partial_fit(x, y, classes=labels)
    gram = mercer.linalg.DenseGram(kernel, x, keep=True)
    batch = Laplace(tol=1e-14).solve(gram, np.ones((1, 1)), mercer.losses.Logistic())
    value = Laplace().evidence(gram, np.ones((1, 1)), mercer.losses.Logistic(), batch).value
    assert stream.log_evidence_ == pytest.approx(value, abs=1e-10)
    assert stream.predict_latent(x)[0][0] == pytest.approx(batch.z[0, 0], abs=1e-12)
    assert stream.predict_latent(x)[1][0] ** 2 == pytest.approx(batch.factor.cov_diag()[0])
    assert "log evidence, about" in str(stream.summary())


def test_sequential_laplace_is_wider_than_the_bound():
    found = [
        OnlineLogisticClassifier(KERNEL, inference=rule).partial_fit(X, Y)
        for rule in (None, Laplace())
    ]
    bound, laplace = (model.predict_latent(NEW)[1] for model in found)
    assert np.all(laplace > bound)
    with pytest.raises(ValueError, match=r"a Bound\(\) or a Laplace\(\)"):
        OnlineLogisticClassifier(KERNEL, inference="ep").partial_fit(X, Y)


@pytest.mark.parametrize("kernel", [KERNEL, RBF()], ids=["line", "rbf"])
def test_a_prior_mean_is_that_of_a_batch(kernel):
    """The bound of all rows with a mean, by the inference itself; and far away the mean stays."""
    model = OnlineLogisticClassifier(kernel, mean=-1.5).fit(X, Y)
    gram = mercer.linalg.DenseGram(kernel, X, keep=True)
    bound, loss, signs = mercer.inference.Bound(), mercer.losses.Logistic(), S[:, :1]
    batch = bound.solve(gram, signs, loss, mean=np.full((N, 1), -1.5))
    assert model.log_evidence_ == pytest.approx(bound.evidence(gram, signs, loss, batch).value)
    np.testing.assert_allclose(model.predict_latent(X)[0], batch.z[:, 0], atol=1e-6)
    stream = OnlineLogisticClassifier(kernel, mean=-1.5).partial_fit(X[:2], Y[:2], ["up", "down"])
    if isinstance(kernel, RBF):
        assert stream.predict_latent([[99.0, 99.0, 99.0]])[0][0] == -1.5
    with pytest.raises(ValueError, match="mean was changed"):
        stream.set_params(mean=0.0).partial_fit(X, Y)
    several = OnlineLogisticClassifier(kernel, mean=[0.0, 1.0, -1.0]).partial_fit(X, THREE)
    assert several.predict_proba(NEW).shape == (5, 3)
    for odd in ("a", np.nan, [1.0, 2.0]):
        with pytest.raises(ValueError, match="prior mean of f"):
            OnlineLogisticClassifier(kernel, mean=odd).partial_fit(X, Y)


def test_the_bound_on_the_next_label():
    """(14): what log_evidence_ grows by; below the average, which is below zero."""
    model = OnlineLogisticClassifier(KERNEL).partial_fit(X[:60], Y[:60])
    found = model.predict_log_bound(NEW)
    assert np.all(found <= model.predict_log_proba(NEW) + 1e-12)
    assert np.all(found >= model.predict_log_proba(NEW) - 0.1)
    before = model.log_evidence_
    model.partial_fit(NEW[:1], np.array(["up"]))
    column = int(np.flatnonzero(model.classes_ == "up")[0])
    assert model.log_evidence_ - before == pytest.approx(found[0, column], abs=1e-12)
    several = OnlineLogisticClassifier(KERNEL).partial_fit(X[:60], THREE[:60])
    mean, std = several.predict_latent(NEW)
    assert np.all(several.predict_log_bound(NEW) <= log_averaged(mean, std**2) + 1e-12)
