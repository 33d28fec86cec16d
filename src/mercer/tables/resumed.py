"""Resumed: a search that begins at the parameters which were found on fewer rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.search import Criterion, Optimize, Result, Space


class Resumed(Optimize):
    """Maximise a criterion from one start: parameters found before, by full name.

    Where one value stands for a tied length scale and several were found, their geometric mean is
    taken as it is: the search over all of them follows.

    Parameters
    ----------
    found : parameters by full name, e.g. {"kernel__variance": 1.0}.
    criterion, max_iter, progress, balance : see :class:`~mercer.search.Optimize`.
    """

    def __init__(
        self,
        found: Any = None,
        criterion: str = "evidence",
        max_iter: int = 200,
        progress: Any = False,
        balance: bool = True,
    ) -> None:
        super().__init__(
            criterion=criterion, restarts=0, max_iter=max_iter, balance=balance, progress=progress
        )
        self.found = found

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        """See :class:`~mercer.search.Search`."""
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
            low, high = space.bounds[entry.where].T
            space.start[entry.where] = np.clip(entry.inward(theta).ravel(), low, high)
        if not tied:
            return super().run(criterion, space, rng)
        value, _ = criterion(space.start)
        report = {"evaluations": 1, "converged": True, "starts": 1, "message": "start of the next"}
        return [Result(space.start, value, report)]


def parameters_of(machine: Any) -> dict[str, Any]:
    """Return the parameters that a fitted machine found, in its inside units, by full name."""
    posteriors = getattr(machine, "posteriors_", None)
    parent = getattr(posteriors[0], "parent", None) if posteriors else None
    if parent is None:  # a sum of functions, no process
        return {}
    parts = {"kernel": parent.kernel, "loss": machine.losses_[0]}
    return {
        f"{part}__{path}": np.asarray(getattr(owner, name), dtype=np.float64)
        for part, component in parts.items()
        for path, owner, name in component.differentiable()
    }
