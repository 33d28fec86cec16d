"""How (K + W^-1)^-1 is applied: the linear algebra of a Gram matrix, behind one contract."""

from mercer.linalg.basis import Projected
from mercer.linalg.dense import DenseFactor, DenseGram
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.graph import Graph, neighbour_graph
from mercer.linalg.markov import MarkovFactor, MarkovGram
from mercer.linalg.operators import ExplicitOperator, restored
from mercer.linalg.signed import SignedFactor
from mercer.linalg.smoothness import Smoothness

__all__ = [
    "DenseFactor",
    "DenseGram",
    "ExplicitOperator",
    "Factor",
    "Gram",
    "Graph",
    "MarkovFactor",
    "MarkovGram",
    "NotPositiveDefiniteError",
    "Projected",
    "SignedFactor",
    "Smoothness",
    "neighbour_graph",
    "restored",
]
