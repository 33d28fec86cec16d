"""Both sides of a log evidence: what is below it for certain, what is above it, and estimates.

    F(q) <= max_q F(q) <= log p(y) <= sum_i w_i g*(y_i, -a_i / w_i) + 1/2 a'K a

The upper bound takes each convex loss by a tangent (the affine bound of the thesis, 4.3.2); the
best tangents are those at the mode, where it is the MAP value, -sum w g - 1/2 f'K^-1 f.
Theory (T9).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from mercer.core.arrays import Array
from mercer.inference import Variational, for_loss
from mercer.inference.base import Inference, Task
from mercer.losses.base import Loss

EDGE = 1.0 - 1e-12  # coefficients at the edge of the domain of a conjugate may lie outside


@dataclass(frozen=True)
class EvidenceBracket:
    """What is known of a log evidence, in the user's units; None for what there is not.

    Attributes
    ----------
    approximate : what the model reports as ``log_evidence_``.
    given : the lower bound of the model's own Gaussian.
    lower : the lower bound of the best Gaussian (variational).
    bridge, bridge_error : bridge sampling between the draws and a Gaussian near them.
    annealed, annealed_error : annealed importance sampling between prior and posterior.
    below, below_error, above, above_error : mean log weights of the ways there and back, below and
        above on average.
    upper : the upper bound of the mode.
    """

    approximate: float | None = None
    given: float | None = None
    lower: float | None = None
    bridge: float | None = None
    bridge_error: float | None = None
    annealed: float | None = None
    annealed_error: float | None = None
    below: float | None = None
    below_error: float | None = None
    above: float | None = None
    above_error: float | None = None
    upper: float | None = None

    @property
    def truth(self) -> tuple[float, float] | None:
        """The estimate with the smallest error, and that error; None if there is none."""
        pairs = [
            (self.bridge, self.bridge_error),
            (self.annealed, self.annealed_error),
        ]
        known = [(v, e) for v, e in pairs if v is not None and e is not None and np.isfinite(e)]
        return min(known, key=lambda pair: pair[1]) if known else None

    def lines(self) -> list[str]:
        """Return what is known, a line each."""
        words = {
            "approximate": "the model's own",
            "given": "at least (its Gaussian)",
            "lower": "at least (best Gaussian)",
            "bridge": "bridge sampling",
            "annealed": "annealed",
            "below": "  mean on the way there",
            "above": "  mean on the way back",
            "upper": "at most (mode)",
        }
        lines = []
        for name, said in words.items():
            value, error = getattr(self, name), getattr(self, f"{name}_error", None)
            if value is not None:
                lines.append(f"{said:<24} {value:.3f}" + (f" +- {error:.3f}" if error else ""))
        return lines

    def plus(self, other: EvidenceBracket) -> EvidenceBracket:
        """Return the bracket of both, for outputs that were solved one by one."""
        both = {}
        for one in fields(self):
            a, b = getattr(self, one.name), getattr(other, one.name)
            summed = np.hypot if one.name.endswith("_error") else np.add
            both[one.name] = None if a is None or b is None else float(summed(a, b))
        return EvidenceBracket(**both)

    def moved(self, shift: float) -> EvidenceBracket:
        """Return the bracket with ``shift`` added to every value."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return EvidenceBracket(
            **{
                name: v if v is None or name.endswith("_error") else v + shift
                for name, v in values.items()
            }
        )


def upper_bound(task: Task) -> float | None:
    """Return an upper bound on the log evidence of a task; None where the loss is not convex.

    It is one whether or not the mode was found exactly: every alpha gives a bound.
    """
    loss = task.loss
    if not loss.convex or not loss.offers("conjugate"):
        return None
    several = loss.response == "multiclass"
    y = task.y if several else task.y[:, None]
    mean = task.mean if several else task.mean[:, None]
    finder: Inference = for_loss(loss)
    found = finder.infer(Task(task.gram, y, loss, task.w, mean), None)
    values = []
    for alpha in (found.alpha, EDGE * found.alpha):
        conjugate = _conjugates(loss, y, alpha, task.w)
        quadratic = 0.5 * float(np.vdot(alpha, np.asarray(task.gram @ alpha)))
        values.append(float(task.w @ conjugate) + float(np.vdot(alpha, mean)) + quadratic)
    best = min(values)
    return best if np.isfinite(best) else None


def _conjugates(loss: Loss, y: Array, alpha: Array, w: Array) -> Array:
    """Return g*(y_i, -a_i / w_i), (n,)."""
    u = -alpha / w[:, None]
    return loss.conjugate(y[:, 0], u if loss.response == "multiclass" else u[:, 0])


def lower_bound(task: Task) -> float | None:
    """Return the bound of the best Gaussian; None where the variational inference has none."""
    method = Variational()
    try:
        method.check(task.loss)
    except ValueError:
        return None
    y, mean = task.y[:, None], task.mean[:, None]
    found = method.infer(Task(task.gram, y, task.loss, task.w, mean), None)
    return method.evidence(task.gram, y, task.loss, found).value
