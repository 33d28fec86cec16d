"""Natural gradient steps of q(u), on its natural parameters: sums over rows that others form.

x = [A, g] (p, p + 1) with A = G'diag(W) G and g = G'h of sites (h, W) at the rows of G = [F, H]:

    R'R = [I 0; 0 0] + A,    [b; beta] = (R'R)^-1 g,    q(u) = N(b, S), S the corner of (R'R)^-1

A pass at q answers sum nu_i and the x' that the sites at q ask for; a step goes from x towards x',
by the rules of :class:`~mercer.inference.variational.natural.NaturalSteps`, on the sums in place of
the sites. Theory (I16).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from mercer.core.arrays import Array, transposed_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Report
from mercer.inference.variational.natural import NaturalSteps
from mercer.linalg.dense.factor import half_inverse
from mercer.linalg.reduced.factor import root

TRIES = 40  # of a place to begin, each a quarter of the last


class Natural(NamedTuple):
    """q(u) by its natural parameters x (p, p + 1), with R (p, p) and [b; beta] (p,)."""

    x: Array
    R: Array
    b: Array


def natural(x: Array, m: int) -> Natural | None:
    """Return q(u) of natural parameters x (p, p + 1) at m points, or None if there is none."""
    if not np.all(np.isfinite(x)):
        return None
    try:
        R = root(x[:, :-1].copy(), m, signed=True)
    except NotPositiveDefiniteError:
        return None
    assert R is not None
    return Natural(x, R, np.asarray(lapack.dpotrs(R, x[:, -1], lower=0)[0]))


@dataclass
class Visited:
    """A Gaussian where the pass was made: F to be minimised, and the x (p, p + 1) ahead of it."""

    q: Natural
    free: float
    ahead: Array
    residual: float

    @property
    def x(self) -> Array:
        """The natural parameters (p, p + 1)."""
        return self.q.x

    def weighed(self, change: Array) -> Array:
        """A change of x in units of q: means, then precisions (p + p^2,); half of the square is KL.

        R^-T (dg - dA b) and R^-T dA R^-1 / sqrt(2).
        """
        dA, R = change[:, :-1], self.q.R
        mean = transposed_solve(R, (change[:, -1] - dA @ self.q.b)[:, None])
        both = transposed_solve(R, np.ascontiguousarray(transposed_solve(R, dA).T))
        return np.concatenate([mean.ravel(), np.sqrt(0.5) * both.ravel()])


class NaturalAscent(NaturalSteps[Visited]):
    """The climb of one latent function from x (p, p + 1), one pass a step.

    ``asked`` is the Gaussian at which the next pass is to be made; :meth:`receive` takes what it
    says. It is good enough where a step moves q by less than tol sqrt(n) of its own width: so far n
    rows, each moved by tol of its own, move it.
    """

    def __init__(self, m: int, x: Array, tol: float, max_iter: int) -> None:
        super().__init__(tol, max_iter)
        self.m, self.tol, self.tries = m, tol, 0
        self.asked = self._begin(x)

    def _begin(self, x: Array) -> Natural:
        while self.tries < TRIES:
            found = natural(x, self.m)
            if found is not None:
                return found
            x, self.tries = 0.25 * x, self.tries + 1  # towards the prior
        raise ValueError(
            "the variational Gaussian finds no place to begin: the average loss is infinite under "
            "the prior; make the kernel's variance smaller, or check the targets"
        )

    def receive(self, total: float, ahead: Array, n: int) -> None:
        """Take the sum of nu_i of n rows at the Gaussian that was asked for, and the x ahead."""
        self.used, self.enough = self.used + 1, self.tol * float(np.sqrt(n))
        trial = self._visited(total, ahead)
        if self.best is None and trial is None:
            self.tries += 1
            self.asked = self._begin(0.25 * self.asked.x)
            return
        self.take(trial)
        while not self.done:
            found = natural(self.proposed(), self.m)
            if found is not None:
                self.asked = found
                return
            self.refuse()

    def _visited(self, total: float, ahead: Array) -> Visited | None:
        """F = sum nu + 1/2 (|b|^2 + tr S - m - c) + sum log R_jj."""
        q, m = self.asked, self.m
        if not (np.isfinite(total) and np.all(np.isfinite(ahead))):
            return None
        half = q.R.copy()
        half_inverse(half)  # R^-1, of whose first m rows the squares sum to tr S
        spread = float(np.sum(np.triu(half)[:m] ** 2))
        free = total + 0.5 * (float(q.b[:m] @ q.b[:m]) + spread - len(q.R))
        found = Visited(q, free + float(np.log(np.diagonal(q.R)).sum()), ahead, np.inf)
        with np.errstate(over="ignore"):
            found.residual = float(np.linalg.norm(found.weighed(ahead - q.x)))
        return found

    def report(self) -> Report:
        """Return how it ended."""
        assert self.best is not None
        residual = self.best.residual
        message = (
            f"the variational Gaussian stopped at a residual of {residual:.2g}, not "
            f"{self.enough:.2g}: raise max_iter, or lower the kernel's variance; a bound it is "
            "all the same"
        )
        fine = residual <= self.enough
        spent = {"factorisations": self.used, "residual": residual, "free_energies": self.path}
        return Report(fine, len(self.path) - 1, message="" if fine else message, details=spent)
