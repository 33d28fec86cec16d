"""What all other observations say about each one: the figures that every machine reports."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.core.arrays import Array


@dataclass(frozen=True)
class LeftOut:
    """What all other observations say about each one, in the order of the rows given to ``fit``.

    A field that the method does not have is None.

    Attributes
    ----------
    weights : (N,) how often each row counts.
    mean, variance : (N,) or (N, m) of the left-out observation, noise included.
    log_density : (N,) or (N, m), log p(y_i | the others).
    proba : (N, k) probability of each class, in the order of ``classes_``.
    codes : (N,) the class of each row as a number 0 .. k-1.
    margin : (N, m) estimated y f(x) of each row when it is left out, y = -1 or +1; with more than
        two classes there is a column for each class against the rest.
    bound : (N, m) what each margin is at least when its row is left out.
    reason : why there is no bound, if there is none.
    error_bounds : upper bounds of the left-out error of each of the m machines, by name: (m,) each.
    jitter : share of the mean kernel variance added to a diagonal on the way, 0 if none.
    """

    weights: Array
    mean: Array | None = None
    variance: Array | None = None
    log_density: Array | None = None
    proba: Array | None = None
    codes: Array | None = None
    margin: Array | None = None
    bound: Array | None = None
    reason: str | None = None
    error_bounds: dict[str, Array] = field(default_factory=dict)
    jitter: float = 0.0

    @property
    def error(self) -> float | None:
        """Weighted share of the rows that get another class when left out; None without classes.

        By ``proba``, or by ``margin``: a row is right if its own class comes out above the others.
        """
        if self.codes is None or (self.proba is None and self.margin is None):
            return None
        codes = self.codes.astype(np.intp)
        if self.proba is not None:
            wrong = self.proba.argmax(axis=1) != codes
        else:
            from mercer.left_out.margins import worst

            assert self.margin is not None
            wrong = worst(self.margin, codes) <= 0.0
        return float(self.weights @ wrong / self.weights.sum())


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
