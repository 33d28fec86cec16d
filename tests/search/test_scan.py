"""The scan before a search: functions that vary fast are found, smooth ones are as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from mercer import GPClassifier, GPRegressor, ProbabilisticLeastSquaresClassifier
from mercer.inference import Exact, Laplace
from mercer.kernels import RBF, Linear, Matern
from mercer.losses import Gaussian, Logistic
from mercer.losses.binary.probit import SquaredProbit
from mercer.search import EvidenceCriterion, LogNormal, Optimize, Space, simple_problem
from mercer.search.criteria.left_out import PlscCriterion
from mercer.search.scan import ROWS, rows_of, scan, spread_out


def wave(
    rng: np.random.Generator, periods: float, n: int = 100, d: int = 1, noise: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """A sine in the last of d columns, with so many periods over its range."""
    X = rng.uniform(-5, 5, (n, d))
    return X, np.sin(2 * np.pi * periods * X[:, -1] / 10) + noise * rng.normal(size=n)


def regression(
    X: np.ndarray, y: np.ndarray, length_scale: float | np.ndarray = 2.0, noise: float = 0.1
) -> tuple[EvidenceCriterion, Space]:
    space = Space({"kernel": y.var() * RBF(length_scale), "loss": Gaussian(noise)})
    return EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact()), space


def test_the_sine_of_the_issue_is_found() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, (150, 1))
    y = np.sin(5 * X[:, 0]) + 0.1 * rng.normal(size=150)
    model = GPRegressor().fit(X, y)
    assert model.score(X, y) > 0.97
    near = GPRegressor(1.0 * RBF(0.3), search=Optimize(restarts=0)).fit(X, y)
    assert model.log_evidence_ > 40.0
    assert model.kernel_.kernel.length_scale == pytest.approx(
        near.kernel_.kernel.length_scale, rel=0.1
    )


@pytest.mark.parametrize("periods", [2.0, 5.0, 9.0, 15.0])
@pytest.mark.parametrize("noise", [0.05, 0.5])
def test_the_default_is_not_below_a_climb_from_the_truth(periods: float, noise: float) -> None:
    X, y = wave(np.random.default_rng(int(periods)), periods, noise=noise)
    X, y = (X - X.mean()) / X.std(), (y - y.mean()) / y.std()
    found = GPRegressor().fit(X, y)
    true = 10 / (2 * np.pi * periods) / 2.9
    there = GPRegressor(1.0 * RBF(true), loss=Gaussian(noise**2), search=Optimize(restarts=0))
    assert found.log_evidence_ > there.fit(X, y).log_evidence_ - 1e-3


@pytest.mark.parametrize("kernel", [1.0 * RBF(1.0), 1.0 * Matern(2.5, 100.0)])
@pytest.mark.parametrize("unit", [1.0, 1e3])
def test_a_kernel_of_the_user_is_scanned_from_the_scale_of_the_data(
    kernel: object, unit: float
) -> None:
    X, y = wave(np.random.default_rng(3), 9.0)
    model = GPRegressor(kernel).fit(unit * X, unit * y)
    assert model.score(unit * X, unit * y) > 0.9


@pytest.mark.parametrize("d", [2, 3])
def test_one_fast_column_among_others(d: int) -> None:
    X, y = wave(np.random.default_rng(d), 9.0, n=120, d=d)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    found = GPRegressor().fit(X, y)
    scales = np.append(np.full(d - 1, 10.0), 0.1)
    there = GPRegressor(1.0 * RBF(scales), search=Optimize(restarts=0)).fit(X, y)
    assert found.report_["ard"]["kept"]
    assert found.report_["ard"]["search"]["scan"]["rows"] == 120
    assert found.log_evidence_ > there.log_evidence_ - 1e-3


def test_a_column_that_hardly_matters_is_given_up() -> None:
    """Two maxima: 1.5 deviations and less noise (6 nats lower), or a length scale without end."""
    rng = np.random.default_rng([7, 7])
    n, periods = int(rng.integers(100, 401)), rng.uniform(1.0, 15.0)
    X = rng.uniform(-0.5, 0.5, (n, 2))
    noise, phase, fast = np.exp(rng.uniform(np.log(0.03), 0.0)), rng.uniform(0, 6), rng.integers(2)
    f = np.sin(2 * np.pi * periods * X[:, fast] + phase) * np.prod(
        1 + 0.3 * np.sin(2 * np.pi * X), 1
    )
    y = f + noise * rng.normal(size=n)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    assert GPRegressor().fit(X, y).log_evidence_ > -18.7


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
def test_variance_and_sigmoid_are_known_without_another_solve(
    rng: np.random.Generator, latent: bool, smooth: bool, classes: int
) -> None:
    X, codes = rng.normal(size=(30, 1)), rng.integers(0, classes, 30)
    y = np.where(codes[:, None] == np.arange(1 if classes == 2 else classes), 1.0, -1.0)
    m = y.shape[1]
    tau, offset = (0.3, 0.1) if m == 1 else (np.full(m, 0.3), np.full(m, 0.1))
    loss = SquaredProbit(tau=tau, offset=offset, latent=latent)
    space = Space({"kernel": 1.0 * RBF(0.5), "loss": loss})
    criterion = PlscCriterion(space, simple_problem(X, y), Exact(), smooth=smooth)
    names = {entry.name: entry.where for entry in space.entries}
    value, u = criterion.settled(space.start, names)
    assert value == pytest.approx(criterion(u)[0], rel=1e-9)
    assert value > criterion(space.start)[0]
    # the ratio of noise and variance is as it was
    assert u[0] - u[2] == pytest.approx(space.start[0] - space.start[2])


def test_starts_are_the_places_that_no_neighbour_exceeds() -> None:
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 1)), rng.normal(size=(40, 1)) > 0.0
    space = Space({"kernel": 1.0 * RBF(0.5), "loss": SquaredProbit()})
    criterion = PlscCriterion(space, simple_problem(X, np.where(y, 1.0, -1.0)), Exact())
    starts = criterion.also(space.start, np.array([1]))
    values = [criterion(u)[0] for u in starts]
    assert 1 <= len(starts) <= 3
    assert values == sorted(values, reverse=True)
    names = {entry.name: entry.where for entry in space.entries}
    for by in (-0.7, 0.7):
        moved = starts[0].copy()
        moved[1] += by
        assert criterion.settled(moved, names)[0] <= values[0] + 1e-9
    _, others, told = scan(criterion, space)
    assert len(others) == told["starts"] + len(criterion.also(space.start, np.array([1])))


@pytest.mark.parametrize("fixed", ["noise", "tau"])
def test_parts_of_the_loss_may_be_fixed(rng: np.random.Generator, fixed: str) -> None:
    X, y = rng.normal(size=(20, 1)), np.where(rng.normal(size=(20, 1)) > 0, 1.0, -1.0)
    space = Space({"kernel": RBF(0.5), "loss": SquaredProbit().fix(fixed)})
    criterion = PlscCriterion(space, simple_problem(X, y), Exact())
    starts = criterion.also(space.start, np.array([0]))
    assert all(len(u) == len(space) for u in starts)
    assert (fixed == "noise") == (not starts)


def test_starts_lie_within_narrow_bounds(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(20, 1)), np.where(rng.normal(size=(20, 1)) > 0, 1.0, -1.0)
    loss = SquaredProbit(noise=0.1, tau=0.6).bound(tau=(0.5, 0.7), noise=(0.05, 0.2))
    space = Space({"kernel": 1.0 * RBF(0.5), "loss": loss})
    starts = PlscCriterion(space, simple_problem(X, y), Exact()).also(space.start, np.array([1]))
    assert starts
    low, high = space.bounds.T
    assert all(np.all((u >= low) & (u <= high)) for u in starts)


def test_both_ways_to_explain_mixed_labels_are_found() -> None:
    """A flat sigmoid over a function that meets all labels is 4 nats above noise in them."""
    rng = np.random.default_rng([7, 8001])
    n, periods = int(rng.integers(100, 401)), rng.uniform(1.0, 15.0)
    X = rng.uniform(-0.5, 0.5, (n, 1))
    noise, phase, _ = np.exp(rng.uniform(np.log(0.03), 0.0)), rng.uniform(0, 6), rng.integers(1)
    f = np.sin(2 * np.pi * periods * X[:, 0] + phase)
    y = f + noise * rng.normal(size=n)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = ProbabilisticLeastSquaresClassifier().fit(X, y > np.median(f))
    assert max(model.report_["search"]["start_values"]) > -23.02


def test_labels_are_compared_as_numbers(rng: np.random.Generator) -> None:
    """-n/2 log y'M y - 1/2 log |M^-1| is the log density of N(0, v M^-1), the best v, but for n."""
    X, y = rng.normal(size=(12, 2)), np.where(rng.normal(size=(12, 1)) > 0, 1.0, -1.0)
    weights = rng.uniform(0.5, 2.0, 12)
    problem = replace(simple_problem(X, y), weights=weights)
    space = Space({"kernel": 3.0 * RBF(0.7), "loss": Logistic()})
    guide = EvidenceCriterion(space, problem, Laplace()).guide(problem)
    C = RBF(0.7)(X) + np.diag(0.5 / weights)
    z = y[:, 0] - np.average(y[:, 0], weights=weights)
    quadratic = z @ np.linalg.solve(C, z)
    best = multivariate_normal(np.zeros(12), quadratic / 12 * C).logpdf(z)
    constant = -6.0 * (1.0 + np.log(2.0 * np.pi / 12.0))
    assert guide.height(space.start)[0] + constant == pytest.approx(best, abs=1e-10)
    regression = EvidenceCriterion(space, problem, Exact())
    assert type(regression.guide(problem)) is EvidenceCriterion


@pytest.mark.parametrize("machine", [GPClassifier, ProbabilisticLeastSquaresClassifier])
def test_classes_that_alternate_fast(machine: type) -> None:
    rng = np.random.default_rng(1)
    X, f = wave(rng, 5.0, noise=0.0)
    model = machine().fit(X, f > 0)
    at, truth = wave(rng, 5.0, n=300, noise=0.0)
    assert model.score(at, truth > 0) > 0.85
    assert model.report_["search"]["scan"]["starts"] == 1


def test_a_smooth_function_stays_as_it_was(rng: np.random.Generator) -> None:
    X, y = wave(rng, 0.7, n=60, d=2)
    plain = GPRegressor(search=Optimize(restarts=0)).fit(X, y)
    model = GPRegressor().fit(X, y)
    assert model.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-4)
    assert "scan" in model.report_["search"]
    assert "scan" not in plain.report_["search"]  # no restarts, no scan


def test_the_order_of_rows_and_columns_does_not_matter(rng: np.random.Generator) -> None:
    X, y = wave(rng, 8.0, n=100, d=2)
    model = GPRegressor().fit(X, y)
    rows = rng.permutation(len(X))
    other = GPRegressor().fit(X[rows][:, ::-1], y[rows])
    assert other.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-5)
    told, again = (m.report_["ard"]["search"]["scan"] for m in (model, other))
    assert again["gain"] == pytest.approx(told["gain"], rel=1e-3)


def test_bounds_and_priors_hold(rng: np.random.Generator) -> None:
    X, y = wave(rng, 9.0)
    kernel = (1.0 * RBF(2.0)).bound(kernel__length_scale=(1.0, 10.0))
    assert GPRegressor(kernel).fit(X, y).kernel_.kernel.length_scale >= 1.0 - 1e-9
    fixed = GPRegressor((1.0 * RBF(2.0)).fix("kernel__length_scale")).fit(X, y)
    assert "scan" not in fixed.report_["search"]
    prior = (1.0 * RBF(2.0)).prior(kernel__length_scale=LogNormal(np.log(2.0), 0.01))
    assert GPRegressor(prior).fit(X, y).kernel_.kernel.length_scale > 1.8


def test_there_is_nothing_to_scan_without_length_scales(rng: np.random.Generator) -> None:
    X, y = wave(rng, 1.0, n=30)
    assert "scan" not in GPRegressor(1.0 * Linear()).fit(X, y).report_["search"]


@pytest.mark.parametrize("n", [100, 1000, 4000])
def test_the_scan_alone_finds_the_scale_on_some_rows(n: int) -> None:
    X, y = wave(np.random.default_rng(n), n / 15, n=n)
    criterion, space = regression(X, y, length_scale=3.0)
    u, starts, told = scan(criterion, space)
    assert u is not None
    truth = np.log(10 / (2 * np.pi * n / 15))
    assert abs(u[1] - truth) < 1.0
    assert told["rows"] <= ROWS
    assert len(starts) == told["starts"] == 1
    assert told["evaluations"] < 20


def test_chosen_rows_do_not_depend_on_their_order(rng: np.random.Generator) -> None:
    X, y = rng.normal(size=(900, 2)), rng.normal(size=(900, 1))
    chosen = spread_out(simple_problem(X, y))
    assert ROWS / 2 < len(chosen) <= ROWS
    order = rng.permutation(900)
    again = spread_out(simple_problem(X[order], y[order]))
    np.testing.assert_array_equal(np.sort(order[again]), chosen)
    columns = spread_out(simple_problem(np.ascontiguousarray(X[:, ::-1]), y))
    np.testing.assert_array_equal(columns, chosen)
    # neighbours are among them as well as rows far apart
    distances = np.linalg.norm(X[chosen, None] - X[chosen], axis=2)[np.triu_indices(len(chosen), 1)]
    assert distances.min() < 0.01 * distances.max()


def test_some_rows_pose_the_problem_of_these_rows(rng: np.random.Generator) -> None:
    X, y = wave(rng, 2.0, n=40)
    criterion, space = regression(X, y)
    index = np.array([0, 3, 4, 17, 30])
    small = criterion.on(rows_of(criterion.problem, index))
    assert small(space.start)[0] == pytest.approx(regression(X[index], y[index])[0](space.start)[0])
    assert criterion.problem.points.shape == (40, 1)


@pytest.mark.parametrize("kernel", [1.0 * RBF(1.0), 2.0 * Matern(1.5, 0.7)])
def test_a_height_is_the_value_without_the_gradient(
    kernel: object, rng: np.random.Generator
) -> None:
    X, y = wave(rng, 2.0, n=30)
    space = Space({"kernel": kernel, "loss": Gaussian(0.1).prior(noise=LogNormal(0.0, 1.0))})
    criterion = EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact())
    assert criterion.height(space.start)[0] == pytest.approx(criterion(space.start)[0], rel=1e-12)
    labels = EvidenceCriterion(
        Space({"kernel": kernel, "loss": Logistic()}),
        simple_problem(X, np.sign(y)[:, None]),
        Laplace(),
    )
    u = labels.space.start
    assert labels.height(u)[0] == pytest.approx(labels(u)[0], rel=1e-10)
