"""Frozen parameters: what the first batch of a stream fixes may not be changed in its middle."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer.component import Component


def freeze(machine: Any) -> None:
    """Remember the parameters ``_freezes`` of a machine, at the start of a stream or in ``fit``.

    Copies: a kernel may be changed in place, by ``set_params(kernel__length_scale=...)``.
    """
    if machine._freezes:
        machine._frozen = {name: _copied(getattr(machine, name)) for name in machine._freezes}


def require_frozen(machine: Any) -> None:
    """Refuse to go on with a stream one of whose frozen parameters has been changed."""
    for name, kept in frozen(machine).items():
        now = getattr(machine, name)
        # the first is ten times as fast, and a stream may come row by row
        if not _alike(now, kept) and now != kept:
            raise ValueError(
                f"{name} was changed in the middle of a stream, from {kept!r} to {now!r}: what "
                f"was learned so far rests on the first. Start a new model with the new {name}, or "
                f"call fit, which begins afresh; to go on, set {name} back"
            )


def frozen(machine: Any) -> dict[str, Any]:
    """Return the frozen parameters by name: none of a machine that has not learned."""
    found: dict[str, Any] = vars(machine).get("_frozen", {})
    return found


def _copied(value: Any) -> Any:
    """Return a copy that is equal to the value; a function is kept itself, as it equals no copy."""
    if isinstance(value, Component):
        twin = copy.copy(value)
        vars(twin).update({name: _copied(part) for name, part in vars(value).items()})
        return twin
    if type(value) in (list, tuple):
        return type(value)(map(_copied, value))
    if callable(value) and not hasattr(value, "get_params"):
        return value
    twin = copy.deepcopy(value)
    return twin if _alike(twin, value) else value


def _alike(a: Any, b: Any) -> bool:
    """Whether two values are the same to the last attribute: enough for being equal."""
    if type(a) is not type(b):
        return False
    if isinstance(a, Component):
        mine, theirs = vars(a), vars(b)
        return mine.keys() == theirs.keys() and all(_alike(mine[k], theirs[k]) for k in mine)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_alike, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_alike(a[k], b[k]) for k in a)
    return a is b or bool(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b)
