"""Searches that begin on some of the rows: the same maximum, and few evaluations on all rows."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPClassifier, GPRegressor
from mercer.inference import Exact
from mercer.kernels import RBF, Precomputed
from mercer.losses import Gaussian, Logistic
from mercer.search import EvidenceCriterion, Optimize, Space, optimize, simple_problem, subset
from mercer.search.progress import to_stderr
from mercer.search.scan import rougher
from mercer.search.subset import (
    WhiteCoordinates,
    awake,
    best_two,
    from_subsets,
    nested,
    unit_curvature,
)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin on subsets from 200 points: 60 and 125 of 250."""
    monkeypatch.setattr(optimize, "FROM", 200)
    monkeypatch.setattr(optimize, "FROM_ITERATED", 200)
    monkeypatch.setattr(subset, "FIRST", (60, 120))


def data(rng: np.random.Generator, n: int = 250) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + 0.2 * rng.normal(size=n)


def test_same_maximum_by_few_full_evaluations(rng: np.random.Generator) -> None:
    X, y = data(rng)
    slow = GPRegressor(search=Optimize(subsets=False)).fit(X, y)
    fast = GPRegressor().fit(X, y)
    assert fast.log_evidence_ == pytest.approx(slow.log_evidence_, abs=1e-3)
    assert "subsets" not in slow.report_["search"]
    for one, other in (
        (fast.report_["search"], slow.report_["search"]),
        (fast.report_["ard"]["search"], slow.report_["ard"]["search"]),
    ):
        assert one["subsets"]["rows"] == [62, 125]
        assert min(one["subsets"]["evaluations"]) > 0
        assert one["evaluations"] < 0.6 * other["evaluations"]
        assert one["converged"]
    assert fast.report_["search"]["evaluations"] <= 12
    assert fast.report_["ard"]["kept"] == slow.report_["ard"]["kept"]


def test_same_maximum_of_a_classifier(rng: np.random.Generator) -> None:
    X, y = data(rng)
    kernel = 1.0 * RBF()
    slow = GPClassifier(kernel, inference="laplace", search=Optimize(subsets=False)).fit(X, y > 0)
    fast = GPClassifier(kernel, inference="laplace").fit(X, y > 0)
    assert fast.log_evidence_ == pytest.approx(slow.log_evidence_, abs=1e-3)
    # labels tell little: the given start is screened on all rows, too
    assert fast.report_["search"]["evaluations"] <= 12 + Optimize().screen + 1


def test_order_of_rows_and_columns_is_of_no_account(rng: np.random.Generator) -> None:
    X, y = data(rng)
    rows, columns = rng.permutation(len(X)), [2, 0, 1]
    one = GPRegressor().fit(X, y)
    other = GPRegressor().fit(X[rows][:, columns], y[rows])
    assert one.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-9)
    assert one.report_["search"]["subsets"] == other.report_["search"]["subsets"]
    assert one.report_["ard"]["search"]["subsets"] == other.report_["ard"]["search"]["subsets"]


def problems(kernel: object, loss: object, X: np.ndarray, y: np.ndarray) -> list:
    space = Space({"kernel": kernel, "loss": loss})
    return nested(EvidenceCriterion(space, simple_problem(X, y[:, None]), Exact()), space)


def test_rows_that_are_known_by_number_are_searched_together(rng: np.random.Generator) -> None:
    X, y = data(rng)
    first, second = problems(1.0 * RBF(), Gaussian(0.1), X, y)
    assert set(map(tuple, first.points)) < set(map(tuple, second.points))
    assert problems(1.0 * RBF(), Gaussian(np.full(len(X), 0.1)).fix(), X, y) == []
    assert problems(1.0 * Precomputed(), Gaussian(0.1), X @ X.T, y) == []


def test_a_rare_class_is_not_left_to_chance(rng: np.random.Generator) -> None:
    X, _ = data(rng)
    y = np.arange(len(X)) < 12
    model = GPClassifier(1.0 * RBF(), search=Optimize(max_iter=3)).fit(X, y)
    assert "subsets" not in model.report_["search"]


def test_given_start_alone_is_climbed_from_on_all_rows(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor(1.0 * RBF(), search=Optimize(restarts=0, max_iter=2)).fit(X, y)
    assert "subsets" not in model.report_["search"]


def test_interrupt_on_a_subset_keeps_its_best(rng: np.random.Generator) -> None:
    X, y = data(rng)
    seen = []

    def stop(event: dict) -> None:
        seen.append(event["stage"])
        if len(seen) == 15:
            raise KeyboardInterrupt

    model = GPRegressor(1.0 * RBF(), search=Optimize(progress=stop)).fit(X, y)
    assert model.report_["search"]["interrupted"]
    assert seen[-1] == "searching on 62 of 250 rows"
    assert np.isfinite(model.log_evidence_)


def test_bounds_hold(rng: np.random.Generator) -> None:
    X, y = data(rng)
    kernel = (1.0 * RBF()).bound(kernel__length_scale=(3.0, 4.0))
    slow = GPRegressor(kernel, search=Optimize(subsets=False)).fit(X, y)
    fast = GPRegressor(kernel).fit(X, y)
    assert fast.log_evidence_ == pytest.approx(slow.log_evidence_, abs=1e-3)
    assert fast.report_["search"]["at_bounds"] == slow.report_["search"]["at_bounds"]


class Hill:
    """A quadratic of so many rows, its Hessian (p, p) and its minimum."""

    def __init__(self, H: np.ndarray, top: np.ndarray, rows: int = 1) -> None:
        self.H, self.top, self.rows, self.seen = rows * H, top, rows, 0

    def __call__(self, u: np.ndarray, start: object) -> tuple[float, np.ndarray, None]:
        self.seen += 1
        g = self.H @ (u - self.top)
        return 0.5 * float((u - self.top) @ g), g, None


def test_white_coordinates_make_the_gradient_a_step_of_newton(rng: np.random.Generator) -> None:
    """By a quadratic with a known Hessian, also on four times the rows."""
    A = rng.normal(size=(4, 4))
    H, top = A @ A.T + 2.0 * np.eye(4), rng.uniform(-0.9, 0.9, 4)
    wide = np.tile([-9.0, 9.0], (4, 1))
    S, flat = unit_curvature(Hill(H, top), np.zeros(4), wide)
    assert not flat.any()
    np.testing.assert_allclose(S.T @ H @ S, np.eye(4), atol=1e-9)
    white = WhiteCoordinates(Hill(4.0 * H, top), wide, np.zeros(4), S / 2.0)
    _, gradient, _ = white(np.zeros(4), None)
    assert np.linalg.norm(gradient) <= 1.0  # what L-BFGS-B takes as its first step, as it is
    np.testing.assert_allclose(white.at(-gradient), top, rtol=1e-9)
    far = WhiteCoordinates(Hill(4.0 * H, 5.0 * top), wide, np.zeros(4), S / 2.0)
    step = far.at(-far(np.zeros(4), None)[1])
    np.testing.assert_allclose(step, top / np.abs(top).max(), rtol=1e-9)


def test_a_bound_between_is_met(rng: np.random.Generator) -> None:
    hill, low = Hill(np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.5, 0.0])), [-2.0, -2.0]
    bounds = np.column_stack([low, [1.0, 2.0]])
    start = np.array([-0.5, 0.5])
    white = WhiteCoordinates(hill, bounds, start, unit_curvature(hill, start, bounds)[0])
    end = white.climbed(Optimize()._climb, 1e-12)
    np.testing.assert_allclose(end.u, [1.0, 0.25], atol=1e-6)  # 0.5 (1 - 1.5) + u_2 = 0


def test_an_end_at_a_bound_is_climbed_from_only_if_that_leads_inward() -> None:
    hill = Hill(np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([1.5, 0.0]))
    bounds = np.column_stack([[-2.0, -2.0], [1.0, 2.0]])
    white = WhiteCoordinates(hill, bounds, np.zeros(2), np.linalg.cholesky(np.linalg.inv(hill.H)))
    assert white.left(np.array([1.0, 0.25])) < 1e-12  # 0.5 (1 - 1.5) + u_2 = 0, uphill is outward
    spread = np.linalg.inv(hill.H)[1, 1]
    assert white.left(np.array([1.0, 1.25])) == pytest.approx(0.5 * 1.0**2 * spread)
    hill.top = np.array([0.5, -0.25])  # uphill is inward: the slope is 2 (1 - 0.5) + 0.5 (0.5)
    assert white.left(np.array([1.0, 0.25])) >= 0.5 * 1.25**2


def test_what_is_higher_after_a_few_steps_is_climbed_on_all_rows() -> None:
    """The better maximum of some rows is narrow: on all of them it is low where it was before."""

    class Two(Hill):
        """A narrow hill of height 9 at u = 5 + shift and a wide one of height 5 at u = -5."""

        def __init__(self, shift: float, rows: int) -> None:
            super().__init__(np.eye(1), np.zeros(1), rows)
            self.shift = shift

        def __call__(self, u: np.ndarray, start: object) -> tuple[float, np.ndarray, None]:
            self.seen += 1
            top, height, H = (5.0 + self.shift, 9.0, 200.0) if u[0] > 0.0 else (-5.0, 5.0, 2.0)
            r = u - top
            return 0.5 * H * float(r @ r) - height, H * r, None

    few, every, wide = Two(0.0, 10), Two(0.5, 20), np.array([[-20.0, 20.0]])
    climb = Optimize()._climb
    screened = [climb(few, wide, np.array([side])) for side in (4.0, -4.0)]
    [end] = from_subsets([few, every], wide, screened, climb, np.zeros(1))
    assert end.u == pytest.approx([5.5])
    assert end.value == pytest.approx(9.0)


def test_a_rough_function_without_noise_is_a_start_of_its_own() -> None:
    space = Space({"kernel": 1.0 * RBF([1.0, 2.0]), "loss": Gaussian(0.5)})
    [u] = rougher(space)
    at = space.parts_at(u)
    assert np.all(at["kernel"].kernel.length_scale < [0.5, 1.0])
    assert at["kernel"].variance == 1.0
    assert 0.0 < at["loss"].noise < 0.05
    assert rougher(Space({"kernel": 1.0 * RBF(), "loss": Logistic()})) == []


def test_a_column_that_few_rows_did_not_need_is_found_again() -> None:
    """exp(-2 u) leads on to infinity, exp(-u) - exp(-2 u) back from it; both are flat out there."""

    class Column(Hill):
        def __call__(self, u: np.ndarray, start: object) -> tuple[float, np.ndarray, None]:
            a, b = np.exp(-u)
            return a**2 - b + b**2, np.array([-2.0 * a**2, b - 2.0 * b**2]), None

    column, out = Column(np.eye(2), np.zeros(2)), np.array([13.0, 13.0])
    wide = np.tile([-20.0, 20.0], (2, 1))
    _, flat = unit_curvature(column, out, wide)
    assert flat.all()
    np.testing.assert_array_equal(awake(column, out, flat, np.zeros(2))[0], [13.0, 4.0])


def test_a_column_whose_best_place_is_beyond_where_it_was_tried_is_found() -> None:
    """Columns by a = exp(-2 u), all but the last useless: value g a - (sum a)^2 / 2 in units.

    The best of the last is a = g, worth g^2 / 2, and lies beyond 6, where it is tried first: there
    its slope leads away, as it does on some of the rows (g < 0), to which it is useless.
    """
    unit = np.exp(-2.0 * 6.5)  # a column matters at about 6.5 from home

    class Columns(Hill):
        def __call__(self, u: np.ndarray, start: object) -> tuple[float, np.ndarray, None]:
            self.seen += 1
            a = np.exp(-2.0 * u[1:]) / unit
            slope = self.top - a.sum()  # of the value, in a
            value = self.top @ a - 0.5 * a.sum() ** 2 - 0.5 * self.rows * u[0] ** 2
            return -float(value), np.array([self.rows * u[0], *(2.0 * a * slope)]), None

    worth, idle = 1.2, -np.array([0.5, 0.4, 0.3])
    few = Columns(np.eye(1), np.array([*idle, -0.1]), 20)
    every = Columns(np.eye(1), np.array([*idle, worth]), 40)
    wide, home, climb = np.tile([-14.0, 14.0], (5, 1)), np.zeros(5), Optimize()._climb
    screened = [climb(few, wide, np.array([0.5, 12.0, 12.0, 12.0, 12.0]))]
    assert np.all(screened[0].u[1:] >= 12.0)
    [end] = from_subsets([few, every], wide, screened, climb, home)
    assert end.value == pytest.approx(0.5 * worth**2, abs=1e-4)
    assert end.u[-1] == pytest.approx(-0.5 * np.log(worth * unit), abs=1e-2)
    assert np.all(end.u[1:-1] >= 12.0)


def test_the_second_of_two_is_elsewhere() -> None:
    class End:
        def __init__(self, u: float, value: float) -> None:
            self.u, self.value = np.array([u]), value

    near, far, best = End(0.1, 2.0), End(3.0, 1.0), End(0.0, 3.0)
    assert best_two([near, far, best]) == [best, far]
    assert best_two([near, best]) == [best]


def test_progress_tells_the_time_of_an_evaluation_and_what_is_left(
    rng: np.random.Generator, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y = data(rng)
    seen: list[dict] = []
    GPRegressor(1.0 * RBF(), search=Optimize(progress=seen.append)).fit(X, y)
    assert all(event["seconds"] > 0.0 for event in seen)
    assert seen[0]["left"] > 5.0 * seen[0]["seconds"]
    assert seen[-1]["left"] >= seen[-1]["seconds"]  # never nothing before the end
    to_stderr({"stage": "s", "evaluations": 3, "best": 1.0, "seconds": 4.0, "left": 200.0})
    assert "4.0 s each, about 3 min left" in capsys.readouterr().err


def test_rows_that_tell_nothing_leave_the_search_to_all() -> None:
    """Few labels of chance: the variance goes to zero, where all is flat; on all it need not."""
    few, more = Hill(np.diag([1e-3, 1e-4]), np.array([-9.0, 0.0])), Hill(np.eye(2), np.zeros(2), 9)
    wide = np.tile([-20.0, 20.0], (2, 1))
    for hills in ([few, more], [few]):
        start = Optimize()._climb(few, wide, np.zeros(2))
        assert from_subsets(hills, wide, [start], Optimize()._climb, np.zeros(2)) == []
    assert more.seen == 0
    few.top = np.ones(2)
    assert from_subsets([few, more], wide, [start], Optimize()._climb, np.ones(2))


def test_one_length_scale_is_climbed_on_all_rows_where_columns_do_not_pay(
    rng: np.random.Generator,
) -> None:
    X, y = data(rng)
    clear = GPRegressor().fit(X, y)
    assert clear.report_["ard"]["kept"]
    assert clear.report_["search"]["evaluations"] == 0
    y = np.sin(X.sum(axis=1)) + 0.2 * rng.normal(size=len(X))
    slow = GPRegressor(search=Optimize(subsets=False)).fit(X, y)
    fast = GPRegressor().fit(X, y)
    assert not fast.report_["ard"]["kept"]
    assert fast.report_["search"]["evaluations"] > 0
    assert fast.report_["search"]["starts"] == slow.report_["search"]["starts"]
    assert fast.log_evidence_ == pytest.approx(slow.log_evidence_, abs=1e-3)
    assert fast.report_["ard"]["gain"] == pytest.approx(slow.report_["ard"]["gain"], abs=1e-2)


def test_ends_that_differ_in_what_is_flat_are_one(rng: np.random.Generator) -> None:
    class End:
        def __init__(self, u: list[float]) -> None:
            self.u, self.value, self.report = np.array(u, dtype=float), 0.0, {}

    wide = np.tile([-20.0, 20.0], (2, 1))
    hill = Hill(np.diag([9.0, 1e-3]), np.zeros(2))
    assert len(subset._at_different_maxima(hill, [End([0, 0]), End([0.1, 8])], wide, 1.0)) == 1
    assert len(subset._at_different_maxima(hill, [End([0, 0]), End([3, 8])], wide, 1.0)) == 2


def test_what_few_labels_say_is_tested_on_all_rows() -> None:
    """A hill that half of the rows do not show: the given start leads up to it on all of them."""
    wide, start = np.tile([-20.0, 20.0], (2, 1)), np.zeros(2)
    watch = Hill(np.eye(2), np.ones(2), 9)
    search, there = Optimize(), optimize.Result(np.full(2, 8.0), -100.0)
    assert search._beaten(watch, wide, [start], there)
    assert not search._beaten(watch, wide, [start], optimize.Result(np.ones(2), 1.0))
    assert watch.seen <= 2 * (search.screen + 3)
