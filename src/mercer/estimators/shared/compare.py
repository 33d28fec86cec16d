"""compare: fitted machines side by side, ranked where their figures are of the same thing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.estimators.shared.summary import doubts
from mercer.left_out.figures import LeftOut

_SIGN = {"log_evidence": -1.0, "loo": -1.0, "loo_error": 1.0, "error_bound": 1.0}
_KEYS = {"log_evidence": "evidence", "loo": "left_out"}  # in report_["density"]


class ComparedModel(NamedTuple):
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
    """The ranking of ``entries``, best first. ``str`` gives text, notebooks show a table.

    Attributes
    ----------
    by : the figure that ranks.
    entries : the machines, group by group, the best of each group first.
    order : (k,) the position of each entry in what was given.
    groups : (k,) what the figure of each entry is a density of; those of different groups stand
        beside one another and are not ranked. One group: all can be compared.
    notes : what a reader should know.
    """

    by: str
    entries: tuple[ComparedModel, ...]
    order: tuple[int, ...]
    groups: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def rows(self) -> list[dict[str, Any]]:
        """Return the ranking as plain dictionaries, e.g. for a data frame."""
        pairs = zip(self.entries, self.groups, strict=True)
        return [entry._asdict() | {"group": group} for entry, group in pairs]

    @property
    def _caption(self) -> str:
        each = " within each group" if len(set(self.groups)) > 1 else ""
        return f"ranked by {self.by.replace('_', ' ')}{each}"

    def _cells(self) -> list[list[str]]:
        """Return the head, and rows of cells; that of one cell is the head of a group."""
        lines = [[name.replace("_", " ") for name in ComparedModel._fields]]
        for i, (entry, group) in enumerate(zip(self.entries, self.groups, strict=True)):
            if len(set(self.groups)) > 1 and group not in self.groups[:i]:
                lines.append([f"[{group}]"])
            lines.append([_text(value) for value in entry])
        return lines

    def __str__(self) -> str:
        cells = self._cells()
        full = [row for row in cells if len(row) > 1]
        widths = [max(map(len, column)) for column in zip(*full, strict=True)]
        lines = [self._caption]
        for first, *rest in cells:
            right = [c.rjust(w) for c, w in zip(rest, widths[1:], strict=False)]
            lines.append("  ".join([first.ljust(widths[0]), *right]).rstrip())
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *body = self._cells()
        top = "".join(f"<th>{escape(c)}</th>" for c in head)
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>"
            if len(row) > 1
            else f'<tr><td colspan="{len(head)}">{escape(row[0])}</td></tr>'
            for row in body
        )
        table = f"<table><caption>{escape(self._caption)}</caption><tr>{top}</tr>{rows}</table>"
        return table + "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)


def _text(value: Any) -> str:
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


class _Compared(NamedTuple):
    """A machine that is compared, and what it says."""

    entry: ComparedModel
    machine: Any  # the one that was searched
    left: LeftOut | None
    density: dict[str, Any]  # what its figures are densities of; empty if it does not say

    def word(self, by: str) -> str:
        """What the figure is a density of; shares of mistakes are the same thing everywhere."""
        if by not in _KEYS:
            return "share of mistakes"
        unknown = f"{self.entry.name} does not say: it is of an earlier version, or saw batches"
        return str(self.density.get(_KEYS[by]) or unknown)


def compare(models: Iterable[Any] | Mapping[str, Any], by: str = "auto") -> Comparison:
    """Rank fitted machines of the same data by what their own fits say, best first.

    A log evidence is a density of certain things, and only those of the same can be compared: not
    a sum of machines of one class against the rest beside a joint model of all classes, nor priors
    that are flat in different functions (``basis=``, splines of different orders), whose evidence
    moves with the units of x. Machines that cannot be compared by a figure are put in groups, and
    ``groups`` and ``notes`` say why; "auto" takes a figure by which all can be compared. Evidences
    of different losses are densities of the same targets and may be compared; those of different
    inferences carry the errors of these. A machine without the figure comes last.

    Parameters
    ----------
    models : fitted machines, as a sequence or by name. They must have seen the same targets with
        the same weights, in the same order or as the same rows; the columns may differ.
    by : "log_evidence", "loo", "loo_error", "error_bound", or "auto": the first that all have and
        by which all can be compared.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor, compare, kernels
    >>> x = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40 * x[:, 0])
    >>> ranking = compare({
    ...     "smooth": GPRegressor(kernels.RBF()).fit(x, y),
    ...     "straight": GPRegressor(kernels.Linear()).fit(x, y),
    ...     "flat line": GPRegressor(kernels.RBF(), basis="linear").fit(x, y),
    ... })
    >>> ranking.by, ranking.entries[-1].name
    ('loo', 'straight')
    """
    named = list(models.items()) if isinstance(models, Mapping) else _names(list(models))
    if not named:
        raise ValueError("there is nothing to compare: give at least one fitted machine")
    for _, model in named:
        check_is_fitted(model)
    if by != "auto" and by not in _SIGN:
        raise ValueError(f"cannot rank by {by!r}; known are auto, {', '.join(_SIGN)}")
    found = [_compared(name, model) for name, model in named]
    if len({hasattr(model, "classes_") for _, model in named}) > 1:
        raise ValueError("a regression and a classification have no figures in common")
    _check_data(found)
    notes: list[str] = []
    if by == "auto":
        by, notes = _chosen(found)
    words = [one.word(by) for one in found]
    if len(set(words)) > 1:
        notes.append(
            f"the {by.replace('_', ' ')} is of different things, and machines of different groups "
            "are not ranked against each other: use cross-validation, or by='loo'"
        )
    values = [getattr(one.entry, by) for one in found]
    keys = [np.inf if value is None else _SIGN[by] * value for value in values]
    # groups in the order of their first machine, except that none without the figure comes first
    first: dict[str, tuple[bool, int]] = {}
    for i, word in enumerate(words):
        first[word] = min(first.get(word, (True, len(words))), (keys[i] == np.inf, i))
    order = sorted(range(len(found)), key=lambda i: (first[words[i]], keys[i]))
    for i in order:
        notes += _remarks(found[i], by)
    entries = tuple(found[i].entry for i in order)
    return Comparison(by, entries, tuple(order), tuple(words[i] for i in order), tuple(notes))


def _names(models: list[Any]) -> list[tuple[str, Any]]:
    """Return each machine with its class as a name, numbered where classes repeat."""
    classes = [type(m).__name__ for m in models]
    names = []
    for i, name in enumerate(classes):
        number = f" {classes[: i + 1].count(name)}" if classes.count(name) > 1 else ""
        names.append(name + number)
    return list(zip(names, models, strict=True))


def _compared(name: str, model: Any) -> _Compared:
    # a support vector machine with an inference has both inside; its mode has figures of its own
    learner = getattr(model, "bayes_", None)
    predicts = learner if learner is not None and model.discriminant == "mean" else model
    machine, left = model if learner is None else learner, getattr(predicts, "left_out_", None)
    density = (getattr(machine, "report_", None) or {}).get("density")
    if density is None:  # a support vector machine finds it when asked
        density = getattr(machine, "density_report", dict)()
    return _Compared(_entry(name, machine, left), machine, left, density)


def _check_data(found: list[_Compared]) -> None:
    """Refuse machines of different data, as far as they say what they have seen."""
    sizes = {len(one.left.weights) for one in found if one.left is not None}
    told = [one for one in found if one.density]
    for one in told[1:]:
        if all(one.density[key] != told[0].density[key] for key in ("targets", "rows")):
            rows = f" ({', '.join(sorted(map(str, sizes)))} rows)" if len(sizes) > 1 else ""
            raise ValueError(
                f"{told[0].entry.name} and {one.entry.name} were fitted to different targets or "
                f"weights{rows}: evidence and leave-one-out figures are sums over the rows; fit "
                "all on the same data, in the same order and the same units of y"
            )
    if len(sizes) > 1 and len(told) < len(found):
        raise ValueError(
            f"the machines were fitted on {', '.join(sorted(map(str, sizes)))} rows: "
            "evidence and leave-one-out figures are sums over the rows; fit all on the same data"
        )


def _chosen(found: list[_Compared]) -> tuple[str, list[str]]:
    """Return the first figure by which all can be compared, and why none before it."""
    full = [k for k in _SIGN if all(getattr(one.entry, k) is not None for one in found)]
    notes: list[str] = []
    for by in full:
        words: dict[str, list[str]] = {}
        for one in found:
            words.setdefault(one.word(by), []).append(one.entry.name)
        if len(words) == 1:
            return by, notes
        which = "; ".join(f"{', '.join(names)}: {word}" for word, names in words.items())
        notes.append(f"the {by.replace('_', ' ')} is of different things ({which})")
    return (full or ["log_evidence"])[0], []


def _remarks(one: _Compared, by: str) -> list[str]:
    """Return what to doubt in the figures of a machine."""
    report = getattr(one.machine, "report_", None) or {}
    said = doubts(report)
    if by == "loo" and one.entry.loo is not None and isinstance(report.get("left_out"), str):
        said.append(report["left_out"])
    return [f"{one.entry.name}: {text}" for text in said]


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
