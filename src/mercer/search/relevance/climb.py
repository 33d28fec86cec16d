"""Relevance search: which functions, and how precise each, by climbing the log evidence.

Sequential maximisation (Tipping & Faul 2003; GPML 6.6): functions are taken in where that gains
most, then the precisions of those in the model and the noise settle together, and those that the
evidence wants out are deleted. When nothing is gained by adding, a function in the model may give
its place to one outside. Every step is judged by the evidence itself and undone unless it rises,
so that no state returns: the search cannot cycle. Ties go to the first candidate. Theory (R1).

With all other precisions fixed, the log evidence as a function of one precision alpha is, up to a
constant (Tipping & Faul 2003, eqs. 15 - 22; theory (R6), (R7), (R8)),

    l(alpha) = 1/2 [log alpha - log(alpha + s) + q^2 / (alpha + s)],    l(inf) = 0

with a single maximum: at alpha = s^2 / (q^2 - s) if q^2 > s, else at infinity: out of the model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import numpy as np
from scipy.optimize import Bounds, minimize

from mercer._native import relevance as native
from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.search.relevance.bend import bent_model, bent_pull, bent_weights, least_precision
from mercer.search.relevance.leaps import leaps
from mercer.search.relevance.machines import GaussianMachine, LaplaceMachine, Machine
from mercer.search.relevance.state import SparseState

# native/relevance/climb.hpp has this search for Gaussian noise, and says what its numbers mean
COLLINEAR, SHARE, FEW = native.COLLINEAR, native.SHARE, native.FEW
SETTLED, FINE, EXCHANGE = native.SETTLED, native.FINE, native.EXCHANGE


class Exchange(NamedTuple):
    """Candidate ``comes``, of precision ``alpha``, in the place ``goes`` of the model."""

    goes: int
    comes: int
    alpha: float
    gain: float


class Scan:
    """All candidates seen from one state; (m,) each: S, Q, and what S must exceed, -1 if closed.

    Taking in i changes S and Q of all others by a product of rank one (Tipping & Faul 2003,
    appendix): with c_m = phi_m'C^-1 phi_i and rho = alpha_i + S_i,

        S_m <- S_m - c_m^2 / rho,      Q_m <- Q_m - Q_i c_m / rho,      c = phi_i'B Phi - V_i'V

    and V gets the row c / sqrt(rho). Taking out j does the reverse, with T = R^-1 V and Sigma_jj:

        S_m <- S_m + T_jm^2 / Sigma_jj,      Q_m <- Q_m + mu_j T_jm / Sigma_jj

    If it is ``fine``, Q and mu are such that the slopes are those of the evidence itself.
    """

    def __init__(self, machine: Machine, state: SparseState, fine: bool = False) -> None:
        self.machine, self.state = machine, state
        self.limit = FEW + len(state.active)
        self.S, self.Q, self.V = machine.outside(state, self.limit)
        self.mu, self.floor = state.mu, 0.0
        if fine:
            self.Q, self.mu = bent_pull(machine, state, self.Q), bent_weights(machine, state)
            self.floor = least_precision(machine)
        self.least = np.where(machine.design.usable, COLLINEAR * machine.whole(state), -1.0)
        self.least[list(state.active)] = -1.0

    def additions(self, barred: set[int], tol: float) -> tuple[list[int], Array, float]:
        """Return candidates to take in together, their precisions, and what the first gains."""
        least = self.least
        if barred:
            least = least.copy()
            least[list(barred)] = -1.0
        given, p = self.machine.products(self.state), len(self.state.mu)
        seen = self.S, self.Q, least, self.V
        chosen, alphas, first = native.additions(
            *given, *seen, p, tol, SHARE, self.limit, self.floor
        )
        return chosen, np.array(alphas), first

    def exchanges(self, tol: float) -> list[Exchange]:
        """The best exchange for each function in the model that gains ``tol``, the best first."""
        state, k = self.state, self.state.flat
        if not len(state.active) or not len(self.S):
            return []
        T = np.ascontiguousarray(state.factor.back(self.V[: len(state.mu)])[k:].T)
        inside = T, state.variances[k:], self.mu[k:], state.prior
        found = native.exchanges(*inside, self.S, self.Q, self.least, tol, self.floor)
        return [Exchange(*move) for move in found]


# The noise is learned roughly by a first climb that takes in what gains much. Then it begins a few
# times lower and is held until the best addition gains little, so that functions and not
# the noise explain the targets: a noise that rises early never lets the weaker ones in.
PILOT, KEEN = 5.0, 20.0
KINDS = ("added", "deleted", "changed", "exchanged", "undone")


@dataclass
class RelevanceClimb:
    """The course of a search: the state, the evidence after each step, and how it ended."""

    machine: Machine
    state: SparseState
    tol: float
    max_iter: int
    trace: list[float] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    converged: bool = False
    fine: bool = False  # whether steps are proposed by the slopes of the evidence itself
    room: native.Room = field(default_factory=native.Room)

    def to(self, active: tuple[int, ...], prior: Array, beta: float, kind: str) -> bool:
        """Try these functions and precisions; stay where the evidence does not rise."""
        return self.take(self.machine.evaluate(active, prior, beta, self.state), kind)

    def take(self, new: SparseState, kind: str, more: float = 0.0) -> bool:
        """Go to a new state if the evidence rises there, and by ``more``."""
        if not new.evidence > self.state.evidence + max(more, 1e-13 * abs(self.state.evidence)):
            self.counts["undone"] += 1
            return False
        self.state = new
        self.trace.append(new.evidence)
        self.counts[kind] += 1
        return True

    @property
    def left(self) -> int:
        """How many more steps may be tried."""
        return self.max_iter - sum(self.counts.values())


def climb(machine: Machine, *, tol: float = 1e-2, max_iter: int = 10000) -> RelevanceClimb:
    """Maximise the log evidence over the set of functions, their precisions and the noise.

    It ends when no function is expected to gain ``tol`` by coming in or by taking the place of
    another, and no change of precisions a thousandth of that; or after ``max_iter`` steps.
    """
    check_time()
    if isinstance(machine, GaussianMachine):
        begin, held = _noise(machine, max_iter), machine.learns_noise
        active, prior, beta, trace, counts, ended = machine.ascended(begin, tol, max_iter, held)
        pairs = sorted(zip(active, prior, strict=True))  # by candidate, whatever the way they came
        names, alphas = tuple(i for i, _ in pairs), np.array([alpha for _, alpha in pairs])
        state = machine.evaluate(names, alphas, beta)
        kinds = dict(zip(KINDS, counts, strict=True))
        return RelevanceClimb(machine, state, tol, max_iter, trace, kinds, ended)
    state = machine.null()
    run = RelevanceClimb(machine, state, tol, max_iter, [state.evidence])
    _ascend(run)
    return run


def _noise(machine: GaussianMachine, max_iter: int) -> float:
    """Return the noise precision to begin with: high, in keeping with what can be explained."""
    beta = machine.null().beta
    if not machine.learns_noise:
        return beta
    rough = machine.ascended(beta, PILOT, max_iter, held=False)[2]
    return min(KEEN * rough, machine.beta_cap)


def _ascend(run: RelevanceClimb) -> None:
    """Climb until nothing is left to gain."""
    tol, patience = run.tol, np.inf
    while run.left > 0:
        check_time()
        scan = Scan(run.machine, run.state, run.fine)
        gain = _restructure(run, scan)
        if gain > 0.0:
            patience = max(FINE * tol, SETTLED * gain)
            settle(run, patience)
        elif patience > FINE * tol:
            patience = FINE * tol
            settle(run, patience)
            if tol < EXCHANGE and not run.fine:
                run.fine = True
                settle(run, patience)
        elif run.fine and _leap(run, scan):
            patience = np.inf
        else:
            run.converged = run.left > 0
            break


def _restructure(run: RelevanceClimb, scan: Scan) -> float:
    """Add candidates, or exchange one where none is left; return the gain, 0 if there is none."""
    state = run.state
    barred: set[int] = set()
    while run.left > 0:
        check_time()
        chosen, alphas, gain = scan.additions(barred, run.tol)
        if not chosen and not barred and run.tol < EXCHANGE:
            for move in scan.exchanges(run.tol):
                active = (*state.active[: move.goes], move.comes, *state.active[move.goes + 1 :])
                prior = state.prior.copy()
                prior[move.goes] = move.alpha
                if run.to(active, prior, state.beta, "exchanged"):
                    return move.gain
        for size in sorted({len(chosen), min(1, len(chosen))} - {0}, reverse=True):
            active = (*state.active, *chosen[:size])  # all of them, else the first alone
            if run.to(active, np.append(state.prior, alphas[:size]), state.beta, "added"):
                return gain
        if not chosen:
            break
        barred.add(chosen[0])
    return 0.0


def _leap(run: RelevanceClimb, scan: Scan) -> bool:
    """Take in the first function that gains the tolerance far from where it comes in, if any."""
    machine, state = run.machine, run.state
    if machine.separates(state):
        return False
    for new in leaps(machine, state, scan.S, scan.Q, scan.V, scan.least):
        if run.take(new, "added", run.tol):
            return True
        if run.left <= 0:
            break
    return False


def settle(run: RelevanceClimb, tol: float) -> None:
    """Move precisions together, delete, until no step is expected to gain ``tol``."""
    machine, whole = cast(LaplaceMachine, run.machine), True
    while run.left > 0:
        check_time()
        state, least = run.state, 0.0
        gram, right = machine.inner(state)
        moves: Any = slice(None)
        if run.fine:
            gram, right, moves = bent_model(machine, state, gram, right)
            least = least_precision(machine)
        alpha, limit = state.prior.copy(), run.left if whole else 1
        new = alpha[moves].copy()
        _, _, deleted, changed, _ = native.settle(
            run.room, gram, right, new, state.beta, 0.0, 0.0, False, np.inf, tol, limit
        )
        if deleted + changed == 0:
            return
        alpha[moves] = np.maximum(new, np.minimum(alpha[moves], least)) if least else new
        if not _take(run, alpha):
            if not run.fine or not _by_slopes(run, tol, least):
                return
            whole = False  # the model leads astray: from here on by its single steps


FOLLOWED = 60  # evaluations by slopes at most, before the model may propose again


def _by_slopes(run: RelevanceClimb, tol: float, least: float) -> bool:
    """Follow the slopes of the evidence in the logarithms of all precisions; whether it gains tol.

    dE / d log alpha_i = 1/2 (1 - alpha_i (Sigma_ii + m_i^2)), m the weights of :mod:`bend`; theory
    (R7). No precision goes below the least.
    """
    machine, begin = run.machine, run.state
    best, k, tried = begin, begin.flat, 0

    def falling(u: Array) -> tuple[float, Array]:
        nonlocal best, tried
        tried += 1
        here = machine.evaluate(begin.active, np.exp(u), begin.beta, best)
        if not np.isfinite(here.evidence):
            return 1e3 - begin.evidence, np.zeros(len(u))  # no mode there: the step is too long
        if here.evidence > best.evidence:
            best = here
        mu = bent_weights(machine, here)[k:]
        return -here.evidence, -0.5 * (1.0 - here.prior * (here.variances[k:] + mu**2))

    start = np.log(begin.prior)
    bounds = Bounds(np.minimum(start, np.log(max(least, 1e-300))), np.inf)
    options = {"maxfun": min(FOLLOWED, run.left), "ftol": 0.0, "gtol": 1e-4}
    given: dict[str, Any] = {"bounds": bounds, "options": options}
    minimize(falling, start, jac=True, method="L-BFGS-B", **given)
    run.counts["undone"] += tried - 1
    return run.take(best, "changed", tol)


def _take(run: RelevanceClimb, alpha: Array) -> bool:
    """Take settled precisions, infinity for what goes out, or a part of the way to them."""
    state = run.state
    stay = np.isfinite(alpha)
    active = tuple(i for i, s in zip(state.active, stay, strict=True) if s)
    if run.to(active, alpha[stay], state.beta, "changed" if stay.all() else "deleted"):
        return True
    target = np.where(stay, np.log(np.where(stay, alpha, 1.0)), np.log(state.prior) + 3.0)
    for part in (0.5, 0.2, 0.05, 0.01) if run.fine else (0.5, 0.2):
        prior = np.exp((1.0 - part) * np.log(state.prior) + part * target)
        if run.to(state.active, prior, state.beta, "changed"):
            return True
    return False
