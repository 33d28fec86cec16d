"""compare: fitted machines side by side by what they say of themselves, without a held-out set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.left_out.figures import LeftOut


@dataclass(frozen=True)
class ComparedModel:
    """What one machine says of itself; None where its method has no such figure.

    Attributes
    ----------
    name : the machine.
    log_evidence : log p(y | X), exact or approximate; higher is better.
    loo : leave-one-out log predictive density, summed over the rows; higher is better.
    loo_error : leave-one-out share of wrong classes (an estimate from cavities).
    error_bound : upper bound on the leave-one-out error (Lemma 1).
    parameters : hyperparameters that were learned.
    """

    name: str
    log_evidence: float | None
    loo: float | None
    loo_error: float | None
    error_bound: float | None
    parameters: int


@dataclass(frozen=True)
class Comparison:
    """The ranking, best first. ``str`` gives text, notebooks show a table.

    Attributes
    ----------
    by : the figure that ranks.
    entries : one for each machine.
    order : (k,) the position of each entry in the list that was given.
    """

    by: str
    entries: tuple[ComparedModel, ...]
    order: tuple[int, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the ranking as plain dictionaries, e.g. for a data frame."""
        return [{f.name: getattr(e, f.name) for f in fields(ComparedModel)} for e in self.entries]

    def _cells(self) -> list[list[str]]:
        head = [f.name.replace("_", " ") for f in fields(ComparedModel)]
        return [head, *([_text(v) for v in row.values()] for row in self.rows())]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = [f"ranked by {self.by.replace('_', ' ')}"]
        for first, *rest in cells:
            right = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=True)]
            lines.append("  ".join([first.ljust(widths[0]), *right]).rstrip())
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        top = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in body
        )
        caption = f"ranked by {escape(self.by.replace('_', ' '))}"
        return f"<table><caption>{caption}</caption><tr>{top}</tr>{rows}</table>"


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)


_SIGN = {"log_evidence": -1.0, "loo": -1.0, "loo_error": 1.0, "error_bound": 1.0}


def compare(models: Iterable[Any] | Mapping[str, Any], by: str = "auto") -> Comparison:
    """Rank fitted machines of the same data by what their own fits say.

    Parameters
    ----------
    models : fitted machines, as a sequence or by name.
    by : "log_evidence", "loo", "loo_error", "error_bound", or "auto": the first of these, in this
        order, that every machine has. Evidences of different losses are densities of the same
        targets and may be compared; those of different inferences carry the errors of these, up to
        some nats.

    Returns
    -------
    Comparison, best first; a machine without the figure comes last.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor, compare, kernels
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(x[:, 0])
    >>> ranking = compare({
    ...     "smooth": GPRegressor(kernels.RBF()).fit(x, y),
    ...     "straight": GPRegressor(kernels.Linear()).fit(x, y),
    ... })
    >>> [entry.name for entry in ranking.entries]
    ['smooth', 'straight']
    """
    named = list(models.items()) if isinstance(models, Mapping) else _names(list(models))
    if not named:
        raise ValueError("there is nothing to compare: give at least one fitted machine")
    for _, model in named:
        check_is_fitted(model)
    found = [_parts(model) for _, model in named]
    sizes = {len(left.weights) for _, left in found if left is not None}
    if len(sizes) > 1:
        raise ValueError(
            f"the machines were fitted on {', '.join(sorted(map(str, sizes)))} rows: "
            "evidence and leave-one-out figures are sums over the rows; fit all on the same data"
        )
    if len({hasattr(model, "classes_") for _, model in named}) > 1:
        raise ValueError("a regression and a classification have no figures in common")
    entries = [_entry(name, *parts) for (name, _), parts in zip(named, found, strict=True)]
    if by == "auto":
        full = [k for k in _SIGN if all(getattr(e, k) is not None for e in entries)]
        by = full[0] if full else "log_evidence"
    if by not in _SIGN:
        raise ValueError(f"cannot rank by {by!r}; known are auto, {', '.join(_SIGN)}")
    keys = [getattr(e, by) for e in entries]
    values = [np.inf if key is None else _SIGN[by] * key for key in keys]
    order = sorted(range(len(entries)), key=lambda i: values[i])
    return Comparison(by, tuple(entries[i] for i in order), tuple(order))


def _names(models: list[Any]) -> list[tuple[str, Any]]:
    """Return each machine with its class as a name, numbered where classes repeat."""
    classes = [type(m).__name__ for m in models]
    names = []
    for i, name in enumerate(classes):
        count = classes[: i + 1].count(name)
        names.append(name if classes.count(name) == 1 else f"{name} {count}")
    return list(zip(names, models, strict=True))


def _parts(model: Any) -> tuple[Any, LeftOut | None]:
    """Return the machine that was searched, and the leave-one-out figures of what predicts.

    A support vector machine with an inference has both inside; its mode has figures of its own.
    """
    learner = getattr(model, "bayes_", None)
    predicts = learner if learner is not None and model.discriminant == "mean" else model
    return model if learner is None else learner, getattr(predicts, "left_out_", None)


def _entry(name: str, model: Any, left: LeftOut | None) -> ComparedModel:
    free = 0
    # as they were searched: in the user's units one tied length scale is one for each column
    inside = getattr(model, "posteriors_", None)
    prior = getattr(inside[0], "parent", None) if inside else None
    kernel: Any = getattr(model, "kernel_", None) if prior is None else prior.kernel
    parts: list[Any] = [kernel, getattr(model, "loss_", None)]
    if (getattr(model, "report_", None) or {}).get("search") is not None:
        each = (part.get_params()[path] for part in parts for path in getattr(part, "free", {}))
        free = sum(int(np.size(values)) for values in each)
    bound = None if left is None or left.bound is None else left.error_bound
    density, error = (None, None) if left is None else (left.total, left.error)
    evidence = getattr(model, "log_evidence_", None)
    return ComparedModel(name, evidence, density, error, bound, free)
