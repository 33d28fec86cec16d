"""The algebra of kernels: sums, products, multiples and powers."""

from mercer.kernels.compose.parts import Product, Sum
from mercer.kernels.compose.wrappers import Power, Scale, Wrapper, add, multiply

__all__ = ["Power", "Product", "Scale", "Sum", "Wrapper", "add", "multiply"]
