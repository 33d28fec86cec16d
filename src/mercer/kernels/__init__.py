"""Kernels: what is smooth. Positive semidefinite functions of two points, and their algebra."""

from mercer.kernels.base import Kernel
from mercer.kernels.columns import Columns, Standardized
from mercer.kernels.compose import Power, Product, Scale, Sum
from mercer.kernels.convert import FromSklearn, as_kernel
from mercer.kernels.dot import ArcSine, Constant, Linear, Polynomial
from mercer.kernels.equality import Categorical, Noise, Nugget, White
from mercer.kernels.features.fisher import Fisher, MultinomialFisher
from mercer.kernels.features.fourier import RandomFourier
from mercer.kernels.features.mixture import MixtureFisher
from mercer.kernels.features.nystroem import Nystroem
from mercer.kernels.features.tfidf import TFIDF
from mercer.kernels.given import Function, Precomputed
from mercer.kernels.operators.closed_forms import OrnsteinUhlenbeck, SquaredExponentialOperator
from mercer.kernels.operators.operator import Operator
from mercer.kernels.splines import PeriodicSpline, Spline
from mercer.kernels.stationary.base import RBF, RationalQuadratic, Stationary
from mercer.kernels.stationary.biased import BiasedRBF
from mercer.kernels.stationary.matern import Matern
from mercer.kernels.stationary.periodic import Cosine, Periodic
from mercer.kernels.stationary.wendland import Wendland
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
