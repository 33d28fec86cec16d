"""Functions of a kernel's space: the public names of ``process.function`` and ``process.eigen``."""

from mercer.process.eigen import Eigenfunctions
from mercer.process.function import Expansion, representer

__all__ = ["Eigenfunctions", "Expansion", "representer"]
