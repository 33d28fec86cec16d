"""What a loss can do: methods that are absent, and methods that stand on other ones."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def absent(reason: str) -> Callable[[F], F]:
    """Mark a method of the base class as missing; calling it refuses with ``reason``."""

    def mark(method: F) -> F:
        @functools.wraps(method)
        def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError(f"{type(self).__name__} has no {method.__name__}: {reason}")

        refuse.is_absent = True  # type: ignore[attr-defined]  # a flag read by `offered`
        refuse.reason = reason  # type: ignore[attr-defined]  # read by `missing_because`
        return refuse  # type: ignore[return-value]  # same signature, by functools.wraps

    return mark


def needs(*names: str) -> Callable[[F], F]:
    """Mark a default that works only if every attribute in ``names`` is true, or offered."""

    def mark(method: F) -> F:
        @functools.wraps(method)
        def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
            for name in names:
                if not offered(type(self), name):
                    raise NotImplementedError(
                        f"{type(self).__name__} has no {method.__name__}: {_REASONS[name]}"
                    )
            return method(self, *args, **kwargs)

        guarded.needed = names  # type: ignore[attr-defined]  # read by `offered`
        return guarded  # type: ignore[return-value]  # same signature, by functools.wraps

    return mark


def offered(cls: type, name: str) -> bool:
    """Whether ``cls`` has a true attribute ``name``, or a method that is not absent."""
    own = getattr(cls, name, None)
    if own is None or isinstance(own, bool):
        return bool(own)
    if getattr(own, "is_absent", False):
        return False
    return all(offered(cls, other) for other in getattr(own, "needed", ()))


def missing_because(cls: type, name: str) -> str:
    """Say why ``cls`` does not offer the method ``name``, and what to use in its place."""
    own = getattr(cls, name, None)
    if getattr(own, "is_absent", False):
        return str(getattr(own, "reason", ""))
    for other in getattr(own, "needed", ()):
        if not offered(cls, other):
            return _REASONS[other]
    return f"it is no method of {cls.__name__}"


_REASONS = {
    "normalised": "exp(-loss) is no probability of y; choose a normalised loss "
    "(NormalizedHinge for Hinge, Logistic for Exponential), or calibrate the decision values",
    "convex": "the loss is not convex in f; use an inference that works without the dual "
    "(Laplace, EP or a variational Gaussian)",
    "conditional_cdf": "write conditional_cdf(y, f), the distribution function of y given f",
    "moments": "write moments(f), the mean and variance of y given f",
}
