"""R-hat and effective sample sizes: against arviz-stats, and where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from arviz_stats.base import array_stats as arviz

from mercer.sampling.mixing import ess, ess_bulk, ess_tail, rhat


def autoregressive(rng: np.random.Generator, chains: int, n: int, a: float) -> np.ndarray:
    """Draws (chains, n) of x' = a x + noise, stationary with unit variance."""
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(size=chains)
    for t in range(1, n):
        x[:, t] = a * x[:, t - 1] + np.sqrt(1 - a**2) * rng.normal(size=chains)
    return x


def cases() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    slow = autoregressive(rng, 4, 301, 0.9)
    return {
        "independent": rng.normal(size=(4, 250)),
        "heavy": rng.standard_cauchy(size=(3, 200)),
        "slow": slow,
        "odd": autoregressive(rng, 3, 101, 0.5),
        "antithetic": autoregressive(rng, 4, 200, -0.6),
        "shifted": slow + np.arange(4)[:, None],
        "wider": rng.normal(size=(4, 250)) * np.array([1.0, 1.0, 1.0, 3.0])[:, None],
        "ties": np.round(rng.normal(size=(2, 120)), 1),
        "short": rng.normal(size=(2, 8)),
    }


@pytest.mark.parametrize("name", list(cases()))
def test_agrees_with_arviz(name: str) -> None:
    x = cases()[name]
    assert rhat(x) == pytest.approx(float(arviz.rhat(x, method="rank")), rel=1e-10)
    assert ess_bulk(x) == pytest.approx(float(arviz.ess(x, method="bulk")), rel=1e-8)
    tail = float(arviz.ess(x, method="tail", prob=(0.05, 0.95)))
    assert ess_tail(x) == pytest.approx(tail, rel=1e-8)


@pytest.mark.parametrize("a", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregression(rng: np.random.Generator, a: float) -> None:
    """tau = (1 + a) / (1 - a) is known."""
    x = autoregressive(rng, 4, 5000, a)
    assert ess(x) == pytest.approx(x.size * (1 - a) / (1 + a), rel=0.15)


def test_rhat_sees_place_width_and_drift(rng: np.random.Generator) -> None:
    good = rng.normal(size=(4, 500))
    assert rhat(good) < 1.01
    assert rhat(good + np.array([0, 0, 0, 1.0])[:, None]) > 1.05
    assert rhat(good * np.array([1, 1, 1, 4.0])[:, None]) > 1.05
    assert rhat(good + np.linspace(-1, 1, 500)) > 1.05  # all chains drift alike: halves differ
    assert rhat(good[:1] + np.linspace(-2, 2, 500)) > 1.05  # a single chain has halves, too


def test_scale_and_monotone_maps_do_not_matter(rng: np.random.Generator) -> None:
    """Ranks stay what they are under a map that grows; the folded part needs an affine one."""
    x = autoregressive(rng, 4, 200, 0.5)
    assert ess_bulk(np.exp(3 * x)) == pytest.approx(ess_bulk(x), rel=1e-12)
    assert rhat(1e6 + 100 * x) == pytest.approx(rhat(x), rel=1e-12)


def test_chains_that_never_moved_and_too_few_draws() -> None:
    assert rhat(np.ones((3, 50))) == np.inf
    assert rhat(np.repeat([[0.0], [1.0]], 50, axis=1)) == np.inf
    for figure in (rhat, ess_bulk, ess_tail):
        assert np.isnan(figure(np.zeros((4, 3))))


@pytest.mark.parametrize("n", range(1, 9))
@pytest.mark.parametrize("chains", [1, 2])
def test_a_handful_of_draws_is_no_error(rng: np.random.Generator, n: int, chains: int) -> None:
    """What an interrupt leaves behind: a number, or nan, never an exception."""
    draws = rng.normal(size=(chains, n))
    for figure in (rhat, ess_bulk, ess_tail):
        value = figure(draws)
        assert np.isnan(value) or value > 0.0
    assert np.isnan(ess_bulk(draws)) == (n < 6)
