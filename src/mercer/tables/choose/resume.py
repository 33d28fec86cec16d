"""Resume: searches that begin at, or keep, what was found on other rows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.core.component import Names
from mercer.linalg.representation import Inducing
from mercer.search import Criterion, Result, Space
from mercer.tables.choose.screen import Timed


class Resumed(Timed):
    """Maximise a criterion from one start: what was found before, {"kernel__variance": 1.0, ...}.

    Where one value stands for a tied length scale and several were found, their geometric mean is
    taken as it is: the search over all of them follows. The other parameters are Optimize's.
    """

    names: ClassVar[Names] = {}  # it resumes what others began

    def __init__(
        self,
        found: Any = None,
        criterion: str = "evidence",
        max_iter: int = 200,
        progress: Any = False,
        balance: bool = True,
    ) -> None:
        super().__init__(criterion, 0, max_iter=max_iter, balance=balance, progress=progress)
        self.found = found

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        tied = False
        for entry in space.entries:
            value = (self.found or {}).get(entry.name)
            if value is None:
                continue
            theta = np.asarray(value, dtype=np.float64)
            if theta.shape != entry.shape:
                tied = tied or theta.size > 1
                if entry.shape or np.any(theta <= 0.0):
                    continue  # several from one: where the search itself put them
                theta = np.asarray(np.exp(np.log(theta).mean()))
            if space.columns is not None and theta.shape == space.columns.shape:
                theta = theta[space.columns]  # the search sees them in another order
            low, high = space.bounds[entry.where].T
            space.start[entry.where] = np.clip(entry.inward(theta).ravel(), low, high)
        if not tied:
            return super().run(criterion, space, rng)
        value, _ = criterion(space.start)
        report = {"evaluations": 1, "converged": True, "starts": 1, "message": "start of the next"}
        return [Result(space.start, value, report)]


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
    found = {key: _over(report[key]) for key in ("search", "ard") if report.get(key)}
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
