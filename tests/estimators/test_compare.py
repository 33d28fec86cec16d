"""mercer.compare ranks only figures that are densities of the same thing."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor, RVRegressor, SmoothingSpline, compare
from mercer.estimators.shared.units import fingerprint, rows_fingerprint
from mercer.kernels import RBF
from mercer.losses import Gaussian


@pytest.fixture
def curve(rng):
    x = np.linspace(0, 1, 30)[:, None]
    return x, np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=30)


@pytest.fixture
def three(rng):
    X = rng.normal(size=(60, 2))
    return X, np.digitize(X[:, 0] + 0.4 * rng.normal(size=60), [-0.5, 0.5])


def named(ranking):
    return [entry.name for entry in ranking.entries]


def process(basis=None, unit=1.0):
    return GPRegressor(1.0 * RBF(0.3 * unit), loss=Gaussian(0.01), basis=basis, search=None)


def test_the_unit_of_x_does_not_decide_who_wins(curve) -> None:
    x, y = curve
    found = []
    for unit in (1.0, 1e3):
        machines = {
            "flat line": process("linear", unit).fit(x * unit, y),
            "no line": process(None, unit).fit(x * unit, y),
        }
        ranking = compare(machines)
        assert ranking.by == "loo"
        assert any("log evidence" in note and "different" in note for note in ranking.notes)
        found.append(named(ranking))
        loo = [entry.loo for entry in ranking.entries]
        assert loo == sorted(loo, reverse=True)
    assert found[0] == found[1]


def test_one_against_rest_is_not_ranked_beside_a_joint_model_by_evidence(three) -> None:
    X, y = three
    kernel = 4.0 * RBF(1.0)
    joint = GPClassifier(kernel, search=None).fit(X, y)
    rest = GPClassifier(kernel, inference="ep", search=None).fit(X, y)
    assert joint.log_evidence_ > rest.log_evidence_  # of other things: a sum of three machines
    ranking = compare({"softmax": joint, "ovr": rest})
    assert ranking.by == "loo"
    better = rest.loo_.total > joint.loo_.total
    assert named(ranking) == (["ovr", "softmax"] if better else ["softmax", "ovr"])
    two = compare({"a": rest, "b": GPClassifier(RBF(), inference="ep", search=None).fit(X, y)})
    assert two.by == "log_evidence"


def test_a_figure_asked_for_is_ranked_within_groups(three) -> None:
    X, y = three
    joint = GPClassifier(4.0 * RBF(), search=None).fit(X, y)
    flat = GPClassifier(4.0 * RBF(50.0), search=None).fit(X, y)
    rest = GPClassifier(4.0 * RBF(), inference="ep", search=None).fit(X, y)
    ranking = compare({"flat": flat, "ovr": rest, "joint": joint}, by="log_evidence")
    assert named(ranking) == ["joint", "flat", "ovr"]
    assert ranking.order == (2, 0, 1)
    assert len(set(ranking.groups)) == 2
    assert ranking.groups[0] == ranking.groups[1] != ranking.groups[2]
    text = str(ranking)
    assert all(group in text for group in ranking.groups)
    assert "one class against the rest" in text
    assert "one class against the rest" in ranking._repr_html_()
    assert [row["group"] for row in ranking.rows()] == list(ranking.groups)


def test_orders_of_splines_are_ranked_by_rows_left_out(curve) -> None:
    x, y = curve
    ranking = compare([SmoothingSpline().fit(x, y), SmoothingSpline(order=1).fit(x, y)])
    assert ranking.by == "loo"
    same = compare([SmoothingSpline().fit(x, y), SmoothingSpline(lam=1e-3).fit(x, y)])
    assert same.by == "log_evidence"


def test_equal_flat_priors_are_the_same_density(curve) -> None:
    """A cubic spline is a process with a flat line: by formula the same evidence."""
    x, y = curve
    spline = SmoothingSpline(lam=1e-3).fit(x, y)
    plate = mercer.ThinPlateSpline(order=2, lam=1e-3).fit(x, y)
    # the normalisations of the two penalties differ; the evidence is that of each one's best lam
    best = [SmoothingSpline().fit(x, y), mercer.ThinPlateSpline(order=2).fit(x, y)]
    assert best[0].log_evidence_ == pytest.approx(best[1].log_evidence_, abs=1e-4)
    assert compare([spline, plate]).by == "log_evidence"
    assert compare([spline, process("linear").fit(x, y)]).by == "log_evidence"
    assert compare([spline, process("constant").fit(x, y)]).by == "loo"


def test_a_flat_bias_is_a_flat_constant(curve) -> None:
    x, y = curve
    with_bias, without = RVRegressor().fit(x, y), RVRegressor(bias=False).fit(x, y)
    assert compare([with_bias, without]).by == "loo"
    assert compare([with_bias, process("constant").fit(x, y)]).by == "log_evidence"
    ranking = compare({"rv": with_bias, "gp": process().fit(x, y)})
    assert any("rv" in note and "cross-validation" in note for note in ranking.notes)


def test_other_targets_are_refused(curve, rng) -> None:
    x, y = curve
    machine = process().fit(x, y)
    for other in (10.0 * y, y[::-1].copy(), rng.normal(size=30)):
        with pytest.raises(ValueError, match=r"same data.*"):
            compare([machine, process().fit(x, other)])
    with pytest.raises(ValueError, match="same data"):
        compare([machine, process().fit(x, y, sample_weight=np.full(30, 2.0))])
    with pytest.raises(ValueError, match="same data"):
        compare([machine, process().fit(x[1:], y[1:])])


def test_the_same_rows_in_another_form_are_accepted(curve, rng) -> None:
    x, y = curve
    machine, order = process().fit(x, y), rng.permutation(30)
    shuffled = process().fit(x[order], y[order])
    assert compare([machine, shuffled]).by == "log_evidence"
    other = process().fit(np.hstack([x, x**2]), y)  # other columns, same targets
    assert compare([machine, other]).by == "log_evidence"
    twice = process().fit(np.vstack([x, x]), np.r_[y, y])
    heavy = process().fit(x, y, sample_weight=np.full(30, 2.0))
    assert compare([twice, heavy]).by == "log_evidence"


def test_probabilities_of_counts_are_no_densities(rng) -> None:
    x = np.linspace(0, 3, 40)[:, None]
    y = rng.poisson(np.exp(x[:, 0])).astype(float)
    ranking = compare(
        {
            "counts": GPRegressor(RBF(), loss="poisson", search=None).fit(x, y),
            "numbers": GPRegressor(RBF(), search=None).fit(x, y),
        }
    )
    assert len(set(ranking.groups)) == 2
    assert any("not ranked" in note for note in ranking.notes)


def test_labels_as_numbers_are_another_density(rng) -> None:
    X = rng.normal(size=(40, 2))
    y = X[:, 0] > 0
    squares = mercer.LeastSquaresClassifier().fit(X, y)
    trained = mercer.ProbabilisticLeastSquaresClassifier(search=None).fit(X, y)
    process = GPClassifier(RBF(), search=None).fit(X, y)
    ranking = compare({"squares": squares, "process": process}, by="log_evidence")
    assert len(set(ranking.groups)) == 2
    assert compare([trained, process]).by == "loo"  # both are probabilities of the labels


def test_a_noise_at_its_bound_is_said(rng) -> None:
    x = np.linspace(0, 6, 30)[:, None]
    exact = GPRegressor(random_state=0).fit(x, np.sin(x[:, 0]))
    assert "loss__noise" in exact.report_["search"]["at_bounds"]
    ranking = compare({"exact": exact, "straight": GPRegressor("linear").fit(x, np.sin(x[:, 0]))})
    assert any("exact" in note and "noise" in note for note in ranking.notes)


def test_after_a_model_file(curve, tmp_path) -> None:
    x, y = curve
    machines = [process("linear").fit(x, y), process().fit(x, y)]
    for i, machine in enumerate(machines):
        mercer.save(machine, tmp_path / f"{i}.mercer")
    loaded = [mercer.load(tmp_path / f"{i}.mercer") for i in range(2)]
    assert str(compare(loaded)) == str(compare(machines))


def test_machines_that_do_not_say(curve) -> None:
    """A model file of an earlier version: nothing is assumed."""
    x, y = curve
    old, new = process().fit(x, y), process().fit(x, y)
    del old.report_["density"]
    ranking = compare({"old": old, "new": new}, by="log_evidence")
    assert len(set(ranking.groups)) == 2
    assert compare([old]).by == "log_evidence"


def test_fingerprints(rng) -> None:
    X, y = rng.normal(size=(50, 3)), rng.normal(size=(50, 1))
    w, order = rng.uniform(0.1, 2, 50), rng.permutation(50)
    same = rows_fingerprint(X, y, w)
    assert rows_fingerprint(X[order], y[order], w[order]) == same
    assert rows_fingerprint(np.vstack([X, X[:1]]), np.vstack([y, y[:1]]), np.r_[w, 0.0]) == same
    assert rows_fingerprint(np.asfortranarray(X), y, w) == same
    assert rows_fingerprint(X[:, ::-1], y, w) != same
    assert rows_fingerprint(X, -y, w) != same
    assert rows_fingerprint(X, y, 2 * w) != same
    swapped = y.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    assert rows_fingerprint(X, swapped, w) != same
    assert fingerprint(np.array([0.0])) == fingerprint(np.array([-0.0]))
    ones = np.ones((4, 1))
    assert rows_fingerprint(ones, ones, np.ones(4)) == rows_fingerprint(
        ones[:1], ones[:1], np.full(1, 4.0)
    )


def test_the_fingerprint_of_many_rows_is_that_of_their_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(40, 3)), rng.normal(size=(40, 1)), rng.uniform(size=40)
    whole = rows_fingerprint(X, y, w)
    monkeypatch.setattr("mercer.estimators.shared.units.BLOCK", 12)
    assert rows_fingerprint(X, y, w) == whole  # sums modulo 2^64, without a warning
