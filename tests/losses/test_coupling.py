"""Coupling of pairwise probabilities against its objective, and against known answers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, minimize
from sklearn.multiclass import OneVsOneClassifier

from mercer import SVC, KernelClassifier
from mercer.losses import couple_pairs, pairwise_proba


def pairs_of(p):
    return p[:, :, None] / (p[:, :, None] + p[:, None, :])


def objective(p, r) -> float:
    k = len(p)
    terms = [(r[j, i] * p[i] - r[i, j] * p[j]) ** 2 for i in range(k) for j in range(k) if j != i]
    return float(sum(terms))


@pytest.mark.parametrize("k", [2, 3, 8])
def test_pairs_of_one_distribution_give_it_back(k) -> None:
    p = np.random.default_rng(k).dirichlet(np.ones(k), size=50)
    np.testing.assert_allclose(couple_pairs(pairs_of(p)), p, atol=1e-12)


def test_small_probabilities_are_not_lost() -> None:
    p = np.array([[1.0 - 2e-5, 1e-5, 1e-5], [1e-6, 1.0 - 1e-3 - 1e-6, 1e-3]])
    np.testing.assert_allclose(couple_pairs(pairs_of(p)), p, rtol=1e-4, atol=1e-12)


@pytest.mark.parametrize("k", [3, 5])
def test_it_is_the_minimum_of_the_papers_objective(k) -> None:
    rng = np.random.default_rng(k)
    for _ in range(5):
        r = rng.uniform(0.02, 0.98, size=(k, k))
        r = np.triu(r, 1) + np.tril(1.0 - r.T, -1)
        (p,) = couple_pairs(r[None])
        found = minimize(
            objective,
            np.full(k, 1.0 / k),
            args=(r,),
            method="SLSQP",
            bounds=[(0.0, 1.0)] * k,
            constraints=LinearConstraint(np.ones((1, k)), 1.0, 1.0),
            options={"ftol": 1e-15, "maxiter": 500},
        )
        np.testing.assert_allclose(p, found.x, atol=1e-5)
        assert objective(p, r) <= found.fun + 1e-12
        assert p.min() >= 0.0
        np.testing.assert_allclose(p.sum(), 1.0)


def test_pairs_that_are_certain_have_an_answer() -> None:
    """Each class beats the next in a circle: none is likelier; one that beats all has it all."""
    circle = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    np.testing.assert_allclose(couple_pairs(circle[None]), 1.0 / 3.0)
    first = np.array([[0.0, 1.0, 1.0], [0.0, 0.0, 0.5], [0.0, 0.5, 0.0]])
    np.testing.assert_allclose(couple_pairs(first[None])[0], [1.0, 0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize(
    ("r", "words"),
    [
        (np.ones((2, 2)), r"needs r \(q, k, k\)"),
        (np.full((1, 3, 3), 0.4), r"= 1 for each pair"),
        (np.full((1, 3, 3), np.nan), r"between 0 and 1"),
        (np.array([[[0.0, 1.5], [-0.5, 0.0]]]), r"between 0 and 1"),
    ],
)
def test_what_is_no_table_of_pairs_is_refused(r, words) -> None:
    with pytest.raises(ValueError, match=words):
        couple_pairs(r)


def test_all_pairs_of_a_table() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(3), 20)
    X = rng.normal(size=(60, 2)) + 2.0 * np.array([[0, 0], [1, 0], [0, 1]])[codes]
    y = np.array(["one", "two", "three"])[codes]
    machine = OneVsOneClassifier(KernelClassifier()).fit(X, y)
    p = pairwise_proba(machine, X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert np.mean(machine.classes_[p.argmax(axis=1)] == machine.predict(X)) > 0.9
    direct = KernelClassifier().fit(X[codes < 2], codes[codes < 2]).predict_proba(X)[:, 0]
    one, two = np.searchsorted(machine.classes_, ["one", "two"])
    member = machine.estimators_[1].predict_proba(X)[:, 0]  # of the classes one and two
    np.testing.assert_allclose(member, direct, atol=1e-6)
    assert np.corrcoef(p[:, one] / (p[:, one] + p[:, two]), direct)[0, 1] > 0.9
    with pytest.raises(ValueError, match="gives no probabilities"):
        pairwise_proba(OneVsOneClassifier(SVC()).fit(X, y), X)
