"""Afford: in which form a machine can take how many rows, within seconds and bytes.

Work is counted in operations of matrix products, at the rate at which this machine is doing them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.core.memory import available_bytes
from mercer.estimators.kernel.classifier import KernelClassifier
from mercer.estimators.spline.estimator import SmoothingSpline
from mercer.estimators.support_vector.classifier import SVC
from mercer.kernels.dot import Linear
from mercer.tables.choose.screen import LAST, Tried

FILE = 200e6  # bytes of a model file: an exact posterior writes half of n x n numbers
MATRICES = 10  # n x n arrays that a fit may need
FEWEST, MOST = 16, 1000  # inducing points
MOVED = 20_000  # rows, at most, on which the points are moved
CLIMB = 30  # evaluations in which they are
RANK = 2000  # centres of an iterative solution
VALUES = 150.0  # operations of one kernel value, its exponential included

# operations of a fit, parameters given, in units of n^3, and with m points in units of n m^2
EXACT = {"process": 1.5, "likelihood": 25.0, "mode": 15.0, "other": 15.0}
REDUCED = {"process": 8.0, "likelihood": 30.0, "mode": 25.0, "support": 30.0}


@dataclass(frozen=True)
class Offer:
    """How a machine takes rows: "exact", "iterative" or "inducing"; what that costs.

    ``rows`` are all there are, or fewer: then a sample of them; ``points`` stand for the rows.
    """

    name: str
    rows: int
    points: int = 0
    seconds: float = 0.0
    bytes: float = 0.0


def family_of(machine: Any) -> str:
    """Return which costs a machine has.

    "process" (Gaussian noise), "likelihood" (any other, with an evidence), "mode", "support"
    vectors, "line" (O(n)), or "other": it knows no form but the exact one.
    """
    if isinstance(machine, SmoothingSpline):
        return "line"
    if isinstance(machine, SVC):
        return "support"
    params = machine.get_params(deep=False)
    if isinstance(machine, KernelClassifier) and params["search"] is None:
        return "mode"
    several = getattr(machine, "losses_", None)
    coupled = several is not None and several[0].response == "multiclass"
    criterion = getattr(params.get("search"), "criterion", params.get("search"))
    if "gram" not in params or criterion != "evidence" or coupled:
        return "other"
    return "process" if params.get("loss") == "gaussian" else "likelihood"


def rank_of(machine: Any, d: int) -> int:
    """Return how many directions the kernel of a fitted machine has on d columns; 0: any number."""
    kernel = getattr(machine, "kernel_", None)
    parts = [] if kernel is None else kernel.terms()
    linear = [p for p in parts if any(isinstance(q, Linear) for q in (p, *p.children().values()))]
    return 2 * d + 8 if linear and len(linear) == len(parts) else 0


def forms(
    family: str,
    n: int,
    d: int,
    seconds: float,
    room: float,
    rate: float,
    held: int = 0,
    rank: int = 0,
) -> list[Offer]:
    """Return the forms in which a machine may take n rows of d columns, all rows first.

    All of them are within ``seconds`` and ``room`` bytes at ``rate`` operations a second; where
    the exact form of all rows is, there is no other. The last is the exact one of some rows.
    ``held`` rows are predicted with their deviations, ``rank`` is that of the kernel (0: full).

    Examples
    --------
    >>> [(f.name, f.rows) for f in forms("process", 3000, 8, 30.0, 8e9, 3e10)]
    [('exact', 3000)]
    >>> [(f.name, f.rows, f.points) for f in forms("process", 1_000_000, 10, 30.0, 8e9, 3e10)]
    [('inducing', 1000000, 279), ('exact', 7071, 0)]
    """
    whole = _exact(family, n, d, rate)
    if _within(whole, seconds, room, family):
        return [whole]
    found: list[Offer] = []
    few = _inducing(family, n, d, seconds, rate, rank) if family in REDUCED else None
    found += [] if few is None else [few]
    if family == "process" and not rank:
        found.append(_iterative(n, d, rate, held))
    found = [offer for offer in found if _within(offer, seconds, room, "")]
    some = _most(lambda rows: _exact(family, rows, d, rate), n, seconds, room, family)
    return found + ([] if some is None else [some])


def _within(form: Offer, seconds: float, room: float, family: str) -> bool:
    stored = 4.0 * form.rows**2 if family in ("process", "likelihood") else 0.0
    return form.seconds <= seconds and form.bytes <= room and stored <= FILE


def _exact(family: str, n: int, d: int, rate: float) -> Offer:
    m = float(n)
    if family == "line":
        return Offer("exact", n, 0, 1e4 * m / rate, 800.0 * m)
    if family == "support":  # rows of K in single precision, as many as their cache holds
        return Offer(
            "exact", n, 0, (20.0 + 2.0 * d) * m**2 / rate, min(4.0 * m**2, 1e9) + 24 * m * d
        )
    work = EXACT[family] * m**3 + VALUES * m**2
    arrays = 2 if family == "process" else MATRICES
    return Offer("exact", n, 0, work / rate, 8.0 * arrays * m**2)


def _beside(n: int, d: int, m: int) -> float:
    """Return the bytes of some m x m arrays, blocks of rows, copies of X and columns of n."""
    return 8.0 * (6.0 * m**2 + 4096.0 * m + (30.0 + 3.0 * d) * n)


def _inducing(family: str, n: int, d: int, seconds: float, rate: float, rank: int) -> Offer | None:
    """Return the form with as many points as the time allows."""
    square = REDUCED[family] * n
    if family == "process":
        square += 5.0 * CLIMB * min(n, MOVED)
    once = VALUES * n
    m = (-once + np.sqrt(once**2 + 4.0 * square * seconds * rate)) / (2.0 * square)
    m = int(min(m, MOST, n // 4, rank or MOST))
    if m < min(FEWEST, rank or FEWEST):
        return None
    return Offer("inducing", n, m, (square * m**2 + once * m) / rate, _beside(n, d, m))


def moving(n: int) -> float:
    """Return the share of the time for n rows in which inducing points are moved."""
    climb = 5.0 * CLIMB * min(n, MOVED)
    return climb / (climb + REDUCED["process"] * n)


def _iterative(n: int, d: int, rate: float, held: int) -> Offer:
    """Return the form of conjugate gradients; a solution for every sixteen rows with deviations."""
    rank = min(RANK, n // 2)
    work = 40.0 * float(n) ** 2 * (150.0 + 50.0 * held / 16.0) + 4.0 * n * rank**2
    return Offer("iterative", n, rank, work / rate, _beside(n, d, rank))


def _most(
    make: Callable[[int], Offer], n: int, seconds: float, room: float, family: str
) -> Offer | None:
    """Return the exact form of as many rows as possible, None if hardly any are."""
    low, high = 0, n
    while high - low > 1:
        middle = (low + high) // 2
        fine = _within(make(middle), seconds, room, family)
        low, high = (middle, high) if fine else (low, middle)
    return make(low) if low >= FEWEST else None


def growth(ratio: Any) -> Any:
    """Return how many times longer a fit to ``ratio`` times as many rows takes.

    Kernel values grow with the square of the rows, the factorisation with the cube; at the size of
    the screening a third of the time is the latter's.

    Examples
    --------
    >>> growth(1.0), growth(4.0)
    (1.0, 32.0)
    """
    return ratio**2 * (2.0 + ratio) / 3.0


def affordable(tried: Tried, rows: int, screened: int, seconds: float) -> int:
    """Return how many rows, at least those screened, a refit can take in so many seconds."""
    need = (1.0 + LAST if tried.candidate.criterion else 1.0) * max(tried.each, 1e-4)
    ratios = np.geomspace(1.0, 1e3, 1000)
    inside = np.searchsorted(growth(ratios), max(1.0, seconds / need), side="right")
    by_time = int(screened * ratios[inside - 1] + 1e-6)
    if growth(rows / screened) * need <= seconds:
        by_time = rows
    by_memory = int((0.7 * available_bytes() / (8 * MATRICES)) ** 0.5)
    return min(rows, max(screened, min(by_time, by_memory)))
