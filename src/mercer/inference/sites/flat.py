"""Sites beside functions with a flat prior: where EP begins, and when there is an evidence at all.

In the limit of a prior N(0, b I) for the coefficients of a basis, b to infinity, all that is asked
of the Gaussian posterior has a value (:class:`~mercer.linalg.dense.projected.FlatGram`), and the
evidence has one with unit density in place of that of N(0, b I) at the origin, (2 pi b)^(-k/2). The
exact one exists if, and only if, no combination of the functions lowers the losses for ever: labels
that a line separates leave its slope without bound. Theory (A16), (A17), (A18), (A19).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Report
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.base import Sites
from mercer.inference.sites.laplace import Laplace
from mercer.inference.sites.sweeps import Sweeps, SweepState
from mercer.losses.base import Loss

WIDE = 1e4  # of the squared scale of the losses: stands for the infinite prior variance
FAR = 600.0  # where a loss is as good as at infinity; e^FAR is still a number
LEVEL = 1e-9  # a rise of the loss from FAR / 2 to FAR that is none
SMALL = 1e-7  # of the length of a row: a value of the basis below it is zero, as for the programme


def prior_width(loss: Loss, y: Array) -> float:
    """Return a variance far beyond the scale of the losses of y (n, m)."""
    centers = np.array([np.asarray(loss.centers(column)).mean(axis=0) for column in y.T])
    widths = np.square([np.max(loss.width(column)) for column in y.T])
    return WIDE * float(np.max(widths) + np.ptp(centers) ** 2)


class FlatSweeps(Sweeps):
    """Sweeps of EP on a Gram with flat functions: they begin near the mode, not at the prior."""

    def begin(self, start: Sites | None) -> SweepState:
        """Return the state at sites nearby, or at those of Laplace: a flat prior has no moments.

        A loss with kinks or several modes begins at its centre, as narrow as it is wide.
        """
        task = self.task
        if start is None and task.loss.convex and not has_kinks(task.loss):
            start = Laplace(1e-6).sites(task, None)
        elif start is None:
            middle = np.asarray(task.loss.centers(task.y)).mean(axis=0)
            width = np.broadcast_to(task.loss.width(task.y), middle.shape)
            W = np.asarray(task.w / np.square(width))
            factor = task.gram.factor(W)
            shift, a = task.gram.placed(factor, middle - task.mean, np.zeros(len(W)))
            start = Sites(a, W, task.mean + shift, factor, Report())
        state = self.look(np.array([start.a + start.W * (start.f - task.mean), start.W]))
        if state is None:
            raise ValueError(
                f"{type(task.loss).__name__} has no proper cavities where EP begins: a row alone "
                "determines a function of the basis; give more rows, a smaller basis, or use "
                "inference='laplace' or 'variational'"
            )
        return state


def check_proper(loss: Loss, y: Array, H: Array) -> None:
    """Refuse targets y (n,) for which h'beta may grow for ever without cost, H (n, k) at the rows.

    Row i allows h'beta > 0 only if its loss does not mind f = +infinity, and < 0 only if it does
    not mind -infinity. Some beta != 0 that all rows allow is found by a linear programme.
    """
    centers = np.asarray(loss.centers(y))
    top, bottom = centers.max(axis=0) + FAR, centers.min(axis=0) - FAR
    with np.errstate(over="ignore", invalid="ignore"):
        rise = loss.value(y, top) - loss.value(y, top - FAR / 2) <= LEVEL
        fall = loss.value(y, bottom) - loss.value(y, bottom + FAR / 2) <= LEVEL
    (Q, R), k = np.linalg.qr(H), H.shape[1]
    if np.any(np.abs(np.diagonal(R)) <= 1e-13 * np.linalg.norm(R, axis=0)):
        return  # functions that depend on each other are refused by name where C is projected
    lengths = np.linalg.norm(Q, axis=1, keepdims=True)
    Q = Q / np.where(lengths > 0.0, lengths, 1.0)
    held, bound = Q[~rise & ~fall], rise ^ fall
    if np.linalg.matrix_rank(held, tol=SMALL) == k:
        return
    free = np.linalg.matrix_rank(np.vstack([held, Q[bound]]), tol=SMALL) < k
    if not free and not _grows(np.where(rise, 1.0, -1.0)[bound, None] * Q[bound], held):
        return
    why = {
        "binary": "a combination of the basis functions separates the labels",
        "ordinal": "a combination of the basis functions separates the first grade from the last",
        "count": "a combination of the basis functions is zero wherever a count is above zero, and "
        "below zero elsewhere",
    }
    reason = why.get(loss.response, "a combination of the basis functions is never held back")
    raise ValueError(
        f"{reason}: its coefficient may grow without end while the loss does not, and with a flat "
        "prior there is no finite evidence; choose a smaller basis, or give its functions a prior: "
        "basis=None and a kernel with + Constant() + Linear()"
    )


def check_classes(loss: Loss, y: Array, H: Array) -> None:
    """Refuse classes y (n,) that some linear functions of H (n, k), one for each, tell apart.

    With beta of the last class zero: h_i'(beta_y - beta_e) >= 0 for every row and other class.
    """
    codes, c, k = y.astype(np.intp), int(y.max()) + 1, H.shape[1]
    Q, R = np.linalg.qr(H)
    if np.any(np.abs(np.diagonal(R)) <= 1e-13 * np.linalg.norm(R, axis=0)):
        return
    Q = Q / np.maximum(np.linalg.norm(Q, axis=1, keepdims=True), 1e-300)
    own = np.eye(c)[codes]
    rows = [np.einsum("ic,ij->icj", own - np.eye(c)[e], Q)[codes != e] for e in range(c)]
    if _grows(np.concatenate(rows)[:, :-1].reshape(-1, (c - 1) * k), np.zeros((0, (c - 1) * k))):
        raise ValueError(
            "linear functions of the basis alone tell some of the classes apart: their "
            "coefficients may grow without end, and with a flat prior there is no finite evidence; "
            "choose a smaller basis, or give its functions a prior: basis=None and a kernel with "
            "+ Constant() + Linear()"
        )


def _grows(signed: Array, held: Array) -> bool:
    """Whether some beta has signed beta >= 0, not all zero, and held beta = 0."""
    from scipy.optimize import linprog  # when it is needed: it takes long to import

    found: Any = linprog(
        -signed.sum(axis=0),
        A_ub=-signed,
        b_ub=np.zeros(len(signed)),
        A_eq=held,
        b_eq=np.zeros(len(held)),
        bounds=[(-1.0, 1.0)] * signed.shape[1],
    )
    return bool(found.status == 0 and -found.fun > 10.0 * SMALL * len(signed))
