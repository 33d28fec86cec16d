"""The automatic choice of C, beta and heat: what few labels say about a prior from many rows.

The labels are taken as noisy values of the process that the graph conditions,

    y_i = sqrt(a) f(x_i) + b + e_i,    f ~ GP(0, k_new),    e_i ~ N(0, a / (2 C w_i))          (M13)

with a flat prior on b, whose posterior mean is LapLSClassifier; one column for each class against
the rest. With S = diag(sqrt(w)), orthonormal contrasts Q2 to the vector sqrt(w),
Q2'S K S Q2 = U diag(d) U' and V = S Q2 U, every C is a sum over the eigenvalues.

Theory (M13), (M14), (M15), (M16).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_memory
from mercer.estimators.shared.labels import Vertices
from mercer.inference.med import MED
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.graph import SmoothnessPath, neighbour_graph
from mercer.losses.binary.margins import Margin
from mercer.losses.numbers.special import LOG_2PI

GAIN = 1.0  # nats by which a graph must be better than none, by evidence and by left-out labels
ROWS, LABELS = 1000, 400  # of which the choice is made, at most
SLACKS = (0.1, 1.0, 10.0, 100.0, 1000.0)  # C
WEIGHTS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0)  # beta, nothing first
HEATS = (1.0, 0.25, 4.0)  # in units of the rule of the graph
JUDGES = ("left_out", "evidence")
CRITERIA = (*JUDGES, "partition")


class LabelProcess:
    """The labels of l rows as noisy values of a process, for all C at once.

    Parameters
    ----------
    K : (l, l) k_new among the labelled rows.
    Y : (l, m) of -1 and +1, a column for each function.
    w : (l,) weights > 0; a weight of 2 is two rows.

    Examples
    --------
    >>> import numpy as np
    >>> near = np.array([[1.0, 0.9, 0.0, 0.0], [0.9, 1.0, 0.0, 0.0],
    ...                  [0.0, 0.0, 1.0, 0.9], [0.0, 0.0, 0.9, 1.0]])
    >>> Y = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> process = LabelProcess(near, Y, np.ones(4))
    >>> process.evidence(100.0) > LabelProcess(np.eye(4), Y, np.ones(4)).evidence(100.0)
    True
    >>> process.left_out(100.0)[0].round(2).ravel() + 0.0
    array([ 0.89,  0.89, -0.89, -0.89])
    """

    def __init__(self, K: Array, Y: Array, w: Array) -> None:
        root = np.sqrt(w)
        contrasts = np.linalg.qr(root[:, None], mode="complete")[0][:, 1:]
        A = contrasts.T @ (root[:, None] * K * root) @ contrasts
        d, U = np.linalg.eigh(0.5 * (A + A.T))
        self.d = np.maximum(d, 0.0)  # rounding: k_new is positive semidefinite
        self.V = root[:, None] * (contrasts @ U)
        self.K, self.Y, self.w, self.T, self.total = K, Y, w, self.V.T @ Y, float(w.sum())

    def amplitude(self, C: float) -> float:
        """Return the a of (M13) that has most evidence: y'P y over the degrees of freedom."""
        return float((self.T**2 / (self.d + 0.5 / C)[:, None]).sum()) / self._freedom

    @property
    def _freedom(self) -> float:
        return float(self.Y.shape[1] * max(self.total - 1.0, 1.0))  # tiny weights: at least one row

    def evidence(self, C: float) -> float:
        """Return log p(Y) at the best amplitude, the offsets integrated out; (M14)."""
        n, m = self.Y.shape
        value = np.log(self.d + 0.5 / C).sum() - (self.total - n) * np.log(2.0 * C)
        value += np.log(self.total)
        fit = self._freedom * (1.0 + LOG_2PI + np.log(self.amplitude(C)))
        return float(-0.5 * m * value - 0.5 * fit)

    def left_out(self, C: float) -> tuple[Array, Array]:
        """Return mean (l, m) and variance (l,) of each label given all others; (M15)."""
        g = 1.0 / (self.d + 0.5 / C)
        precision = self.V**2 @ g
        alpha = self.V @ (g[:, None] * self.T)
        return self.Y - alpha / precision[:, None], self.amplitude(C) / precision

    def left_out_density(self, C: float) -> float:
        """Return the weighted sum of log p(y_i | all other labels)."""
        mean, variance = self.left_out(C)
        squares = (self.Y - mean) ** 2 / variance[:, None]
        return float(-0.5 * (self.w @ (squares + LOG_2PI + np.log(variance)[:, None])).sum())


class Judged(NamedTuple):
    """C, beta and heat (in units of the rule of the graph), and what the labels say of them."""

    C: float
    beta: float
    heat: float
    value: float  # of the criterion that was asked for
    evidence: float
    left_out: float


@dataclass(frozen=True)
class Chosen:
    """What was chosen, by which criterion, and by how many nats it is above no graph (beta = 0)."""

    C: float
    beta: float
    heat: float
    by: str
    value: float
    gain: dict[str, float] | None  # of the best candidate; None where beta was not asked for
    candidates: int
    rows: int


@dataclass(frozen=True)
class Asked:
    """What a machine wants chosen: None for C, beta or heat to be found, else its value."""

    C: float | None
    beta: float | None
    heat: Any  # "auto", a number, or None for the rule of the graph
    n_neighbors: int
    by: str  # a name of CRITERIA
    least: float = 0.0  # that C must exceed to be chosen


def choose(asked: Asked, kernel: Callable[[Array], Array], batch: Vertices, signs: Array) -> Chosen:
    """Return the best of the candidates for a batch whose labels are ``signs`` (l, m), -1 and +1.

    ``kernel`` is the covariance before the graph. Of more than 1000 rows (or 400 labels) some are
    taken. The penalty f'L f is a sum over the rows: it is beta times their number that is kept. A
    graph counts only if both judges, evidence and left-out labels, find it better than none by a
    nat: among many candidates the best of one is above that by chance.
    """
    rows, labels = _some(batch)
    points, at = batch.points[rows], np.searchsorted(rows, batch.at[labels])
    Y, w, n = signs[labels], batch.weights[labels], len(rows)
    require_memory(n, 5, "the choice of C and beta", "give them as numbers, or fit")
    unit = n / len(batch.points)
    slacks = SLACKS if asked.C is None else (asked.C,)
    weights = WEIGHTS if asked.beta is None else (asked.beta / unit,)
    heats = [(None, t) for t in HEATS] if asked.heat == "auto" else [(asked.heat, 1.0)]
    K, found = kernel(points), []
    for heat, times in heats:
        graph = neighbour_graph(points, asked.n_neighbors, heat, times)
        path = SmoothnessPath(K, graph.laplacian, at)
        for beta in weights:
            if beta == 0.0 and times != heats[0][1]:
                continue  # there the heat does not matter
            process = LabelProcess(path.covariance(beta), Y, w)
            for C in slacks:
                told = {"evidence": process.evidence(C), "left_out": process.left_out_density(C)}
                value = told.get(asked.by, -np.inf)
                if asked.by not in told and asked.least < C:
                    value = log_partition(process.K, Y, w, C, path.logdet(beta))
                found.append(Judged(C, beta * unit, times, value, **told))
    # a C that cannot be chosen is there to compare with
    able = found if asked.C is not None else [one for one in found if asked.least < one.C]
    best, gain = _best(able), None
    plain = [one for one in found if one.beta == 0.0]
    if plain:
        gain = {by: getattr(best, by) - max(getattr(p, by) for p in plain) for by in JUDGES}
        if asked.by in JUDGES and min(gain.values()) <= GAIN:
            best = _best([one for one in able if one.beta == 0.0])
    return Chosen(best.C, best.beta, best.heat, asked.by, best.value, gain, len(found), n)


def _some(batch: Vertices) -> tuple[Index, Index]:
    """Return rows, rising, and labels of a batch of which to choose: all, or ROWS and LABELS.

    Which are taken does not depend on the order of the table: the labels are sorted, and the rows
    are put into an order of their own.
    """
    n, labels = len(batch.points), np.arange(len(batch.at))
    if len(labels) > LABELS:
        labels = np.sort(_dealt(batch.codes)[:LABELS])
    if n <= ROWS:
        return np.arange(n), labels
    held = np.unique(batch.at[labels])
    rest = np.setdiff1d(np.arange(n), held)
    order = rest[np.lexsort(batch.points[rest].T)]
    taken = np.random.default_rng(0).permutation(len(order))[: ROWS - len(held)]
    return np.sort(np.append(held, order[taken])), labels


def _dealt(codes: Index) -> Index:
    """Return the labels (l,) in an order of which any beginning has the classes in their shares."""
    mixed = np.random.default_rng(0).permutation(len(codes))
    place = np.empty(len(codes))
    for code in np.unique(codes):
        own = mixed[codes[mixed] == code]
        place[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.argsort(place, kind="stable").astype(np.intp)


def _best(found: Sequence[Judged]) -> Judged:
    """Return the first candidate whose criterion is the largest but for rounding."""
    top = max(one.value for one in found)
    return next(one for one in found if one.value >= top - 1e-9 * max(1.0, abs(top)))


def log_partition(K: Array, Y: Array, w: Array, C: float, logdet: float) -> float:
    """Return -log Z(a, beta) of Hou & Hero's appendix at the multipliers a of MED; (M16).

        -log Z = 1/2 log |I + 2 beta L K_all| - 1/2 a'Y K Y a + sum_i [a_i + log(1 - a_i / C)]

    a column of Y (l, m) at a time; ``logdet`` is the determinant's logarithm and K (l, l) is k_new.
    Its derivative in beta is the expectation of f'L f, which is positive: the dual, to be
    maximised, wants as much smoothness as it can get, and Z, as if it were an evidence, none.
    """
    if C <= 1.0:  # a = 0: no row has any weight
        return float(0.5 * Y.shape[1] * logdet)
    one = np.ones((len(K), 1))
    found = MED().solve(DenseGram.given(K), Y, Margin(C), basis=one, weights=w)
    return float(0.5 * Y.shape[1] * logdet + np.sum(found.report.details["objective"]))
