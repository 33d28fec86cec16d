"""Weights of rows: as many equal rows in encoder, fit, ranking, figures and checks; mistakes."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin

import mercer
from mercer.tables import as_frame, infer_columns
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.candidates import Candidate
from mercer.tables.choose.left_out import of_classes, of_quantity
from mercer.tables.choose.notes import influence
from mercer.tables.data.encode import encoded, fit_encoder
from mercer.tables.data.weights import middle, read_weights
from mercer.tables.judge.simple import constant

N = 60
RNG = np.random.default_rng(8)
W = RNG.integers(1, 4, N)
X = RNG.normal(size=N)
TOWN = RNG.choice(["Ulm", "Bonn", "Kiel"], N)
SIGNAL = np.sin(2 * X) + (TOWN == "Ulm") + 0.2 * RNG.normal(size=N)
TABLE = {
    "x": [None if i % 13 == 0 else float(v) for i, v in enumerate(X)],
    "town": TOWN.tolist(),
    "when": np.datetime64("2024-01-01") + RNG.integers(0, 20, N).astype("timedelta64[D]"),
}
TARGETS = {
    "quantity": SIGNAL,
    "two": np.where(SIGNAL > 0.3, "yes", "no"),
    "three": np.array(["a", "b", "c"])[np.digitize(SIGNAL, [0.0, 1.0])],
}


def table(kind, repeats=None):
    """The table with its weights as column w, or every row as often as ``repeats`` says."""
    full = TABLE | {"y": TARGETS[kind], "w": W}
    if repeats is None:
        return full
    return {n: np.repeat(np.asarray(c), repeats, axis=0) for n, c in full.items() if n != "w"}


@pytest.mark.parametrize(
    ("kind", "candidate"),
    [
        ("quantity", "linear"),
        ("quantity", "Gaussian process"),
        ("two", "kernel logistic"),
        ("two", "support vectors"),
        ("two", "linear"),
        pytest.param("three", "Gaussian process, joint", marks=pytest.mark.slow),
    ],
)
def test_weight_two_is_the_row_twice(kind, candidate):
    """Exact leave-one-out by one fit: fit, ranking and figures are those of repeated rows.

    Where the clock ends a search, it ends here or there: there is time for all of them.
    """
    given = {"candidates": [candidate], "time_budget": 1e4}
    weighted = mercer.fit(table(kind), "y", weights="w", **given)
    repeated = mercer.fit(table(kind, W), "y", **given)
    assert weighted.report_["time"]["bound"] == repeated.report_["time"]["bound"] == []
    assert [c.name for c in weighted.columns_] == ["x", "town", "when"]
    if kind == "quantity":
        for one, other in zip(
            weighted.predict(TABLE, return_std=True),
            repeated.predict(TABLE, return_std=True),
            strict=True,
        ):
            np.testing.assert_allclose(one, other, rtol=1e-5)
    else:
        p, q = weighted.predict_proba(TABLE), repeated.predict_proba(TABLE)
        np.testing.assert_allclose(p, q, atol=1e-5)
    for one, other in zip(weighted.ranking_, repeated.ranking_, strict=True):
        assert one.name == other.name
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.error == pytest.approx(other.error, rel=1e-4)
        assert one.calibration == pytest.approx(other.calibration, abs=1e-3)
    shares = np.bincount(np.repeat(np.arange(N), W), repeated.influence_)
    np.testing.assert_allclose(weighted.influence_, shares, atol=1e-4)
    unweighted = mercer.fit(table(kind), "y", features=list(TABLE), candidates=[candidate])
    assert abs(unweighted.left_out_.score - weighted.left_out_.score) > 1e-3


def test_a_column_or_an_array():
    named = mercer.fit(table("two"), "y", weights="w", candidates=["linear"])
    given = mercer.fit(TABLE | {"y": TARGETS["two"]}, "y", weights=W, candidates=["linear"])
    np.testing.assert_array_equal(named.predict_proba(TABLE), given.predict_proba(TABLE))
    assert (named.weighted_by_, given.weighted_by_) == ("w", None)
    np.testing.assert_array_equal(named.weights_, given.weights_)


def test_weight_zero_is_no_row():
    w = np.where(np.arange(N) % 4 == 1, 0.0, 1.0)
    full = TABLE | {"y": TARGETS["quantity"]}
    weighted = mercer.fit(full, "y", weights=w, candidates=["linear"])
    kept = {name: np.asarray(c)[w > 0] for name, c in full.items()}
    alone = mercer.fit(kept, "y", candidates=["linear"])
    np.testing.assert_allclose(weighted.predict(TABLE), alone.predict(TABLE), rtol=1e-6)
    np.testing.assert_array_equal(weighted.rows_, np.flatnonzero(w))
    np.testing.assert_array_equal(weighted.left_rows_, np.flatnonzero(w))
    assert weighted.given_ == N
    assert "15 rows of weight zero were left out" in weighted.notes_


def test_light_weights_are_said():
    model = mercer.fit(table("two"), "y", weights="w", candidates=["linear"])
    assert not any("add up to" in note for note in model.notes_)
    model = mercer.fit(
        TABLE | {"y": TARGETS["two"]}, "y", weights=W / W.sum(), candidates=["linear"]
    )
    assert any("the weights of 60 rows add up to 1:" in note for note in model.notes_)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("town", "the weights 'town' are texts, not numbers"),
        ("when", "the weights 'when' are dates, not numbers"),
        ("x", "the weights 'x': sample_weight must be finite and not negative; row 0 has nan"),
        ("W", "no column 'W'"),
        ("y", "cannot be the target and the weights too"),
        (np.where(np.arange(N) == 3, -1.0, 1.0), "not negative; row 3 has -1.0"),
        (np.where(np.arange(N) == 3, np.inf, 1.0), "finite.*row 3 has inf"),
        (np.zeros(N), "all sample weights are zero: nothing is left to learn from"),
        (np.ones(7), r"sample_weight has shape \(7,\), expected \(60,\)"),
    ],
)
def test_mistakes_cost_one_sentence(weights, message):
    with pytest.raises(ValueError, match=message):
        mercer.fit(TABLE | {"y": TARGETS["quantity"]}, "y", weights=weights)


def test_more_mistakes():
    with pytest.raises(ValueError, match="'w' cannot be an input twice, nor the target or weights"):
        mercer.fit(table("two"), "y", weights="w", features=["x", "w"])
    with pytest.raises(TypeError, match="the name of a column or 3 numbers, not a object"):
        read_weights(as_frame({"x": [1, 2, 3]}), object())


class Plain(RegressorMixin, BaseEstimator):
    """A machine that knows no weights."""

    def fit(self, X, y):
        raise AssertionError("it was tried")


def test_a_machine_without_weights_is_left_out_with_the_reason(monkeypatch):
    best = import_module("mercer.tables.learn")
    given = best.candidates_for

    def more(*arguments):
        return [*given(*arguments), Candidate("plain", "no weights", lambda X, w: [Plain()])]

    monkeypatch.setattr(best, "candidates_for", more)
    full = table("quantity")
    model = mercer.fit(full, "y", weights="w", candidates=["linear", "plain"])
    row = next(row for row in model.ranking_ if row.name == "plain")
    assert row.by == "not tried: it cannot be fitted to weighted rows"
    assert row.score is None
    assert "weighted rows" in str(model.compare())
    with pytest.raises(ValueError, match="plain: not tried: it cannot be fitted to weighted rows"):
        mercer.fit(full, "y", weights="w", candidates=["plain"])


# ---------------------------------------------------------------------- files and checks
@pytest.fixture(scope="module")
def model():
    return mercer.fit(table("two"), "y", weights="w", candidates=["linear"])


def test_a_file_keeps_the_weights(model, tmp_path):
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(again.weights_, W)
    np.testing.assert_array_equal(again.left_out_.weights, W)
    assert again.weighted_by_ == "w"
    assert again.left_out_.score == model.left_out_.score
    again.save(tmp_path / "n.mercer")
    assert (tmp_path / "n.mercer").read_bytes() == (tmp_path / "m.mercer").read_bytes()


def test_cross_validation_weighs(model, tmp_path):
    found = model.cross_validate(folds=3)
    np.testing.assert_array_equal(found.weights, W)
    assert found.score == pytest.approx(np.average(found.log_density, weights=W))
    model.save(tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.cross_validate(table("two"), folds=3).score == found.score
    changed = table("two") | {"w": np.where(np.arange(N) < 5, 20, W)}
    assert again.cross_validate(changed, folds=3).score != found.score
    dropped = table("two") | {"w": np.where(np.arange(N) < 5, 0, W)}
    assert len(again.cross_validate(dropped, folds=3).y) == N - 5


def test_weights_of_an_array_belong_to_their_table():
    full = TABLE | {"y": TARGETS["two"]}
    model = mercer.fit(full, "y", weights=W, candidates=["linear"])
    assert len(model.cross_validate(folds=3).y) == N
    part = {name: np.asarray(c)[:40] for name, c in full.items()}
    with pytest.raises(ValueError, match="fitted to 60 weighted rows, and this table has 40"):
        model.cross_validate(part, folds=3)


# ---------------------------------------------------------------------- the parts
def test_the_encoder_is_that_of_repeated_rows():
    counts = np.where(TOWN == "Kiel", 1, 3)  # Kiel is rare among 150 rows, not among 60
    counts[np.flatnonzero(TOWN == "Kiel")[4:]] = 0
    there = np.flatnonzero(counts)
    frame = as_frame(TABLE).take(there)
    columns = infer_columns(frame, chosen=True)
    encoder, rows = fit_encoder(frame, columns, counts[there].astype(float))
    copies = np.repeat(np.arange(len(there)), counts[there])
    other, repeated = fit_encoder(frame.take(copies), columns)
    np.testing.assert_allclose(rows[copies], repeated, atol=1e-12)
    new = as_frame({"x": [None, 5.0], "town": ["Kiel", "Ulm"], "when": TABLE["when"][:2]})
    np.testing.assert_allclose(
        encoded(encoder, new, columns), encoded(other, new, columns), atol=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_weighted_median(seed):
    rng = np.random.default_rng(seed)
    values, counts = rng.integers(0, 5, 9).astype(float), rng.integers(1, 4, 9)
    want = np.median(np.repeat(values, counts))
    assert middle(values, counts.astype(float)) == want
    assert middle(values, counts / 8) == want


@pytest.mark.parametrize("k", [0, 2, 3])
def test_figures_are_those_of_repeated_rows(k, rng):
    n, w = 40, np.r_[np.ones(20), np.full(20, 3)].astype(int)
    if k == 0:
        y, mean, std = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.5, 2, n)
        make = [lambda r: of_quantity(y[r], mean[r], std[r], -(y[r] ** 2), "x")]
    else:
        y, p = rng.integers(0, k, n).astype(float), rng.dirichlet(np.ones(k), n)
        make = [lambda r: of_classes(y[r], p[r], "x")]
    make.append(lambda r: constant(y[r], k))
    rows, copies = np.arange(n), np.repeat(np.arange(n), w)
    for i, of in enumerate(make):
        repeated = of(copies)
        weighted = constant(y, k, w.astype(float)) if i else of(rows)
        object.__setattr__(weighted, "weights", w.astype(float))
        np.testing.assert_allclose(weighted.log_density[copies], repeated.log_density)
        for figure in ("score", "error", "calibration"):
            assert getattr(weighted, figure) == pytest.approx(getattr(repeated, figure)), figure


def test_a_sigmoid_on_weighted_rows():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(60, 2))
    labels = np.array([None if i % 3 else str(z[0] > 0) for i, z in enumerate(Z)], dtype=object)
    one, plain = (
        SigmoidClassifier(mercer.LapSVC()).fit(Z, labels, **given).predict_proba(Z)
        for given in ({"sample_weight": np.ones(60)}, {})
    )
    np.testing.assert_array_equal(one, plain)
    heavy = np.where(labels == "True", 9.0, 1.0)
    other = SigmoidClassifier(mercer.LapSVC()).fit(Z, labels, sample_weight=heavy)
    assert other.predict_proba(Z)[:, 1].mean() > plain[:, 1].mean()


def test_influence_is_shared_by_weight():
    Z = np.array([[0.0], [0.0], [1.0], [2.0]])
    w = np.array([1.0, 3.0, 1.0, 1.0])
    machine = mercer.GPRegressor(search=None).fit(Z, [0.0, 1.0, 2.0, 0.0], sample_weight=w)
    found = influence(machine, Z, w)
    assert found[1] == pytest.approx(3 * found[0])
    assert found.sum() == pytest.approx(1.0)


def test_weights_of_one_are_no_weights():
    frame = as_frame({"x": np.arange(6.0), "w": np.ones(6)})
    assert read_weights(frame, "w") is None
    assert read_weights(frame, np.ones(6)) is None
    assert read_weights(frame, np.full(6, 2.0)).tolist() == [2.0] * 6
