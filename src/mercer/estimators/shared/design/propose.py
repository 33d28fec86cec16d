"""Which rows to observe next: ``model.propose(candidates, n, by=...)`` of every estimator.

Rows are picked one by one, each given those before it: the best first row, the best second row if
the first will have been observed, and so on. Theory (D1)-(D4).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.losses.base import Loss
from mercer.process.process import Process

if TYPE_CHECKING:
    from mercer.estimators.shared.record import Observed
    from mercer.estimators.shared.units import Units

WATCHED, WATCHED_LABELS = 1000, 200  # of the candidates, for 'error': their errors are averaged
TOLD = ("best", "kappa", "watched", "batch")  # of the report, in the table of a proposal
MARGIN = "minus the lead of the most probable class"


@dataclass(frozen=True)
class Proposal:
    """Rows to observe, best first; printed it is a table.

    Attributes
    ----------
    indices : (n,) rows of the candidates, in the order in which they were picked.
    scores : (n,) the criterion, each given the rows before it.
    every : (q,) what the criterion says of each candidate by itself.
    by : the criterion.
    report : dict of what was done, plain values.
    """

    indices: Index
    scores: Array
    every: Array
    by: str
    report: dict[str, Any]

    @property
    def alone(self) -> Array:
        """What the criterion says of each of the rows by itself: (n,)."""
        return np.asarray(self.every[self.indices])

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[int]:
        return iter(self.indices.tolist())

    def __str__(self) -> str:
        head = (
            f"{len(self)} of {self.report['candidates']} rows by {self.by}: {self.report['score']}"
        )
        told = [f"  {key}: {self.report[key]}" for key in TOLD if key in self.report]
        cells = [f"{'row':>8} {'score':>12} {'alone':>12}"]
        for row, score, alone in zip(self.indices, self.scores, self.alone, strict=True):
            cells.append(f"{row:>8} {score:>12.5g} {alone:>12.5g}")
        return "\n".join([head, *told, *cells])

    __repr__ = __str__


class Proposes:
    """An estimator that says which rows to observe next, and takes new rows without a search."""

    # whether the posterior says what new rows need to be added; else ``condition`` refuses
    _keeps_rows: ClassVar[bool] = True
    posteriors_: Any
    observed_: Observed | None = None  # the targets, where new rows need them; see ``condition``

    def propose(
        self,
        candidates: Any,
        n: int = 1,
        by: str = "auto",
        *,
        maximize: bool = False,
        best: float | None = None,
        kappa: float = 2.0,
        at: Any = None,
    ) -> Proposal:
        """Return the n rows of ``candidates`` (q, d) to observe next, as a :class:`Proposal`.

        Parameters
        ----------
        by : what makes a row worth observing
            "variance" (of f), "information" (what the observation says about f: BALD for classes),
            "error" (by how much the expected error at other rows falls), and for the minimum of a
            quantity "improvement" (expected improvement) and "bound" (confidence bound). "margin"
            takes the classes that are closest to each other, one row at a time, and needs no spread
            of f. "auto" is "information" or, without a spread, "margin".
        maximize : look for the maximum, for "improvement" and "bound".
        best : the value to improve on; None is the best mean of f at the rows of the model.
        kappa : how many deviations "bound" adds.
        at : (r, d) rows whose error counts, for "error"; None: the candidates, up to 1000 of them
            evenly spread (200 for classes).

        A batch is picked greedily, each row given those before it; its joint law is updated by one
        rank for each pick, in O(q (p + n)) for p points of the model, and no q x q array is formed.
        """
        check_is_fitted(self)
        return proposed(self, candidates, n, by, maximize=maximize, best=best, kappa=kappa, at=at)

    def condition(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Return the model given further rows X (q, d), y (q,), without a new search.

        Hyperparameters, units and centring stay as they are; this model is not changed. For
        Gaussian noise the Cholesky factor is extended in O(n^2 q): the same posterior as a fit to
        all rows, and ``log_evidence_`` grows by the log density of the new rows given the old. For
        other losses the posterior of all rows is solved for again, from the old one, in O(n^3) but
        without the search. A learner of streams learns one more batch. ``left_out_`` is None:
        leaving rows out needs a fit; ``report_["conditioned"]`` says what was done.
        """
        from mercer.estimators.shared.design.condition import conditioned

        check_is_fitted(self)
        model: Self = conditioned(self, X, y, sample_weight)
        return model

    def _members(self, X: Any) -> tuple[list[tuple[Process, Loss]], Array, Units] | None:
        """Return processes and losses, X in their units, and the units of f; None: no spread."""
        from mercer.estimators.shared.predictions import check_variances
        from mercer.estimators.shared.table import read_inputs

        learner = getattr(self, "bayes_", None)  # of a support vector machine with an inference
        if learner is not None and getattr(self, "discriminant", "") == "mean":
            found: tuple[list[tuple[Process, Loss]], Array, Units] | None = learner._members(X)
            return found
        units, losses = getattr(self, "units_", None), getattr(self, "losses_", None)
        if units is None or not all(p.has_spread for p in self.posteriors_):
            return None
        posteriors = self.posteriors_
        losses = [self.loss_] * len(posteriors) if losses is None else losses  # type: ignore[attr-defined]  # of all who have units
        Z = units.standardised(read_inputs(self, X))
        check_variances(posteriors, Z)
        return list(zip(posteriors, losses, strict=True)), Z, units.of_latent(losses[0])


def proposed(
    model: Any,
    candidates: Any,
    n: int,
    by: Any,
    *,
    at: Any = None,
    maximize: bool = False,
    best: float | None = None,
    kappa: float = 2.0,
) -> Proposal:
    """Do :meth:`Proposes.propose`; a classifier of others answers by margin."""
    from mercer.estimators.shared.design.criteria import Acquisition, Intent, by_name

    _check(n, best, kappa)
    kind: type[Acquisition] | None = None
    if by not in ("auto", "margin"):
        kind = by_name(by)
    classes = is_classifier(model)
    members = getattr(model, "_members", None)
    found = None if by == "margin" or members is None else members(candidates)
    if by == "auto" and found is not None:
        kind = by_name("information")
    if found is None or kind is None:
        return _by_margin(model, candidates, n, by, classes)
    posteriors, inside, units = found
    _check_count(n, len(inside))
    outputs = posteriors[0][0].mean(inside[:1]).shape[1]
    if kind.optimises and (classes or outputs > 1):
        what = "classes have" if classes else f"{outputs} targets have"
        raise ValueError(
            f"by={by!r} looks for the best value of one quantity, and {what} none: propose by "
            "'variance', 'information' or 'error'"
        )
    notes: dict[str, Any] = {}
    watched = None
    if kind.watches:
        if at is not None:
            watched = model._members(at)[1]
        else:
            most = WATCHED_LABELS if classes else WATCHED
            step = max(1, -(-len(inside) // most))
            watched = inside[::step]
        notes["watched"] = f"{len(watched)} rows" + ("" if at is not None else " of the candidates")
    from mercer.process.design import Prospects

    pools = [Prospects(process, loss, inside, watched) for process, loss in posteriors]
    rule = kind(Intent(pools, units, maximize, best, kappa, notes))
    indices, scores, first = _greedy(rule, n)
    if n > 1:
        notes["batch"] = "each row given the ones before it"
    report = {
        "candidates": len(inside), "members": len(posteriors), "score": kind.words, **notes
    }  # fmt: skip
    return Proposal(indices, rule.stated(scores), rule.stated(first), kind.name, report)


def _greedy(rule: Any, n: int) -> tuple[Index, Array, Array]:
    """Return n rows, each the best given those before, their scores then, and all at first."""
    indices = np.empty(n, dtype=np.intp)
    scores, first = np.empty(n), rule.scores()
    now = first
    for k in range(n):
        if k:
            rule.pick(int(indices[k - 1]))
            now = rule.scores()
        left = now.copy()
        left[indices[:k]] = -np.inf
        left[np.isnan(left)] = -np.inf
        indices[k] = int(left.argmax())
        if k and left[indices[k]] == -np.inf:  # all the same: the first that is left
            indices[k] = int(np.setdiff1d(np.arange(len(now)), indices[:k])[0])
        scores[k] = now[indices[k]]
    return indices, scores, first


def _by_margin(model: Any, candidates: Any, n: int, by: str, classes: bool) -> Proposal:
    """Propose the rows whose most probable classes are closest to each other."""
    name = type(model).__name__
    if not classes:
        why = "has no spread of f" if by != "margin" else "has no classes"
        raise ValueError(
            f"{name} {why}, and by={by!r} needs it: of the regressors GPRegressor, RVRegressor, "
            "SmoothingSpline and ThinPlateSpline propose by 'variance', 'information', "
            "'improvement', 'bound' and 'error'"
        )
    if by not in ("auto", "margin"):
        raise ValueError(
            f"{name} has no spread of f, and by={by!r} needs it: propose by 'margin', or use "
            "GPClassifier, RVClassifier or OnlineLogisticClassifier"
        )
    if hasattr(model, "predict_proba"):
        scores = np.sort(np.asarray(model.predict_proba(candidates)), axis=1)
        lead = scores[:, -1] - scores[:, -2]
    else:
        f = np.asarray(model.decision_function(candidates))
        lead = np.abs(f) if f.ndim == 1 else np.diff(np.sort(f, axis=1)[:, -2:], axis=1)[:, 0]
    _check_count(n, len(lead))
    order = np.argsort(lead, kind="stable")[:n]
    report: dict[str, Any] = {"candidates": len(lead), "members": 1, "score": MARGIN}
    if n > 1:
        report["batch"] = "each row by itself: this criterion does not see that rows are alike"
    return Proposal(order, -lead[order], -lead, "margin", report)


def _check(n: Any, best: float | None, kappa: float) -> None:
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 1:
        raise ValueError(f"n must be a number of rows, at least 1, not {n!r}")
    if best is not None and not np.isfinite(best):
        raise ValueError(f"best must be a finite number or None, not {best!r}")
    if not np.isfinite(kappa) or kappa < 0.0:
        raise ValueError(f"kappa must be a number of deviations, at least 0, not {kappa!r}")


def _check_count(n: int, q: int) -> None:
    if n > q:
        raise ValueError(
            f"{n} rows are asked for, and there are {q} candidates: give more, or n={q}"
        )
