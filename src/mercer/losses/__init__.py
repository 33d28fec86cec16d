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
from mercer.losses.binary.probit import LaplaceProbit, Probit, SquaredProbit, StudentThreshold
from mercer.losses.counts import Gamma, NegativeBinomial, Poisson
from mercer.losses.coupling import couple_pairs, pairwise_proba
from mercer.losses.ordinal import LearnedOrdinal, Ordinal
from mercer.losses.real.absolute import EpsilonInsensitive, LaplaceNoise, Pinball
from mercer.losses.real.gaussian import Gaussian
from mercer.losses.real.robust import Huber, LogisticNoise, StudentT
from mercer.losses.several.base import SeveralLatents
from mercer.losses.several.counts import ZeroInflatedPoisson
from mercer.losses.several.noise import Heteroscedastic, HeteroscedasticT
from mercer.losses.softmax import Softmax
from mercer.losses.transformed import BoxCox, LogGaussian
from mercer.losses.trials import Binomial

__all__ = ["Binomial", "BoxCox", "EpsilonInsensitive", "Exponential", "Flip", "Gamma", "Gaussian"]
__all__ += ["Heteroscedastic", "HeteroscedasticT", "Hinge", "Huber", "LaplaceNoise"]
__all__ += ["LaplaceProbit", "LearnedOrdinal", "LogGaussian", "Logistic", "LogisticNoise", "Loss"]
__all__ += ["Margin", "NegativeBinomial", "NormalizedHinge", "Ordinal", "Pinball", "Poisson"]
__all__ += ["Probit", "SeveralLatents", "Softmax", "SquaredHinge", "SquaredProbit", "StudentT"]
__all__ += ["StudentThreshold", "ZeroInflatedPoisson", "by_name", "couple_pairs"]
__all__ += ["hinge_normaliser", "pairwise_proba", "reweight"]


def by_name(name: str) -> Loss:
    """Return the loss of that name with its default parameters: "gaussian", "student_t", ...

    Examples
    --------
    >>> by_name("negative_binomial")
    NegativeBinomial()
    """
    return Loss.by_name(name)
