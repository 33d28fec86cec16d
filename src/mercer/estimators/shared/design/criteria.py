"""By what candidates are scored: a child states its score, and what a pick changes.

Every member of a committee has a pool of its own; scores are in the user's units of f.
Theory (D2)-(D4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.units import Units
from mercer.losses.numbers.averages import normal_points, symmetric_root
from mercer.process.design import DRAWS, SMALLEST, Prospects, class_draws, log_improvement

DEPTH = 64  # picks of a batch that have a direction of their own in these draws
PATHS = 128  # joint draws of what was picked, for the improvement that a further row adds
BLOCK = 64  # candidates whose answers are tried together


@dataclass(frozen=True)
class Intent:
    """What a proposal is made of, and what the caller wants."""

    pools: list[Prospects]
    units: Units  # of f
    maximize: bool
    best: float | None
    kappa: float
    notes: dict[str, object]  # what was done, for the report


class Acquisition(ABC):
    """A score of each candidate, to be as large as possible."""

    name: ClassVar[str]
    words: ClassVar[str]  # what a score is
    optimises: ClassVar[bool] = False  # looks for the best value of a function: one quantity
    watches: ClassVar[bool] = False  # asks how other rows fare: Intent.pools have some

    def __init__(self, intent: Intent) -> None:
        self.intent, self.pools = intent, intent.pools
        self.scale = np.asarray(intent.units.y_scale)

    @abstractmethod
    def scores(self) -> Array:
        """Return the score (q,) by which candidates are ranked, given the picks so far."""

    def pick(self, i: int) -> None:
        """Take candidate i: its observation counts as made, whatever it will be."""
        for pool in self.pools:
            pool.observe(i)

    def stated(self, scores: Array) -> Array:
        """Return scores (n,) as they are reported."""
        return scores

    def _means(self) -> list[Array]:
        """The latent mean (q,) of each member, in the user's units."""
        units = self.intent.units
        return [units.y_in_user_units(pool.mean[: pool.q])[:, 0] for pool in self.pools]

    def _deviations(self) -> list[Array]:
        return [np.sqrt(pool.variance[: pool.q, 0]) * self.scale[0] for pool in self.pools]


class LargestVariance(Acquisition):
    """The variance of the latent functions, summed; of a committee that of the mixture."""

    name: ClassVar[str] = "variance"
    words: ClassVar[str] = "variance of f"

    def scores(self) -> Array:
        square = self.scale**2
        each = [pool.variance[: pool.q] for pool in self.pools]
        within = [
            v.sum(axis=1) if pool.several else v[:, 0] * square.sum()
            for v, pool in zip(each, self.pools, strict=True)
        ]
        means = np.array([pool.mean[: pool.q] for pool in self.pools])
        scale = 1.0 if self.pools[0].several else square
        return np.asarray(np.mean(within, axis=0) + (means.var(axis=0) * scale).sum(axis=1))


class MutualInformation(Acquisition):
    """What the observation says about the latent functions, :meth:`Prospects.information`."""

    name: ClassVar[str] = "information"
    words: ClassVar[str] = "information about f, nats"

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        if any(
            getattr(pool.loss, "noise", 1.0) == 0.0 and not pool.noise.all() for pool in self.pools
        ):
            raise ValueError(
                "an observation without noise says everything about f where it is made: propose by "
                "'variance', or give the loss some noise"
            )

    def scores(self) -> Array:
        return np.asarray(np.mean([pool.information() for pool in self.pools], axis=0))


class ExpectedImprovement(Acquisition):
    """E[max(f - best, 0)], and for the minimum E[max(best - f, 0)].

    A further row of a batch is scored by what it adds to the improvement of the rows picked before:
    the average over joint draws of f there, each with its own best value so far.
    """

    name: ClassVar[str] = "improvement"
    words: ClassVar[str] = "expected improvement"
    optimises: ClassVar[bool] = True

    def __init__(self, intent: Intent) -> None:
        super().__init__(intent)
        self.sign = 1.0 if intent.maximize else -1.0
        self.best = [self.sign * self._best(pool) for pool in self.pools]
        known = [f"{self.sign * best:.6g}" for best in dict.fromkeys(self.best)]
        intent.notes["best"] = ", ".join(known[:3]) + (", ..." if len(known) > 3 else "")
        self.paths = [np.full(PATHS, best) for best in self.best]  # best value on each draw
        self.shift = [np.zeros((pool.q, 1)) for pool in self.pools]  # of the mean, on each

    def _best(self, pool: Prospects) -> float:
        """Return the value to improve on: the best mean at the model's points."""
        if self.intent.best is not None:
            return float(self.intent.best)
        points = getattr(pool.process, "points", None)
        mean = pool.mean[: pool.q] if points is None else pool.process.mean(points)
        values = self.intent.units.y_in_user_units(mean)
        return float(values.max() if self.intent.maximize else values.min())

    def scores(self) -> Array:
        found = []
        for mean, std, paths, shift in zip(
            self._means(), self._deviations(), self.paths, self.shift, strict=True
        ):
            best = paths[:1] if shift.shape[1] == 1 else paths
            gap = self.sign * (mean[:, None] + shift) - best
            each = log_improvement(gap, std[:, None])
            found.append(np.logaddexp.reduce(each, axis=1) - np.log(each.shape[1]))
        return np.asarray(np.logaddexp.reduce(found, axis=0) - np.log(len(found)))

    def pick(self, i: int) -> None:
        z = normal_points(DEPTH, PATHS)[:, len(self.pools[0].factors) % DEPTH]
        for k, (pool, mean) in enumerate(zip(self.pools, self._means(), strict=True)):
            G = pool.pin(i)[: pool.q, 0] * self.scale[0]  # (q, 1)
            self.shift[k] = self.shift[k] + G * z
            self.paths[k] = np.maximum(self.paths[k], self.sign * (mean[i] + self.shift[k][i]))

    def stated(self, scores: Array) -> Array:
        return np.exp(scores)


class ConfidenceBound(Acquisition):
    """Mean plus kappa deviations of f; for the minimum the lower bound, with its sign turned.

    In a batch the deviations shrink with every pick and the means stay: Desautels, Krause & Burdick
    (2014), GP-BUCB.
    """

    name: ClassVar[str] = "bound"
    words: ClassVar[str] = "confidence bound of f"
    optimises: ClassVar[bool] = True

    def scores(self) -> Array:
        self.intent.notes["kappa"] = self.intent.kappa
        means, each = np.array(self._means()), np.array(self._deviations())
        std = np.sqrt(np.square(each).mean(axis=0) + means.var(axis=0))
        sign = 1.0 if self.intent.maximize else -1.0
        return np.asarray(sign * means.mean(axis=0) + self.intent.kappa * std)

    def stated(self, scores: Array) -> Array:
        return scores if self.intent.maximize else -scores


class ErrorReduction(Acquisition):
    """By how much the expected error at the watched rows is expected to fall.

    Of a quantity the mean variance of f there (Cohn, 1996); of classes the mean probability that
    the class predicted is wrong, every possible answer tried, weighted by its probability (Roy &
    McCallum, 2001): the moments of f given the answer are matched, as in one step of EP.
    """

    name: ClassVar[str] = "error"
    words: ClassVar[str] = "expected fall of the error"
    watches: ClassVar[bool] = True

    def scores(self) -> Array:
        return np.asarray(np.mean([self._one(pool) for pool in self.pools], axis=0))

    def _one(self, pool: Prospects) -> Array:
        if pool.several:
            return np.array([_several(pool, i) for i in range(pool.q)])
        S = self._covariances(pool)
        if pool.loss.response == "binary":
            return _binary(pool, S)
        m, v = pool.mean[: pool.q, 0], pool.variance[: pool.q, 0]
        if pool.loss.offers("quadratic"):
            noise = 1.0 / pool.loss.quadratic(m)[1]
        else:
            with np.errstate(divide="ignore"):
                noise = 1.0 / np.array([pool.precision(i)[0, 0] for i in range(pool.q)])
        total = v + noise + pool.noise[: pool.q]
        fall = np.square(S).mean(axis=0) / np.where(total > 0.0, total, np.inf)
        return np.asarray(fall * np.square(self.scale).sum())

    @staticmethod
    def _covariances(pool: Prospects) -> Array:
        """Covariance (r, q) of the watched rows with the candidates, given the picks."""
        q = pool.q
        S = pool.process.cross(pool.X[q:], pool.X[:q])
        for G in pool.factors:
            S = S - G[q:, 0] @ G[:q, 0].T
        return S


def _binary(pool: Prospects, S: Array) -> Array:
    """The expected fall (q,) of the error of two classes."""
    q, loss = pool.q, pool.loss
    m, v = pool.mean[:, 0], np.maximum(pool.variance[:, 0], SMALLEST)

    def risk(mean: Array, variance: Array) -> Array:
        p = np.asarray(loss.predict(mean, np.maximum(variance, SMALLEST)))
        return np.asarray(np.minimum(p, 1.0 - p).mean(axis=0))

    after = np.zeros(q)
    for y in (-1.0, 1.0):
        log_z, first, second = loss.tilted(np.full(q, y), m[:q], v[:q])
        for i in range(0, q, BLOCK):
            some = slice(i, i + BLOCK)
            C = S[:, some]
            told = risk(m[q:, None] + C * first[some], v[q:, None] + C**2 * second[some])
            after[some] += np.exp(log_z[some]) * told
    return np.asarray(risk(m[q:], v[q:]) - after)


def _several(pool: Prospects, i: int) -> float:
    """The expected fall of the error of several classes by the label of candidate i."""
    q, loss = pool.q, pool.loss
    m, V, own = pool.mean[q:], pool.V[q:], pool.V[i : i + 1]

    def risk(mean: Array, V: Array) -> float:
        return float(1.0 - class_draws(loss, mean, V).mean(axis=1).max(axis=1).mean())

    # f_i = m_i + root z, and f_j = m_j + A z + what f_i does not say of it
    A = pool.column(i)[q:] @ np.linalg.pinv(symmetric_root(own)[0], hermitian=True)
    z = normal_points(m.shape[1], DRAWS)
    after, unsaid = 0.0, z.T @ z / len(z)
    for weights in class_draws(loss, pool.mean[i : i + 1], own)[0].T:
        w = weights / weights.sum()
        shift = w @ z
        change = (z * w[:, None]).T @ z - np.outer(shift, shift) - unsaid
        told = risk(m + A @ shift, V + A @ change @ np.swapaxes(A, 1, 2))
        after += float(weights.mean()) * told
    return risk(m, V) - after


def by_name(name: object) -> type[Acquisition]:
    """Return the criterion of a name; refuse another with the list of those there are."""
    text = str(name).lower().replace("-", "_").replace(" ", "_")
    found = {kind.name: kind for kind in KINDS}
    text = ALIASES.get(text, text)
    if not isinstance(name, str) or text not in found:
        known = ", ".join(map(repr, [*found, "margin", "auto"]))
        raise ValueError(f"unknown criterion {name!r}; by is one of {known}")
    return found[text]


KINDS: tuple[type[Acquisition], ...] = (
    LargestVariance,
    MutualInformation,
    ExpectedImprovement,
    ConfidenceBound,
    ErrorReduction,
)
ALIASES = {
    "mutual_information": "information",
    "bald": "information",
    "expected_improvement": "improvement",
    "ei": "improvement",
    "upper_confidence_bound": "bound",
    "lower_confidence_bound": "bound",
    "ucb": "bound",
    "lcb": "bound",
    "expected_error_reduction": "error",
    "error_reduction": "error",
}
