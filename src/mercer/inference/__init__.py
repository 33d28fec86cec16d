"""How a posterior comes out: exact, a mode by Newton steps, a mode through the dual."""

from mercer.core.words import there_is_no
from mercer.inference.base import Evidence, Inference, Report, Solution
from mercer.inference.exact import Exact
from mercer.inference.mcmc.sampler import MCMC
from mercer.inference.med import MED
from mercer.inference.mode.dual import Dual
from mercer.inference.mode.newton import Newton
from mercer.inference.mode.prox import has_kinks
from mercer.inference.primal import Primal
from mercer.inference.sites.bound import Bound
from mercer.inference.sites.ep import EP
from mercer.inference.sites.laplace import Laplace
from mercer.inference.smo import SMO
from mercer.inference.sollich import (
    SollichEvidence,
    SollichSample,
    sollich_evidence,
    sollich_sample,
)
from mercer.inference.variational.gaussian import Variational
from mercer.losses.base import Loss

__all__ = [
    "EP",
    "MCMC",
    "MED",
    "SMO",
    "Bound",
    "Dual",
    "Evidence",
    "Exact",
    "Inference",
    "Laplace",
    "Newton",
    "Primal",
    "Report",
    "SollichEvidence",
    "SollichSample",
    "Solution",
    "Variational",
    "by_name",
    "for_loss",
    "sollich_evidence",
    "sollich_sample",
]


def by_name(given: object, loss: Loss | None = None) -> Inference:
    """Return an Inference from its name or itself; a name that is not known is refused.

    "auto" chooses by what ``loss`` offers, see :func:`for_loss`.
    """
    if isinstance(given, Inference):
        return given
    if isinstance(given, str) and given == "auto" and loss is not None:
        return for_loss(loss)
    if isinstance(given, str) and given in Inference.known_names():
        return Inference.by_name(given)
    raise ValueError(there_is_no("inference", given, ["auto", *Inference.known_names()]))


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


def on_landmarks(loss: Loss) -> Inference:
    """Return the inference for inducing points: exact if quadratic, else the mode.

    Examples
    --------
    >>> from mercer.losses import Gaussian, Hinge
    >>> on_landmarks(Gaussian()), on_landmarks(Hinge())
    (Exact(), Primal())
    """
    return Exact() if loss.offers("quadratic") else Primal()


def with_spread(loss: Loss) -> Inference:
    """Return the inference for a Gaussian process: exact, else Laplace if smooth and convex.

    Kinks and losses that are not convex have no Gaussian at their mode: the variational one then,
    but for several latent functions, whose curvature is then the Fisher information.

    Examples
    --------
    >>> from mercer.losses import Gaussian, Poisson, StudentT
    >>> with_spread(Gaussian()), with_spread(Poisson()), with_spread(StudentT())
    (Exact(), Laplace(), Variational())
    """
    if loss.offers("quadratic"):
        return Exact()
    if loss.latents or (loss.convex and not has_kinks(loss)):
        return Laplace()
    return Variational()
