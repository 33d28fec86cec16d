"""Counts of successes among a known number of trials, with a logit link."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.base import Loss, refuse_rows
from mercer.losses.binary.logistic import Logistic
from mercer.losses.numbers.special import negative_entropy


class Binomial(Loss):
    """y successes in n trials: g = n log(1 + e^f) - y f - log C(n, y), P(success) = 1 / (1 + e^-f).

    The same posterior as y rows of the label +1 and n - y of the label -1 under :class:`Logistic`.
    Reference: Jaakkola & Haussler (1999), Theorem 1.

    Parameters
    ----------
    trials : int, or array (rows,) of ints; n >= 1, of all rows or of each training row. In the
        second case predictions for new rows are of one trial: the probability of a success.

    Examples
    --------
    >>> Binomial(trials=10).moments(np.array(0.0))
    (np.float64(5.0), np.float64(2.5))
    """

    response: ClassVar[str] = "count"
    normalised: ClassVar[bool] = True

    def __init__(self, trials: int | Sequence[int] | Array) -> None:
        n = np.asarray(trials)
        whole = n.dtype.kind in "iu" or (n.dtype.kind == "f" and np.all(n == np.floor(n)))
        if n.ndim > 1 or not whole or not np.all(n >= 1) or not n.size:
            raise ValueError(
                "Binomial needs a whole number of trials >= 1, or one for each row, not "
                f"{trials!r}; leave out rows without trials"
            )
        self.trials = trials

    @classmethod
    def example(cls) -> Self:
        return cls(trials=7)

    @property
    def of_rows(self) -> bool:
        return np.ndim(self.trials) > 0

    def for_new(self) -> Binomial:
        return Binomial(1) if self.of_rows else self

    def _n(self, y: Array) -> Array:
        """The trials, along the first axis of y."""
        n = np.asarray(self.trials, dtype=np.float64)
        return n.reshape(-1, *[1] * (np.ndim(y) - 1)) if n.ndim and np.ndim(y) > 1 else n

    def value(self, y: Array, f: Array) -> Array:
        y, f = np.broadcast_arrays(np.asarray(y, dtype=np.float64), f)
        n = self._n(y)
        ways = -np.log(n + 1.0) - special.betaln(n - y + 1.0, y + 1.0)
        return np.asarray(n * np.logaddexp(0.0, f) - y * f - ways)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        y, f = np.broadcast_arrays(np.asarray(y, dtype=np.float64), f)
        n, up, down = self._n(y), special.expit(f), special.expit(-np.asarray(f))
        bend = n * up * down
        return np.asarray((n - y) * up - y * down), bend, bend * (down - up)

    def centers(self, y: Array) -> Array:
        n = self._n(y)
        y = np.clip(y, 0.0, n)  # averages over new observations give any number for y
        return np.log((y + 0.5) / (n - y + 0.5))[None]

    def width(self, y: Array) -> Array:
        n = self._n(y)
        y = np.clip(y, 0.0, n)
        return np.asarray(np.sqrt((n + 2.0) / ((y + 1.0) * (n - y + 1.0))))

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if not self.of_rows:
            return super().tilted(y, m, v)
        log_z, first, second = self._each("tilted", y, m, v)
        return log_z, first, second

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        y, m, v = np.broadcast_arrays(np.asarray(y, dtype=np.float64), m, v)
        n, (mean, dm, dv) = self._n(y), Logistic().expected(-np.ones(y.shape), m, v)
        rest = self.value(y, np.zeros(y.shape)) - n * np.log(2.0) - y * m
        return n * mean + rest, n * dm - y, n * dv

    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        y, m, v = np.broadcast_arrays(np.asarray(y, dtype=np.float64), m, v)
        third, fourth = Logistic().expected_higher(-np.ones(y.shape), m, v)
        return self._n(y) * third, self._n(y) * fourth

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=np.float64), u)
        n, zero = self._n(y), np.zeros(y.shape)
        p = (u + y) / n
        best = n * negative_entropy(np.clip(p, 0.0, 1.0)) - (self.value(y, zero) - n * np.log(2.0))
        return np.asarray(np.where((p < 0.0) | (p > 1.0), np.inf, best))

    def moments(self, f: Array) -> tuple[Array, Array]:
        f = np.asarray(f, dtype=np.float64)
        up, n = special.expit(f), self._n(f)
        return n * up, n * up * special.expit(-f)

    def predict(self, m: Array, v: Array) -> Any:
        if not self.of_rows:
            return super().predict(m, v)
        return self._each("predict", m, v)

    def _each(self, method: str, *given: Array) -> tuple[Array, ...]:
        """What ``method`` of a loss with one number of trials says, for the rows of each number."""
        arrays = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in given))
        n = np.broadcast_to(self._n(arrays[0]), arrays[0].shape)
        found: tuple[Array, ...] = ()
        for count in np.unique(n):
            at = n == count
            some = getattr(Binomial(int(count)), method)(*(a[at] for a in arrays))
            found = found or tuple(np.empty(n.shape) for _ in some)
            for whole, part in zip(found, some, strict=True):
                whole[at] = part
        return found

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        k, down = np.floor(y), special.expit(-np.asarray(f, dtype=np.float64))
        n = self._n(down)
        inside = special.betainc(np.maximum(n - k, 1.0), np.maximum(k, 0.0) + 1.0, down)
        return np.asarray(np.where(k >= n, 1.0, np.where(k < 0.0, 0.0, inside)))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        p = special.expit(np.asarray(f, dtype=np.float64))
        return np.asarray(rng.binomial(self._n(p).astype(np.intp), p), dtype=np.float64)

    def check_targets(self, y: Any) -> Array:
        values = super().check_targets(y)
        n = np.asarray(self.trials, dtype=np.float64)
        if n.ndim and n.shape != values.shape:
            raise ValueError(
                f"Binomial has trials for {len(n)} rows, and there are {len(values)} targets; give "
                "one number for each row, or one for all"
            )
        what = "a count of at most its trials"
        refuse_rows(values, values <= n, "Binomial", what, "check trials=, in the order of y")
        return values

    def example_targets(self, rng: np.random.Generator, n: int) -> Array:
        fewest = int(np.min(self.trials))  # there may be less rows than trials are known of
        return np.asarray(rng.binomial(fewest, 0.4, n), dtype=np.float64)
