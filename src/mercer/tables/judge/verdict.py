"""Verdict: how much better the model is than the simplest ones, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.deadline import check_time
from mercer.core.kinds import Plain
from mercer.core.record import Each, Fields, Later, Maybe
from mercer.core.words import shape
from mercer.plots.rows import normal_log_density, recorded
from mercer.tables.choose.left_out import FOLDS, Folds, LeftOutTable, folds_of, predicted_by
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted
from mercer.tables.judge.edges import Edges, edges_of
from mercer.tables.judge.simple import SimpleClasses, SimpleQuantity
from mercer.tables.quality import mean_and_error

MOST = 2000  # rows that are compared
MANY = 20  # folds in place of leaving out single rows
TRAINED = 10_000  # rows, at most, that a simple model learns from where others were held out
SURE, LIKELY = 3.0, 2.0  # standard errors
CLOSE = 0.005  # nats per row that are no difference in practice
KEPT = 2.0  # nats in all that hyperparameters gain which are kept for rows left out, about


@dataclass(frozen=True)
class Against:
    """The model beside a simpler one, on the same rows left out.

    Attributes
    ----------
    name : the simpler model, in words.
    gain : by how much the mean log density of a row is greater than the simpler model's, in nats.
    error : its standard error, from the paired differences of the rows, or of groups of them.
    own, other : root mean squared error, or share of wrong classes: of the model, of the other.
    rows : how many rows were compared.
    """

    name: str
    gain: float
    error: float
    own: float
    other: float
    rows: int

    @property
    def verdict(self) -> str:
        """One of "better", "probably better", "not distinguishable", "(probably) worse"."""
        if abs(self.gain) <= max(LIKELY * self.error, CLOSE + KEPT / self.rows):
            return "not distinguishable"
        word = "better" if self.gain > 0.0 else "worse"
        return word if abs(self.gain) > SURE * self.error else f"probably {word}"

    def words(self, quantity: bool) -> str:
        """Return how much better it is and how sure that is, in one sentence."""
        by = f"{abs(self.gain):.3g} nats per row (standard error {self.error:.2g})"
        if quantity:
            errors = f"root mean square error {shape(self.own)} against {shape(self.other)}"
        else:
            errors = f"{100 * self.own:.3g} % wrong classes against {100 * self.other:.3g} %"
        if self.verdict == "not distinguishable":
            return (
                f"not distinguishable from {self.name} on {self.rows} rows left out: "
                f"{'better' if self.gain > 0 else 'worse'} by {by}; {errors}"
            )
        sure = {
            "better": ", more than chance explains",
            "worse": ", more than chance explains: use the simpler model",
            "probably better": ", hardly by chance alone",
            "probably worse": ", hardly by chance alone: look at the simpler model",
        }[self.verdict]
        return f"{self.verdict} than {self.name} by {by}{sure}; {errors}"


_FIGURE = Plain(float)
AGAINST = {
    "name": Plain(str),
    **dict.fromkeys(("gain", "error", "own", "other"), _FIGURE),
    "rows": Plain(int, 1),
}
EDGES = {**dict.fromkeys(("gain", "error", "share"), _FIGURE), "rows": Plain(int, 1)}


@dataclass(frozen=True)
class Verdict:
    """The model beside the simplest ones, ``simple``, and beside trees, ``edges``.

    ``edges`` is None where there are too few rows for it.
    """

    simple: list[Against]
    edges: Edges | None

    def words(self, quantity: bool) -> list[str]:
        """Return a sentence for each comparison; trees are named where they would win."""
        said = [one.words(quantity) for one in self.simple]
        return said + ([self.edges.words(quantity)] if self.edges and self.edges.found else [])

    def plain(self, quantity: bool) -> dict[str, Any]:
        """Return it as plain values, with the sentences."""
        simple = [
            {
                "name": one.name,
                "gain": one.gain,
                "standard_error": one.error,
                "error": one.own,
                "baseline_error": one.other,
                "rows": one.rows,
                "verdict": one.verdict,
                "words": one.words(quantity),
            }
            for one in self.simple
        ]
        return {
            "baselines": simple,
            "wrong_tool": None if self.edges is None else self.edges.plain(quantity),
        }


STORED = Later(
    Fields(
        Verdict, {"simple": Each(Fields(Against, AGAINST)), "edges": Maybe(Fields(Edges, EDGES))}
    )
)  # in a model file; those before it have none


def judge(left: LeftOutTable, rows: Index, X: Array, target: Target, seed: int) -> Verdict:
    """Compare the rows left out, ``rows`` (l,) of X (n, d), with what the simplest models say.

    As the rows of the model were left out, so are those of the simple ones: one by one, a straight
    line by the formula, classes in twenty folds; in the same folds; or, where the model was fitted
    without these rows, from others of the table. Rows that belong together, or follow each other,
    are left out as such, and groups count as one in the errors.
    """
    quantity, structure = left.proba is None, target.structure_of(rows)
    place = np.arange(len(rows))
    if len(rows) > MOST and structure is None:
        place = np.sort(np.random.default_rng(seed).permutation(len(rows))[:MOST])
    known = np.setdiff1d(np.flatnonzero(target.known), rows)
    if left.by.endswith("held out") and len(known) > 1:
        train = np.random.default_rng(seed).permutation(known)[:TRAINED]
        each = [(train, place, rows[place])]
    else:
        pairs = _folds(left, place, target.k, seed, structure)
        each = [(rows[a], b, rows[b]) for a, b in pairs]

    def predicted(make: Callable[[], Any]) -> tuple[Array, Array, Index]:
        """Log densities and squared errors (or misses) of rows, and their places."""
        density, missed, places = [], [], []
        if quantity and left.by.startswith("leave-one-out") and structure is None:
            machine = fitted(make(), X[rows], left.y, left.weights)
            mean, std = machine.left_mean_[place], machine.left_std_[place]
            return normal_log_density(left.y[place], mean, std), (left.y[place] - mean) ** 2, place
        for train, at, test in each:
            check_time()
            machine = fitted(make(), X[train], target.values[train], target.counts(train))
            found = predicted_by(machine, X[test], target.values[test], target.k)
            density.append(found.log_density)
            missed.append(_missed(found))
            places.append(at)
        return np.concatenate(density), np.concatenate(missed), np.concatenate(places)

    names = ["predicting the mean", "a straight line in every input"]
    if not quantity:
        names = ["predicting the shares of the classes", "logistic regression"]
    simple = []
    for name, line in zip(names, (False, True), strict=True):

        def make(line: bool = line) -> Any:
            return SimpleQuantity(line) if quantity else SimpleClasses(target.k, line)

        density, missed, at = predicted(make)
        same = None if structure is None else structure.together[at]
        simple.append(_against(name, left, at, density, missed, same))
    return Verdict(simple, edges_of(left, X[rows], seed, structure))


def _folds(
    left: LeftOutTable, place: Index, k: int, seed: int, structure: RowStructure | None
) -> Folds:
    """Return the folds of ``left``, or twenty where rows or groups were left out one by one.

    They are of ``place``, some of its rows; with a ``structure``, of all of them.
    """
    count = left.folds or (MANY if left.by.startswith("leave-") else FOLDS)
    if structure is not None:  # in time there is one way
        return structure.folds(left.y, k, seed, FOLDS if structure.groups is None else count)
    whole = left.folds > 0 and len(place) == len(left.y)
    own = folds_of(left.y[place], k if whole else 0, seed, min(count, len(place)))
    return [(place[a], place[b]) for a, b in own]


def _missed(left: LeftOutTable) -> Array:
    """Squared errors of a quantity, or whether the class was missed, (n,)."""
    if left.proba is None:
        return np.asarray((left.y - left.mean) ** 2)
    return np.asarray(left.proba.argmax(axis=1) != left.codes, dtype=np.float64)


def _against(
    name: str, left: LeftOutTable, at: Index, density: Array, missed: Array, same: Index | None
) -> Against:
    own, other = left.log_density[at], density
    if left.proba is None:  # neither counts above what the steps of the target allow
        own, other = recorded(own, left.y[at], left.y), recorded(other, left.y[at], left.y)
    w = None if left.weights is None else left.weights[at]
    gain, error = mean_and_error(own - other, w, same)
    mine, theirs = (float(np.average(v, weights=w)) for v in (_missed(left)[at], missed))
    if left.proba is None:
        mine, theirs = float(np.sqrt(mine)), float(np.sqrt(theirs))
    return Against(name, gain, error, mine, theirs, rows=len(at))
