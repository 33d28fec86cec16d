"""How a clause is stated: name, what was expected, what was found; and the contract of a part."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Component


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


def check_component(part: Component) -> None:
    """A component is its parameters: copies, repr, dictionary form.

    Raises
    ------
    AssertionError
        It begins with the name of the clause: clone, repr, constructor, parameters, domain, fix,
        bound or dictionary.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> check_component(RBF(length_scale=2.0))
    """
    who, params = type(part).__name__, part.get_params(deep=False)
    holds("clone", part.__sklearn_clone__() == part, "a clone must be equal to the original")
    holds("repr", who in repr(part), f"repr must show the class {who}, not {part!r}")
    stored = all(getattr(part, name) is value for name, value in params.items())
    alike = stored and (type(part)(**params) == part or part.__dict__.get("_marks"))
    holds("constructor", alike, "each argument must be stored under its own name, and nothing else")
    again = copy.deepcopy(part).set_params(**params)
    holds("parameters", again == part, "set_params(**get_params()) must change nothing")
    text = "a parameter that does not exist must be refused with ValueError"
    refused("parameters", lambda: copy.deepcopy(part).set_params(nonsense_of_a_name=1), text)
    _check_domains(part)
    _check_dictionary(part)


def _check_domains(part: Component) -> None:
    own = set(part.parameter_names())
    holds("domain", set(part.domains) <= own, f"domains must name parameters, {sorted(own)}")
    part.check_domains()
    for path, domain in part.free.items():
        value = np.asarray(part.get_params()[path], dtype=np.float64)
        inside = np.all(value > domain.lower) and np.all(value < domain.upper)
        where = f"({domain.lower:g}, {domain.upper:g})"
        holds("domain", inside, f"{path} must lie inside {where}, not at {value}")
        moved = copy.deepcopy(part).set_params(**{path: part.get_params()[path] * 1.1})
        holds("parameters", moved != part or not np.any(value), f"another {path} is another part")
    holds("fix", part.fix().free == {}, "nothing may be free after fix()")


def _check_dictionary(part: Component) -> None:
    marked = part
    paths = [path for path, _, _ in part.differentiable()]
    if paths:
        marked = part.fix(paths[0]).bound(**{paths[-1]: (1e-3, 1e3)})
    try:
        data, marks = part.to_dict(), marked.to_dict()
    except TypeError as error:
        text = "what cannot be stored must say so: 'cannot be written to a model file'"
        holds("dictionary", "cannot be written to a model file" in str(error), text)
        return
    classes = classes_of(marked)
    for given, form in ((part, data), (marked, marks)):
        found = Component.from_dict(form, classes.__getitem__)
        same = found == given and found.free == given.free and repr(found) == repr(given)
        holds("dictionary", same, f"from_dict(to_dict()) must be {given!r}, not {found!r}")


def classes_of(part: Component) -> dict[str, type[Component]]:
    """Return the classes of a part and all parts inside it, by the name in model files."""
    found = {type(part).part_name(): type(part)}
    for child in part.children().values():
        found |= classes_of(child)
    for mark in getattr(part, "_marks", {}).values():
        if mark.prior is not None:
            found |= classes_of(mark.prior)
    return found
