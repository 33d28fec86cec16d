"""Kernels with one mistake each, beside the parent without it and the clause that must name it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.kernels import RBF, Linear, Matern, Stationary

ROOM = {}  # what a kernel must not have


class Parent(Stationary):
    """The inverse multiquadric kernel, right in everything."""

    def profile(self, s):
        return 1.0 / np.sqrt(1.0 + s)

    def slope(self, s):
        return -0.5 / (1.0 + s) ** 1.5


class GradientSign(Parent):
    def slope(self, s):
        return -super().slope(s)


class GradientOnePercent(Parent):
    def slope(self, s):
        return 1.01 * super().slope(s)


class GradientDoubled(Parent):
    def slope(self, s):
        return 2.0 * super().slope(s)


class GradientMissing(Parent):
    def _value_and_pullback(self, X, Z, Q):
        return super()._value_and_pullback(X, Z, Q)[0], {}


class NaNAtZero(Parent):
    def profile(self, s):
        with np.errstate(invalid="ignore", divide="ignore"):
            return super().profile(s) * (s / s)


class NotPositive(Parent):
    def profile(self, s):
        return 1.0 - np.minimum(s, 1.0)

    def slope(self, s):
        return np.where(s < 1.0, -1.0, 0.0)


class NotPositiveInSpace(Parent):
    """The tent max(0, 1 - r): a kernel on the line, none in three dimensions."""

    def profile(self, s):
        return np.maximum(0.0, 1.0 - np.sqrt(s))

    def slope(self, s):
        r = np.sqrt(np.where(s > 0.0, s, 1.0))
        return np.where((s > 0.0) & (s < 1.0), -0.5 / r, 0.0)


class WrongDiagonal(Parent):
    def diag(self, X):
        return 1.01 * super().diag(X)


class CachedArray(Parent):
    def __call__(self, X, Z=None):
        K = super().__call__(X, Z)
        kept = ROOM.setdefault(K.shape, K)
        kept[:] = K
        return kept


class OverwritesDistances(Parent):
    def profile(self, s):
        s += 1.0
        return 1.0 / np.sqrt(s)


class SinglePrecision(Parent):
    def __call__(self, X, Z=None):
        return super().__call__(X, Z).astype(np.asarray(X).dtype)


class WrongUnits(Parent):
    def in_units(self, shift, scale):
        return self


class WrongRBF(RBF):
    def as_rbf(self, X, centre):
        return (X - centre) * np.asarray(self.length_scale), 1.0


class WrongFeatures(Linear):
    def features(self, X):
        return 1.001 * super().features(X)


class WrongStates(Matern):
    def state_space(self):
        found = super().state_space()
        return None if found is None else replace(found, rates=found.rates * 1.01)


class WrongFrozen(Parent):
    def frozen(self, X, weights=None):
        return self._restated(length_scale=2.0 * self.length_scale)


class WrongPairwise(Parent):
    pairwise = True


PARENTS = [Parent(0.7), RBF(0.7), Linear(2.0), Matern(1.5, 0.8)]
PLANTED = [
    (GradientSign(0.7), "gradient of length_scale"),
    (GradientOnePercent(0.7), "gradient of length_scale"),
    (GradientDoubled(0.7), "gradient of length_scale"),
    (GradientMissing(0.7), "gradient of length_scale"),
    (NaNAtZero(0.7), "finite"),
    (NotPositive(0.7), "positive semidefinite"),
    (NotPositiveInSpace(2.5), "positive semidefinite"),
    (WrongDiagonal(0.7), "diag"),
    (CachedArray(0.7), "fresh array"),
    (OverwritesDistances(0.7), "profile"),
    (SinglePrecision(0.7), "float32"),
    (WrongUnits(0.7), "in_units"),
    (WrongRBF(0.7), "as_rbf"),
    (WrongFeatures(2.0), "features"),
    (WrongStates(1.5, 0.8), "state_space"),
    (WrongFrozen(0.7), "frozen"),
    (WrongPairwise(0.7), "pairwise"),
]
