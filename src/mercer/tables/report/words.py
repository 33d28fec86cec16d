"""A machine in words: what its kernel, its hyperparameters and its size mean to a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.core.words import shape, shown
from mercer.estimators.additive.terms import Coefficient
from mercer.tables.report.page import Facts
from mercer.tables.stack.machine import Combination

ENCODED = "lengths in standard deviations of the columns, groups as 0 and 1; else your units"


SLOPES = "Slopes: change of the target (log odds) for one deviation of a number, or a category"


def largest_first(slopes: list[Coefficient], most: int) -> list[Coefficient]:
    """Return the slopes as they are; of more than ``most``, those beside their error first."""
    if len(slopes) <= most:
        return slopes
    return sorted(slopes, key=lambda c: -abs(c.value) / (c.std or 1.0))


def in_words(machine: Any) -> list[str]:
    """Return sentences on a fitted machine; those that can be said of it.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> in_words(GPRegressor().fit(x, np.sin(x[:, 0])))[0]
    'It expects very smooth functions of the inputs.'
    """
    if isinstance(machine, Combination):
        said = [f"It is a combination: {machine.words}. Its predictions are averages by weight."]
        for name, member in zip(machine.names_, machine.members_, strict=True):
            said += [f"{shown(name, 60)}: {sentence}" for sentence in in_words(member)]
        return said
    said = [*_kernel(getattr(machine, "kernel_", None))]
    noise = getattr(getattr(machine, "loss_", None), "noise", None)
    if isinstance(noise, float):
        said.append(
            "Two observations with the same inputs differ by chance: the standard deviation of "
            f"that noise is {shape(float(np.sqrt(noise)))}."
        )
    penalty = getattr(machine, "C", None)
    if isinstance(penalty, float):
        said.append(
            f"The penalty C is {shape(penalty)}: the greater it is, the more closely the training "
            "rows are followed."
        )
    carriers = {
        "support_": "(support vectors) carry the decision",
        "relevance_vectors_": "(relevance vectors) carry the prediction",
    }
    for name, what in carriers.items():
        if getattr(machine, name, None) is not None and len(getattr(machine, name)):
            said.append(f"{len(getattr(machine, name))} training rows {what}.")
    return said


def _kernel(kernel: Any) -> Iterator[str]:
    if kernel is None:
        return
    kinds = [part.expects for part in _parts(kernel) if part.expects]
    if kinds:
        yield f"It expects {', and '.join(dict.fromkeys(kinds))}."
    for _, owner, name in kernel.differentiable():
        value = np.asarray(getattr(owner, name), dtype=np.float64)
        if name == "length_scale" and np.ptp(value) <= 1e-9 * value.max():
            yield (
                f"Its length scale is {shape(float(value.max()))}: rows that differ by much less "
                "than that are predicted alike, rows that differ by much more tell it nothing of "
                "each other."
            )
        elif name == "length_scale":
            yield (
                f"Its length scales lie between {shape(float(value.min()))} and "
                f"{shape(float(value.max()))}: the shorter the scale of an input, the faster the "
                "prediction changes along it."
            )
        elif name == "period" and value.ndim == 0:
            yield f"The function repeats itself after {shape(float(value))}."


def _parts(kernel: Any) -> Iterator[Any]:
    """Yield the kernel and the kernels inside it."""
    yield kernel
    for part in kernel.children().values():
        yield from _parts(part)


def facts_of(machine: Any, units: str) -> list[Facts]:
    """Return the machine's own summary section by section.

    ``units`` is what the summary calls your units: a machine behind an encoder has others.
    """
    sections: dict[str, list[tuple[str, str]]] = {}
    for section, label, value in machine.summary().rows(units):
        line = (shown(label, 200), shown(shape(value), 4000))
        sections.setdefault(shown(section, 120), []).append(line)
    return [Facts(title, lines) for title, lines in sections.items()]
