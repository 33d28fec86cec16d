"""Kernels: what is smooth. Positive semidefinite functions of two points, and their algebra."""

from mercer.kernels.base import Kernel
from mercer.kernels.compose import Power, Product, Scale, Sum
from mercer.kernels.convert import FromSklearn, as_kernel
from mercer.kernels.dot import Constant, Linear, Polynomial
from mercer.kernels.equality import Categorical, Coregionalised, Noise, Nugget, Several, White
from mercer.kernels.features.fisher import TFIDF, Fisher, MixtureFisher, MultinomialFisher
from mercer.kernels.features.fourier import RandomFourier
from mercer.kernels.features.network import ArcSine, RBFNetwork
from mercer.kernels.features.nystroem import Nystroem
from mercer.kernels.given import Function, Precomputed
from mercer.kernels.inputs.columns import Columns, Standardized
from mercer.kernels.inputs.invariance import Invariant, Tangent
from mercer.kernels.inputs.metric import Mahalanobis
from mercer.kernels.inputs.warp import Warped
from mercer.kernels.operators.operator import (
    Operator,
    OrnsteinUhlenbeck,
    SquaredExponentialOperator,
)
from mercer.kernels.operators.sphere import SphereSpline
from mercer.kernels.operators.splines import PeriodicSpline, Spline
from mercer.kernels.operators.tension import TensionSpline
from mercer.kernels.sequences.hidden import HMMFisher
from mercer.kernels.sequences.kmers import Kmers
from mercer.kernels.sequences.subsequence import Subsequence
from mercer.kernels.stationary.base import RBF, BiasedRBF, RationalQuadratic, Stationary
from mercer.kernels.stationary.matern import Matern
from mercer.kernels.stationary.mixture import SpectralMixture
from mercer.kernels.stationary.periodic import Cosine, Periodic
from mercer.kernels.stationary.separable import Separable
from mercer.kernels.stationary.spectral import PowerSpectrum
from mercer.kernels.stationary.wendland import Wendland
from mercer.kernels.thin_plate import ThinPlate

__all__ = ["Kernel", "as_kernel"]
__all__ += ["Columns", "Power", "Product", "Scale", "Standardized", "Sum"]  # the algebra
__all__ += ["RBF", "BiasedRBF", "Cosine", "Matern", "Periodic", "RationalQuadratic"]
__all__ += ["PowerSpectrum", "Separable", "SpectralMixture", "Stationary", "Wendland"]
__all__ += ["ArcSine", "Constant", "Linear", "Polynomial"]  # of inner products
__all__ += ["Invariant", "Mahalanobis", "RBFNetwork", "Tangent", "Warped"]
__all__ += ["Categorical", "Coregionalised", "Noise", "Nugget", "Several", "White"]  # of equality
__all__ += ["TFIDF", "Fisher", "MixtureFisher", "MultinomialFisher", "Nystroem", "RandomFourier"]
__all__ += ["Operator", "OrnsteinUhlenbeck", "SquaredExponentialOperator"]
__all__ += ["PeriodicSpline", "SphereSpline", "Spline", "TensionSpline", "ThinPlate"]
__all__ += ["HMMFisher", "Kmers", "Subsequence"]  # of sequences
__all__ += ["FromSklearn", "Function", "Precomputed"]  # given by the user
