"""Resume: searches that begin at, or keep, what was found on other rows."""

from __future__ import annotations

import re
import time
import warnings
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.core.component import Names
from mercer.core.deadline import OutOfTime, until
from mercer.linalg.representation import Inducing
from mercer.search import Criterion, Result, Space
from mercer.search.optimize import interrupted
from mercer.tables.choose.left_out import own_left_out
from mercer.tables.choose.ranking import row_of
from mercer.tables.choose.screen import FAILURES, GRACE, LAST, Clock, Screening, Timed
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted

_POWER = re.compile("kernel__(.*__)?power")  # of a column, wherever it is in a kernel

OFF = np.log(10.0)  # a length scale so far beyond the start of a search switches its column off


class Resumed(Timed):
    """Maximise a criterion from one start: what was found before, {"kernel__variance": 1.0, ...}.

    Where one value stands for a tied length scale and several were found, their geometric mean is
    taken as it is: the search over all of them follows. The other parameters are Optimize's.

    Without ``columns``, a search of scales for each column begins where it would by itself, and one
    for all of them comes first. A column that other rows have switched off has no slope where they
    have put it: it would stay off, and the choice of columns would be theirs.
    """

    names: ClassVar[Names] = {}  # it resumes what others began

    def __init__(
        self,
        found: Any = None,
        criterion: str = "evidence",
        max_iter: int = 200,
        progress: Any = False,
        balance: bool = True,
        columns: bool = True,
    ) -> None:
        super().__init__(criterion, 0, max_iter=max_iter, balance=balance, progress=progress)
        self.found, self.columns = found, columns

    @property
    def knows_powers(self) -> bool:
        powers = (v for k, v in (self.found or {}).items() if _POWER.fullmatch(k))
        return self.columns and any(bool(np.any(value != 1.0)) for value in powers)

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        tied, several = False, any(entry.shape for entry in space.entries)
        for entry in () if several and not self.columns else space.entries:
            value = (self.found or {}).get(entry.name)
            if value is None:
                continue
            theta = np.asarray(value, dtype=np.float64)
            if theta.shape != entry.shape:
                tied = tied or theta.size > 1
                if entry.shape or np.any(theta <= 0.0):
                    continue  # several from one: where the search itself put them
                logs = np.log(theta)
                if not self.columns:  # those that are switched off say nothing of the others
                    logs = np.minimum(logs, space.start[entry.where] + OFF)
                theta = np.asarray(np.exp(logs.mean()))
            if space.columns is not None and theta.shape == space.columns.shape:
                theta = theta[space.columns]  # the search sees them in another order
            low, high = space.bounds[entry.where].T
            space.start[entry.where] = np.clip(entry.inward(theta).ravel(), low, high)
        if not tied or not self.columns:
            return super().run(criterion, space, rng)
        value, _ = criterion(space.start)
        report = {"evaluations": 1, "converged": True, "starts": 1, "message": "start of the next"}
        return [Result(space.start, value, report)]


def unfinished(machine: Any) -> bool:
    """Whether the clock, or a limit of steps, ended a search of a fitted machine."""
    return _cut(getattr(machine, "report_", None))


def _cut(report: Any) -> bool:
    if not isinstance(report, dict):
        return False
    limit = report.get("converged") is False and "max_iter" in str(report.get("message"))
    return limit or report.get("interrupted") is True or any(map(_cut, report.values()))


def carry_on(found: Screening, X: Array, target: Target, clock: Clock, share: float) -> None:
    """Let the searches of a screening that were ended early run on, the best candidate's first.

    Each had a part of the time before it was known what the others need; ``share`` of the budget
    is for all of them together.
    """
    part, Z = target.take(found.rows), X[found.rows]
    y, counts, structure = part.values, part.counts(part.known), part.structure
    for tried in sorted(found.tried, key=lambda t: -t.score):
        candidate, seconds = tried.candidate, share * clock.budget - clock.elapsed
        if tried.left is None or candidate.criterion is None or candidate.unlabelled:
            continue
        if not unfinished(tried.machine) or 2.0 * LAST * tried.each > seconds:
            continue
        clock.tell(stage=candidate.name)
        advance, began = clock.watch(seconds, LAST, stage=candidate.name), time.monotonic()
        options: Any = {"balance": not candidate.repeats, "progress": advance}
        search = Resumed(parameters_of(tried.machine), candidate.criterion, **options)
        machine = clone(tried.machine).set_params(search=search)
        try:
            with warnings.catch_warnings(), until(began + GRACE * seconds):
                warnings.simplefilter("ignore")  # said when it was begun
                fitted(machine, Z, part.labels(), part.weights)
                left = own_left_out(machine, Z, y, target.k, counts, structure)
        except (OutOfTime, *FAILURES):
            left = None
        if left is not None and interrupted(machine.report_) and not clock.spent_out:
            raise KeyboardInterrupt  # a person's
        if left is None or not np.isfinite(left.score):  # what was found before stays
            clock.bind(f"{candidate.name}: its search was ended")
            continue
        tried.machine, tried.left = machine, left
        tried.seconds += time.monotonic() - began
        tried.evaluations += clock.evaluations
        tried.row = row_of(candidate.name, candidate.sentence, machine, left, tried.seconds)


class Known(Timed):
    """Take the hyperparameters that other rows have found: (kernel, loss, report), standardised.

    Inducing points are still moved together with them, if they are to be.
    """

    names: ClassVar[Names] = {}

    def __init__(
        self,
        found: Any = None,
        criterion: str = "evidence",
        progress: Any = False,
        balance: bool = True,
    ) -> None:
        super().__init__(criterion, 0, balance=balance, progress=progress)
        self.found = found

    @property
    def kept(self) -> Any:
        """What is kept."""
        return self.found


def found_by(machine: Any) -> tuple[Any, Any, dict[str, Any]]:
    """Return the kernel and the loss of a fitted machine, standardised, and how they were found."""
    report = machine.report_
    found = {key: _over(report[key]) for key in ("search", "ard", "powers") if report.get(key)}
    found.setdefault("search", {}).setdefault("rows", report["rows"]["used"])
    return machine.posteriors_[0].parent.kernel, machine.losses_[0], found


def _over(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a search that is over, whatever ended it."""
    inner = {key: _over(value) for key, value in report.items() if isinstance(value, dict)}
    return {key: value for key, value in report.items() if key != "interrupted"} | inner


def parameters_of(machine: Any) -> dict[str, Any]:
    """Return the parameters of a fitted machine, in its standardised units, by full name."""
    posteriors = getattr(machine, "posteriors_", None)
    parent = getattr(posteriors[0], "parent", None) if posteriors else None
    if parent is None or not hasattr(machine, "losses_"):  # nothing was searched
        return {}
    parts = {"kernel": parent.kernel, "loss": machine.losses_[0]}
    return {
        f"{part}__{path}": np.asarray(getattr(owner, name), dtype=np.float64)
        for part, component in parts.items()
        for path, owner, name in component.differentiable()
    }


def points_of(machine: Any) -> Inducing:
    """Return the inducing points of a fitted machine, in the units of its columns, not moved."""
    points = machine.posteriors_[0].points
    units = getattr(machine, "units_", None)
    return Inducing(m=points if units is None else units.in_user_units(points), max_iter=0)
