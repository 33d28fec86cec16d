"""Quantiles of y = f + noise by a table in log v, against bisection of the cdf."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.losses import EpsilonInsensitive, Huber, LaplaceNoise, Pinball, StudentT
from mercer.losses.numbers.quantiles import offsets, root
from tests.reference.quantiles import bisected, student_cdf

LOSSES = [
    StudentT(scale=0.3, df=4.0),
    StudentT(scale=2.0, df=0.7),
    StudentT(scale=1e-3, df=1.5),
    LaplaceNoise(scale=0.2),
    Pinball(level=0.9, scale=0.1),
    EpsilonInsensitive(C=3.0, epsilon=0.2),
    Huber(noise=0.2, delta=0.5),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("q", [0.05, 0.999])
def test_the_slow_way_gives_the_same(loss: object, q: float) -> None:
    rng = np.random.default_rng(0)
    v = np.exp(rng.uniform(-6.0, 3.0, 5))
    m = rng.normal(size=5)
    found = loss.quantile(np.asarray(q), m, v)
    slow = bisected(loss, q, m, v)
    size = np.sqrt(v) + loss.width(m) + np.abs(slow - m)
    np.testing.assert_allclose((found - slow) / size, 0.0, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_the_table_gives_the_roots(loss: object) -> None:
    """30 rows in one panel, by the polynomial and by Newton."""
    v = loss.width(np.zeros(1)) ** 2 * np.exp(np.linspace(-1.99, -0.01, 30))
    for q in (0.03, 0.4):
        table, each = offsets(loss, q, v), root(loss, q, v)
        np.testing.assert_allclose(table, each, rtol=0.0, atol=1e-9 * np.abs(each).max())


def test_rows_do_not_know_of_each_other() -> None:
    loss, v = StudentT(scale=0.5, df=3.0), np.exp(np.linspace(-8.0, 2.0, 300))
    whole = loss.quantile(np.asarray(0.95), np.zeros(300), v)
    parts = [loss.quantile(np.asarray(0.95), np.zeros(5), v[i : i + 5]) for i in range(0, 300, 60)]
    np.testing.assert_allclose(np.array(parts), whole.reshape(5, 60)[:, :5], rtol=1e-9)


def test_by_a_program_of_others() -> None:
    for scale, df, m, v, q in ((0.5, 3.0, 1.0, 0.4, 0.9), (1.0, 1.2, -2.0, 3.0, 0.05)):
        y = float(StudentT(scale, df).quantile(np.asarray(q), np.full(5, m), np.full(5, v))[0])
        assert student_cdf(y, scale, df, m, v) == pytest.approx(q, abs=1e-8)


def test_limits() -> None:
    """Without a latent variance the noise alone, with a large one the Gaussian."""
    loss = StudentT(scale=0.5, df=3.0)
    none = loss.quantile(np.asarray(0.8), np.full(5, 2.0), np.full(5, 1e-30))[0]
    assert float(none) == pytest.approx(2.0 + float(loss.noise_quantile(0.8)), rel=1e-12)
    wide = loss.quantile(np.asarray(0.8), np.zeros(5), np.full(5, 1e12))[0]
    assert float(wide) == pytest.approx(841621.2335729143, rel=1e-6)
    with pytest.raises(ValueError, match="variance"):
        loss.quantile(np.asarray(0.8), np.asarray(0.0), np.asarray(0.0))
