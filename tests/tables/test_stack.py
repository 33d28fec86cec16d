"""Several machines as one: weights against brute force, mixtures against integrals, files."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import mercer
from mercer import GPClassifier, GPRegressor, KernelClassifier, KernelRegressor
from mercer.persist import part_class
from mercer.tables.stack.machine import StackedClassifier, StackedRegressor
from mercer.tables.stack.mixture import densities, mixed_left_out
from mercer.tables.stack.weights import (
    Weighed,
    _by_halves,
    best_weights,
    combined,
    free,
    gain,
    nested,
    single,
    stacked,
)

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

RNG = np.random.default_rng(0)
X = np.sort(RNG.uniform(0, 6, size=(40, 1)), axis=0)
Y = np.sin(X[:, 0]) + 0.2 * RNG.standard_t(3, size=40)
LABELS = np.where(np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=40) > 0, "up", "down")
NEW = np.linspace(-0.5, 6.5, 9)[:, None]


@pytest.fixture(scope="module")
def members():
    smooth = GPRegressor("rbf").fit(X, Y)
    tails = KernelRegressor("rbf", loss="student_t", inference="laplace").fit(X, Y)
    return [smooth, tails]


@pytest.fixture(scope="module")
def mixture(members):
    return StackedRegressor.of(["smooth", "tails"], members, np.array([0.3, 0.7]))


# ------------------------------------------------------------------ weights
def test_weights_are_those_of_a_grid():
    L = RNG.normal(size=(60, 3)) - np.array([0.0, 0.1, 0.2])
    counts = RNG.integers(0, 4, size=60).astype(float)
    found = best_weights(L, counts)
    steps = np.arange(0, 1.0001, 0.01)
    grid = np.array([(a, b, 1 - a - b) for a in steps for b in steps if a + b <= 1 + 1e-9])
    with np.errstate(divide="ignore"):
        values = [np.average(combined(L, np.maximum(w, 0.0)), weights=counts) for w in grid]
    own = np.average(combined(L, found.weights), weights=counts)
    assert own >= max(values) - 1e-12
    np.testing.assert_allclose(found.weights, grid[int(np.argmax(values))], atol=0.02)
    assert found.gap <= 1e-9
    assert found.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_the_gap_is_a_certificate(scale):
    """F(best) - F(w) <= log max_k dF/dw_k, also where densities differ by many orders."""
    L = scale * RNG.normal(size=(200, 6))
    w = free(L)
    P = np.exp(L - L.max(axis=1, keepdims=True))
    slopes = (P / (P @ w)[:, None]).mean(axis=0)
    assert slopes.max() <= 1.0 + 1e-8
    assert np.all(np.abs(slopes[w > 1e-6] - 1.0) < 1e-5)


def test_order_does_not_matter_and_counts_are_repeats():
    L = RNG.normal(size=(80, 4))
    order = np.array([2, 0, 3, 1])
    np.testing.assert_allclose(free(L[:, order]), free(L)[order], atol=1e-6)
    counts = RNG.integers(1, 3, size=80)
    repeated = np.repeat(L, counts, axis=0)
    np.testing.assert_allclose(free(L, counts.astype(float)), free(repeated), atol=1e-6)
    difference = L[:, 0]
    assert gain(difference, counts.astype(float)) == pytest.approx(
        gain(np.repeat(difference, counts))
    )


def test_equal_machines_and_a_single_one():
    L = np.repeat(RNG.normal(size=(30, 1)), 3, axis=1)
    assert np.count_nonzero(stacked(L).weights) == 1
    assert stacked(L[:, :1]).weights.tolist() == [1.0]
    assert stacked(L[:5], same=np.zeros(5, dtype=int)).outside.sum() == 5.0  # one group


def _beside_copies(n, seed):
    """Log densities (n, 4) of the truth and of three noisy copies of it, and of new rows."""
    rng = np.random.default_rng(seed)
    rows = n + 5000
    means = np.column_stack([np.zeros(rows), *(0.3 * rng.normal(size=(3, rows)))])
    L = -0.5 * (rng.normal(size=rows)[:, None] - means) ** 2
    return L[:n], L[n:]


def test_one_machine_is_kept_when_nothing_is_gained():
    """The truth beside noisy copies: of many rows alone, of fewer a mixture that costs little."""
    alone = [np.count_nonzero(stacked(_beside_copies(1000, s)[0]).weights) == 1 for s in range(20)]
    assert sum(alone) >= 18
    lost = []
    for seed in range(20):
        L, new = _beside_copies(300, seed)
        lost.append(np.mean(new[:, 0] - combined(new, stacked(L).weights)))
    assert np.mean(lost) < 0.003


def test_a_combination_is_taken_where_much_is_gained():
    """Two machines that know one half of the rows each."""
    rng = np.random.default_rng(1)
    half = rng.random(300) < 0.5
    L = np.column_stack([np.where(half, 0.0, -3.0), np.where(half, -3.0, 0.0)])
    found = stacked(L)
    np.testing.assert_allclose(found.weights, free(L), atol=0.02)
    assert 0.3 < found.weights[0] < 0.7
    assert found.gained.mean() > 0.5


def test_close_machines_are_mixed_rather_than_chosen_by_chance():
    """Six machines that err alike and independently: their mixture is better than any of them."""
    better, apart = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        means = 0.4 * rng.normal(size=(2100, 6))
        L = -0.5 * (rng.normal(size=2100)[:, None] - means) ** 2
        found, new = stacked(L[:100]), L[100:]
        mixed = combined(new, found.weights).mean()
        better.append(mixed - new.mean(axis=0).max())
        apart.append(combined(L[:100], found.outside).mean() - mixed)
    assert np.mean(better) > 0.01
    assert abs(np.mean(apart)) < 2.0 * np.std(apart) / np.sqrt(10)  # honest on average


def test_weights_of_a_row_are_found_without_it():
    L = RNG.normal(size=(50, 3))
    moved = L.copy()
    moved[7] = [9.0, -9.0, 0.0]
    before, after = (_by_halves(some, None, None) for some in (L, moved))
    np.testing.assert_array_equal(before.outside[7], after.outside[7])
    assert np.abs(before.weights - after.weights).max() > 1e-3
    counts = RNG.integers(1, 4, size=50)
    same = np.repeat(np.arange(50), counts)
    one = stacked(L, counts.astype(float), same=np.arange(50))
    other = stacked(L[same], same=same)
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
    np.testing.assert_allclose(one.outside[same], other.outside, atol=1e-6)


def test_nested_figures_do_not_see_their_own_rows():
    L = RNG.normal(size=(50, 3))
    W = nested(L, single)
    moved = L.copy()
    moved[7] = [50.0, -50.0, 0.0]
    assert np.array_equal(nested(moved, single)[7], W[7])
    assert combined(L, W).mean() < combined(L, free(L)).mean()


# ------------------------------------------------------------------ the mixture of quantities
def test_one_member_is_that_machine(members):
    alone = StackedRegressor.of(["a", "b"], members, np.array([1.0, 0.0]))
    first = members[0]
    for ours, theirs in [
        (alone.predict(NEW), first.predict(NEW)),
        (alone.predict(NEW, return_std=True)[1], first.predict(NEW, return_std=True)[1]),
        (alone.predict_interval(NEW)[1], first.predict_interval(NEW)[1]),
        (alone.predictive_log_density(X, Y), first.predictive_log_density(X, Y)),
        (alone.predict_latent(NEW)[1], first.predict_latent(NEW)[1]),
    ]:
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_distribution_is_the_integral_of_the_density(mixture):
    x = np.array([[2.0]])

    def density(y):
        return float(np.exp(mixture.predictive_log_density(x, np.array([y]))[0]))

    middle = float(mixture.predict(x)[0])
    for y in (middle - 1.0, middle + 0.2):
        below = quad(density, -np.inf, middle - 3.0)[0]
        below += quad(density, middle - 3.0, y, limit=200)[0]
        assert mixture.predictive_cdf(x, [y])[0] == pytest.approx(below, abs=1e-6)
    low, high = mixture.predict_interval(x, 0.8)
    assert quad(density, low[0], high[0], limit=200)[0] == pytest.approx(0.8, abs=1e-6)
    assert mixture.predictive_cdf(x, low)[0] == pytest.approx(0.1, abs=1e-9)


def test_moments_are_those_of_the_mixture(mixture, members):
    pairs = [m.predict(NEW, return_std=True) for m in members]
    mean = 0.3 * pairs[0][0] + 0.7 * pairs[1][0]
    second = sum(w * (s**2 + m**2) for w, (m, s) in zip((0.3, 0.7), pairs, strict=True))
    ours = mixture.predict(NEW, return_std=True)
    np.testing.assert_allclose(ours[0], mean)
    np.testing.assert_allclose(ours[1] ** 2, second - mean**2)
    assert mixture.sample_y(NEW, 7, random_state=0).shape == (9, 7)
    assert np.all(mixture.predict_spread(NEW) > 0.0)


def test_left_out_rows_are_mixed_alike(members, mixture):
    from mercer.tables.choose.left_out import predicted_by

    lefts = [predicted_by(m, X, Y, 0) for m in members]
    ours, theirs = mixed_left_out(lefts, np.array([0.3, 0.7])), predicted_by(mixture, X, Y, 0)
    np.testing.assert_allclose(ours.log_density, theirs.log_density)
    np.testing.assert_allclose(ours.mean, theirs.mean)
    np.testing.assert_allclose(ours.std, theirs.std)
    one = mixed_left_out(lefts, np.array([1.0, 0.0]))
    assert one.score == pytest.approx(lefts[0].score)
    assert one.calibration == pytest.approx(lefts[0].calibration)
    assert densities(lefts).shape == (40, 2)


def test_fit_finds_the_weights_and_keeps_given_ones():
    machines = [("smooth", GPRegressor("rbf")), ("line", GPRegressor("linear"))]
    found = StackedRegressor(machines).fit(X, Y)
    L = np.column_stack([m.loo_.log_density for m in found.members_])
    np.testing.assert_allclose(found.weights_, free(L))
    assert StackedRegressor(machines, [0.5, 0.5]).fit(X, Y).weights_.tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match="add up to one"):
        StackedRegressor(machines, [0.5, 0.9]).fit(X, Y)
    with pytest.raises(ValueError, match="needs machines"):
        StackedRegressor().fit(X, Y)


# ------------------------------------------------------------------ classes
def test_probabilities_are_averaged():
    machines = [
        ("process", GPClassifier()),
        ("line", KernelClassifier("linear", loss="logistic")),
    ]
    model = StackedClassifier(machines, [0.6, 0.4]).fit(X, LABELS)
    parts = [m.predict_proba(NEW) for m in model.members_]
    np.testing.assert_allclose(model.predict_proba(NEW), 0.6 * parts[0] + 0.4 * parts[1])
    assert set(model.predict(NEW)) <= {"up", "down"}
    found = StackedClassifier(machines).fit(X, LABELS, sample_weight=np.ones(40))
    assert found.weights_.sum() == pytest.approx(1.0)


# ------------------------------------------------------------------ tables
@pytest.fixture(scope="module")
def table():
    """Two regimes of noise: no single machine has both."""
    rng = np.random.default_rng(3)
    a, b = rng.uniform(-2, 2, size=(2, 160))
    noise = np.where(rng.random(160) < 0.15, 1.5, 0.1) * rng.normal(size=160)
    return {"a": a, "b": b, "y": np.sin(2 * a) + 0.5 * b + noise}


CANDIDATES = ["linear", "Gaussian process", "Gaussian process, rough"]


@pytest.fixture(scope="module")
def model(table):
    from mercer.tables.choose import decide

    def given(L, counts, most, same):  # whatever it gains
        weights = np.array([0.5, 0.3, 0.2])
        return Weighed(weights, np.tile(weights, (len(L), 1)), np.full(len(L), 0.1))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decide, "stacked", given)
        return mercer.fit(table, "y", candidates=CANDIDATES)


def test_a_table_model_of_several(model, table, tmp_path):
    assert model.chosen_.name == "combination"
    machine = model.machine_
    assert isinstance(machine, StackedRegressor)
    assert machine.weights_.tolist() == [0.5, 0.3, 0.2]
    assert "50 %" in model.chosen_.sentence
    assert any(note.startswith("a combination: 50 %") for note in model.notes_)
    assert model.influence_.shape == (160,)
    assert model.influence_.sum() <= 1.0 + 1e-9
    assert model.representation_["form"] == "exact"
    assert len(model.representation_["members"]) == 3
    low, high = model.predict_interval(table)
    assert np.all(low < high)
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert np.array_equal(again.predict(table), model.predict(table))
    assert np.array_equal(again.predict_interval(table)[0], low)
    assert again.left_out_.score == model.left_out_.score
    assert str(again.machine_.summary()) == str(machine.summary())
    assert again.propose(table, 2).indices.shape == (2,)


def test_members_that_know_their_rows_in_different_ways(members):
    from mercer.tables.choose.notes import representation

    few = {"points": 7, "chosen": "kmeans", "explained": 0.9}
    sparse = GPRegressor("rbf").fit(X, Y)
    sparse.report_ |= {"inducing": few, "evidence_bounds": [1.0, 2.0]}
    mixture = StackedRegressor.of(["smooth", "points"], [members[0], sparse], np.array([0.6, 0.4]))
    found = representation(mixture, 40, 40)
    assert (found["form"], found["rows"], found["points"]) == ("mixed", 40, None)
    assert "smooth: it was fitted to all 40 rows, exactly; points: " in found["words"]
    assert [m["form"] for m in found["members"]] == ["exact", "inducing"]


def test_folds_fit_all_members_anew(model):
    found = model.cross_validate(folds=2)
    assert np.isfinite(found.score)


def test_check_slopes_and_report_know_it(model, tmp_path):
    assert str(model.check())
    assert model.coefficients() == []
    pytest.importorskip("jinja2")
    model.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "It is a combination: 50 %" in page


def test_single_keeps_one(table):
    one = mercer.fit(table, "y", candidates=["linear", "heavy tails"], single=True)
    assert not isinstance(one.machine_, StackedRegressor)


def test_onnx_of_a_combination(model, table):
    runtime = pytest.importorskip("onnxruntime")
    proto = mercer.to_onnx(model)
    session = runtime.InferenceSession(proto.SerializeToString())
    feed = {name: table[name][:, None] for name in ("a", "b")}
    found = dict(zip([o.name for o in session.get_outputs()], session.run(None, feed), strict=True))
    mean, std = model.predict(table, return_std=True)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-8)
    np.testing.assert_allclose(found["std"], std, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda s: s.update(weights_=np.array([0.5, 0.6, 0.2])), "add up to one"),
        (lambda s: s.update(weights_=np.array([1.5, -0.5, 0.0])), "weights_"),
        (lambda s: s.update(names_=["a", "b"]), "names_"),
        (lambda s: s["members_"].pop(), "members_"),
        (lambda s: s["members_"].__setitem__(0, {"word": "drop"}), "member"),
        (lambda s: s["members_"].__setitem__(0, {"own": "StackedRegressor", "state": {}}), "step"),
    ],
)
def test_hostile_files_are_refused(model, change, says):
    stored = model.machine_._state()
    change(stored)
    with pytest.raises(Exception, match=says):
        StackedRegressor._from_state(stored, lambda name: part_class(name, {}))


def test_names_are_no_format_strings(members):
    odd = StackedRegressor.of(["{units.__class__}", "b"], members, np.array([0.5, 0.5]))
    assert "{units.__class__}: Data" in str(odd.summary())
