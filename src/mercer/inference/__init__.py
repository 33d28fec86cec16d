"""How a posterior comes out: exact, a mode by Newton steps, a mode through the dual."""

from mercer.inference.base import Evidence, Inference, Solution
from mercer.inference.dual import Dual
from mercer.inference.exact import Exact
from mercer.inference.newton import Newton
from mercer.inference.prox import has_kinks
from mercer.losses.base import Loss

__all__ = ["Dual", "Evidence", "Exact", "Inference", "Newton", "Solution", "by_name", "for_loss"]


def by_name(given: object, loss: Loss | None = None) -> Inference:
    """Return an Inference from its name or itself; a name that is not known is refused.

    "auto" chooses by what ``loss`` offers, see :func:`for_loss`.
    """
    known: dict[str, type[Inference]] = {"exact": Exact, "newton": Newton, "dual": Dual}
    if isinstance(given, Inference):
        return given
    if isinstance(given, str) and given in known:
        return known[given]()
    if given == "auto" and loss is not None:
        return for_loss(loss)
    raise ValueError(f"unknown inference {given!r}; known are auto, {', '.join(known)}")


def for_loss(loss: Loss) -> Inference:
    """Return the inference that fits a loss: exact if quadratic, Newton if smooth, else the dual.

    Examples
    --------
    >>> from mercer.losses import Hinge, Logistic
    >>> for_loss(Logistic()), for_loss(Hinge())
    (Newton(), Dual())
    """
    if loss.offers("quadratic"):
        return Exact()
    if not has_kinks(loss):
        return Newton()
    if loss.offers("conjugate"):
        return Dual()
    raise ValueError(
        f"{type(loss).__name__} is neither smooth nor convex: no inference finds its mode; "
        "choose a smooth or a convex loss"
    )
