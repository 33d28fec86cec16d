"""Grams that follow each other in the same memory give what fresh ones give."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from mercer.inference import Exact
from mercer.kernels import RBF, Constant, Kernel, Linear, Matern, Scale
from mercer.linalg import DenseGram
from mercer.linalg.dense.gram import RecycledGrams
from mercer.losses import Gaussian
from mercer.search import EvidenceCriterion, Space, simple_problem

KERNELS = {
    "scaled": lambda: 2.0 * RBF(np.array([1.0, 2.0])),
    "plain": lambda: Matern(1.5, 0.7),
    "general": lambda: 0.5 * Matern(2.2, 0.7),  # not in the compiled core
    "sum": lambda: RBF(1.3) + 0.1 * Linear() + Constant(),
}


@pytest.mark.parametrize("name", KERNELS)
def test_every_evaluation_is_that_of_a_fresh_gram(rng, name) -> None:
    X, y = rng.normal(size=(40, 2)), rng.normal(size=(40, 1))
    space = Space({"kernel": KERNELS[name](), "loss": Gaussian(noise=0.1)})
    recycled = EvidenceCriterion(space, simple_problem(X, y), Exact())
    fresh = EvidenceCriterion(space, simple_problem(X, y), Exact(), DenseGram)
    for _ in range(3):
        u = space.start + 0.3 * rng.normal(size=len(space.start))
        value, gradient = recycled(u)
        expected = fresh(u)
        assert value == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])


def test_the_memory_is_the_same(rng) -> None:
    points, make = rng.normal(size=(30, 2)), RecycledGrams()
    seen = []
    for scale in (1.0, 2.0, 3.0):
        gram = make(2.0 * RBF(scale), points, scratch=True)
        factor = gram.factor(np.ones(30))
        seen.append(factor.cholesky.ctypes.data)
        gram.pullback(rng.normal(size=(30, 1)), factor)
    assert len(set(seen)) == 1


def test_other_points_get_memory_of_their_own(rng) -> None:
    make = RecycledGrams()
    gram = make(RBF(), rng.normal(size=(30, 2)), scratch=True)
    gram.pullback(rng.normal(size=(30, 1)), gram.factor(np.ones(30)))
    assert make.spare[0].shape == (30, 30)
    other = make(RBF(), rng.normal(size=(20, 2)), scratch=True)
    assert other.factor(np.ones(20)).cholesky.shape == (20, 20)


def test_a_gram_that_stays_keeps_its_memory(rng) -> None:
    """The last Gram of a fit may take the memory of the search, and does not hand it on."""
    points, make = rng.normal(size=(30, 2)), RecycledGrams()
    gram = make(RBF(), points, scratch=True)
    gram.pullback(rng.normal(size=(30, 1)), gram.factor(np.ones(30)))
    last = make(RBF(), points, scratch=False)
    factor = last.factor(np.ones(30))
    before = factor.cholesky.copy()
    assert make.spare == []
    again = make(RBF(3.0), points, scratch=True)
    again.pullback(rng.normal(size=(30, 1)), again.factor(np.ones(30)))
    np.testing.assert_array_equal(factor.cholesky, before)


class Shared(Kernel):
    """k = 1 if both rows agree, as whole numbers that may not be written to."""

    def __call__(self, X, Z=None):
        K = np.all(X[:, None] == (X if Z is None else Z), axis=2).astype(int)
        K.flags.writeable = False
        return K

    def diag(self, X):
        return np.ones(len(X))


class Doubled(Scale):
    """A child with a call of its own."""

    def __call__(self, X, Z=None):
        return 2.0 * super().__call__(X, Z)

    def diag(self, X):
        return 2.0 * super().diag(X)


@pytest.mark.parametrize("kernel", [Shared(), Doubled(RBF(), 3.0), 3.0 * Doubled(RBF(), 0.5)])
def test_kernels_that_do_not_write(rng, kernel) -> None:
    X, make = rng.normal(size=(30, 2)), RecycledGrams()
    make.spare.append(rng.normal(size=(30, 30)))
    factor = make(kernel, X, scratch=True).factor(np.ones(30))
    want = DenseGram(kernel, X).factor(np.ones(30))
    np.testing.assert_array_equal(np.triu(factor.cholesky), np.triu(want.cholesky))


def test_no_array_is_handed_out_twice(rng) -> None:
    """A Gram may be made while another thread takes the array, whatever it has seen before."""
    points, make, taken = rng.normal(size=(20, 2)), RecycledGrams(), []

    class Spare(np.ndarray):
        def __len__(self) -> int:  # another thread comes in where the size is looked at
            if not taken:
                taken.append(None)
                other = threading.Thread(target=lambda: taken.append(first._formed()))
                other.start()
                other.join()
            return int(super().__len__())

    first = make(RBF(), points, scratch=True)
    make.spare.append(np.empty((20, 20)).view(Spare))
    second = make(RBF(), points, scratch=True)._formed()
    assert not np.shares_memory(taken[-1], second)
