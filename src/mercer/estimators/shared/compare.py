"""compare: fitted machines side by side, without a held-out set.

Comparison: what fitted machines say of themselves, as a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from html import escape
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted


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
        body = [[_text(v) for v in row.values()] for row in self.rows()]
        return [head, *body]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        lines = [
            "  ".join(
                c.ljust(w) if j == 0 else c.rjust(w)
                for j, (c, w) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in cells
        ]
        return "\n".join([f"ranked by {self.by.replace('_', ' ')}", *lines])

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
    _check_same_data([model for _, model in named])
    entries = [_entry(name, model) for name, model in named]
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


def _check_same_data(models: list[Any]) -> None:
    """Refuse machines that cannot have seen the same rows: their figures are sums over rows."""
    sizes = {_rows(m) for m in models} - {None}
    if len(sizes) > 1:
        raise ValueError(
            f"the machines were fitted on {', '.join(map(str, sorted(map(str, sizes))))} rows: "
            "evidence and leave-one-out figures are sums over the rows; fit all on the same data"
        )
    kinds = {hasattr(m, "classes_") for m in models}
    if len(kinds) > 1:
        raise ValueError("a regression and a classification have no figures in common")


def _parts(model: Any) -> tuple[Any, Any]:
    """Return the machine that was searched, and the leave-one-out figures of what predicts.

    A support vector machine with an inference has both inside; its mode has figures of its own.
    """
    learner = getattr(model, "bayes_", None)
    if learner is None:
        return model, getattr(model, "loo_", None)
    mean = model.discriminant == "mean"
    return learner, learner.left_out_ if mean else getattr(model, "loo_", None)


def _rows(model: Any) -> int | None:
    loo = _parts(model)[1]
    rows = getattr(loo, "weights", getattr(loo, "margin", None))
    return None if rows is None else len(rows)


def _entry(name: str, model: Any) -> ComparedModel:
    model, loo = _parts(model)
    density = getattr(loo, "total", None)
    error = getattr(loo, "error", None)
    if error is not None:  # of each class against the rest it is not an error of the classes
        error = float(np.ravel(error)[0]) if np.size(error) == 1 else None
    if error is None and getattr(loo, "cavity", None) is not None:
        error = loo.cavity_error
    bound = None if getattr(loo, "bound", None) is None else loo.error_bound
    free = 0
    # as they were searched: in the user's units one tied length scale is one for each column
    inside = getattr(model, "posteriors_", None)
    known = getattr(inside[0], "parent", None) if inside else None
    kernel: Any = getattr(model, "kernel_", None) if known is None else known.kernel
    parts: list[Any] = [kernel, getattr(model, "loss_", None)]
    for part in parts:
        for path in getattr(part, "free", {}):
            free += int(np.size(part.get_params()[path]))
    evidence = getattr(model, "log_evidence_", None)
    searched = (getattr(model, "report_", None) or {}).get("search") is not None
    return ComparedModel(name, evidence, density, error, bound, free if searched else 0)
