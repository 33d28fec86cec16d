"""Drift of a stream: the dense recurrences of a process in space and time, and its evidence."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF, Constant
from mercer.process.stream import StreamPosterior
from tests.inference.test_sequential import NEW, data, dense
from tests.reference import sequential as reference

KERNEL = 4.0 * RBF(0.8) + Constant(1.0)
SIZES = [6, 1, 9, 8]


def drifted(X, S, w, share, budget=None):
    stream, blocks, at = StreamPosterior.empty(KERNEL, 2, S.shape[1]), [], 0
    for size in SIZES:
        part = slice(at, at + size)
        stream, found = stream.drift(share).absorb(X[part], S[part], w[part], budget)
        blocks.append(found)
        at += size
    return stream, blocks


@pytest.mark.parametrize("share", [0.01, 0.3, 0.9])
def test_drift_is_a_kernel_in_time(share):
    X, S, w = data(sum(SIZES), m=2)
    stream, blocks = drifted(X, S, w, share)
    mean, var = stream.marginals(NEW)
    steps = np.r_[np.repeat(np.arange(len(SIZES)), SIZES), [len(SIZES) - 1] * len(NEW)]
    in_time = (1.0 - share) ** (np.abs(steps[:, None] - steps) / 2.0)
    K = KERNEL(np.vstack([X, NEW])) * in_time
    for j in range(2):
        M, C, met = reference.recurrences(K, S[:, j], len(X), w)
        np.testing.assert_allclose(mean[:, j], M[len(X) :], atol=1e-10)
        np.testing.assert_allclose(var[:, j], C.diagonal()[len(X) :], atol=1e-10)
        for name in ("xi", "M", "kappa"):
            found = np.concatenate([getattr(b[j], name) for b in blocks])
            np.testing.assert_allclose(found, met[name], atol=1e-10)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.999])
def test_drift_adds_prior_variance(share):
    X, S, w = data(12)
    stream, _ = StreamPosterior.empty(4.0 * RBF(0.5), 2, 1).absorb(X, S, w)
    m, cov, K = dense(stream)
    after = stream.drift(share)
    m2, cov2, _ = dense(after)
    np.testing.assert_allclose(m2, np.sqrt(1.0 - share) * m, atol=1e-12)
    np.testing.assert_allclose(cov2, (1.0 - share) * cov + share * K, atol=1e-12)
    gain = np.linalg.slogdet(K)[1] - np.linalg.slogdet(cov2)[1]
    assert after.latents[0].gain == pytest.approx(gain, abs=1e-9)
    np.testing.assert_array_equal(dense(stream)[0], m)  # a value: the old one is as it was


def test_no_drift_is_the_same_object():
    X, S, w = data(5)
    stream, _ = StreamPosterior.empty(KERNEL, 2, 1).absorb(X, S, w)
    assert stream.drift(0.0) is stream
    assert StreamPosterior.empty(KERNEL, 2, 1).drift(0.5).latents[0].gain == 0.0


def test_evidence_of_a_drift_is_that_of_the_next_block():
    X, S, w = data(20, m=3)
    begun, _ = StreamPosterior.empty(KERNEL, 2, 3).absorb(X[:12], S[:12], w[:12])
    shares = np.array([0.0, 0.2, 0.7])
    for stream in (begun, begun.drift(0.1), begun.within(7)):
        found = stream.evidence(X[12:], S[12:], w[12:], shares)
        for share, value in zip(shares, found, strict=True):
            _, blocks = stream.drift(float(share)).absorb(X[12:], S[12:], w[12:])
            assert value == pytest.approx(sum(b.log_q for b in blocks), abs=1e-10)


def test_losses_of_projections_add_over_drifts():
    X, S, w = data(sum(SIZES), m=2)
    stream, lost, at = StreamPosterior.empty(KERNEL, 2, 2), 0.0, 0
    for size in SIZES:
        part = slice(at, at + size)
        before, _ = stream.drift(0.2).absorb(X[part], S[part], w[part])
        stream, at = before.within(8), at + size
        for j in range(2 * (len(before.points) > 8)):
            for one, sign in ((before, 1.0), (stream, -1.0)):
                m, cov, K = dense(one, j)
                lost += sign * reference.divergence(m, cov, np.zeros(len(m)), K)
    assert lost > 0.01
    assert stream.lost() == pytest.approx(lost, rel=1e-6)


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_absorbing_within_a_budget_is_absorbing_and_projecting(share):
    X, S, w = data(sum(SIZES), m=2)
    at_once, _ = drifted(X, S, w, share, budget=8)
    stream, at = StreamPosterior.empty(KERNEL, 2, 2), 0
    for size in SIZES:
        part = slice(at, at + size)
        stream = stream.drift(share).absorb(X[part], S[part], w[part])[0].within(8)
        at += size
    np.testing.assert_array_equal(at_once.points, stream.points)
    for a, b in zip(at_once.marginals(NEW), stream.marginals(NEW), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)
    assert at_once.lost() == pytest.approx(stream.lost(), rel=1e-6)
