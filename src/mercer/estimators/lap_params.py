"""Parameters of machines on graphs: what they may be, and those of Belkin et al. as ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.losses.base import is_number


def check_graph_params(machine: Any) -> None:
    """Refuse parameters that no fit can have had."""
    _positive(machine, "C", "tol", "amplitude")
    for name in ("gamma_A", "gamma_I"):
        value = getattr(machine, name)
        if value is not None and not (is_number(value, 0.0, np.inf) or _zero(name, value)):
            raise ValueError(f"{name} must be a positive finite number or None, got {value!r}")
    if (machine.gamma_A is None) != (machine.gamma_I is None):
        raise ValueError(
            "gamma_A and gamma_I belong together, in place of C and beta: give both or none"
        )
    if not (is_number(machine.beta, 0.0, np.inf) or _zero("beta", machine.beta)):
        raise ValueError(f"beta must be a finite number >= 0, got {machine.beta!r}")
    _count(machine, "n_neighbors", 1)
    heat = machine.heat
    if heat is not None and not (is_number(heat, 0.0, np.inf) or _infinite(heat)):
        raise ValueError(
            f"heat must be a positive number, numpy.inf for weights of one, or None: {heat!r}"
        )
    limit = getattr(machine, "max_iter", 1)
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < -1:
        raise ValueError(f"max_iter must be a number of steps, or -1 for no limit: {limit!r}")


def check_memory_params(machine: Any) -> None:
    """Refuse limits of memory that are no counts."""
    if machine.budget is not None:
        _count(machine, "budget", 0)
    for name in ("landmarks", "max_landmarks", "max_support"):
        _count(machine, name, 0)
    if machine.merge != "auto":
        _count(machine, "merge", 1)
    if not isinstance(machine.residual, (bool, np.bool_)):
        raise ValueError(f"residual must be True or False, got {machine.residual!r}")
    if not machine.residual and not (machine.landmarks and machine.max_landmarks):
        raise ValueError("without residual and landmarks nothing would be kept: give landmarks")


def belkin(machine: Any, labelled: float, n: int) -> tuple[float, float]:
    """Return C and beta of a batch of n points, ``labelled`` of them with a label.

    C = 1 / (2 l gamma_A), beta = gamma_I / (2 gamma_A n^2), where gamma_A and gamma_I are given:
    the objective of Belkin et al., (1/l) sum V + gamma_A |f|^2 + gamma_I / n^2 f'L f, divided by
    2 gamma_A.
    """
    if machine.gamma_A is None:
        return float(machine.C), float(machine.beta)
    beta = machine.gamma_I / (2.0 * machine.gamma_A * n * n)
    # without labels there is nothing to weigh
    return 1.0 / (2.0 * labelled * machine.gamma_A) if labelled else np.inf, float(beta)


def _positive(machine: Any, *names: str) -> None:
    for name in names:
        value = getattr(machine, name, 1.0)
        if not is_number(value, 0.0, np.inf):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}")


def _count(machine: Any, name: str, least: int) -> None:
    value = getattr(machine, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")


def _zero(name: str, value: Any) -> bool:
    """Whether the value is the zero that beta and gamma_I may be."""
    plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return name != "gamma_A" and plain and value == 0


def _infinite(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and value == np.inf
