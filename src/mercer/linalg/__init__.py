"""How (K + W^-1)^-1 is applied: the linear algebra of a Gram matrix, behind one contract."""

from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import DenseFactor
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.dense.projected import Projected
from mercer.linalg.dense.signed import SignedFactor
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.graph import Graph, Smoothness, neighbour_graph
from mercer.linalg.line import MarkovFactor, MarkovGram
from mercer.linalg.operators import ExplicitOperator
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.representation import Inducing, Iterative

__all__ = [
    "DenseFactor",
    "DenseGram",
    "ExplicitOperator",
    "Factor",
    "Gram",
    "Graph",
    "Inducing",
    "Iterative",
    "MarkovFactor",
    "MarkovGram",
    "NotPositiveDefiniteError",
    "Projected",
    "ReducedGram",
    "SignedFactor",
    "Smoothness",
    "neighbour_graph",
]
