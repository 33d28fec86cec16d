"""LapMEDClassifier in streams: the reference stream, the single formula, memory, checkpoints."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mercer
from mercer import LapMEDClassifier, MEDClassifier
from mercer.inference.graph import Landmarked, Whole
from mercer.kernels import RBF
from tests.reference import manifold, med

OPTIONS: dict[str, Any] = {"C": 10.0, "kernel": RBF(1.0), "n_neighbors": 4, "heat": 0.5}
CLASSES = [-1.0, 1.0]


def batch(rng: np.random.Generator, n: int = 30, known: int = 6) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0.0, 1.0, -1.0)
    return X, np.where(np.arange(n) < known, y, np.nan)


def reference() -> list[tuple[np.ndarray, np.ndarray]]:
    return [(X, np.where(y == 0.0, np.nan, y)) for X, y in manifold.reference_batches()]


def state(model: LapMEDClassifier) -> bytes:
    stored = model._state()
    rest = {k: v for k, v in vars(model).items() if k not in ("memory_", "kernel", "kernel_")}
    return pickle.dumps([stored, sorted(rest.items(), key=lambda pair: pair[0])])


# exact, and landmarks that are all rows
@pytest.mark.parametrize("memory", [{}, {"budget": 0}, {"budget": 15}])
def test_reference_stream(memory: dict[str, Any]) -> None:
    model = LapMEDClassifier(**OPTIONS, **memory)
    for t, ((X, y), (alpha, bias, cov)) in enumerate(
        zip(reference(), manifold.STREAM, strict=True)
    ):
        model.partial_fit(X, y, classes=CLASSES)
        assert model.intercept_[0] == pytest.approx(bias, abs=1e-8)
        assert model.process_(med.NEW)[0, 1] == pytest.approx(cov, abs=1e-9)
        place = np.searchsorted(model.support_, np.arange(4)[np.array(alpha) > 0] + 10 * t)
        found = model.memory_.coef[place, 0]
        np.testing.assert_allclose(np.abs(found), np.array(alpha)[np.array(alpha) > 0], atol=1e-7)
        assert model.report_["inference"]["converged"]
        assert model.report_["batches"] == t + 1
    np.testing.assert_allclose(model.decision_function(med.NEW), manifold.DECISION, atol=1e-8)
    np.testing.assert_array_equal(model.stream_, [3, 30])
    assert isinstance(model.memory_, Landmarked if memory else Whole)


@pytest.mark.parametrize("beta", [0.5, 50.0])
def test_stream_is_the_single_formula(rng: np.random.Generator, beta: float) -> None:
    batches = [batch(rng, n, known) for n, known in ((20, 6), (35, 9), (1, 1), (15, 0), (25, 4))]
    Z = rng.normal(size=(10, 2))
    model, options = LapMEDClassifier(**OPTIONS, beta=beta, merge=1), (10.0, beta, 4, 0.5)
    slow = manifold.stream(RBF(1.0), [(X, np.nan_to_num(y)) for X, y in batches[:2]], *options, Z)
    for X, y in batches[:2]:
        model.partial_fit(X, y, classes=CLASSES)
    np.testing.assert_allclose(model.decision_function(Z), slow[-1][0], atol=1e-8)
    np.testing.assert_allclose(model.process_(Z), slow[-1][1], atol=1e-10)
    for X, y in batches[2:]:
        model.partial_fit(X, y)
    points = np.concatenate([X for X, _ in batches])
    M = manifold.block_diagonal(
        [
            2.0 * beta * manifold.laplacian(X, 4, 0.5) if len(X) > 1 else np.zeros((1, 1))
            for X, _ in batches
        ]
    )
    P = manifold.conditioned(RBF(1.0)(points), M)
    k = RBF(1.0)(points, Z)
    np.testing.assert_allclose(model.process_(Z), RBF(1.0)(Z) - k.T @ P @ k, atol=1e-10)
    np.testing.assert_allclose(
        model.process_.mean(Z)[:, 0],
        (k.T - k.T @ P @ RBF(1.0)(points)) @ model.memory_.coef[:, 0],
        atol=1e-9,
    )


def test_no_smoothness_is_the_supervised_stream(rng: np.random.Generator) -> None:
    Z = rng.normal(size=(20, 2))
    model = LapMEDClassifier(beta=0.0, kernel=RBF(1.0))
    peer = MEDClassifier(amplitude=1.0, schedule="constant", kernel=RBF(1.0))
    for _ in range(4):
        X, y = batch(rng)
        known = ~np.isnan(y)
        model.partial_fit(X, y, classes=CLASSES)
        peer.partial_fit(X[known], y[known], classes=CLASSES)
        np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(Z), atol=1e-8)


def test_fit_is_the_first_batch(rng: np.random.Generator) -> None:
    (X, y), (Z, z) = batch(rng), batch(rng)
    given = OPTIONS | {"beta": 0.5}  # which fit would choose
    one, two = LapMEDClassifier(**given), LapMEDClassifier(**given)
    one.fit(X, y)
    two.partial_fit(X, y)
    np.testing.assert_allclose(one.decision_function(Z), two.decision_function(Z), atol=1e-10)
    one.partial_fit(Z, z)
    two.partial_fit(Z, z)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-9)
    np.testing.assert_array_equal(one.support_, two.support_)
    two.fit(X, y)  # forgets
    np.testing.assert_array_equal(
        two.decision_function(Z), LapMEDClassifier(**given).fit(X, y).decision_function(Z)
    )
    np.testing.assert_array_equal(two.stream_, [1, 30])


def test_order_of_the_batches(rng: np.random.Generator) -> None:
    """The kernel does not depend on it; the function does."""
    batches = [batch(rng, 40, 12) for _ in range(5)]
    Z, _ = batch(rng, 300)
    models = []
    for order in (range(5), [3, 1, 4, 0, 2]):
        model = LapMEDClassifier(kernel=RBF(0.7))
        for t in order:
            model.partial_fit(*batches[t], classes=CLASSES)
        models.append(model)
    one, two = models
    np.testing.assert_allclose(one.process_(Z), two.process_(Z), atol=1e-10)
    f, g = one.decision_function(Z), two.decision_function(Z)
    assert np.abs(f - g).max() > 1e-3
    truth = np.sign(Z[:, 0] * Z[:, 1])
    right = [np.mean(np.sign(h) == truth) for h in (f, g)]
    assert min(right) > 0.75
    assert abs(right[0] - right[1]) < 0.1


# ---------------------------------------------------------------------- memory
def test_memory_is_bounded_beyond_the_budget(rng: np.random.Generator) -> None:
    limits = {"budget": 80, "landmarks": 5, "max_landmarks": 30, "max_support": 25}
    model = LapMEDClassifier(kernel=RBF(0.7), **limits)
    sizes = []
    for t in range(12):
        model.partial_fit(*batch(rng), classes=CLASSES)
        form = model.report_["memory"]["form"]
        assert form == ("exact" if t < 2 else "landmarks")
        sizes.append(len(model.support_vectors_))
    assert max(sizes[2:]) <= 30 + 25
    memory = model.report_["memory"]
    assert memory["landmarks"] == 30
    assert memory["support"] <= 25
    assert memory["dropped_support_vectors"] > 0
    X, y = batch(rng, 500, 500)
    assert np.mean(model.predict(X) == y) > 0.8
    assert np.all(np.diff(model.support_) > 0)
    assert model.support_[-1] < 360


def test_landmarks_are_near_the_exact_stream(rng: np.random.Generator) -> None:
    exact = LapMEDClassifier(kernel=RBF(1.0), budget=None)
    near = LapMEDClassifier(kernel=RBF(1.0), budget=0, landmarks=20)
    for _ in range(8):
        X, y = batch(rng, 50, 10)
        exact.partial_fit(X, y, classes=CLASSES)
        near.partial_fit(X, y, classes=CLASSES)
    Z, _ = batch(rng, 300)
    assert np.mean(exact.predict(Z) == near.predict(Z)) > 0.97
    assert exact.report_["memory"] == {"form": "exact", "points": 400}


def test_a_large_fit_goes_on_with_landmarks(rng: np.random.Generator) -> None:
    X, y = batch(rng, 200, 30)
    more, (Z, _) = batch(rng), batch(rng, 300)
    model, exact = (LapMEDClassifier(kernel=RBF(0.7), budget=b).fit(X, y) for b in (100, None))
    assert isinstance(model.memory_, Whole)
    assert model.memory_.root is None
    assert model.report_["memory"] == {"form": "exact", "points": 200}
    model.partial_fit(*more)
    exact.partial_fit(*more)
    assert isinstance(model.memory_, Landmarked)
    assert isinstance(exact.memory_, Whole)
    assert np.mean(model.predict(Z) == exact.predict(Z)) > 0.97


def test_slack_that_the_kernel_has_used_up(rng: np.random.Generator) -> None:
    model = LapMEDClassifier(2.0, kernel=RBF(1.0), beta=100.0)
    model.partial_fit(*batch(rng), classes=CLASSES)
    assert "larger C" in model.report_["slack"]
    model = LapMEDClassifier(1000.0, kernel=RBF(1.0)).partial_fit(*batch(rng), classes=CLASSES)
    assert "slack" not in model.report_
    assert model.report_["margin_scale"] > 100.0
    assert model.report_["C"] == 1000.0  # never annealed
    assert model.partial_fit(*batch(rng)).report_["C"] == 1000.0


def test_smoothness_of_belkin_depends_on_the_batch(rng: np.random.Generator) -> None:
    model = LapMEDClassifier(gamma_A=0.001, gamma_I=0.5, kernel=RBF(1.0))
    for n, known in ((30, 6), (40, 0), (20, 4)):
        model.partial_fit(*batch(rng, n, known), classes=CLASSES)
        assert model.report_["beta"] == pytest.approx(0.5 / (0.002 * n * n))
        if known:
            assert model.report_["C"] == pytest.approx(1.0 / (0.002 * known))


# ---------------------------------------------------------------------- batches of all kinds
def test_unlabelled_batch_changes_the_kernel_only(rng: np.random.Generator) -> None:
    model = LapMEDClassifier(**OPTIONS).partial_fit(*batch(rng), classes=CLASSES)
    Z, coef, bias = rng.normal(size=(5, 2)), model.memory_.coef, model.intercept_
    before, f = model.process_(Z), model.decision_function(Z)
    model.partial_fit(rng.normal(size=(30, 2)))
    np.testing.assert_array_equal(model.memory_.coef[:30], coef)
    np.testing.assert_array_equal(model.memory_.coef[30:], 0.0)
    np.testing.assert_array_equal(model.intercept_, bias)
    assert np.linalg.eigvalsh(before - model.process_(Z))[0] > -1e-12  # smaller, nowhere larger
    assert np.abs(model.decision_function(Z) - f).max() > 1e-4
    assert model.report_["labelled"] == 0


def test_small_unlabelled_batches_wait(rng: np.random.Generator) -> None:
    X, y = batch(rng)
    U = rng.normal(size=(12, 2))
    model = LapMEDClassifier(**OPTIONS).partial_fit(X, y, classes=CLASSES)
    f = model.decision_function(X)
    for row in U[:4]:  # five are needed for four neighbours
        model.partial_fit(row[None])
    np.testing.assert_array_equal(model.decision_function(X), f)
    assert model.report_["waiting"] == 4
    assert len(model.waiting_) == 4
    np.testing.assert_array_equal(model.stream_, [1, 34])
    model.partial_fit(U[4:5], [None])
    together = LapMEDClassifier(**OPTIONS).partial_fit(X, y, classes=CLASSES)
    together.partial_fit(U[:5])
    np.testing.assert_array_equal(model.decision_function(X), together.decision_function(X))
    np.testing.assert_array_equal(model.support_, together.support_)
    np.testing.assert_array_equal(model.stream_, [2, 35])
    assert model.report_["waiting"] == 0


def test_waiting_rows_join_the_next_labels(rng: np.random.Generator) -> None:
    X, y = batch(rng)
    model = LapMEDClassifier(**OPTIONS)
    model.partial_fit(X[6:9], None, classes=CLASSES)
    np.testing.assert_array_equal(model.decision_function(X), 0.0)  # nothing learned yet
    rest = np.r_[0:6, 9:30]
    model.partial_fit(X[rest], y[rest])
    whole = LapMEDClassifier(beta=0.5, **OPTIONS).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), whole.decision_function(X), atol=1e-9)
    assert len(model.waiting_) == 0


def test_rows_of_one_class_and_single_rows(rng: np.random.Generator) -> None:
    model = LapMEDClassifier(kernel=RBF(1.0))
    model.partial_fit([[0.0, 0.0], [0.1, 0.0]], ["b", "b"], classes=["a", "b"])
    assert model.predict([[0.0, 0.0]]).tolist() == ["b"]  # the bias alone
    model.partial_fit([[3.0, 3.0]], ["a"])
    for row in rng.normal(size=(20, 2)):
        model.partial_fit(row[None], ["b" if row[0] < 1.0 else "a"])
    assert model.predict([[0.0, 0.0]]).tolist() == ["b"]


def test_same_rows_again_and_again(rng: np.random.Generator) -> None:
    X, y = batch(rng)
    model = LapMEDClassifier(kernel=RBF(1.0), budget=0)
    for _ in range(4):
        model.partial_fit(np.repeat(X, 2, axis=0), np.repeat(y, 2), classes=CLASSES)
    assert np.isfinite(model.decision_function(X)).all()
    assert len(model.memory_.points) <= 30 * 4


# ---------------------------------------------------------------------- errors, checkpoints
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"X": np.zeros((3, 5))}, ValueError, "features"),
    ({"X": np.zeros((0, 2)), "y": []}, ValueError, "minimum of 1"),
    ({"X": [[np.nan, 0.0]], "y": [1.0]}, ValueError, "NaN"),
    ({"X": np.zeros((3, 2)), "y": [1.0, 1.0]}, ValueError, "one for each"),
    ({"X": np.zeros((1, 2)), "y": [7.0]}, ValueError, "classes=\\[...\\] at the first call"),
    ({"X": np.zeros((1, 2)), "y": [1.0], "classes": [0, 1]}, ValueError, "first call"),
    ({"X": np.zeros((1, 2)), "y": [1.0], "sample_weight": [-1.0]}, ValueError, "negative"),
]


@pytest.mark.parametrize(("given", "kind", "words"), BAD)
def test_after_an_error_it_is_as_before(
    rng: np.random.Generator, given: dict[str, Any], kind: type[Exception], words: str
) -> None:
    model = LapMEDClassifier(**OPTIONS).partial_fit(*batch(rng), classes=CLASSES)
    model.partial_fit(rng.normal(size=(2, 2)))
    before = state(model)
    with pytest.raises(kind, match=words):
        model.partial_fit(**given)
    assert state(model) == before


@pytest.mark.parametrize("place", ["smooth", "discriminate", "learn"])
def test_after_an_interrupt_it_is_as_before(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    model = LapMEDClassifier(**OPTIONS).partial_fit(*batch(rng), classes=CLASSES)
    before = state(model)

    def stop(*args: Any, **more: Any) -> None:
        raise KeyboardInterrupt

    where = {
        "smooth": "mercer.inference.graph.Whole.smooth",
        "discriminate": "mercer.inference.med.MED.solve",
        "learn": "mercer.inference.graph.Whole.learned",
    }[place]
    monkeypatch.setattr(where, stop)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(*batch(rng))
    assert state(model) == before


@pytest.mark.parametrize("memory", [{}, {"budget": 70, "landmarks": 4, "max_support": 20}])
@pytest.mark.parametrize("stop", [0, 1, 3])
def test_a_stored_stream_goes_on_bit_by_bit(
    rng: np.random.Generator, tmp_path: Path, memory: dict[str, Any], stop: int
) -> None:
    batches = [batch(rng) for _ in range(5)]
    labels = np.array(["no", "yes"], dtype=object)
    words = [np.where(np.isnan(y), None, labels[(y > 0).astype(int)]) for _, y in batches]
    model = LapMEDClassifier(kernel=RBF(1.0), **memory)
    for t, ((X, _), y) in enumerate(zip(batches, words, strict=True)):
        model.partial_fit(X, y, classes=["no", "yes"])
        model.partial_fit(X[:3] + 0.01)  # these wait
        if t == stop:
            mercer.save(model, tmp_path / "half.mercer")
    again = mercer.load(tmp_path / "half.mercer")
    for (X, _), y in list(zip(batches, words, strict=True))[stop + 1 :]:
        again.partial_fit(X, y)
        again.partial_fit(X[:3] + 0.01)
    Z = rng.normal(size=(50, 2))
    np.testing.assert_array_equal(again.decision_function(Z), model.decision_function(Z))
    np.testing.assert_array_equal(again.process_(Z), model.process_(Z))
    for path, one in (("a", model), ("b", again)):
        mercer.save(one, tmp_path / path)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_stored_fit_goes_on(rng: np.random.Generator, tmp_path: Path) -> None:
    (X, y), (Z, z) = batch(rng), batch(rng)
    model = LapMEDClassifier(**OPTIONS).fit(X, y)
    mercer.save(model, tmp_path / "model")
    again = mercer.load(tmp_path / "model")
    f, g = (m.partial_fit(Z, z).decision_function(X) for m in (model, again))
    np.testing.assert_array_equal(f, g)
