"""Kernels of sequences, against all words written out; estimators on lists of strings."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import mercer
from mercer import SVC, GPClassifier, GPRegressor
from mercer.kernels import HMMFisher, Kmers, Subsequence
from mercer.kernels.sequences.base import encoded
from mercer.testing import check_kernel


def strings(n, seed=0, alphabet="ACGT", low=1, high=12):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(alphabet), rng.integers(low, high))) for _ in range(n)]


def normalised(K):
    root = np.sqrt(np.diag(K))
    return K / np.where(np.outer(root, root) > 0.0, np.outer(root, root), 1.0)


def words_of(x, k, m, alphabet):
    """phi_w(x): for each word w, how many words of x are within m mismatches of it."""
    own = Counter(x[i : i + k] for i in range(len(x) - k + 1))
    phi = Counter()
    for w in product(alphabet, repeat=k):
        phi[w] = sum(c for u, c in own.items() if sum(a != b for a, b in zip(u, w)) <= m)  # noqa: B905  # both of length k
    return phi


@pytest.mark.parametrize(("k", "m"), [(1, 0), (3, 0), (3, 1), (4, 2)])
def test_kmers_are_all_words(k, m):
    xs = strings(9, alphabet="ACG")
    phi = [words_of(x, k, m, "ACG") for x in xs]
    slow = np.array([[float(sum(a[w] * b[w] for w in a)) for b in phi] for a in phi])
    plain = Kmers(k, m, "ACG", normalize=False)
    np.testing.assert_array_equal(plain(xs), slow)
    np.testing.assert_array_equal(plain(xs[:4], xs), slow[:4])
    np.testing.assert_array_equal(plain.diag(xs), np.diag(slow))
    np.testing.assert_allclose(Kmers(k, m, "ACG")(xs), normalised(slow), atol=1e-15)
    F = Kmers(k, m, "ACG").features(xs)
    np.testing.assert_allclose(F @ F.T, normalised(slow), atol=1e-14)


def spans_of(x, k, decay):
    """phi_w(x): decay to the span of every place of the word w in x."""
    phi = Counter()
    for places in combinations(range(len(x)), k):
        phi["".join(x[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return phi


@pytest.mark.parametrize("k", [1, 2, 4])
def test_subsequences_are_all_places(k):
    xs = strings(8, high=9)
    phi = [spans_of(x, k, 0.7) for x in xs]
    slow = np.array([[sum(a[w] * b[w] for w in a) for b in phi] for a in phi])
    plain = Subsequence(k, 0.7, normalize=False, longest=9)
    np.testing.assert_allclose(plain(xs), slow, atol=1e-13)
    np.testing.assert_allclose(plain(xs[2:5], xs), slow[2:5], atol=1e-13)
    np.testing.assert_allclose(Subsequence(k, 0.7, longest=9)(xs), normalised(slow), atol=1e-13)
    check_kernel(Subsequence(k, 0.4, "ab", longest=6, normalize=False))
    check_kernel(2.0 * Subsequence(k, 0.4, "ab", longest=6) + Kmers(2, 0, "ab", 6))


def paths(kernel, x):
    """p(x) as the sum over all paths of states."""
    total, S = 0.0, len(kernel.starts)
    for path in product(range(S), repeat=len(x)):
        p = kernel.starts[path[0]] if path else 1.0
        for a, b in pairwise(path):
            p *= kernel.moves[a, b]
        for s, symbol in zip(path, x, strict=True):
            p *= kernel.symbols[s, kernel.alphabet.index(symbol)]
        total += p
    return total


def test_the_likelihood_of_a_hidden_markov_model_is_a_sum_over_paths():
    kernel, xs = HMMFisher.example(), ["abca", "c", "bb", "abcabc"]
    wanted = [np.log(paths(kernel, x)) for x in xs]
    np.testing.assert_allclose(kernel.log_likelihood(xs), wanted, rtol=1e-12)


def test_the_score_is_the_slope_of_the_likelihood():
    kernel, xs, h = HMMFisher.example(), ["abca", "cb", "abcabcaa"], 1e-5
    logits = [np.log(p) for p in (kernel.starts, kernel.moves, kernel.symbols)]

    def at(values):
        parts = [np.exp(v) / np.exp(v).sum(axis=-1, keepdims=True) for v in values]
        return HMMFisher(*parts, "abc", 8).log_likelihood(xs)

    columns = []
    for j, part in enumerate(logits):
        for i in np.ndindex(part.shape):
            moved = [[v.copy() for v in logits] for _ in range(2)]
            moved[0][j][i] += h
            moved[1][j][i] -= h
            columns.append((at(moved[0]) - at(moved[1])) / (2.0 * h))
    np.testing.assert_allclose(kernel.scores(xs), np.array(columns).T, atol=1e-8)


def test_baum_and_welch_climb():
    xs = strings(30, high=15)
    low, high = (
        HMMFisher.of(xs, 3, random_state=1, iterations=i, prior=1e-9).log_likelihood(xs).sum()
        for i in (1, 30)
    )
    assert high > low
    again = HMMFisher.of(xs, 3, random_state=1)
    assert again == HMMFisher.of(xs, 3, random_state=1)


def two_kinds(n=60, seed=0):
    """Sequences with and without the word ACCA somewhere."""
    rng = np.random.default_rng(seed)
    xs, y = [], rng.random(n) < 0.5
    for has in y:
        x = list(rng.choice(list("ACGT"), rng.integers(10, 20)))
        at = rng.integers(0, len(x) - 4)
        x[at : at + 4] = "ACCA" if has else "GTTG"
        xs.append("".join(x))
    return xs, np.where(y, "with", "without")


@pytest.mark.parametrize(
    "machine",
    [
        SVC(kernel=Kmers(3, longest=20)),
        SVC(kernel=Subsequence(3, 0.3, longest=20), C=10.0),
        GPClassifier(4.0 * Kmers(3, longest=20), search=None),
    ],
    ids=["kmers", "subsequence", "gp"],
)
def test_machines_take_lists_of_strings(machine, tmp_path):
    xs, y = two_kinds()
    machine.fit(xs[:40], y[:40])
    assert machine.score(xs[40:], y[40:]) > 0.8
    assert machine.n_features_in_ == 20
    mercer.save(machine, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(
        again.decision_function(xs[:5]), machine.decision_function(xs[:5])
    )


def test_fisher_kernel_of_variable_length(tmp_path):
    xs, y = two_kinds()
    kernel = HMMFisher.of(xs[:40], 4, longest=20, random_state=0)
    model = SVC(kernel=kernel).fit(xs[:40], y[:40])
    assert model.score(xs[:40], y[:40]) > 0.8
    mercer.save(model, tmp_path / "m")
    loaded = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(xs), model.predict(xs))


def test_selection_and_search_by_scikit_learn():
    xs, y = two_kinds(40)
    assert cross_val_score(SVC(kernel=Kmers(3, longest=20)), xs, y, cv=2).mean() > 0.6
    grid = GridSearchCV(
        SVC(kernel=Kmers(longest=20)),
        {"kernel__length": [2, 3], "kernel__mismatches": [0, 1]},
        cv=2,
    ).fit(xs, y)
    assert grid.best_params_["kernel__length"] in (2, 3)


def test_the_decay_is_learned():
    xs = strings(40, low=5, high=12)
    y = np.array([x.count("AC") - x.count("GT") for x in xs], dtype=float)
    model = GPRegressor(1.0 * Subsequence(2, 0.5, longest=12)).fit(xs, y)
    start = GPRegressor(1.0 * Subsequence(2, 0.5, longest=12).fix()).fit(xs, y)
    assert model.log_evidence_ > start.log_evidence_
    assert model.kernel_.kernel.decay < 0.5  # words side by side are all that counts


def test_lists_of_symbols_and_refusals():
    kernel = Kmers(1, alphabet=["up", "down"], longest=3, normalize=False)
    np.testing.assert_array_equal(kernel([["up", "up"], ["down"]]), [[4.0, 0.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="'left', which is not in the alphabet"):
        kernel([["left"]])
    with pytest.raises(ValueError, match="longest=4 or more"):
        kernel([["up"] * 4])
    with pytest.raises(TypeError, match="one string"):
        Kmers()("ACGT")
    with pytest.raises(ValueError, match="places in the alphabet"):
        Kmers(longest=2)(np.array([[-1.0, 2.0]]))
    with pytest.raises(ValueError, match="below length"):
        Kmers(2, 2)(["AC"])
    with pytest.raises(ValueError, match="rows of sum one"):
        HMMFisher(np.ones(2), np.eye(2), np.full((2, 4), 0.25))(["AC"])
    with pytest.raises(ValueError, match="each of them once"):
        encoded(["a"], "aa", 3)
    with pytest.raises(ValueError, match="not in the alphabet"):
        SVC(kernel=Kmers()).fit(["ACX", "AC"], [0, 1])
