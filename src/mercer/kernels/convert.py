"""as_kernel: what an estimator accepts where it asks for a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.kernels.arcsine import ArcSine
from mercer.kernels.base import Kernel
from mercer.kernels.categorical import Categorical
from mercer.kernels.checks import did_you_mean
from mercer.kernels.dot import Constant, Linear, Polynomial
from mercer.kernels.given import Function, Precomputed
from mercer.kernels.matern import Matern
from mercer.kernels.nugget import Nugget
from mercer.kernels.periodic import Cosine, Periodic
from mercer.kernels.rational import RationalQuadratic
from mercer.kernels.stationary import RBF

_NAMES: dict[str, Callable[[], Kernel]] = {
    "arcsine": ArcSine,
    "categorical": Categorical,
    "constant": Constant,
    "cosine": Cosine,
    "linear": Linear,
    "matern12": lambda: Matern(nu=0.5),
    "matern32": lambda: Matern(nu=1.5),
    "matern52": lambda: Matern(nu=2.5),
    "matern52_nugget": lambda: Matern(nu=2.5) + Nugget(0.5),
    "periodic": Periodic,
    "polynomial": Polynomial,
    "precomputed": Precomputed,
    "rational_quadratic": RationalQuadratic,
    "rbf": RBF,
}


def kernel_names() -> list[str]:
    """Return the names that :func:`as_kernel` knows.

    Examples
    --------
    >>> "rbf" in kernel_names()
    True
    """
    return list(_NAMES)


def is_pairwise(given: Any) -> bool:
    """Return whether rows of X are kernel values: what scikit-learn's tag ``pairwise`` says.

    Examples
    --------
    >>> is_pairwise("precomputed"), is_pairwise("rbf")
    (True, False)
    """
    if isinstance(given, str):
        return given == "precomputed"
    return isinstance(given, Kernel) and given.pairwise


def as_kernel(given: Any) -> Kernel:
    """Return ``given`` as a kernel.

    Parameters
    ----------
    given : Kernel, str, scikit-learn kernel, or callable
        A kernel is returned as it is. A string names a kernel with its default parameters (unit
        variance; an amplitude is not added). A kernel object of scikit-learn is adapted by
        :class:`~mercer.kernels.FromSklearn`, any other callable ``k(X, Z)`` by
        :class:`~mercer.kernels.Function`.

    Examples
    --------
    >>> from mercer.kernels import as_kernel
    >>> as_kernel("matern52")
    Matern(nu=2.5)
    """
    if isinstance(given, Kernel):
        return given
    if isinstance(given, str):
        if given not in _NAMES:
            raise ValueError(f"there is no kernel {given!r}{did_you_mean(given, list(_NAMES))}")
        return _NAMES[given]()
    if isinstance(given, type) and issubclass(given, Kernel):
        raise TypeError(f"a kernel object is wanted, not its class: write {given.__name__}()")
    if _is_sklearn(given):
        from mercer.kernels.adapter import FromSklearn

        return FromSklearn(given)
    if callable(given):
        return Function(given)
    raise TypeError(
        "a kernel is a Kernel, the name of one, a kernel object of scikit-learn or a callable, "
        f"got {given!r}; the names are: {', '.join(_NAMES)}"
    )


def _is_sklearn(given: Any) -> bool:
    """Say whether this is a kernel object of scikit-learn, or of a class derived from one."""
    modules = {cls.__module__ for cls in type(given).__mro__}
    return "sklearn.gaussian_process.kernels" in modules and hasattr(given, "theta")
