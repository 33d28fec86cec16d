"""What all other observations say about each one: the figures that every machine reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array


@dataclass(frozen=True)
class Loo:
    """Leave-one-out prediction of each observation from all others.

    Attributes
    ----------
    mean, variance : (n,) or (n, m) of the left-out observation y_i (noise included).
    log_density : log p(y_i | the others), same shape.
    weights : (n,) how often each observation counts.
    """

    mean: Array
    variance: Array
    log_density: Array
    weights: Array

    @property
    def std(self) -> Array:
        """Standard deviation of the left-out observation."""
        return np.asarray(np.sqrt(self.variance))

    @property
    def total(self) -> float:
        """Weighted sum of the log densities: the leave-one-out log predictive density."""
        return float((self.weights @ self.log_density).sum())


@dataclass(frozen=True)
class ClassLoo:
    """Leave-one-out prediction of the class of each row from all others.

    Attributes
    ----------
    proba : (N, k) probability of each class, in the order of ``classes_``.
    codes : (N,) the class of each row as a number 0 .. k-1.
    weights : (N,) how often each row counts.
    """

    proba: Array
    codes: Array
    weights: Array

    @property
    def log_density(self) -> Array:
        """Log probability of the class of each row, (N,)."""
        chosen = self.proba[np.arange(len(self.codes)), self.codes.astype(np.intp)]
        return np.log(np.maximum(chosen, np.finfo(float).tiny))

    @property
    def total(self) -> float:
        """Weighted sum of the log probabilities: the leave-one-out log predictive density."""
        return float(self.weights @ self.log_density)

    @property
    def error(self) -> float:
        """Weighted share of the rows whose class is not the most probable one."""
        wrong = self.proba.argmax(axis=1) != self.codes
        return float(self.weights @ wrong / self.weights.sum())
