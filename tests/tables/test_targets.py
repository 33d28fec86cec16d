"""Targets as they are: counts, powers, quantities that are never negative, rare classes."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor, losses
from mercer.tables.choose.candidates import candidates_for, is_counted, lent
from mercer.tables.choose.left_out import of_classes
from mercer.tables.judge.classes import notes_of_classes, ranked

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


def names(**shape):
    X = np.random.default_rng(0).normal(size=(60, 2))
    return [c.name for c in candidates_for("regression", X, False, 0, **shape)]


def test_candidates_follow_the_target():
    assert {"Gaussian process, interactions", "Gaussian process, edges"} <= set(names())
    assert {"logarithm", "power"} <= set(names(skewed=True))
    assert "counts" in names(counts=True)
    assert not {"logarithm", "power", "counts"} & set(names())


@pytest.mark.parametrize(
    ("y", "counted"),
    [
        ([0, 1, 0, 4, 2], True),
        ([5, 6, 5, 7, 6], False),  # grades vary less than counts
        ([1999, 2005, 2020], False),
        ([0, 1, 1, 0], False),
        ([0.5, 1, 2, 8], False),
        ([-1, 0, 3, 8], False),
    ],
)
def test_counts(y, counted):
    assert is_counted(np.array(y, dtype=float)) is counted


def test_the_best_kernel_is_lent():
    X = np.random.default_rng(0).normal(size=(60, 2))
    every = {c.name: c for c in candidates_for("regression", X, False, 0, skewed=True)}
    tried = [(0.1, GPRegressor("anova12")), (0.3, GPRegressor("anova32")),
             (0.9, GPRegressor("rbf", basis="linear")), (0.8, GPRegressor("linear"))]  # fmt: skip
    assert lent(every["heavy tails"], tried).make(X, None)[0].kernel == "anova32"
    assert lent(every["power"], []).make(X, None)[0].kernel == "rbf"
    [bent] = [c for c in candidates_for("regression", np.exp(2.0 * X), False, 0) if c.bends]
    assert lent(bent, tried).make(X, None)[0].kernel == "warped_anova32"
    labels = [(0.2, GPClassifier("matern52"))]
    [bent] = [c for c in candidates_for("binary", np.exp(2.0 * X), False, 2) if c.bends]
    assert lent(bent, labels).make(X, None)[0].kernel == "warped_matern52"
    assert lent(every["linear"], tried).make(X, None)[0].kernel == "linear"


@pytest.mark.parametrize("bent", [True, False])
def test_skewed_columns_are_bent_where_that_pays(bent):
    rng = np.random.default_rng(0)
    x = np.exp(1.5 * rng.normal(size=120))
    y = (np.sin(3.0 * np.log(x)) if bent else 0.3 * x) + 0.2 * rng.normal(size=120)
    names = ["Gaussian process", "Gaussian process, bent"]
    model = mercer.fit({"x": x, "y": y}, "y", candidates=names, time_budget=300)
    row = next(r for r in model.ranking_ if r.name == names[1])
    if bent:
        assert model.chosen_.name == names[1]
        assert model.machine_.kernel == "warped_rbf"
    else:
        assert model.chosen_.name == names[0]
        assert "no skewed column pays" in row.by
        assert row.score is None


def test_a_count_is_predicted_as_one():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 4.0, size=150)
    y = rng.poisson(np.exp(x - 2.0)).astype(float)
    model = mercer.fit(
        {"x": x, "y": y}, "y", kind="regression", candidates=["Gaussian process", "counts"]
    )
    assert model.chosen_.name == "counts"
    low, high = model.predict_interval({"x": [0.0, 4.0]})
    assert low[0] == 0.0
    assert all(end == np.floor(end) for end in (*low, *high))


def test_no_end_below_zero(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.uniform(size=80)
    y = np.abs(x - 0.2 + 0.3 * rng.normal(size=80))
    model = mercer.fit({"x": x, "y": y}, "y", candidates=["linear"])
    inside = model.machine_.predict_interval(model.encode({"x": [0.0]}))
    assert inside[0][0] < 0.0
    model.save(tmp_path / "m.mercer")
    for each in (model, mercer.load(tmp_path / "m.mercer")):
        assert each.predict_interval({"x": [0.0]})[0][0] == 0.0
        assert each.predict({"x": [-9.0]})[0] == 0.0
    assert any("no value of the target is below 0" in note for note in model.notes_)
    free = mercer.fit({"x": x, "y": y - 0.5}, "y", candidates=["linear"])
    assert free.predict_interval({"x": [0.0]})[0][0] < 0.0


def test_a_rare_class_is_spoken_of():
    codes = np.repeat([0.0, 1.0], [90, 10])
    p = np.where(codes == 1.0, 0.3, 0.05)
    p[:9], p[-1] = 0.4, 0.02  # nine false alarms, one row that looks like the others
    left = of_classes(codes, np.column_stack([1.0 - p, p]), "5 folds")
    found = ranked(left, 1)
    before = np.mean(p[90:, None] > p[None, :90])  # by brute force over all pairs
    assert found["auc"] == pytest.approx(before)
    assert (found["found"], found["found_at_share"]) == (0.0, 0.9)
    notes = notes_of_classes(left, np.array(["no", "yes"]))
    assert "the class 'yes' is never predicted" in notes[0]
    assert "'yes' is rare, 10 % of the rows" in notes[1]
    assert notes_of_classes(of_classes(codes, np.eye(2)[codes.astype(int)], "5 folds"), "ny")[
        0
    ].startswith("the class 'y' is rare")


def test_a_power_is_found_and_is_a_density():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(120, 1))
    t = 3.0 * np.sin(X[:, 0]) + 0.3 * rng.normal(size=120)
    y = 50.0 * np.exp(np.arcsinh(0.8 * t) / 0.8)
    power = GPRegressor(loss="box_cox").fit(X, y)
    assert 0.5 < power.loss_.power < 1.0
    assert power.log_evidence_ > GPRegressor(loss="log_gaussian").fit(X, y).log_evidence_ + 5.0
    # the same in the user's units, without a search and without standardised units
    again = GPRegressor(power.kernel_, loss=power.loss_, search=None, standardize=False).fit(X, y)
    np.testing.assert_allclose(again.predict(X), power.predict(X), rtol=1e-6)
    grid = np.exp(np.linspace(-12, 16, 4001))
    one = np.exp(power.predictive_log_density(np.tile(X[:1], (4001, 1)), grid))
    assert np.trapezoid(one, grid) == pytest.approx(1.0, abs=1e-3)


def test_a_power_near_zero_is_the_logarithm():
    y, f = np.array([0.3, 2.0, 9.0]), np.array([0.1, -0.4, 2.0])
    near = losses.BoxCox(1e-6, 0.3).value(y, f)
    np.testing.assert_allclose(near, losses.LogGaussian(0.3).value(y, f), rtol=1e-9)
    with pytest.raises(ValueError, match="power between 0 and 1"):
        losses.BoxCox(power=2.0)
