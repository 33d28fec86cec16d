"""The optimiser: bounds, fixed parameters, priors, several starts, interrupts, reports."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

from mercer import GPRegressor, KernelRegressor
from mercer.inference import Exact
from mercer.kernels import RBF, Constant, Matern
from mercer.losses import Gaussian
from mercer.search import (
    Criterion,
    EvidenceCriterion,
    LogNormal,
    LooCriterion,
    Optimize,
    Space,
    Uniform,
    by_name,
    simple_problem,
)


def data(rng: np.random.Generator, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    X = rng.uniform(0, 6, (n, 1))
    return X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n)


def kernel() -> object:
    return 1.0 * RBF(1.0)


def scale_of(model: GPRegressor) -> float:
    return float(model.kernel_.get_params()["kernel__length_scale"])


def test_bounds_are_respected_and_reported(rng: np.random.Generator) -> None:
    X, y = data(rng)
    free = scale_of(GPRegressor(kernel()).fit(X, y))
    low, high = 2 * free, 3 * free
    tight = kernel().bound(kernel__length_scale=(low, high))
    seen = []
    model = GPRegressor(tight, search=Optimize(progress=seen.append)).fit(X, y)
    assert scale_of(model) == pytest.approx(low, rel=1e-9)
    assert model.report_["search"]["at_bounds"] == ["kernel__kernel__length_scale"]
    assert "at a bound: kernel__kernel__length_scale" in str(model.summary())
    prior = kernel().prior(kernel__length_scale=Uniform(low, high))
    assert scale_of(GPRegressor(prior).fit(X, y)) == pytest.approx(low, rel=1e-9)


def test_fixed_stays_and_the_rest_moves(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor((3.0 * RBF(1.0)).fix("variance"), loss=Gaussian(0.25).fix()).fit(X, y)
    assert model.kernel_.variance == 3.0
    assert model.loss_.noise == 0.25
    assert scale_of(model) != 1.0
    assert model.kernel.get_params()["kernel__length_scale"] == 1.0  # the given part is as it was


def test_nothing_free_needs_no_search(rng: np.random.Generator) -> None:
    X, y = data(rng)
    fixed = GPRegressor((2.0 * RBF()).fix(), loss=Gaussian(0.1).fix()).fit(X, y)
    none = GPRegressor(2.0 * RBF(), loss=Gaussian(0.1), search=None).fit(X, y)
    np.testing.assert_array_equal(fixed.predict(X), none.predict(X))
    assert fixed.report_["search"]["converged"]
    assert none.report_["search"] is None
    assert "no search" in str(none.summary())
    str(fixed.summary())


def test_a_prior_pulls_the_optimum(rng: np.random.Generator) -> None:
    X, y = data(rng)
    free = scale_of(GPRegressor(kernel()).fit(X, y))
    target = np.log(5 * free)
    found = []
    for sigma in (1.0, 0.1, 0.01):
        marked = kernel().prior(kernel__length_scale=LogNormal(target, sigma))
        model = GPRegressor(marked).fit(X, y)
        found.append(np.log(scale_of(model)))
        # at the optimum the slopes of evidence and prior cancel
        space = Space({"kernel": model.kernel_, "loss": model.loss_})
        plain = Space({"kernel": kernel(), "loss": Gaussian(1.0)})
        slope = EvidenceCriterion(plain, simple_problem(X, y[:, None]), Exact())(space.start)[1]
        assert slope[1] == pytest.approx((found[-1] - target) / sigma**2, abs=2e-3)
    assert np.log(free) < found[0] < found[1] < found[2] < target + 1e-3
    assert found[2] == pytest.approx(target, abs=0.05)


def test_log_evidence_leaves_the_prior_out(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor(kernel().prior(variance=LogNormal(0.0, 0.01))).fit(X, y)
    again = GPRegressor(model.kernel_, loss=model.loss_, search=None).fit(X, y)
    assert again.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-10)


def test_optimum_is_stationary_and_loo_differs(rng: np.random.Generator) -> None:
    X, y = data(rng)
    problem = simple_problem(X, y[:, None])
    optima = {}
    for search, kind in (("evidence", EvidenceCriterion), ("loo", LooCriterion)):
        model = KernelRegressor(kernel(), search=search).fit(X, y)
        space = Space({"kernel": model.kernel_, "loss": model.loss_})
        value, gradient = kind(space, problem, Exact())(space.start)
        assert np.abs(gradient).max() < 1e-2
        assert model.report_["search"]["converged"]
        assert model.report_["search"]["criterion"] == search
        optima[search] = (model, value)
    assert optima["loo"][1] == pytest.approx(optima["loo"][0].loo_.total, abs=1e-8)
    assert optima["loo"][0].loo_.total > optima["evidence"][0].loo_.total
    assert optima["loo"][0].log_evidence_ < optima["evidence"][0].log_evidence_


def test_evaluations_are_counted(rng: np.random.Generator) -> None:
    X, y = data(rng)
    seen: list[dict] = []
    model = GPRegressor(kernel(), search=Optimize(restarts=2, progress=seen.append)).fit(X, y)
    report = model.report_["search"]
    assert report["evaluations"] == len(seen) == seen[-1]["evaluations"]
    assert report["starts"] == len(report["start_values"]) == 3
    assert [e["evaluations"] for e in seen] == list(range(1, len(seen) + 1))
    assert {e["stage"] for e in seen} == {"screening", "searching"}
    best = [e["best"] for e in seen]
    assert best == sorted(best)
    assert best[-1] == pytest.approx(model.log_evidence_, abs=1e-9)


def test_screening_spends_little_on_bad_starts(rng: np.random.Generator) -> None:
    X, y = data(rng)
    seen: list[dict] = []
    search = Optimize(restarts=5, screen=4, progress=seen.append)
    GPRegressor(kernel(), search=search).fit(X, y)
    assert sum(e["stage"] == "screening" for e in seen) <= 6 * 8


class Log:
    """What a progress callback has seen."""

    def __init__(self) -> None:
        self.calls, self.best = 0, -np.inf


def interrupting(log: Log, at: int) -> Callable[[dict], None]:
    """Return a progress callback that interrupts at its ``at``-th call."""

    def callback(event: dict) -> None:
        log.calls += 1
        if log.calls <= at:
            log.best = event["best"]
        if log.calls == at:
            raise KeyboardInterrupt

    return callback


def interrupted(model: GPRegressor, X: np.ndarray, y: np.ndarray) -> GPRegressor:
    """Fit; an interrupt that comes through would end the whole test run."""
    try:
        return model.fit(X, y)
    except KeyboardInterrupt:
        pytest.fail("the interrupt was not caught, and what was found is lost")


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize("at", [1, 5, 14])
def test_interrupt_keeps_the_best(rng: np.random.Generator, at: int, n_jobs: int | None) -> None:
    X, y = data(rng)
    log = Log()
    search = Optimize(restarts=2, n_jobs=n_jobs, progress=interrupting(log, at))
    model = interrupted(GPRegressor(kernel(), search=search), X, y)
    report = model.report_["search"]
    assert report["interrupted"]
    assert not report["converged"]
    assert "interrupted" in report["message"]
    assert "interrupted" in str(model.summary())
    assert model.log_evidence_ >= log.best - 1e-9
    assert np.all(np.isfinite(model.predict(X, return_std=True)[1]))
    if n_jobs is None:
        assert model.log_evidence_ == pytest.approx(log.best, abs=1e-9)
        assert report["evaluations"] == at
        assert log.calls == at


def test_interrupt_while_deciding_on_ard_is_reported(rng: np.random.Generator) -> None:
    """The tied optimum is kept, and the report says that the search was cut short."""
    X = rng.normal(size=(30, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
    seen: list[dict] = []
    GPRegressor(search=Optimize(progress=seen.append)).fit(X, y)
    restart = next(i for i in range(1, len(seen)) if seen[i]["evaluations"] == 1)
    search = Optimize(progress=interrupting(Log(), restart + 3))
    model = interrupted(GPRegressor(search=search), X, y)
    assert "interrupt" in str(model.summary())
    assert np.all(np.isfinite(model.predict(X)))


def test_interrupt_with_repeated_rows_is_reported(rng: np.random.Generator) -> None:
    X, y = data(rng)
    X = np.round(X)
    for at in (2, 30):
        log = Log()
        search = Optimize(progress=interrupting(log, at))
        model = interrupted(GPRegressor(kernel(), search=search), X, y)
        assert log.calls == at, "an interrupt ends the search"
        assert "interrupt" in str(model.summary())
        assert np.all(np.isfinite(model.predict(X)))


def test_interrupt_before_the_first_ard_evaluation_keeps_the_tied_optimum(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X = rng.normal(size=(30, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=30)
    plain = EvidenceCriterion.evaluate

    def stopped(self: Criterion, u: np.ndarray, start: object = None) -> object:
        if len(u) == 5:  # variance, three length scales, noise
            raise KeyboardInterrupt
        return plain(self, u, start)

    monkeypatch.setattr(Criterion, "evaluate", stopped)
    model = interrupted(GPRegressor(), X, y)
    assert np.all(np.isfinite(model.predict(X)))
    assert "interrupt" in str(model.summary())


class Bar:
    """A progress bar holds locks and streams: it cannot be copied."""

    def __init__(self) -> None:
        self.calls, self.lock = 0, threading.Lock()

    def __call__(self, event: dict) -> None:
        with self.lock:
            self.calls += 1


def test_progress_may_hold_what_cannot_be_copied(rng: np.random.Generator) -> None:
    """Every stage reports to the same object, and a model with such a search can be cloned."""
    X, bar = rng.normal(size=(25, 2)), Bar()
    model = GPRegressor(search=Optimize(restarts=0, progress=bar))
    clone(model).fit(X, np.sin(X[:, 0]))
    counted, bar.calls = bar.calls, 0
    model.fit(X, np.sin(X[:, 0]))
    ard = model.report_["ard"]["search"]["evaluations"]
    assert bar.calls == counted == model.report_["search"]["evaluations"] + ard


def test_an_error_in_the_callback_is_an_error(rng: np.random.Generator) -> None:
    X, y = data(rng)

    def broken(event: dict) -> None:
        raise ZeroDivisionError("in the callback")

    with pytest.raises(ZeroDivisionError, match="in the callback"):
        GPRegressor(kernel(), search=Optimize(progress=broken)).fit(X, y)


def test_threads_find_the_same_optimum(rng: np.random.Generator) -> None:
    X, y = data(rng)
    alone = GPRegressor(kernel(), search=Optimize(restarts=4)).fit(X, y)
    pair = GPRegressor(kernel(), search=Optimize(restarts=4, n_jobs=2)).fit(X, y)
    assert pair.log_evidence_ == pytest.approx(alone.log_evidence_, abs=1e-9)
    np.testing.assert_allclose(pair.predict(X), alone.predict(X), atol=1e-7)


def two_modes() -> tuple[np.ndarray, np.ndarray]:
    """GPML figure 5.5: short length scale and little noise, or long and much noise."""
    rng = np.random.default_rng(0)
    X = np.linspace(-4, 4, 14)[:, None]
    return X, np.sin(1.9 * X[:, 0]) + 0.2 * rng.normal(size=14)


def test_several_starts_find_the_better_mode() -> None:
    X, y = two_modes()
    start = (1.0 * RBF(20.0)).fix("variance")
    poor = GPRegressor(start, loss=Gaussian(1.0), search=Optimize(restarts=0)).fit(X, y)
    good_start = (1.0 * RBF(1.0)).fix("variance")
    good = GPRegressor(good_start, loss=Gaussian(0.01), search=Optimize(restarts=0)).fit(X, y)
    assert good.log_evidence_ > poor.log_evidence_ + 5, "there must be two modes"
    for screen in (8, None):
        search = Optimize(restarts=12, screen=screen)
        found = GPRegressor(start, loss=Gaussian(1.0), search=search).fit(X, y)
        assert found.log_evidence_ == pytest.approx(good.log_evidence_, abs=1e-4)


def test_seeds_repeat(rng: np.random.Generator) -> None:
    X, y = data(rng)
    one, two = (GPRegressor(kernel(), random_state=7).fit(X, y) for _ in range(2))
    assert one.report_["search"]["start_values"] == two.report_["search"]["start_values"]
    other = GPRegressor(kernel(), random_state=8).fit(X, y)
    assert one.report_["search"]["start_values"] != other.report_["search"]["start_values"]


def test_few_iterations_are_reported(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor(kernel(), search=Optimize(restarts=0, max_iter=1)).fit(X, y)
    assert not model.report_["search"]["converged"]
    assert "not converged" in str(model.summary())


def test_impossible_points_are_counted_not_fatal(rng: np.random.Generator) -> None:
    """A kernel that is not a kernel at long length scales: the search goes around."""

    class Sometimes(RBF):
        def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
            K = super().__call__(X, Z)
            return K if self.length_scale < 1.3 or Z is not None else -K

    X, y = data(rng)
    search = Optimize(restarts=6)
    model = GPRegressor(1.0 * Sometimes(1.0), loss=Gaussian(0.1), search=search).fit(X, y)
    assert model.report_["search"]["failed_evaluations"] > 0
    assert scale_of(model) < 1.3


def test_unknown_strings_list_the_known_ones(rng: np.random.Generator) -> None:
    X, y = data(rng)
    with pytest.raises(
        ValueError, match=r"no search 'evidense'; did you mean 'evidence'\? .*loo_bound, None"
    ):
        GPRegressor(search="evidense").fit(X, y)
    with pytest.raises(ValueError, match="unknown criterion 'aic'; known are evidence, loo"):
        Optimize(criterion="aic")
    with pytest.raises(ValueError, match="restarts must be at least 0"):
        Optimize(restarts=-1)
    assert by_name(None) is None
    assert by_name("loo") == Optimize(criterion="loo")


def test_stderr_progress(rng: np.random.Generator, capsys: pytest.CaptureFixture[str]) -> None:
    X, y = data(rng)
    GPRegressor(kernel(), search=Optimize(progress=True)).fit(X, y)
    captured = capsys.readouterr()
    assert "evaluations, best" in captured.err
    assert captured.out == ""


def test_matern_and_constant_search_runs_to_the_end(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor(1.0 * Matern(nu=1.5) + Constant(1.0)).fit(X, y + 3.0)
    assert model.report_["search"]["converged"]
    assert model.score(X, y + 3.0) > 0.8


class Steep(Criterion):
    """-1/2 c |u - target|^2: its gradient at the start is far longer than the way to go."""

    def __init__(self, space: Space, curvature: float) -> None:
        super().__init__(space, simple_problem(np.zeros((1, 1)), np.zeros((1, 1))), Exact())
        self.target, self.curvature, self.seen = space.start + 0.7, curvature, []

    def evaluate(self, u, start=None):  # type: ignore[no-untyped-def]  # a stand-in
        self.seen.append(u.copy())
        away = u - self.target
        return -0.5 * self.curvature * float(away @ away), -self.curvature * away, None

    def value_and_gradients(self, gram, loss, solution):  # type: ignore[no-untyped-def]  # not used
        raise NotImplementedError


@pytest.mark.parametrize("curvature", [1e-3, 1.0, 1e4])
def test_the_first_step_is_no_leap(curvature: float) -> None:
    space = Space({"kernel": 1.0 * RBF([1.0, 1.0]), "loss": Gaussian(1.0)})
    criterion = Steep(space, curvature)
    [found] = Optimize(restarts=0).run(criterion, space, np.random.default_rng(0))
    first, second = criterion.seen[:2]
    np.testing.assert_array_equal(first, space.start)
    assert 0.0 < np.linalg.norm(second - first) <= 1.0 + 1e-12
    assert found.report["evaluations"] == len(criterion.seen)  # the start is not paid for twice
    np.testing.assert_allclose(found.u, criterion.target, atol=1e-2)
    assert found.value == pytest.approx(criterion.evaluate(found.u)[0], abs=1e-9)


@pytest.mark.parametrize("noise", [1e-6, 1e-12])
def test_a_start_of_huge_evidence_ends_at_the_optimum(noise: float) -> None:
    """What drowns in the rounding of E at the start (2e12) does not at the optimum (60)."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (60, 1))
    y = np.sin(2 * X) + 0.3 * rng.normal(size=(60, 1))
    space = Space({"kernel": 1.0 * RBF(2.0), "loss": Gaussian(noise=noise)})
    criterion = EvidenceCriterion(space, simple_problem(X, y), Exact())
    [found] = Optimize(restarts=0).run(criterion, space, rng)
    inside = np.all(np.abs(found.u[:, None] - space.bounds) > 1e-6, axis=1)
    assert found.report["converged"]
    assert np.abs(criterion(found.u)[1][inside]).max() < 2e-5
