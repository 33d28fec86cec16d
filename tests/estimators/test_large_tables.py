"""Inducing points and iterative solutions through the estimators: bounds, reports, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from mercer import GPClassifier, GPRegressor, load, save
from mercer.kernels import RBF, Periodic, White
from mercer.linalg import Inducing, Iterative
from mercer.losses import Gaussian


def table(n: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2)) * [1.0, 100.0]
    f = np.sin(2.0 * X[:, 0]) + (X[:, 1] / 100.0) ** 2
    return X, 50.0 + 10.0 * (f + 0.2 * rng.normal(size=n))


GIVEN = {"kernel": 150.0 * RBF(np.array([1.0, 150.0])), "loss": Gaussian(4.0), "search": None}


def test_the_bounds_hold_in_the_units_of_the_user():
    X, y = table()
    y = y - y.mean()
    exact = GPRegressor(**GIVEN).fit(X, y)
    few = GPRegressor(**GIVEN, gram=Inducing(m=25)).fit(X, y)
    low, high = few.evidence_bounds_
    assert low == few.log_evidence_ < exact.log_evidence_
    assert high is None
    solved = GPRegressor(**GIVEN, gram=Iterative(rank=40, tol=1e-6)).fit(X, y)
    low, high = solved.evidence_bounds_
    assert low - 1e-6 <= exact.log_evidence_ <= high + 1e-6
    assert high - low < 10.0  # that of the determinant
    new = table(30, seed=1)[0]
    assert np.allclose(solved.predict(new), exact.predict(new), atol=1e-3)
    error = np.abs(solved.predict(new) - exact.predict(new)).max()
    assert error <= solved.report_["inference"]["mean_error"]
    both = [m.predict(new, return_std=True)[1] for m in (solved, exact)]
    assert np.allclose(*both, rtol=0.02)
    assert exact.evidence_bounds_ is None


def test_the_summary_says_the_error_in_the_units_of_the_target():
    X, y = table(150)
    gram, new = Iterative(rank=20, tol=1.0), table(30, seed=1)[0]
    for given in (GIVEN, {"kernel": "rbf", "search": None}):
        solved = GPRegressor(**given, gram=gram).fit(X, y)
        [told] = [value for _, label, value in solved.summary().rows() if label == "representation"]
        assert "standardised" not in told
        bound = float(told.split("means are within ")[1].split()[0])
        assert bound == pytest.approx(
            solved.report_["inference"]["mean_error"] * solved.units_.y_scale[0], rel=0.05
        )
        exact = GPRegressor(**given).fit(X, y)
        assert np.abs(solved.predict(new) - exact.predict(new)).max() <= 1.05 * bound
    assert solved.units_.y_scale[0] > 5.0
    two = GPRegressor("rbf", search=None, gram=gram).fit(X, np.column_stack([y, 3.0 * y]))
    assert "standardised units" in str(two.summary())


def test_weights_and_repeated_rows_are_the_same():
    X, y = table(120)
    w = np.ones(120)
    w[:10] = 2.0
    twice = np.vstack([X, X[:10]]), np.concatenate([y, y[:10]])
    for gram in (Inducing(m=X[::8]), Iterative(rank=20, tol=1e-8)):
        model = GPRegressor(**GIVEN, gram=gram)
        weighted = clone(model).fit(X, y, w)
        repeated = clone(model).fit(*twice)
        assert weighted.log_evidence_ == pytest.approx(repeated.log_evidence_, rel=1e-8)
        assert np.allclose(weighted.predict(X), repeated.predict(X), rtol=1e-8)


def test_points_are_searched_for_and_reported():
    X, y = table(600)
    model = GPRegressor(gram=Inducing(m=30, rows=150)).fit(X, y)
    told = model.report_["inducing"]
    assert told["points"] == 30
    assert told["explained"] > 0.99
    assert told["rows_of_first_search"] == 150
    assert model.score(*table(200, seed=1)) > 0.95
    assert "30 inducing points (kmeans, moved)" in str(model.summary())
    assert "at least" in str(model.summary())
    assert model.left_out_.total == pytest.approx(model.log_evidence_, rel=0.1)
    one = GPRegressor(gram=Inducing(m=10, rows=150, move=False)).fit(X, y)
    assert one.report_["inducing"]["chosen"] == "kmeans"
    assert one.log_evidence_ < model.log_evidence_ + 1.0


def test_as_many_points_as_are_worth_it():
    X, y = table(700)
    model = GPRegressor(gram=Inducing(rows=150, tol=0.05)).fit(X, y)
    assert model.report_["inducing"]["points"] in range(120, 257)
    assert model.report_["inducing"]["gain_by_doubling"] < 0.05


def test_left_out_rows_by_refitting():
    X, y = table(60)
    Z = X[::6]
    given = GIVEN | {"basis": "constant"}
    model = GPRegressor(**given, gram=Inducing(m=Z)).fit(X, y)
    for i in (0, 7, 31):
        keep = np.arange(60) != i
        other = GPRegressor(**given, gram=Inducing(m=Z)).fit(X[keep], y[keep])
        mean, std = other.predict(X[i : i + 1], return_std=True)
        assert model.left_out_.mean[i] == pytest.approx(mean[0], rel=1e-8)
        assert model.left_out_.variance[i] == pytest.approx(std[0] ** 2, rel=1e-8)


def test_files_hold_the_triangles(tmp_path):
    X, y = table(200)
    for basis in (None, "linear"):
        model = GPRegressor(**GIVEN, basis=basis, gram=Inducing(m=15)).fit(
            X, np.column_stack([y, -y])
        )
        save(model, tmp_path / "m.mercer")
        again = load(tmp_path / "m.mercer")
        for a, b in zip(
            again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
        ):
            assert np.array_equal(a, b)
        assert again.evidence_bounds_ == model.evidence_bounds_


def test_classes():
    X, y = table(500)
    model = GPClassifier(gram=Inducing(m=20, rows=150, max_iter=20)).fit(X, y > y.mean())
    assert model.score(X, y > y.mean()) > 0.93
    assert model.report_["gram"] == "inducing"
    assert model.left_out_.error < 0.1


@pytest.mark.parametrize(
    ("gram", "message"),
    [
        ("nystrom", "unknown gram 'nystrom'; known are 'auto', 'dense'"),
        (Inducing(m=400), "400 inducing points for 400 distinct rows save nothing"),
        (Inducing(m=0), "m is a number of points, 'auto', or the points"),
        (Inducing(m=np.full((3, 2), np.nan)), "inducing point 0 is not finite"),
        (Inducing(m=np.zeros((3, 5))), "have 5 columns, and X has 2"),
        (Inducing(choose="greedy"), "choose must be one of 'kmeans'"),
        (Iterative(rank=0), "rank must be an integer of at least 1"),
        (Iterative(precision="half"), "precision is 'single' or 'double'"),
    ],
)
def test_refusals(gram, message):
    X, y = table()
    model = GPRegressor(gram=gram)
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert not hasattr(model, "posteriors_")


def test_refusals_of_parts():
    X, y = table(60)
    counts = np.round(np.abs(y))
    cases = [
        (GPRegressor(loss="poisson", gram="iterative"), "needs Gaussian noise", counts),
        (GPRegressor(basis="linear", gram="iterative"), "no unpenalised basis", y),
        (GPRegressor(search="hmc", gram="iterative"), "search='evidence' or None", y),
        (GPRegressor(search="loo", gram=Inducing(m=5)), "search='evidence' or None", y),
        (GPRegressor(Periodic().on(0), gram=Inducing(m=5, move=True)), "cannot move the points", y),
    ]
    for model, message, target in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(X, target)


def rough_table(n: int):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(4.0 * X[:, 0]) * X[:, 1] + 0.3 * rng.normal(size=n)


@pytest.mark.parametrize(
    ("n", "rows", "steps"), [(300, 100, 6), pytest.param(1500, 200, 25, marks=pytest.mark.slow)]
)
def test_steps_on_all_rows_improve_the_exact_evidence(n, rows, steps):
    X, y = rough_table(n)
    found = {}
    for refine in (0, steps):
        gram = Iterative(rank=n // 4, rows=rows, refine=refine)
        model = GPRegressor(1.0 * RBF(np.ones(2)), standardize=False, gram=gram).fit(X, y)
        given = {"loss": model.loss_, "search": None, "standardize": False}
        same = GPRegressor(model.kernel_, **given)
        found[refine] = same.fit(X, y).log_evidence_
    assert found[steps] > found[0] + 1.0
    told = model.report_["search"]
    assert told["refined"]["steps"] == steps
    assert told["origin"] == f"exact evidence of {rows} rows, {steps} refinement steps on all"
    assert told["origin"] in str(model.summary())


def test_neighbours_are_the_nearest_by_the_kernel(monkeypatch):
    from mercer.inference.base import Problem
    from mercer.search import sample

    monkeypatch.setattr(sample, "BLOCK", 7)
    X = np.random.default_rng(3).normal(size=(60, 3))
    n = len(X)
    of_rows = {"points": X, "y": X[:, :1], "weights": np.ones(n), "spread": np.zeros((n, 1))}
    by_row = {"group": np.arange(n), "rows": X[:, :1], "row_weights": np.ones(n), "basis": None}
    index, scales = np.array([0, 6, 7, 31, 59]), np.array([0.5, 2.0, 100.0])
    found = sample.with_nearest(
        Problem(**of_rows, **by_row), index, RBF(scales), np.random.default_rng(0)
    )
    apart = np.square((X[:, None] - X) / scales).sum(axis=2)
    np.fill_diagonal(apart, np.inf)
    expected = np.union1d(index, apart[index].argmin(axis=1))
    np.testing.assert_array_equal(found.points, X[expected])


def test_neighbours_correct_what_a_sample_takes_for_signal(monkeypatch):
    from mercer.search import sample

    # pairs of rows 0.002 apart, the pairs 0.05 apart: no two rows of a small sample are near
    monkeypatch.setattr(sample, "FEW", 10)
    rng = np.random.default_rng(8)
    x = np.repeat(np.arange(400) * 0.05, 2) + np.tile([0.0, 0.002], 400)
    y = np.sin(40.0 * x) + 0.4 * rng.normal(size=800)
    given = {"standardize": False, "random_state": 0, "gram": Iterative(rank=400, rows=80, tol=1e9)}
    model = GPRegressor(1.0 * RBF(1.0), **given).fit(x[:, None], y)
    told = model.report_["search"]
    few, near = told["samples"]["rows"]
    assert 1.8 * few < near == told["rows"]
    assert told["samples"]["judged_by"] == 160
    assert told["samples"]["values"][1] > told["samples"]["values"][0] + 100.0


def test_an_interrupt_keeps_the_steps_so_far(monkeypatch):
    from mercer.linalg.iterative.probed import ProbedGram

    X, y = rough_table(120)
    pullback, done = ProbedGram.pullback, []

    def interrupted(self, *given):
        done.append(self.kernel)
        if len(done) == 4:
            raise KeyboardInterrupt
        return pullback(self, *given)

    monkeypatch.setattr(ProbedGram, "pullback", interrupted)
    gram = Iterative(rank=30, rows=80, refine=10)
    model = GPRegressor(1.0 * RBF(), standardize=False, gram=gram).fit(X, y)
    assert model.report_["search"]["refined"] == {"steps": 3, "averaged": 3, "interrupted": True}
    assert model.report_["search"]["interrupted"]
    scales = [kernel.kernel.length_scale for kernel in done]
    low, high = min(scales[1:]), max(scales[1:])
    assert low <= model.kernel_.kernel.length_scale <= high
    assert np.all(np.isfinite(model.predict(X, return_std=True)[1]))


def test_a_noise_part_of_the_kernel_is_noise():
    X, y = table(150)
    y = y - y.mean()
    inside = 150.0 * RBF(np.array([1.0, 150.0])) + White(3.0)
    Z = X[::5]
    one = GPRegressor(inside, loss=Gaussian(1.0), search=None, gram=Inducing(m=Z)).fit(X, y)
    two = GPRegressor(**GIVEN, gram=Inducing(m=Z)).fit(X, y)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, rel=1e-9)
    assert np.allclose(one.predict(X), two.predict(X))


def test_rounds_that_do_not_suffice_are_said():
    X, y = table(400)
    hard = GPRegressor(
        1e6 * RBF(100.0),
        loss=Gaussian(1e-6),
        search=None,
        gram=Iterative(rank=1, tol=1e-20),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        hard.fit(X, y)
    assert not hard.report_["inference"]["converged"]
    [told] = [str(w.message) for w in caught if issubclass(w.category, ConvergenceWarning)]
    ended = hard.report_["inference"]
    assert told == ended["message"]
    assert f"ended at rho^2 = {ended['rho2']:.3g}" in told
    assert f"means are certain within {ended['mean_error']:.3g}" in told
    assert hard.left_out_ is None
    assert "leave-one-out" in hard.report_["left_out"]


# hyperparameters of the exact evidence of 4000 rows: length scales, variance, noise
FOUND = {
    "kin40k": (
        [2.6846, 2.5019, 1.5188, 1.6619, 1.6943, 1.2727, 1.2560, 1.8584],
        1.40233,
        0.00437954,
    )
}
# of the exact posterior of n rows there: RMSE of 5000 others, evidence (methods-scale, 7.1)
EXACT = {"kin40k": (30_000, 0.079, 26054.0)}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXACT)
def test_the_exact_posterior_of_a_large_table(name, data_folder):
    n, rmse, evidence = EXACT[name]
    scales, variance, noise = FOUND[name]
    with np.load(data_folder / name / f"{name}.npz") as held:
        X, y = np.asarray(held["X"], dtype=float), np.ravel(held["y"]).astype(float)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:n], order[n : n + 5000]
    X = (X - X[train].mean(axis=0)) / X[train].std(axis=0)
    y = (y - y[train].mean()) / y[train].std()
    kernel, loss = variance * RBF(np.array(scales)), Gaussian(noise)
    model = GPRegressor(kernel, loss=loss, search=None, standardize=False, gram="iterative")
    model.fit(X[train], y[train])
    assert model.report_["inference"]["rho2"] <= 0.01
    found = float(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2)))
    assert found == pytest.approx(rmse, rel=0.02)
    low, high = model.evidence_bounds_
    assert low < evidence < high
    assert model.log_evidence_ == pytest.approx(evidence, abs=0.02 * n)
