"""Kernels: what is smooth. Positive semidefinite functions of two points, and their algebra."""

from mercer.kernels.adapter import FromSklearn
from mercer.kernels.arcsine import ArcSine
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical
from mercer.kernels.columns import Columns, Standardized
from mercer.kernels.compact import Wendland
from mercer.kernels.compose import Power, Product, Scale, Sum
from mercer.kernels.convert import as_kernel
from mercer.kernels.dot import Constant, Linear, Polynomial
from mercer.kernels.given import Function, Precomputed
from mercer.kernels.matern import Matern
from mercer.kernels.named import OrnsteinUhlenbeck, SquaredExponentialOperator
from mercer.kernels.noise import Noise, White
from mercer.kernels.periodic import Cosine, Periodic
from mercer.kernels.rational import RationalQuadratic
from mercer.kernels.spectral import Operator
from mercer.kernels.stationary import RBF, Stationary
from mercer.kernels.thesis import BiasedRBF

__all__ = [
    "RBF",
    "ArcSine",
    "BiasedRBF",
    "Categorical",
    "Columns",
    "Constant",
    "Cosine",
    "FromSklearn",
    "Function",
    "Kernel",
    "Linear",
    "Matern",
    "Noise",
    "Operator",
    "OrnsteinUhlenbeck",
    "Periodic",
    "Polynomial",
    "Power",
    "Precomputed",
    "Product",
    "RationalQuadratic",
    "Scale",
    "SquaredExponentialOperator",
    "Standardized",
    "Stationary",
    "Sum",
    "Wendland",
    "White",
    "as_kernel",
]
