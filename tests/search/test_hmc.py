"""Draws of hyperparameters: known moments, exact mechanics, other samplers, and whole machines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import emcee
import numpy as np
import pytest
from sklearn.base import clone

from mercer import GPRegressor
from mercer import load as load_model
from mercer import save as save_model
from mercer.core.component import REAL
from mercer.inference import Exact
from mercer.kernels import RBF, Kernel
from mercer.losses import Gaussian
from mercer.sampling.mixing import ess, rhat
from mercer.sampling.nuts import Chain, ChainState, Flow, transition
from mercer.search import (
    HMC,
    EvidenceCriterion,
    GammaPrior,
    LogNormal,
    Space,
    by_name,
    simple_problem,
)
from mercer.search.hmc.hmc import curvature_scale, evenly

Density = Callable[[np.ndarray], tuple[float, np.ndarray]]
FREE = (-np.inf, np.inf)


def normal(covariance: np.ndarray) -> Density:
    P = np.linalg.inv(covariance)
    return lambda u: (float(-0.5 * u @ P @ u), -P @ u)


def banana(u: np.ndarray) -> tuple[float, np.ndarray]:
    """a ~ N(0, 1), b | a ~ N(a^2, 1): means 0 and 1, variances 1 and 3."""
    a, b = u
    r = b - a**2
    return -0.5 * a**2 - 0.5 * r**2, np.array([-a + 2 * a * r, -r])


def drawn(f: Density, bounds: list, samples: int = 1000, target: float = 0.8) -> np.ndarray:
    """Return draws (chains, samples, p)."""
    box, p = np.array(bounds, dtype=float), len(bounds)
    chains = [
        Chain().run(
            f,
            np.full(p, 0.1),
            np.ones(p),
            box,
            warmup=150,
            samples=samples,
            rng=rng,
            target=target,
        )
        for rng in np.random.default_rng(7).spawn(2)
    ]
    assert all(len(chain.draws) == samples for chain in chains)
    return np.array([chain.draws for chain in chains])


def check_mean(x: np.ndarray, exact: float) -> None:
    """A mean of draws (chains, samples) within four of its standard errors, and that one small."""
    size = ess(x)
    assert size > 100
    assert rhat(x) < 1.05
    assert x.mean() == pytest.approx(exact, abs=4 * x.std() / np.sqrt(size))


# ---------------------------------------------------------------------- the mechanics
@pytest.mark.parametrize("bounds", [[FREE, FREE], [(-0.3, 0.4), (-0.2, np.inf)]])
def test_leapfrog_steps_lead_back(bounds: list) -> None:
    """Turn the momentum and the same steps lead home, walls or not."""
    flow = Flow(banana, np.array(bounds, dtype=float), np.array([1.0, 0.3]))
    begin = ChainState(np.array([0.1, 0.2]), np.array([1.3, -0.7]), *banana(np.array([0.1, 0.2])))
    state = begin
    for _ in range(25):
        state = flow.step(state, 0.1)
        assert np.all((state.u >= flow.bounds[:, 0]) & (state.u <= flow.bounds[:, 1]))
    state = ChainState(state.u, -state.r, state.value, state.gradient)
    for _ in range(25):
        state = flow.step(state, 0.1)
    np.testing.assert_allclose(state.u, begin.u, atol=1e-12)
    np.testing.assert_allclose(state.r, -begin.r, atol=1e-12)
    for _ in range(25):  # a negative step is the way back, too
        state = flow.step(state, 0.1)
    for _ in range(25):
        state = flow.step(state, -0.1)
    np.testing.assert_allclose(state.u, begin.u, atol=1e-12)


def test_energy_error_is_of_second_order() -> None:
    flow = Flow(banana, np.array([FREE, FREE]), np.ones(2))
    begin = ChainState(np.array([0.1, 0.2]), np.array([1.3, -0.7]), *banana(np.array([0.1, 0.2])))
    errors = []
    for steps in (20, 40, 80):
        state = begin
        for _ in range(steps):
            state = flow.step(state, 1.0 / steps)
        errors.append(abs(flow.energy(state) - flow.energy(begin)))
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.05)


def test_leapfrog_keeps_the_volume() -> None:
    """The Jacobian of some steps, walls included, has determinant one."""
    flow = Flow(banana, np.array([(-0.3, 0.4), FREE]), np.array([1.0, 0.3]))
    at = np.array([0.1, 0.2, 1.3, -0.7])

    def end(x: np.ndarray) -> np.ndarray:
        state = ChainState(x[:2], x[2:], *banana(x[:2]))
        for _ in range(10):
            state = flow.step(state, 0.1)
        return np.concatenate([state.u, state.r])

    h = 1e-6
    columns = [(end(at + h * e) - end(at - h * e)) / (2 * h) for e in np.eye(4)]
    assert np.linalg.det(np.array(columns)) == pytest.approx(1.0, abs=1e-6)


def test_reflections_of_a_long_way() -> None:
    flow = Flow(banana, np.array([(0.0, 1.0), (0.0, np.inf), FREE]), np.ones(3))
    u, r = flow.reflected(np.array([2.3, -4.0, 7.0]), np.ones(3))
    np.testing.assert_allclose(u, [0.3, 4.0, 7.0])
    np.testing.assert_array_equal(r, [1.0, -1.0, 1.0])
    u, r = flow.reflected(np.array([-0.2, 4.0, 7.0]), np.ones(3))
    np.testing.assert_allclose(u, [0.2, 4.0, 7.0])
    np.testing.assert_array_equal(r, [-1.0, 1.0, 1.0])


def test_divergence_is_seen() -> None:
    """A far too long step loses the energy, and the state stays where it was."""
    flow = Flow(normal(1e-4 * np.eye(1)), np.array([FREE]), np.ones(1))
    state = flow.at(np.array([0.01]))
    move = transition(flow, state, 5.0, 8, np.random.default_rng(0))
    assert move.divergent
    np.testing.assert_array_equal(move.state.u, state.u)


# ---------------------------------------------------------------------- known densities
def test_correlated_gaussian() -> None:
    covariance = np.array([[1.0, 4.0], [4.0, 25.0]])  # correlation 0.8, scales 1 and 5
    x = drawn(normal(covariance), [FREE, FREE])
    for i in range(2):
        check_mean(x[..., i], 0.0)
        check_mean(x[..., i] ** 2, covariance[i, i])
    check_mean(x[..., 0] * x[..., 1], 4.0)


def test_banana() -> None:
    x = drawn(banana, [FREE, FREE], target=0.95)  # a ridge that bends wants short steps
    check_mean(x[..., 0], 0.0)
    check_mean(x[..., 0] ** 2, 1.0)
    check_mean(x[..., 1], 1.0)
    check_mean((x[..., 1] - x[..., 0] ** 2) ** 2, 1.0)


def test_uniform_in_a_box() -> None:
    x = drawn(lambda u: (0.0, np.zeros(2)), [(0.0, 1.0), (-2.0, 3.0)])
    check_mean(x[..., 0], 0.5)
    check_mean((x[..., 0] - 0.5) ** 2, 1 / 12)
    check_mean(x[..., 1], 0.5)
    check_mean((x[..., 1] - 0.5) ** 2, 25 / 12)
    check_mean((x[..., 0] < 0.1).astype(float), 0.1)  # the corners get their share
    assert x[..., 0].min() >= 0.0
    assert x[..., 1].max() <= 3.0


def test_slope_at_a_wall() -> None:
    """Density e^{-u}: on (0, 1) with mean 1 - 1/(e - 1), on (0, inf) with mean and variance 1."""
    x = drawn(lambda u: (float(-u.sum()), -np.ones(2)), [(0.0, 1.0), (0.0, np.inf)])
    check_mean(x[..., 0], 1.0 - 1.0 / (np.e - 1.0))
    check_mean(x[..., 1], 1.0)
    check_mean((x[..., 1] - 1.0) ** 2, 1.0)


def test_warm_up_learns_the_scales() -> None:
    scales = np.array([1e-2, 1.0, 1e2])
    f = normal(np.diag(scales**2))
    box = np.array([FREE] * 3)
    chain = Chain().run(
        f, scales, np.ones(3), box, warmup=300, samples=100, rng=np.random.default_rng(1)
    )
    np.testing.assert_allclose(np.sqrt(chain.inverse_mass), scales, rtol=0.4)
    assert 0.6 < np.mean(chain.acceptance) < 0.98
    assert np.mean(chain.depths) < 4
    assert chain.divergences == 0


def test_zero_density_is_never_drawn() -> None:
    """A density that fails beyond a line without a gradient that warns: a half normal."""

    def half(u: np.ndarray) -> tuple[float, np.ndarray]:
        return (float(-0.5 * u @ u), -u) if u[0] > 0 else (-np.inf, np.zeros(1))

    x = drawn(half, [FREE])
    assert x.min() > 0.0
    check_mean(x[..., 0], np.sqrt(2 / np.pi))


def test_curvature_gives_the_first_scale() -> None:
    f = normal(np.diag([0.01, 1.0, 1e8]))
    scale = curvature_scale(f, np.zeros(3), np.array([FREE, FREE, FREE]))
    np.testing.assert_allclose(scale, [0.1, 0.9486833, 3.0], rtol=0.1)


# ---------------------------------------------------------------------- Gaussian processes
def data(n: int = 15) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def kernel() -> Kernel:
    return (1.0 * RBF(1.0)).prior(variance=LogNormal(0, 1), kernel__length_scale=LogNormal(0, 1))


def loss() -> Gaussian:
    return Gaussian(0.1).prior(noise=LogNormal(-2, 1))


SMALL = {"samples": 40, "warmup": 40, "chains": 2, "keep": 6}


@pytest.mark.slow
def test_agrees_with_emcee() -> None:
    X, y = data()
    space = Space({"kernel": kernel(), "loss": loss()})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())

    def log_density(u: np.ndarray) -> float:
        """Written down once more: Cholesky, and normal densities of the log parameters."""
        variance, scale, noise = np.exp(u)
        K = variance * np.exp(-0.5 * ((X - X.T) / scale) ** 2) + noise * np.eye(len(X))
        sign, logdet = np.linalg.slogdet(K)
        if sign <= 0 or np.abs(u).max() > 12:
            return -np.inf
        prior = -0.5 * (u[0] ** 2 + u[1] ** 2 + (u[2] + 2) ** 2)
        return float(-0.5 * y @ np.linalg.solve(K, y) - 0.5 * logdet + prior)

    at = np.array([0.1, 0.2, -1.0]), np.array([0.4, -0.3, -2.0])
    gap = [criterion(u)[0] - log_density(u) for u in at]
    assert gap[0] == pytest.approx(gap[1], abs=1e-9)  # the same density up to a constant

    search = HMC(samples=400, warmup=150, chains=4, keep=1600)
    results = search.run(criterion, space, np.random.default_rng(0))
    report = results[0].report
    assert report["converged"], report["message"]
    ours = np.array([result.u for result in results])

    walkers = 12
    begin = ours[np.random.default_rng(1).choice(len(ours), walkers, replace=False)]
    sampler = emcee.EnsembleSampler(walkers, 3, log_density)
    seed = np.random.RandomState(2).get_state()  # emcee draws from the global state otherwise
    sampler.run_mcmc(emcee.State(begin, random_state=seed), 3000)
    theirs = sampler.get_chain(discard=500)
    tau = sampler.get_autocorr_time(discard=500, quiet=True)
    for j, name in enumerate(report["parameters"]):
        figures = report["parameters"][name]
        size = theirs[:, :, j].size / tau[j]
        spread = theirs[:, :, j].std()
        error = spread * np.hypot(1 / np.sqrt(size), 1 / np.sqrt(figures["ess_bulk"]))
        assert ours[:, j].mean() == pytest.approx(theirs[:, :, j].mean(), abs=4 * error)
        assert np.log(ours[:, j].std() / spread) == pytest.approx(0.0, abs=4 * error / spread)


def test_prior_alone_is_recovered() -> None:
    """Without data that speak, draws of theta follow the stated density: Jacobian included."""
    X = np.array([[0.0], [1e3]])
    part = (1e-12 * RBF(2.0)).fix("variance").prior(kernel__length_scale=GammaPrior(3.0, 2.0))
    space = Space({"kernel": part, "loss": Gaussian(1.0).fix()})
    criterion = EvidenceCriterion(space, simple_problem(X, np.zeros((2, 1))), Exact())
    results = HMC(samples=200, warmup=60, chains=2, keep=400).run(
        criterion, space, np.random.default_rng(0)
    )
    theta = np.exp([result.u[0] for result in results])
    size = results[0].report["parameters"]["kernel__kernel__length_scale"]["ess_bulk"]
    deviation = np.sqrt(3.0) / 2.0
    # a density of u without |d theta/d u| would have shape 2 and mean 1
    assert theta.mean() == pytest.approx(1.5, abs=4 * deviation / np.sqrt(size))
    assert 4 * deviation / np.sqrt(size) < 0.4


def test_committee_of_a_regressor(tmp_path: Path) -> None:
    X, y = data()
    search = HMC(**SMALL)
    model = GPRegressor(kernel(), loss=loss(), search=search, random_state=0).fit(X, y)
    assert len(model.posteriors_) == len(model.losses_) == 6
    noises = {float(part.noise) for part in model.losses_}
    assert len(noises) > 3
    report = model.report_["search"]
    assert report["draws"] == [40, 40]
    assert report["kept"] == 6
    assert report["uniform_between_bounds"] == []
    assert set(report["parameters"]) == {
        "kernel__variance",
        "kernel__kernel__length_scale",
        "loss__noise",
    }
    assert "evaluations" in str(model.summary())

    grid = np.linspace(0, 6, 7)[:, None]
    mean, std = model.predict(grid, return_std=True)
    members = []
    for posterior, part in zip(model.posteriors_, model.losses_, strict=True):
        one = GPRegressor(posterior.parent.kernel, loss=part, search=None).fit(X, y)
        members.append(one.predict(grid, return_std=True))
    means, stds = np.array([m for m, _ in members]), np.array([s for _, s in members])
    np.testing.assert_allclose(mean, means.mean(axis=0), atol=1e-10)
    np.testing.assert_allclose(std**2, (stds**2).mean(axis=0) + means.var(axis=0), atol=1e-10)

    save_model(model, tmp_path / "committee")
    again = load_model(tmp_path / "committee")
    np.testing.assert_array_equal(again.predict(grid), model.predict(grid))
    assert len(again.posteriors_) == 6
    assert again.search == search


def test_draws_do_not_depend_on_threads() -> None:
    X, y = data()
    space = Space({"kernel": kernel(), "loss": loss()})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())
    short = {"samples": 10, "warmup": 15, "chains": 3, "keep": 6}
    found = [
        HMC(**short, n_jobs=jobs).run(criterion, space, np.random.default_rng(4))
        for jobs in (None, 2)
    ]
    other = HMC(**short).run(criterion, space, np.random.default_rng(5))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one.u, two.u)
    assert found[0][0].report == found[1][0].report
    assert not np.array_equal(found[0][0].u, other[0].u)
    values = [result.value for result in found[0]]
    assert values == sorted(values, reverse=True)
    for result in found[0]:
        assert result.value == pytest.approx(criterion(result.u)[0], abs=1e-9)


def test_no_hyperprior_is_uniform_between_bounds_and_said_so() -> None:
    X, y = data()
    part = kernel().bound(variance=(0.5, 2.0)).prior(variance=None)
    model = GPRegressor(part, loss=loss(), search=HMC(**SMALL)).fit(X, y)
    assert model.report_["search"]["uniform_between_bounds"] == ["kernel__variance"]
    drawn = [posterior.parent.kernel.variance for posterior in model.posteriors_]
    assert 0.5 <= min(drawn) < max(drawn) <= 2.0


class Shifted(RBF):
    """A kernel with a real parameter that does nothing."""

    domains: ClassVar = {**RBF.domains, "shift": REAL}

    def __init__(self, length_scale: float = 1.0, shift: float = 0.0) -> None:
        super().__init__(length_scale)
        self.shift = shift

    def pullback(self, X, Z, Q):  # type: ignore[no-untyped-def]
        return {**super().pullback(X, Z, Q), "shift": 0.0}


def test_without_finite_mass_it_is_refused() -> None:
    space = Space({"kernel": Shifted(), "loss": loss()})
    X, y = data()
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())
    with pytest.raises(ValueError, match=r"kernel__shift has neither a hyperprior nor bounds"):
        HMC(**SMALL).run(criterion, space, np.random.default_rng(0))


class Failing(EvidenceCriterion):
    """The evidence, impossible above a length scale: by an error, or by a value."""

    by = "error"

    def evaluate(self, u, start=None):  # type: ignore[no-untyped-def]
        if u[1] > 0.0:
            if self.by == "error":
                raise ValueError("not here")
            return np.nan, np.zeros(len(u)), None
        return super().evaluate(u, start)


@pytest.mark.parametrize("by", ["error", "value"])
def test_failures_are_zero_density_and_counted(by: str) -> None:
    X, y = data()
    start = (1.0 * RBF(0.5)).prior(variance=LogNormal(0, 1), kernel__length_scale=LogNormal(0, 1))
    space = Space({"kernel": start, "loss": loss()})
    criterion = Failing(space, simple_problem(X, y[:, None]), Exact())
    criterion.by = by
    results = HMC(samples=40, warmup=20, chains=2, keep=80).run(
        criterion, space, np.random.default_rng(0)
    )
    assert len(results) == 80
    assert max(result.u[1] for result in results) <= 0.0
    assert results[0].report["failed_evaluations"] > 0


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("stage", ["searching", "warm-up", "sampling"])
def test_interrupt_keeps_what_was_drawn(stage: str, n_jobs: int | None) -> None:
    X, y = data()
    space = Space({"kernel": kernel(), "loss": loss()})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())
    seen: list[dict] = []

    def interrupting(event: dict) -> None:
        seen.append(event)
        if sum(e["stage"] == stage for e in seen) == 60 or stage == "searching":
            raise KeyboardInterrupt

    search = HMC(samples=400, warmup=40, chains=2, keep=5, n_jobs=n_jobs, progress=interrupting)
    try:
        results = search.run(criterion, space, np.random.default_rng(0))
    except KeyboardInterrupt:
        pytest.fail("the interrupt was not caught, and what was drawn is lost")
    report = results[0].report
    assert report["interrupted"]
    assert not report["converged"]
    assert "interrupted" in report["message"]
    if stage == "sampling":
        assert 1 < len(results) <= 5
        assert sum(report["draws"]) < 800
    else:
        assert len(results) == 1
        assert results[0].value == pytest.approx(max(e["best"] for e in seen), abs=1e-9)


def test_too_short_chains_are_complained_about() -> None:
    X, y = data()
    search = HMC(samples=6, warmup=5, chains=2)
    report = GPRegressor(kernel(), loss=loss(), search=search).fit(X, y).report_["search"]
    assert not report["converged"]
    assert "effective sample size" in report["message"]
    shorter = HMC(samples=2, warmup=5, chains=2)
    report = GPRegressor(kernel(), loss=loss(), search=shorter).fit(X, y).report_["search"]
    assert "fewer than 4 draws" in report["message"]


def test_nothing_free() -> None:
    X, y = data()
    model = GPRegressor(kernel().fix(), loss=Gaussian(0.1).fix(), search=HMC(**SMALL)).fit(X, y)
    assert len(model.posteriors_) == 1


def test_evenly_from_all() -> None:
    assert evenly(list(range(80)), 4) == [10, 30, 50, 70]
    assert evenly([1, 2], 4) == [1, 2]


def test_parameters_and_name() -> None:
    search = HMC(samples=7, progress=print)
    assert clone(search).progress is print
    assert search.to_dict()["params"]["progress"] is False
    assert by_name("hmc") == HMC()
    assert HMC.samples_many


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"criterion": "plsc"}, "unknown criterion"),
        ({"samples": 0}, "at least 1"),
        ({"warmup": -1}, "at least 0"),
        ({"target": 1.0}, "between 0 and 1"),
    ],
)
def test_refuses(given: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        HMC(**given)
