"""mercer: probabilistic kernel machines.

A model is a kernel (what is smooth), a loss (what is observed), an inference (how a posterior comes
out) and a search (which hyperparameters). Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import basis, inference, kernels, losses, persist, process, search, testing
    from mercer.estimators.gaussian_process import GPRegressor
    from mercer.estimators.generic import KernelRegressor
    from mercer.persist import load, save

__version__ = "0.1.0"

_HOMES = {
    "GPRegressor": "mercer.estimators.gaussian_process",
    "KernelRegressor": "mercer.estimators.generic",
    "load": "mercer.persist",
    "save": "mercer.persist",
}
_ROOMS = ("basis", "inference", "kernels", "losses", "persist", "process", "search", "testing")

__all__ = [
    "GPRegressor",
    "KernelRegressor",
    "__version__",
    "basis",
    "inference",
    "kernels",
    "load",
    "losses",
    "persist",
    "process",
    "save",
    "search",
    "testing",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = import_module(f"mercer.{name}")
    else:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
