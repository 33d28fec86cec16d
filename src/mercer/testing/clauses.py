"""How a clause is stated: its name first, then what was expected and what was found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array


def holds(clause: str, truth: Any, expected: str) -> None:
    """Raise unless ``truth``; the message begins with the name of the clause."""
    if not truth:
        raise AssertionError(f"{clause}: {expected}")


def close(
    clause: str, found: Any, wanted: Any, rtol: Any, atol: Any = 0.0, expected: str = ""
) -> None:
    """Raise unless |found - wanted| <= atol + rtol |wanted| everywhere, and the shapes agree.

    Infinities must agree; a number that is not one is never close.
    """
    a, b = np.asarray(found, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    what = f"{expected}; " if expected else ""
    holds(clause, a.shape == b.shape, f"{what}shape {b.shape} is expected, not {a.shape}")
    with np.errstate(invalid="ignore"):
        off = np.abs(a - b) - (atol + rtol * np.abs(b))
        wrong = ~((off <= 0.0) | (a == b))
    if np.any(wrong):
        most = np.argmax(np.where(wrong, np.nan_to_num(off, nan=np.inf), -np.inf))
        worst = tuple(int(i) for i in np.unravel_index(most, wrong.shape))
        place = f" at {worst}" if worst else ""
        holds(clause, False, f"{what}expected {b[worst]:.10g}, found {a[worst]:.10g}{place}")


def close_whole(clause: str, found: Any, wanted: Any, tol: float, expected: str = "") -> None:
    """Raise unless the arrays agree to ``tol`` of the largest entry wanted."""
    size = float(np.max(np.abs(np.asarray(wanted, dtype=np.float64)), initial=1e-300))
    close(clause, found, wanted, 0.0, tol * size, expected)


def refused(clause: str, call: Callable[[], Any], expected: str, *kinds: type[Exception]) -> None:
    """Raise unless ``call`` raises one of ``kinds`` (ValueError if none is named) with a text."""
    allowed = kinds or (ValueError,)
    try:
        call()
    except allowed as error:
        holds(clause, str(error).strip(), f"{expected}; the refusal must be a sentence")
        return
    except Exception as error:
        wanted = " or ".join(kind.__name__ for kind in allowed)
        found = f"{type(error).__name__} was raised, not {wanted}: {error}"
        raise AssertionError(f"{clause}: {expected}; {found}") from error
    holds(clause, False, f"{expected}; nothing was raised")


def slope(function: Callable[[Array], Array], x: Array, h: Array | float) -> Array:
    """Return the derivative at x by central differences of step h, elementwise, error O(h^4)."""
    wide = (function(x + 2 * h) - function(x - 2 * h)) / (4 * h)
    return np.asarray((4 * (function(x + h) - function(x - h)) / (2 * h) - wide) / 3)


def gradient(function: Callable[[], float], owner: object, name: str, step: float = 1e-3) -> Array:
    """Return the gradient of ``function()`` in a parameter of ``owner``, by five points."""
    at = np.array(getattr(owner, name), dtype=np.float64)
    result = np.zeros(at.shape)
    for i in np.ndindex(at.shape):
        h = step * max(abs(float(at[i])), 1e-2)
        for times, c in ((-2, 1.0), (-1, -8.0), (1, 8.0), (2, -1.0)):
            moved = at.copy()
            moved[i] += times * h
            setattr(owner, name, moved if moved.ndim else float(moved))
            result[i] += c * function()
        result[i] /= 12 * h
    setattr(owner, name, at if at.ndim else float(at))
    return result
