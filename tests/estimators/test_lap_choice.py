"""The automatic choice on graphs: evidence, left-out labels and partition function, slowly too."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from mercer import LapLSClassifier, LapMEDClassifier, LapSVC
from mercer.estimators.graph import choice
from mercer.estimators.graph.choice import LabelProcess, log_partition
from mercer.inference import MED, Exact
from mercer.kernels import RBF
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.graph import SmoothnessPath, neighbour_graph
from mercer.losses import Gaussian
from mercer.losses.binary.margins import Margin

C, BETA = 7.0, 2.0
MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]


def deformed(rng: np.random.Generator, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """k_new (9, 9) by the plain formula, and labels."""
    X = rng.normal(size=(n, 2))
    K, M = RBF(0.8)(X), 2.0 * BETA * neighbour_graph(X, 5).laplacian.toarray()
    K_new = K - K @ np.linalg.solve(np.eye(n) + M @ K, M @ K)
    y = np.where(X[:9, 0] + 0.3 * rng.normal(size=9) > 0.0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return K_new[:9, :9], y


def dense_evidence(K: np.ndarray, y: np.ndarray, noise: np.ndarray, flat: float) -> float:
    """log N(y; 0, K + diag(noise) + flat 1 1'), by a dense determinant and solve."""
    A = K + np.diag(noise) + flat
    sign, logdet = np.linalg.slogdet(A)
    assert sign == 1.0
    return float(-0.5 * y @ np.linalg.solve(A, y) - 0.5 * logdet - 0.5 * len(y) * np.log(2 * np.pi))


def test_evidence_is_that_of_a_dense_process(rng: np.random.Generator) -> None:
    """The GP with the deformed kernel and an offset of huge variance, at the best amplitude."""
    K, y = deformed(rng)
    process = LabelProcess(K, y[:, None], np.ones(9))
    huge = 1e7

    def dense(log_a: float) -> float:
        a = np.exp(log_a)
        plain = dense_evidence(a * K, y, np.full(9, a / (2 * C)), huge)
        return plain + 0.5 * np.log(2 * np.pi * huge)  # a flat prior has unit density

    best = minimize_scalar(lambda u: -dense(u), bounds=(-8, 8), options={"xatol": 1e-9})
    assert np.log(process.amplitude(C)) == pytest.approx(best.x, abs=1e-4)
    assert process.evidence(C) == pytest.approx(-best.fun, abs=1e-5)


def test_evidence_of_several_columns_and_weights_is_that_of_exact_inference(
    rng: np.random.Generator,
) -> None:
    K, y = deformed(rng)
    Y = np.column_stack([y, -y, np.where(np.arange(9) % 3 == 0, 1.0, -1.0)])
    w = rng.uniform(0.5, 3.0, size=9)
    process = LabelProcess(K, Y, w)
    a = process.amplitude(C)
    gram, loss, one = DenseGram.given(a * K), Gaussian(noise=a / (2 * C)), np.ones((9, 1))
    solution = Exact().solve(gram, Y, loss, basis=one, weights=w)
    assert process.evidence(C) == pytest.approx(
        Exact().evidence(gram, Y, loss, solution).value, rel=1e-11
    )


def test_a_weight_of_two_is_two_rows(rng: np.random.Generator) -> None:
    K, y = deformed(rng)
    copies = np.repeat(np.arange(9), [2, 1, 3, 1, 1, 1, 1, 2, 1])
    merged = LabelProcess(K, y[:, None], np.bincount(copies).astype(float))
    apart = LabelProcess(K[np.ix_(copies, copies)], y[copies, None], np.ones(len(copies)))
    for c in (0.3, 50.0):
        assert merged.evidence(c) == pytest.approx(apart.evidence(c), rel=1e-9)


def test_left_out_labels_are_those_of_refits(rng: np.random.Generator) -> None:
    """Mean and variance of each label from a dense fit of the others, offset included."""
    K, y = deformed(rng)
    w = rng.uniform(0.5, 3.0, size=9)
    process = LabelProcess(K, y[:, None], w)
    mean, variance = process.left_out(C)
    a = process.amplitude(C)
    for i in range(9):
        rest = np.delete(np.arange(9), i)
        A = np.zeros((9, 9))
        A[:8, :8] = a * K[np.ix_(rest, rest)] + np.diag(a / (2 * C * w[rest]))
        A[8, :8] = A[:8, 8] = 1.0
        k = np.append(a * K[i, rest], 1.0)
        found = np.linalg.solve(A, k)
        assert mean[i, 0] == pytest.approx(found[:8] @ y[rest], abs=1e-9)
        own = a * K[i, i] + a / (2 * C * w[i]) - k @ found
        assert variance[i] == pytest.approx(own, rel=1e-9)


# ---------------------------------------------------------------------- the partition function
def test_partition_function_is_the_integral() -> None:
    """Two rows and an edge: Z over f by quadrature, over the slacks in closed form."""
    K, L = np.array([[1.0, 0.4], [0.4, 1.3]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    y, slack, beta = np.array([[1.0], [-1.0]]), 6.0, 0.7
    path = SmoothnessPath(K, csr_array(L), np.arange(2))
    K_new = path.covariance(beta)
    found = MED().solve(
        DenseGram.given(K_new), y, Margin(slack), basis=np.ones((2, 1)), weights=np.ones(2)
    )
    a = np.abs(found.alpha[:, 0])
    assert a.min() > 0.1
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    root = np.linalg.cholesky(K)
    f = root @ np.array([[u, v] for u in nodes for v in nodes]).T  # N(0, K)
    mass = np.outer(weights, weights).ravel() / (2.0 * np.pi)
    exponent = (a * y[:, 0]) @ f - beta * np.einsum("ij,ij->j", f, L @ f)
    slacks = np.sum(a + np.log1p(-a / slack))
    slow = -np.log(mass @ np.exp(exponent)) + slacks
    fast = log_partition(K_new, y, np.ones(2), slack, path.logdet(beta))
    assert fast == pytest.approx(slow, rel=1e-10)


def test_partition_function_only_grows_with_beta(rng: np.random.Generator) -> None:
    """Its derivative is the expectation of f'L f under the posterior: no criterion for beta."""
    X = rng.normal(size=(25, 2))
    K, L = RBF(0.8)(X), neighbour_graph(X, 5).laplacian
    y = np.where(X[:8, :1] > 0.0, 1.0, -1.0)
    y[:2, 0] = -1.0, 1.0
    path, w = SmoothnessPath(K, L, np.arange(8)), np.ones(8)

    def value(beta: float) -> float:
        return log_partition(path.covariance(beta), y, w, 20.0, path.logdet(beta))

    for beta in (0.3, 5.0):
        M = 2.0 * beta * L.toarray()
        K_new = K - K @ np.linalg.solve(np.eye(25) + M @ K, M @ K)
        inner = path.covariance(beta)
        found = MED().solve(
            DenseGram.given(inner), y, Margin(20.0), basis=np.ones((8, 1)), weights=w
        )
        f = K_new[:, :8] @ found.alpha[:, 0]
        expected = np.trace(L @ K_new) + f @ (L @ f)
        step = 1e-4 * beta
        slope = (value(beta + step) - value(beta - step)) / (2.0 * step)
        assert slope == pytest.approx(expected, rel=1e-5)
        assert slope > 0.0


# ---------------------------------------------------------------------- the machines
def moons(rng: np.random.Generator, n: int = 80, known: int = 8) -> tuple[Any, Any]:
    side, angle = np.arange(n) % 2, rng.uniform(0.0, np.pi, n)
    upper = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.where(side[:, None] == 0, upper, [1.0, 0.5] - upper) + 0.1 * rng.normal(size=(n, 2))
    return X, np.where(np.arange(n) < known, side.astype(float), np.nan)


def slow_evidence(X: np.ndarray, y: np.ndarray, slack: float, beta: float) -> float:
    """(M14) of one candidate by Exact inference with the deformed kernel, its amplitude best."""
    known = np.flatnonzero(~np.isnan(y))
    K, L = RBF(0.5)(X), neighbour_graph(X, 6).laplacian.toarray()
    M = 2.0 * beta * L
    K = (K - K @ np.linalg.solve(np.eye(len(X)) + M @ K, M @ K))[np.ix_(known, known)]
    signs, one = np.where(y[known, None] == 1.0, 1.0, -1.0), np.ones((len(known), 1))

    def minus(log_a: float) -> float:
        gram, loss = DenseGram.given(np.exp(log_a) * K), Gaussian(np.exp(log_a) / (2.0 * slack))
        solution = Exact().solve(gram, signs, loss, basis=one)
        return -Exact().evidence(gram, signs, loss, solution).value

    return float(-minimize_scalar(minus, bounds=(-12.0, 12.0), options={"xatol": 1e-7}).fun)


def slow_left_out(X: np.ndarray, y: np.ndarray, slack: float, beta: float) -> float:
    """The log density of each label by a fit of LapLSClassifier without it, amplitude as (M14)."""
    known = np.flatnonzero(~np.isnan(y))
    signs, total = np.where(y[known] == 1.0, 1.0, -1.0), 0.0
    K, M = RBF(0.5)(X), 2.0 * beta * neighbour_graph(X, 6).laplacian.toarray()
    K = (K - K @ np.linalg.solve(np.eye(len(X)) + M @ K, M @ K))[np.ix_(known, known)]
    a = LabelProcess(K, signs[:, None], np.ones(len(known))).amplitude(slack)
    for i in range(len(known)):
        hidden = y.copy()
        hidden[known[i]] = np.nan
        part = LapLSClassifier(slack, beta=beta, kernel=RBF(0.5), n_neighbors=6).fit(X, hidden)
        rest = np.delete(np.arange(len(known)), i)
        A = np.ones((len(known), len(known)))
        A[:-1, :-1], A[-1, -1] = K[np.ix_(rest, rest)] + np.eye(len(rest)) / (2.0 * slack), 0.0
        k = np.append(K[i, rest], 1.0)
        variance = a * (K[i, i] + 1.0 / (2.0 * slack) - k @ np.linalg.solve(A, k))
        off = signs[i] - part.decision_function(X[known[i] : known[i] + 1])[0]
        total -= 0.5 * (np.log(2.0 * np.pi * variance) + off**2 / variance)
    return float(total)


PAIRS = [(c, b) for c in (2.0, 100.0) for b in (0.0, 1.0, 30.0)]


@cache
def brute_force() -> tuple[np.ndarray, np.ndarray, dict[str, dict[Any, float]]]:
    """A table, and both criteria of all pairs (C, beta): the same for all machines."""
    X, y = moons(np.random.default_rng(0), n=60, known=16)
    left_out = {pair: slow_left_out(X, y, *pair) for pair in PAIRS}
    return X, y, {"left_out": left_out, "evidence": {p: slow_evidence(X, y, *p) for p in PAIRS}}


@pytest.mark.parametrize("by", ["left_out", "evidence"])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_choice_is_the_best_of_the_candidates(
    machine: Any, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By brute force; and the machine is then the one with these numbers given."""
    monkeypatch.setattr(choice, "SLACKS", (2.0, 100.0))
    monkeypatch.setattr(choice, "WEIGHTS", (0.0, 1.0, 30.0))
    monkeypatch.setattr(choice, "GAIN", 0.0)
    X, y, values = brute_force()
    options: dict[str, Any] = {"kernel": RBF(0.5), "n_neighbors": 6}
    options |= {"tol": 1e-8} if machine is LapSVC else {}
    model = machine(search=by, **options).fit(X, y)
    best = max(PAIRS, key=values[by].__getitem__)
    told = model.report_["choice"]
    assert best[1] > 0.0
    assert (told["C"], told["beta"]) == best == (model.report_["C"], model.report_["beta"])
    assert told["value"] == pytest.approx(values[by][best], abs=1e-5)
    gains = {
        name: found[best] - max(found[pair] for pair in PAIRS if pair[1] == 0.0)
        for name, found in values.items()
    }
    assert told["gain"] == pytest.approx(gains, abs=1e-5)
    assert told["candidates"] == 6
    given = machine(best[0], beta=best[1], **options).fit(X, y)
    np.testing.assert_array_equal(given.decision_function(X), model.decision_function(X))
    assert "choice" not in given.report_
    assert len(given.choice_) == 0
    assert "of 6 candidates" in str(model.summary())
    for share in (0.9, 1.1):  # a graph must be better by so much, whoever is asked
        monkeypatch.setattr(choice, "GAIN", share * min(gains.values()))
        found = machine(search=by, **options).fit(X, y).report_["beta"]
        assert (found > 0.0) == (share < 1.0)


@pytest.mark.parametrize("machine", MACHINES)
def test_what_is_given_is_not_chosen(rng: np.random.Generator, machine: Any) -> None:
    X, y = moons(rng)
    options = {"kernel": RBF(0.5), "n_neighbors": 6}
    slack = machine(beta=3.0, **options).fit(X, y).report_
    assert slack["beta"] == slack["choice"]["beta"] == 3.0
    assert slack["choice"]["gain"] is None
    weight = machine(20.0, **options).fit(X, y).report_
    assert weight["C"] == 20.0
    warm = machine(20.0, beta=1.0, heat="auto", **options).fit(X, y).report_
    rule = machine(20.0, beta=1.0, **options).fit(X, y).report_["graph"]["heat"]
    assert warm["graph"]["heat"] == pytest.approx(rule * warm["choice"]["heat"], rel=1e-12)
    assert warm["choice"]["candidates"] == 3
    if machine is LapMEDClassifier:  # refused with its own sentence
        with pytest.raises(ValueError, match="make gamma_A smaller"):
            machine(gamma_A=1.0, gamma_I=1.0, heat="auto", **options).fit(X, y)
    belkin = machine(gamma_A=0.001, gamma_I=1.0, **options).fit(X, y).report_
    assert "choice" not in belkin


def test_a_graph_must_be_better_than_none(rng: np.random.Generator) -> None:
    """Labels that the graph contradicts: beta is 0, and the machine is that of the labels."""
    X, y = moons(rng, known=20)
    y[:20] = rng.permutation(y[:20])
    model = LapSVC(kernel=RBF(0.5), n_neighbors=6).fit(X, y)
    told = model.report_["choice"]
    assert told["beta"] == 0.0
    assert min(told["gain"].values()) <= 1.0
    alone = LapSVC(beta=0.0, kernel=RBF(0.5)).fit(X[:20], y[:20])
    np.testing.assert_allclose(alone.decision_function(X), model.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("by", ["left_out", "evidence", "partition"])
def test_each_criterion(rng: np.random.Generator, by: str) -> None:
    X, y = moons(rng)
    model = LapSVC(100.0, search=by, kernel=RBF(0.5), n_neighbors=6).fit(X, y)
    assert model.report_["choice"]["by"] == by
    if by == "partition":  # more is always better
        assert model.report_["beta"] == max(choice.WEIGHTS)
        every = LapSVC(search=by, kernel=RBF(0.5), n_neighbors=6).fit(X, y).report_["choice"]
        assert every["beta"] == max(choice.WEIGHTS)
    with pytest.raises(ValueError, match="search must be one of left_out, evidence, partition"):
        LapSVC(search="folds").fit(X, y)
    for name in ("C", "beta", "heat"):
        with pytest.raises(ValueError, match=f"{name} must be"):
            LapSVC(**{name: "best"}).fit(X, y)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_choice_does_not_depend_on_the_order(
    rng: np.random.Generator, machine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither of all rows nor of some of more."""
    X, y = moons(rng, n=90, known=40)
    order = rng.permutation(90)
    for rows, labels in ((1000, 400), (60, 20)):
        monkeypatch.setattr(choice, "ROWS", rows)
        monkeypatch.setattr(choice, "LABELS", labels)
        one, two = (
            machine(kernel=RBF(0.5), n_neighbors=6).fit(X[rows_], y[rows_]).report_["choice"]
            for rows_ in (np.arange(90), order)
        )
        assert one["rows"] == min(rows, 90)
        assert one["value"] == pytest.approx(two["value"], rel=1e-9)
        assert (one["C"], one["heat"]) == (two["C"], two["heat"])
        assert one["beta"] == pytest.approx(two["beta"], rel=1e-12)


def test_some_rows_stand_for_many(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """beta n is what is kept: it brings k_new of a part of the rows nearer to that of all."""
    X, y = moons(rng, n=800, known=20)
    at, K = np.arange(20), RBF(0.5)(X)
    some = SmoothnessPath(K[:200, :200], neighbour_graph(X[:200], 10).laplacian, at)
    every = SmoothnessPath(K, neighbour_graph(X, 10).laplacian, at)
    for beta in (0.1, 1.0, 10.0):
        small = some.covariance(beta)
        off = [np.linalg.norm(every.covariance(b) - small) for b in (0.25 * beta, beta)]
        assert off[0] < 0.8 * off[1]
    monkeypatch.setattr(choice, "ROWS", 200)
    model = LapLSClassifier(beta=0.7, kernel=RBF(0.5)).fit(X, y)
    assert model.report_["beta"] == 0.7  # given for all rows
    assert model.report_["choice"]["rows"] == 200
    chosen = LapLSClassifier(kernel=RBF(0.5)).fit(X, y).report_["choice"]["beta"]
    assert any(chosen == pytest.approx(0.25 * beta, rel=1e-12) for beta in choice.WEIGHTS)


def test_a_stream_keeps_what_fit_has_chosen(rng: np.random.Generator) -> None:
    X, y = moons(rng)
    model = LapMEDClassifier(kernel=RBF(0.5), n_neighbors=6).fit(X, y)
    chosen = model.report_["C"], model.report_["beta"]
    model.partial_fit(*moons(rng))
    assert (model.report_["C"], model.report_["beta"]) == chosen
    begun = LapMEDClassifier(kernel=RBF(0.5), n_neighbors=6).partial_fit(X, y)
    assert (begun.report_["C"], begun.report_["beta"]) == (100.0, 0.5)
