"""Annealed evidences, bridges and slices against closed forms, and whether errors are true."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.sampling.annealed import annealed, log_mean
from mercer.sampling.bridge import bridged
from mercer.sampling.elliptical import elliptical
from mercer.sampling.mixing import mean_error
from mercer.sampling.told import teller


class Normal:
    """f ~ N(0, I) in d dimensions, each observed once as y with noise s2."""

    def __init__(self, d, y=1.5, s2=0.1):
        self.d, self.y, self.s2 = d, y, s2

    def prior(self, rng, b):
        return rng.standard_normal((b, self.d))

    def likelihood(self, f):
        return -0.5 * ((self.y - f) ** 2 / self.s2 + np.log(2 * np.pi * self.s2)).sum(axis=1)

    @property
    def evidence(self):
        v = 1.0 + self.s2
        return -0.5 * self.d * (self.y**2 / v + np.log(2 * np.pi * v))

    def posterior(self, rng, b):
        v = self.s2 / (1.0 + self.s2)
        return self.y / (1.0 + self.s2) + np.sqrt(v) * rng.standard_normal((b, self.d))


def test_annealing_finds_the_evidence_within_its_error():
    target, rng = Normal(2), np.random.default_rng(1)
    found = annealed(target, rng, most=400, posterior=target.posterior(rng, 50))
    assert abs(found.value - target.evidence) < 4.0 * found.error < 0.5
    assert found.below - 3.0 * found.below_error < target.evidence
    assert found.above + 3.0 * found.above_error > target.evidence
    assert found.below < found.value < found.above
    assert found.powers[0] == 0.0
    assert found.powers[-1] == 1.0
    assert np.all(np.diff(found.powers) > 0.0)
    one_way = annealed(target, rng, most=200)
    assert one_way.above is None
    assert abs(one_way.value - target.evidence) < 4.0 * one_way.error


@pytest.mark.slow
def test_errors_are_those_of_repeated_runs():
    """Standardised errors of many runs have about unit size: not one sided, not too small."""
    target, z, both = Normal(4), [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        found = annealed(target, rng, runs=16, most=200, posterior=target.posterior(rng, 50))
        both.append((found.value - target.evidence) / found.error)
        value, error = log_mean(found.log_weights)
        z.append((value - target.evidence) / error)
    for scores in (z, both):
        assert np.abs(np.mean(scores)) < 0.6
        assert 0.5 < np.sqrt(np.mean(np.square(scores))) < 1.6


def test_a_bridge_to_tails_that_are_too_thin_keeps_its_error():
    rng, z = np.random.default_rng(0), []

    def log_ratio(x):  # 3 Student t (4 degrees) against N(0, 0.6^2)
        t = np.log(3.0) + np.log(0.375) - 2.5 * np.log1p(x**2 / 4.0)
        return t + 0.5 * (x / 0.6) ** 2 + 0.5 * np.log(2 * np.pi * 0.36)

    for _ in range(30):
        drawn = log_ratio(rng.standard_t(4, size=(2, 200)))
        value, error = bridged(drawn, log_ratio(0.6 * rng.standard_normal(400)))
        z.append((value - np.log(3.0)) / error)
    assert np.abs(np.mean(z)) < 0.7
    assert 0.5 < np.sqrt(np.mean(np.square(z))) < 1.6


def test_slices_leave_a_tempered_posterior_as_it_is():
    target, rng, t = Normal(1, y=1.0, s2=0.5), np.random.default_rng(0), 0.5
    v = 1.0 / (1.0 + t / target.s2)
    f = v * t * 1.0 / target.s2 + np.sqrt(v) * rng.standard_normal((4000, 1))
    for _ in range(3):
        f, value = elliptical(
            f, target.likelihood(f), target.prior(rng, 4000), target.likelihood, rng, power=t
        )
    assert np.allclose(value, target.likelihood(f))
    assert abs(f.mean() - v * t / target.s2) < 4.0 * np.sqrt(v / 4000)
    assert abs(f.var() / v - 1.0) < 0.1


def test_means_of_correlated_draws_have_larger_errors():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4, 500, 2))
    for i in range(1, 500):
        x[:, i, 1] = 0.9 * x[:, i - 1, 1] + np.sqrt(0.19) * x[:, i, 1]
    _, error = mean_error(x)
    assert 0.017 < error[0] < 0.03
    assert 2.5 < error[1] / error[0] < 7.0  # sqrt(19) for an autocorrelation of 0.9
    assert np.isinf(mean_error(x[:, :2])[1]).all()


def test_progress_is_written_over_one_line(capsys):
    teller(True)("sampling", 1, 2)
    assert "sampling: 1 of 2" in capsys.readouterr().err
    teller(False)("sampling", 1, 2)
