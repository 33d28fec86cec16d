"""LapMEDClassifier, LapSVC, LapLSClassifier at once: optimality of the primal, limits, weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mercer
from mercer import SVC, LapLSClassifier, LapMEDClassifier, LapSVC, MEDClassifier
from mercer.kernels import RBF
from tests.reference import manifold, med

MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]
K, H, BETA, C = 5, 0.3, 3.0, 20.0
OPTIONS: dict[str, Any] = {"kernel": RBF(0.9), "n_neighbors": K, "heat": H, "beta": BETA}


def table(rng: np.random.Generator, n: int = 60, known: int = 25) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return X, np.where(np.arange(n) < known, y, np.nan)


def rings(rng: np.random.Generator, n: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two circles, two labels on each: what the graph is for."""
    side = np.arange(n) % 2
    angle = rng.uniform(0.0, 2.0 * np.pi, size=n)
    radius = np.where(side == 0, 1.0, 2.0) + 0.05 * rng.normal(size=n)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X, side, np.where(np.arange(n) < 4, side.astype(float), np.nan)


def primal_gradient(model: Any, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """w + 2 beta L f, which the loss must balance at the labelled rows; and f + b."""
    w = np.zeros(len(X))
    w[model.support_] = model.dual_coef_[0]
    f = RBF(0.9)(X) @ w
    return w + 2.0 * BETA * manifold.laplacian(X, K, H) @ f, f + model.intercept_[0]


def test_hinge_is_optimal_in_the_primal(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = LapSVC(C, tol=1e-9, **OPTIONS).fit(X, y)
    g, f = primal_gradient(model, X)
    np.testing.assert_allclose(g[25:], 0.0, atol=1e-9)
    a, margin = y[:25] * g[:25], y[:25] * f[:25]
    assert np.all(a > -1e-8)
    assert np.all(a < C + 1e-8)
    assert abs(g.sum()) < 1e-8
    assert np.all(margin[a < C - 1e-6] > 1.0 - 1e-6)
    assert np.all(margin[a > 1e-6] < 1.0 + 1e-6)
    assert np.any(a > C - 1e-6)
    assert np.any((a > 0.1) & (a < C - 0.1))
    assert np.any(a < 1e-6)


def test_squares_are_optimal_in_the_primal(rng: np.random.Generator) -> None:
    X, y = table(rng)
    g, f = primal_gradient(LapLSClassifier(C, **OPTIONS).fit(X, y), X)
    np.testing.assert_allclose(g[25:], 0.0, atol=1e-9)
    np.testing.assert_allclose(g[:25], 2.0 * C * (y[:25] - f[:25]), atol=1e-8)
    assert abs(g.sum()) < 1e-8


def test_discrimination_is_optimal_in_the_primal(rng: np.random.Generator) -> None:
    X, y = table(rng)
    g, f = primal_gradient(LapMEDClassifier(C, **OPTIONS).fit(X, y), X)
    np.testing.assert_allclose(g[25:], 0.0, atol=1e-9)
    u = 1.0 - y[:25] * f[:25]
    a = np.where(C * u > 1.0, C - 1.0 / np.maximum(u, 1.0 / C), 0.0)
    np.testing.assert_allclose(y[:25] * g[:25], a, atol=1e-8)
    assert abs(g.sum()) < 1e-8


@pytest.mark.parametrize("machine", [LapSVC, LapLSClassifier])
def test_parameters_of_belkin(rng: np.random.Generator, machine: Any) -> None:
    """(1/l) sum V + gamma_A |f|^2 + gamma_I/n^2 f'L f grows in every direction from the optimum."""
    X, y = table(rng)
    gA, gI = 0.003, 0.8
    given = OPTIONS | {"gamma_A": gA, "gamma_I": gI} | ({"tol": 1e-9} if machine is LapSVC else {})
    model = machine(**given).fit(X, y)
    assert model.report_["C"] == pytest.approx(1.0 / (2 * 25 * gA), rel=1e-14)
    assert model.report_["beta"] == pytest.approx(gI / (2 * gA * 60**2), rel=1e-14)
    gram, L = RBF(0.9)(X), manifold.laplacian(X, K, H)

    def objective(w: np.ndarray, b: float) -> float:
        f = gram @ w
        r = y[:25] - f[:25] - b
        loss = np.maximum(1.0 - y[:25] * (f[:25] + b), 0.0) if machine is LapSVC else r**2
        return float(loss.mean() + gA * w @ f + gI / 60**2 * f @ L @ f)

    w = np.zeros(60)
    w[model.support_] = model.dual_coef_[0]
    best = objective(w, model.intercept_[0])
    for _ in range(200):
        step, db = 10.0 ** rng.uniform(-4, 0) * rng.normal(size=60), 0.1 * rng.normal()
        assert objective(w + step, model.intercept_[0] + db) > best - 1e-9
    # and it is no flat function: other parameters have another optimum
    other = machine(**(given | {"gamma_I": 10.0 * gI})).fit(X, y)
    v = np.zeros(60)
    v[other.support_] = other.dual_coef_[0]
    assert objective(v, other.intercept_[0]) > best + 1e-6


def test_parameters_of_belkin_for_discrimination(rng: np.random.Generator) -> None:
    X, y = table(rng)
    gA, gI = 0.001, 0.8
    one = LapMEDClassifier(**(OPTIONS | {"gamma_A": gA, "gamma_I": gI})).fit(X, y)
    options = OPTIONS | {"beta": gI / (2 * gA * 3600)}
    two = LapMEDClassifier(1.0 / (50 * gA), **options).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-10)
    with pytest.raises(ValueError, match="make gamma_A smaller"):
        LapMEDClassifier(gamma_A=1.0, gamma_I=1.0).fit(X, y)


def test_reference_stream_is_one_batch() -> None:
    X, y = manifold.reference_batches()[0]
    model = LapMEDClassifier(10.0, beta=0.5, kernel=RBF(1.0), n_neighbors=4, heat=0.5)
    model.fit(X, np.where(y == 0.0, np.nan, y))
    alpha, bias, cov = manifold.STREAM[0]
    assert model.intercept_[0] == pytest.approx(bias, abs=1e-8)
    assert model.process_(med.NEW)[0, 1] == pytest.approx(cov, abs=1e-10)
    np.testing.assert_allclose(model.memory_.coef[:4, 0], y[:4] * alpha, atol=1e-8)


def test_without_smoothness_they_are_the_supervised_machines(rng: np.random.Generator) -> None:
    X, y = table(rng)
    Z, known = rng.normal(size=(50, 2)), slice(0, 25)
    kernel = RBF(0.9)
    svc = LapSVC(C, beta=0.0, kernel=kernel, tol=1e-9).fit(X, y)
    peer = SVC(C, kernel=kernel, tol=1e-9).fit(X[known], y[known])
    np.testing.assert_allclose(svc.decision_function(Z), peer.decision_function(Z), atol=1e-6)
    discrimination = LapMEDClassifier(C, beta=0.0, kernel=kernel).fit(X, y)
    other = MEDClassifier(C, amplitude=1.0, kernel=kernel).fit(X[known], y[known])
    np.testing.assert_allclose(
        discrimination.decision_function(Z), other.decision_function(Z), atol=1e-9
    )


def test_squares_without_smoothness(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = LapLSClassifier(C, beta=0.0, kernel=RBF(0.9)).fit(X, y)
    A = np.zeros((26, 26))
    A[:25, :25] = RBF(0.9)(X[:25]) + np.eye(25) / (2.0 * C)
    A[25, :25] = A[:25, 25] = 1.0
    solution = np.linalg.solve(A, np.append(y[:25], 0.0))
    np.testing.assert_allclose(model.dual_coef_[0], solution[:25], atol=1e-9)
    assert model.intercept_[0] == pytest.approx(solution[25], abs=1e-10)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_graph_finds_the_rings(rng: np.random.Generator, machine: Any) -> None:
    X, truth, y = rings(rng)
    Z, sides, _ = rings(rng)
    options = {"kernel": RBF(0.5), "n_neighbors": 6}
    smooth = machine(beta=100.0, **options).fit(X, y)
    assert np.mean(smooth.predict(X) == truth) > 0.97
    assert np.mean(smooth.predict(Z) == sides) > 0.97  # rows that the graph has not seen
    assert np.mean(machine(beta=0.0, **options).fit(X, y).predict(Z) == sides) < 0.85


@pytest.mark.parametrize("machine", MACHINES)
def test_several_classes_share_the_graph(rng: np.random.Generator, machine: Any) -> None:
    X = rng.normal(size=(90, 2))
    code = np.digitize(X[:, 0], [-0.5, 0.5])
    y = np.array(["low", "mid", "top"], dtype=object)[code]
    y[30:] = None
    model = machine(C, **OPTIONS).fit(X, y)
    assert model.decision_function(X).shape == (90, 3)
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert np.mean(model.predict(X) == np.array(["low", "mid", "top"])[code]) > 0.8
    for j, label in enumerate(model.classes_):
        rest = np.where(np.arange(90) < 30, np.where(code == j, 1.0, -1.0), np.nan)
        one = machine(C, **OPTIONS).fit(X, rest)
        np.testing.assert_allclose(
            model.decision_function(X)[:, j], one.decision_function(X), atol=1e-4, err_msg=label
        )


@pytest.mark.parametrize("machine", MACHINES)
def test_weights_are_copies(rng: np.random.Generator, machine: Any) -> None:
    X, y = table(rng)
    weights = rng.integers(0, 4, size=60)
    weights[[0, 1]] = 2
    exact = {"tol": 1e-9} if machine is LapSVC else {}
    one = machine(C, **exact, **OPTIONS).fit(X, y, sample_weight=weights)
    two = machine(C, **exact, **OPTIONS).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-7)
    plain = machine(C, **exact, **OPTIONS).fit(X, y)
    assert np.abs(one.decision_function(X) - plain.decision_function(X)).max() > 1e-3


@pytest.mark.parametrize("machine", MACHINES)
def test_contradicting_labels_of_equal_rows(rng: np.random.Generator, machine: Any) -> None:
    X, y = table(rng)
    X[3], y[3] = X[0], -y[0]
    model = machine(C, **OPTIONS).fit(X, y)
    assert model.report_["graph"]["vertices"] == 59
    assert model.report_["labelled"] == 25
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("machine", MACHINES)
def test_class_weight(rng: np.random.Generator, machine: Any) -> None:
    X, y = table(rng)
    plain = machine(1.5, **OPTIONS).fit(X, y)
    heavy = machine(1.5, class_weight={1.0: 20.0}, **OPTIONS).fit(X, y)
    assert np.mean(heavy.predict(X) == 1.0) > np.mean(plain.predict(X) == 1.0)
    by_hand = np.where(y == 1.0, 20.0, 1.0)
    again = machine(1.5, **OPTIONS).fit(X, y, sample_weight=by_hand)
    np.testing.assert_allclose(heavy.decision_function(X), again.decision_function(X), atol=1e-4)
    count = np.bincount((y[:25] > 0).astype(int))
    balanced = machine(1.5, class_weight="balanced", **OPTIONS).fit(X, y)
    shares = {-1.0: 25 / (2 * count[0]), 1.0: 25 / (2 * count[1])}
    given = machine(1.5, class_weight=shares, **OPTIONS).fit(X, y)
    np.testing.assert_array_equal(balanced.decision_function(X), given.decision_function(X))


@pytest.mark.parametrize("machine", MACHINES)
def test_model_files(rng: np.random.Generator, tmp_path: Any, machine: Any) -> None:
    X, y = table(rng)
    model = machine(C, kernel=RBF(0.9), heat=np.inf, unlabelled=-7).fit(X, np.nan_to_num(y, nan=-7))
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert again.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert again.heat == np.inf
    assert again.unlabelled == -7
    mercer.save(again, tmp_path / "again.mercer")
    first, second = ((tmp_path / n).read_bytes() for n in ("model.mercer", "again.mercer"))
    assert first == second


def test_memory_is_asked_for_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mercer.core.memory.available_bytes", lambda: 1000)
    monkeypatch.setattr("mercer.core.memory.LITTLE", 0)  # asked for however little it is
    X = np.linspace(0.0, 1.0, 40)[:, None]
    with pytest.raises(MemoryError, match="40 rows"):
        LapSVC().fit(X, [0, 1] + [None] * 38)
