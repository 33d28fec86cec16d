"""Functions of a kernel's space: the public name of ``process.function``."""

from mercer.process.function import Expansion, representer

__all__ = ["Expansion", "representer"]
