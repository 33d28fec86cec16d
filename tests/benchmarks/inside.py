"""Workers of a benchmark that take their turn in the process of the test, which begins at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import pytest

# Every day inside; in processes, as a user runs it, among the slow tests.
WHERE = pytest.mark.parametrize(
    "where", ["inside", pytest.param("processes", marks=pytest.mark.slow)]
)


def turns(task_of: Callable[..., Callable[[int], Any]]) -> Callable[..., dict[str, Any]]:
    """Return what may stand for ``measure.interleaved``; numbers among arguments are whole."""

    def interleaved(workers: Mapping[str, list[str]], repeats: int) -> dict[str, Any]:
        found = {}
        for name, (_, *arguments) in workers.items():
            given = [int(a) if a.isdigit() else a for a in arguments]
            with warnings.catch_warnings(action="ignore"):  # workers ignore them, too
                result = task_of(*given)(0)
            found[name] = {"result": result, "seconds": 0.01, "system": 0.0}
        return found

    return interleaved
