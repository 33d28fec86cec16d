"""Expectation propagation from sums over blocks of rows: sites that are computed again, not kept.

A sweep makes new sites from the old ones and from the posterior. So the sites of sweep k are a
function of the posteriors of all sweeps before, which are few and small: a block is given these, R
and b of each, begins at the prior, and goes through the sweeps anew, row by row. It answers

    A = F'diag(E) F,   g = F'r,      E = W / (1 + W lam),   r = h / (1 + W lam)

of the sites it arrives at, the posterior of the next sweep; how far the last step moved a row; and
the terms of the evidence. The prior of a row has the variance lam that the inducing points leave
unexplained, as for rows in memory. With phi'b and |R^-T phi|^2 the moments of the row are

    (phi'b + lam h) / (1 + W lam)      and      lam / (1 + W lam) + |R^-T phi|^2 / (1 + W lam)^2

A pass costs one more product with a triangle than the pass before it: k sweeps k^2 / 2, and there
are few, for with many rows a site hardly moves the posterior that it is taken away from. So often
are the moments of each row found, too: a closed form (Probit, rows of weight one) takes no time
beside the triangles, and an integral (Logistic) more than they do.

Theory (A8), (A9), (I17). Reference: Minka (2001); Naish-Guzman and Holden (2008).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Report, Task
from mercer.inference.blocks.ascent import Natural, natural
from mercer.inference.blocks.collapsed import broadcast, explained, packed, standing
from mercer.inference.blocks.prepared import BlockRows, BlockSolution, Prepared
from mercer.inference.blocks.sites import columns_of, ended_at, natural_of
from mercer.inference.sites.base import Sites
from mercer.inference.sites.ep import EP
from mercer.inference.sites.sweeps import Sweeps, SweepState
from mercer.kernels.base import Kernel
from mercer.linalg.blocks.engine import Engine, Part, RowBlock, add
from mercer.linalg.dense.factor import solve_rows
from mercer.linalg.gram import NoSpread
from mercer.linalg.reduced.factor import gather
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses.base import Loss

SLOW, HALF = 0.7, 0.5  # sweeps whose residual falls by less swing, and are made by half
SHORTEST = 0.02  # a step below which nothing moves any more
FAR = 100.0  # a residual that is never too large
MOST = 60  # sweeps, whatever max_iter is: the last one costs as many triangles


def ep(
    engine: Engine,
    prepared: Prepared,
    kernel: Kernel,
    loss: Loss,
    Z: Array,
    tol: float = 1e-6,
    max_iter: int = 200,
) -> BlockSolution:
    """Return the posterior of EP on inducing points Z (m, d), of all rows: a pass each sweep.

    Parameters
    ----------
    loss : a convex one that :class:`~mercer.inference.EP` takes, of one latent function.
    tol, max_iter : as for rows in memory: no site would move q by more than tol of its width;
        sixty sweeps at most.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference.blocks.prepared import Prepared
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg.blocks.local import LocalEngine
    >>> from mercer.losses import Probit
    >>> X = np.linspace(0.0, 3.0, 50)[:, None]
    >>> engine = LocalEngine.of_arrays(X, X[:, 0] > 1.0, None, size=20)
    >>> prepared = Prepared(np.zeros(1), np.ones(1), classes=np.array([False, True]))
    >>> found = ep(engine, prepared, 4.0 * RBF(), Probit(), X[::7])
    >>> found.report.converged, round(found.value, 3)
    (True, -9.184)
    """
    check(loss, prepared.basis is not None, tol, max_iter)
    gram = standing(kernel, loss, Z, corrected=True)
    given = broadcast(prepared, gram, loss)
    sums, passes = engine.map_merge(swept, given | {"visited": None}, both), 1
    walks = [SweepWalk(gram.m, tol, max_iter, natural_of(sums, j)) for j in range(columns_of(sums))]
    while active := [j for j, walk in enumerate(walks) if not walk.done]:
        visited = {j: walks[j].visited() for j in active}
        sums, passes = engine.map_merge(swept, given | {"visited": visited}, both), passes + 1
        for j in active:
            walks[j].receive(float(sums[f"residual {j}"]), sums[f"nu {j}"], natural_of(sums, j))
    told = explained(sums) | {"passes": passes}
    if len(walks) == 1:
        told["degrees_of_freedom"] = float(sums["free 0"])
    value, reports = sum(walk.value for walk in walks), [walk.report() for walk in walks]
    return ended_at(gram, [walk.steps[-1].q for walk in walks], value, reports, told)


def check(loss: Loss, basis: bool, tol: float, max_iter: int) -> None:
    """Refuse what sweeps over blocks cannot do; ``basis`` says whether there is one."""
    EP(tol=tol, max_iter=max_iter).check(loss)
    remedy = "use inference='variational', or rows that are in memory"
    if loss.latents or not loss.convex:
        what = "one of several latent functions" if loss.latents else "a loss that is not convex"
        raise ValueError(f"EP on blocks of rows: {type(loss).__name__} is {what}; {remedy}")
    if basis:
        raise ValueError(f"EP on blocks of rows begins at the prior: with a basis {remedy}")


class SweepStep(NamedTuple):
    """A posterior that was visited, and the share of the change there that is made."""

    q: Natural
    rho: float


class SweepWalk:
    """The sweeps of one column of targets: the posteriors that were visited.

    It begins at ``x`` (m, m + 1), the sums of the sites that the prior asks for.
    """

    def __init__(self, m: int, tol: float, max_iter: int, x: Array) -> None:
        self.m, self.tol, self.max_iter = m, tol, min(max_iter, MOST)
        first = natural(x, m)
        if first is None:
            raise ValueError(
                "EP finds no posterior of the sites that the prior asks for: make the kernel's "
                "variance smaller, or use inference='variational'"
            )
        self.steps, self.residuals = [SweepStep(first, 1.0)], list[float]()
        self.value, self.rho, self.used, self.stuck = -np.inf, 1.0, 1, False

    @property
    def done(self) -> bool:
        """Whether no pass is asked for."""
        near = bool(self.residuals) and self.residuals[-1] <= self.tol
        return near or self.used >= self.max_iter or self.stuck

    def visited(self) -> list[tuple[Array, Array, float]]:
        """Return R', b and rho of each step."""
        return [(np.ascontiguousarray(q.R.T), q.b, rho) for q, rho in self.steps]

    def receive(self, residual: float, terms: float, x: Array) -> None:
        """Take how far the last posterior is from a fixed point, its evidence, and what follows.

        A posterior far off, or one without proper cavities, is taken back, and the step shortened.
        """
        self.used += 1
        ahead = natural(x, self.m)
        reach = max(3.0 * min(self.residuals), FAR) if self.residuals else np.inf
        if ahead is None or not residual <= reach:
            if len(self.steps) == 1 or self.rho < SHORTEST:
                self.stuck = True
                return
            self.steps.pop()
            self.rho *= 0.5
            self.steps[-1] = SweepStep(self.steps[-1].q, self.rho)
            self.residuals.pop()
            return
        slow = bool(self.residuals) and residual > SLOW * self.residuals[-1]
        self.rho = min(HALF, self.rho) if slow else min(1.0, 1.5 * self.rho)
        self.residuals.append(residual)
        self.value = terms - float(np.log(np.diagonal(self.steps[-1].q.R)).sum())
        if not self.done:
            self.steps.append(SweepStep(ahead, self.rho))

    def report(self) -> Report:
        """Return how it ended."""
        residual = self.residuals[-1] if self.residuals else np.inf
        message = (
            f"EP stopped after {self.used} sweeps with a residual of {residual:.2g} > tol = "
            f"{self.tol:g}: raise max_iter (to {MOST} at most), bound the kernel's variance, or "
            "use Variational inference"
        )
        fine = residual <= self.tol
        spent = {"factorisations": self.used, "residual": residual}
        return Report(fine, len(self.steps), message="" if fine else message, details=spent)


def swept(block: RowBlock, given: Part) -> Part:
    """Return the sums of the sites that rows arrive at after the sweeps that were visited.

    And, of the last of these posteriors, how far its sweep moved a row and the terms of E.
    """
    rows: BlockRows = given["prepared"](block)
    gram, visited = given["gram"], given["visited"]
    visited = {j: [] for j in range(rows.y.shape[1])} if visited is None else visited
    p = gram.m
    found: Part = {f"{name} {j}": 0.0 for name in ("nu", "residual", "free") for j in visited}
    A, g = ({j: np.zeros(shape) for j in visited} for shape in ((p, p), p))
    left = prior = 0.0
    for i in range(0, len(rows.w), gram.block):
        part = rows.among(slice(i, i + gram.block))
        at = gram.at(part.X)
        F, lam = at.features(slice(0, len(part.w))), at.lam
        left, prior = left + float(at.residual.sum()), prior + float(at.prior.sum())
        for j, steps in visited.items():
            x, state = replayed(given["loss"], part, j, at, F, steps)
            keeps = 1.0 + x[1] * lam
            gather(A[j], F, x[1] / keeps, None, bool(np.any(x[1] < 0.0)))
            g[j] += (x[0] / keeps) @ F
            if state is None:
                found[f"residual {j}"] = np.inf
            elif steps:
                task = _task(given["loss"], part, j, at)
                sites = Sites(state.a, state.x[1], state.f, NoSpread(state.var), Report())
                terms = EP().score(task, sites).value  # but for log |I + K W|
                found[f"nu {j}"] += terms - 0.5 * float(np.log1p(state.x[1] * lam).sum())
                found[f"residual {j}"] = max(found[f"residual {j}"], state.residual)
                found[f"free {j}"] += float(state.x[1] @ state.var)  # tr K C
    found |= {f"A {j}": packed(one) for j, one in A.items()} | {f"g {j}": g[j] for j in g}
    return found | {"residual": left, "prior": prior}


def replayed(
    loss: Loss, rows: BlockRows, j: int, at: ReducedGram, F: Array, steps: list[Any]
) -> tuple[Array, SweepState | None]:
    """Return the sites (2, q) after these sweeps, and the state at the last posterior.

    None where a cavity is not proper.
    """
    sweeps, lam = Sweeps(_task(loss, rows, j, at)), at.lam
    state: SweepState | None = sweeps.begin(None)
    assert state is not None
    x = state.x + state.r
    for root, b, rho in steps:
        keeps, lev = 1.0 + x[1] * lam, np.empty(len(F))
        solve_rows(root, F.copy(), lev)
        f = (F @ b + lam * x[0]) / keeps
        var = lam / keeps + lev / keeps**2
        state = sweeps.state(x, None, x[0] - x[1] * f, f, var)
        if state is None:
            return x, None
        x = state.x + rho * state.r
    return x, state


def _task(loss: Loss, rows: BlockRows, j: int, at: ReducedGram) -> Task:
    return Task(at, rows.y[:, j], loss, rows.w, np.zeros(len(rows.w)))


def both(left: Part, right: Part) -> Part:
    """Merge two answers: sums, and the larger of two residuals."""
    largest = {name: max(left[name], right[name]) for name in left if name.startswith("residual ")}
    return add(left, right) | largest
