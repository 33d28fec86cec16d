"""Kernels: what is smooth. Positive semidefinite functions of two points, and their algebra."""

from mercer.kernels.adapter import FromSklearn
from mercer.kernels.arcsine import ArcSine
from mercer.kernels.base import Kernel
from mercer.kernels.bernoulli import PeriodicSpline
from mercer.kernels.categorical import Categorical
from mercer.kernels.columns import Columns, Standardized
from mercer.kernels.compact import Wendland
from mercer.kernels.compose import Power, Product, Scale, Sum
from mercer.kernels.convert import as_kernel
from mercer.kernels.dot import Constant, Linear, Polynomial
from mercer.kernels.features import RandomFourier
from mercer.kernels.fisher import Fisher
from mercer.kernels.given import Function, Precomputed
from mercer.kernels.matern import Matern
from mercer.kernels.mixture import MixtureFisher
from mercer.kernels.multinomial import MultinomialFisher
from mercer.kernels.named import OrnsteinUhlenbeck, SquaredExponentialOperator
from mercer.kernels.noise import Noise, White
from mercer.kernels.nugget import Nugget
from mercer.kernels.nystroem import Nystroem
from mercer.kernels.periodic import Cosine, Periodic
from mercer.kernels.rational import RationalQuadratic
from mercer.kernels.spectral import Operator
from mercer.kernels.spline import Spline
from mercer.kernels.stationary import RBF, Stationary
from mercer.kernels.text import TFIDF
from mercer.kernels.thesis import BiasedRBF
from mercer.kernels.thin_plate import ThinPlate

__all__ = [
    "RBF",
    "TFIDF",
    "ArcSine",
    "BiasedRBF",
    "Categorical",
    "Columns",
    "Constant",
    "Cosine",
    "Fisher",
    "FromSklearn",
    "Function",
    "Kernel",
    "Linear",
    "Matern",
    "MixtureFisher",
    "MultinomialFisher",
    "Noise",
    "Nugget",
    "Nystroem",
    "Operator",
    "OrnsteinUhlenbeck",
    "Periodic",
    "PeriodicSpline",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "RandomFourier",
    "RationalQuadratic",
    "Scale",
    "Spline",
    "SquaredExponentialOperator",
    "Standardized",
    "Stationary",
    "Sum",
    "ThinPlate",
    "Wendland",
    "White",
    "as_kernel",
]
