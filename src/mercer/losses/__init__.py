"""Losses: what is observed. A normalised loss is a likelihood."""

from __future__ import annotations

from mercer.losses.base import Loss
from mercer.losses.binary.flip import Flip
from mercer.losses.binary.logistic import Logistic
from mercer.losses.binary.margins import (
    Exponential,
    Hinge,
    Margin,
    NormalizedHinge,
    SquaredHinge,
    hinge_normaliser,
    reweight,
)
from mercer.losses.binary.probit import LaplaceProbit, Probit, SquaredProbit
from mercer.losses.counts import Gamma, LogGaussian, NegativeBinomial, Poisson
from mercer.losses.ordinal import Ordinal
from mercer.losses.real.absolute import EpsilonInsensitive, LaplaceNoise, Pinball
from mercer.losses.real.gaussian import Gaussian
from mercer.losses.real.robust import Huber, StudentT
from mercer.losses.several.base import SeveralLatents
from mercer.losses.several.counts import ZeroInflatedPoisson
from mercer.losses.several.noise import Heteroscedastic, HeteroscedasticT
from mercer.losses.softmax import Softmax

__all__ = ["EpsilonInsensitive", "Exponential", "Flip", "Gamma", "Gaussian", "Hinge", "Huber"]
__all__ += ["LaplaceNoise", "LaplaceProbit", "LogGaussian", "Logistic", "Loss", "Margin"]
__all__ += ["NegativeBinomial", "NormalizedHinge", "Ordinal", "Pinball", "Poisson", "Probit"]
__all__ += ["Heteroscedastic", "HeteroscedasticT", "SeveralLatents", "ZeroInflatedPoisson"]
__all__ += [
    "Softmax",
    "SquaredHinge",
    "SquaredProbit",
    "StudentT",
    "by_name",
    "hinge_normaliser",
    "reweight",
]


def by_name(name: str) -> Loss:
    """Return the loss of that name with its default parameters: "gaussian", "student_t", ...

    Examples
    --------
    >>> by_name("negative_binomial")
    NegativeBinomial()
    """
    return Loss.by_name(name)
