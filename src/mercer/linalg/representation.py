"""How K is held where all of it does not fit: the parts that users give as ``gram``."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import REAL, Component, Domains
from mercer.core.memory import require_points
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import whole
from mercer.linalg.reduced.centres import CHOOSERS, by_class, rule_for
from mercer.losses.base import is_number

TYPICAL = 500  # points that are enough for many tables


class Representation(Component):
    """A way to hold K on many rows; a name, or one of these with its own settings."""

    def check_rule(self, name: str) -> None:
        """Refuse a parameter that does not name a way to choose points."""
        rule, who = getattr(self, name), type(self).__name__
        if rule not in CHOOSERS:
            known = ", ".join(repr(one) for one in CHOOSERS)
            raise ValueError(f"{who}: {name} must be one of {known}, not {rule!r}")


class Inducing(Representation):
    """Know the function through its values at m points: O(n m^2) time, O(m^2 + n) memory.

    The result is another model, whose evidence is a lower bound on that of the exact one (for
    Gaussian noise and variational inference): the smaller the bound's loss, the closer the models.

    Parameters
    ----------
    m : int, "auto" or array (m, d)
        How many points, or the points themselves in your units. "auto" doubles their number from
        128 until the bound gains less than ``tol`` a row; machines without a bound (SVC, SVR, a
        mode of any other loss, search=None) take 500.
    choose : "kmeans", "uniform", "pivots" or "random_pivots"
        How they are chosen at the first hyperparameters: centres of the rows, rows at random, rows
        of which most is unknown, or rows drawn by how much is unknown. Kernels without coordinates
        (a matrix, row numbers) take rows: "random_pivots".
    move : "auto", True or False
        Move the points together with the hyperparameters to where the bound is largest ("auto":
        where the kernel says how it changes with them, and the evidence is a bound: that of EP and
        Laplace would rise by mere overfitting). Worth a factor two to four in m, for three times
        the evaluations.
    tol : float, in nats a row, see m = "auto".
    rows : int or "auto"
        How many rows the first hyperparameters are learned from, exactly: 2000 with Gaussian noise,
        300 with other losses, whose every evaluation factors K many times, or 2000 by the evidence
        of Laplace where ``max_iter`` is 0.
    max_iter : int, iterations with all rows; 0 keeps the hyperparameters of the first rows.

    References: Titsias (2009); Burt, Rasmussen and van der Wilk (2020).

    Examples
    --------
    >>> Inducing(m=500)
    Inducing(m=500)
    """

    def __init__(
        self,
        m: Any = "auto",
        choose: str = "kmeans",
        move: bool | str = "auto",
        tol: float = 0.01,
        rows: int | str = "auto",
        max_iter: int = 100,
    ) -> None:
        self.m, self.choose, self.move, self.tol = m, choose, move, tol
        self.rows, self.max_iter = rows, max_iter

    def work(self, n: int) -> float:
        """Return n m^2, of which an evaluation on n rows takes some multiple."""
        m = TYPICAL if isinstance(self.m, str) else self.m
        count = m if isinstance(m, (int, np.integer)) else len(m)
        return float(n) * float(count) ** 2

    def check(self, d: int) -> None:
        """Refuse what cannot be, for a table of d columns."""
        self.check_rule("choose")
        if not (isinstance(self.rows, str) and self.rows == "auto"):
            whole(self, "rows", 10)
        whole(self, "max_iter", 0)
        if not is_number(self.tol, 0.0, np.inf):
            raise ValueError(f"Inducing: tol must be positive, in nats a row, not {self.tol!r}")
        if not (isinstance(self.move, (bool, np.bool_)) or self.move == "auto"):
            raise ValueError(f"Inducing: move must be True, False or 'auto', not {self.move!r}")
        if isinstance(self.m, str) and self.m == "auto":
            return
        if isinstance(self.m, (int, np.integer)) and not isinstance(self.m, bool) and self.m >= 1:
            return
        Z = self.given()
        if Z.shape[1] != d:
            raise ValueError(
                f"the inducing points have {Z.shape[1]} columns, and X has {d}: give the points "
                "the columns of X, in its units"
            )
        require_points(len(Z))
        if not np.all(np.isfinite(Z)):
            row = int(np.flatnonzero(~np.isfinite(Z).all(axis=1))[0])
            raise ValueError(f"inducing point {row} is not finite: {Z[row]}; leave it out")

    def given(self) -> Array:
        """Return the points (m, d) that were given; refuse what are none."""
        try:
            Z = np.asarray(self.m)
        except ValueError:  # rows of different lengths
            Z = np.zeros(0)
        if Z.ndim != 2 or not len(Z) or Z.dtype.kind not in "fiub":
            raise ValueError(
                "Inducing: m is a number of points, 'auto', or the points as numbers (m, d), not "
                f"{self.m!r}"
            )
        return Z.astype(np.float64)

    def chosen(
        self,
        kernel: Kernel,
        points: Array,
        weights: Array,
        m: int,
        rng: np.random.Generator,
        classes: Array | None = None,
    ) -> Array:
        """Return m centres of the points (n, d), or some of these; as many in each class (n,)."""
        chooser = CHOOSERS[rule_for(kernel, self.choose)]
        return by_class(chooser, kernel, points, weights, m, rng, classes)

    def described(self, kernel: Kernel, in_classes: bool, moved: bool = False) -> str:
        """Return in words where the points come from."""
        if not isinstance(self.m, (str, int, np.integer)):
            return "given, moved" if moved else "given"
        how = rule_for(kernel, self.choose)
        return how + moved * ", moved" + in_classes * ", in each class"


def landmarks(given: Inducing, n: int) -> int:
    """Return how many points where no bound says it, for n rows; refuse as many as rows."""
    if isinstance(given.m, str):
        return min(TYPICAL, max(1, n // 2))
    if given.m >= n:
        raise ValueError(
            f"{given.m} inducing points for {n} distinct rows save nothing: use gram='auto'"
        )
    require_points(int(given.m))
    return int(given.m)


class Iterative(Representation):
    """Solve with K by products alone: exact up to a certified error, Gaussian noise.

    Conjugate gradients on a preconditioner of ``rank`` centres end where the error of the mean and
    of the evidence is bounded: ``evidence_bounds_`` holds the true log evidence between its two
    numbers, and ``report_["inference"]`` the bound on the error of every prediction.
    Hyperparameters are those of the exact evidence of ``rows`` rows, which beat those of any bound:
    of a half drawn at random or, if the evidence of twice as many rows prefers it, with its nearest
    neighbours.
    The kernel matrix is held in single precision where a quarter of the memory has room for it (n^2
    4 bytes), else nothing larger than n x ``rank``: ``report_["inference"]["matrix"]`` says which.

    Parameters
    ----------
    rank : int, centres of the preconditioner.
    centres : "uniform", "kmeans", "pivots" or "random_pivots", how they are chosen.
    tol : float, rho^2 at which the solution is good enough: the evidence is then certain within
        half of it.
    refine : int, steps along the stochastic gradient of the exact evidence of all rows, after the
        search on some; 25 are worth it for intricate functions, and each costs about as much as
        the solution. None are made where search=None.
    probes : int, random vectors for the log-determinant, and for each step of ``refine``.
    precision : "single" or "double", of products with the kernel where it has a compiled form in
        single precision; residuals are always double, and the tolerance holds for them.
    rows : int, how many rows at most the hyperparameters are learned from.

    References: Gibbs and MacKay (1997); Artemev, Burt and van der Wilk (2021).

    Examples
    --------
    >>> Iterative(rank=500)
    Iterative(rank=500)
    """

    def __init__(
        self,
        rank: int = 2000,
        centres: str = "uniform",
        tol: float = 0.01,
        probes: int = 8,
        precision: str = "single",
        rows: int = 4000,
        refine: int = 0,
    ) -> None:
        self.rank, self.centres, self.tol, self.probes = rank, centres, tol, probes
        self.precision, self.rows, self.refine = precision, rows, refine

    def check(self, d: int) -> None:
        """Refuse what cannot be."""
        self.check_rule("centres")
        for name, least in (("rank", 1), ("probes", 2), ("rows", 10), ("refine", 0)):
            whole(self, name, least)
        if not is_number(self.tol, 0.0, np.inf):
            raise ValueError(f"Iterative: tol must be positive, not {self.tol!r}")
        if self.precision not in ("single", "double"):
            raise ValueError(f"Iterative: precision is 'single' or 'double': {self.precision!r}")


class Points(Component):
    """Inducing points (m, d) that a search moves."""

    domains: ClassVar[Domains] = {"points": REAL}

    def __init__(self, points: Array) -> None:
        self.points = points
