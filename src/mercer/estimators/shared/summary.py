"""What fitted machines say of themselves: one in words, or several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.left_out.figures import LeftOut

Rows: TypeAlias = list[tuple[str, str, str]]  # section, label, value


@dataclass(frozen=True)
class Summary:
    """Rows of (section, label, value); ``str`` gives text, notebooks show a table.

    A section may say ``{units}``: what the numbers below it are measured in.
    """

    title: str
    entries: tuple[tuple[str, str, str], ...]

    def rows(self, units: str = "your units") -> Rows:
        """Return the rows (section, label, value), in ``units`` that may be those of an encoder."""
        return [(section.format(units=units), label, v) for section, label, v in self.entries]

    def __str__(self) -> str:
        width = max(len(label) for _, label, _ in self.entries)
        lines = [self.title, "=" * len(self.title)]
        for section, rows in groupby(self.rows(), itemgetter(0)):
            lines += ["", section, "-" * len(section)]
            lines += [f"{label:<{width}}  {value}" for _, label, value in rows]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body = []
        for section, rows in groupby(self.rows(), itemgetter(0)):
            body.append(f'<tr><th colspan="2" style="text-align:left">{escape(section)}</th></tr>')
            body += [f"<tr><td>{escape(k)}</td><td>{escape(v)}</td></tr>" for _, k, v in rows]
        return f"<table><caption>{escape(self.title)}</caption>{''.join(body)}</table>"


class Summarised:
    """An estimator that says what was fitted in rows; a child may state other ``_summary_rows``."""

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return Summary(type(self).__name__, tuple(self._summary_rows()))

    def _summary_rows(self) -> Rows:
        return machine_rows(self)


def machine_rows(machine: Any) -> Rows:
    """Return the rows of a fitted kernel machine."""
    report, evidence, basis = machine.report_, machine.log_evidence_, machine.basis_
    counts, inference, degrees = report["rows"], report["inference"], report["degrees_of_freedom"]
    used, weight, jitter = counts["used"], counts["weight"], inference.get("jitter", 0.0)
    several = len(machine.units_.y_scale) > 1 and report["standardize"]["on"]
    units = "inputs in {units}, outputs standardised" if several else "{units}"
    learned = f"Hyperparameters ({units})"
    rows = [
        ("Data", "rows", f"{used} ({counts['distinct']} distinct inputs)"),
        ("Data", "total weight", None if weight == used else f"{weight:.6g}"),
        ("Data", "columns", str(machine.n_features_in_)),
        ("Data", "standardised", _standardised(report["standardize"])),
        ("Model", "kernel", repr(machine.kernel_)),
        ("Model", "loss", repr(machine.loss_)),
        ("Model", "unpenalised basis", None if basis is None else repr(basis)),
        *((learned, label, value) for label, value in _hyperparameters(machine)),
        (learned, "one length scale per column", _ard(report.get("ard"))),
        ("Quality", "log evidence", None if evidence is None else f"{evidence:.4f}"),
        *(("Quality", *row) for row in left_out_rows(machine.left_out_, weight)),
        ("Quality", "effective degrees of freedom", None if degrees is None else f"{degrees:.2f}"),
        ("Numerics", "mode" if evidence is None else inference["name"], _steps(inference)),
        ("Numerics", "convergence", _convergence(report)),
        ("Numerics", "jitter", f"{jitter:.1g} of each variance" if jitter else "none"),
    ]
    return [(section, label, value) for section, label, value in rows if value is not None]


def _ard(report: dict[str, Any] | None) -> str | None:
    if not report:
        return None
    word = "kept" if report["kept"] else "not kept, one in standard deviations of the columns is"
    gained = f"{word}: log evidence gains {report['gain']:.2f}, {report['needed']:.2f} are needed"
    return f"{gained} for {report['extra_parameters']} more parameters"


def _steps(report: dict[str, Any]) -> str | None:
    if report.get("iterations") is None:
        return None
    text = f"{'' if report['converged'] else 'not '}converged after {report['iterations']} steps"
    return text if report.get("gap") is None else f"{text}, duality gap {report['gap']:.2g}"


def left_out_rows(left: LeftOut | None, weight: float) -> list[tuple[str, str]]:
    """Return label and value: of densities, or of margins with their bound and estimate."""
    if left is None:
        return []
    if left.log_density is not None and left.total is not None:
        outputs = 1 if left.log_density.ndim == 1 else left.log_density.shape[1]
        each = left.total / (weight * outputs)
        return [("leave-one-out log density", f"{left.total:.4f} ({each:.4f} per observation)")]
    lines = []
    if left.bound is not None:
        lines.append(("leave-one-out error", f"at most {left.error_bound:.4f}"))
    if left.margin is not None:
        lines.append(("leave-one-out error, estimated", f"{left.cavity_error:.4f}"))
    return lines


def _standardised(report: dict[str, Any]) -> str:
    if not report["on"]:
        return "no: kernel parameters are in your units"
    x, y = (
        any(scale != 1.0 for scale in report[f"{side}_scale"]) or any(report[f"{side}_shift"])
        for side in "xy"
    )
    what = "columns and target" if x and y else "target" if y else "columns"
    return f"yes: {what}, inside the machine; undone in all that is reported"


def _convergence(report: dict[str, Any]) -> str:
    search = report["search"]
    if search is None:
        return "no search: the parameters are as given"
    ard = report.get("ard") or {"kept": False, "search": {"evaluations": 0}}
    last = ard["search"] if ard["kept"] else search
    text = "converged" if last["converged"] else f"not converged ({last.get('message', '')})"
    evaluations = search["evaluations"] + ard["search"]["evaluations"]
    text += f" after {evaluations} evaluations from {search['starts']} starts"
    if search.get("interrupted"):
        text += "; interrupted, the best so far is kept"
    if last.get("at_bounds"):
        text += f"; at a bound: {', '.join(last['at_bounds'])}"
    if "bands" in search:
        text += f"; {search['bands']}"
    if search.get("search_weight_factor", 1.0) != 1.0:
        text += f"; weights times {search['search_weight_factor']:.4g} in the search (exact copies)"
    return text


def _hyperparameters(machine: Any) -> list[tuple[str, str]]:
    found = []
    own = machine._parameter_words()
    names = getattr(machine, "feature_names_in_", None)
    for part in (machine.kernel_, machine.loss_):
        for path, owner, name in part.differentiable():
            value = np.asarray(getattr(owner, name), dtype=np.float64)
            word = own.get(name) or owner.word_for(name)
            label = path.replace("__", ".") + (f" ({word})" if word else "")
            if owner.mark(name).fixed:
                label += ", fixed"
            shown = [f"{v:.4g}" for v in np.atleast_1d(value)]
            if value.ndim and names is not None and value.size == len(names):
                shown = [f"{column}: {v}" for column, v in zip(names, shown, strict=True)]
            text = ", ".join(shown)
            if name == "noise" and value.ndim == 0:
                text += f" (standard deviation {np.sqrt(value):.4g})"
            found.append((label, text))
    return found


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

    ``by`` is the figure that ranks, ``order`` (k,) the position of each entry in what was given.
    """

    by: str
    entries: tuple[ComparedModel, ...]
    order: tuple[int, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the ranking as plain dictionaries, e.g. for a data frame."""
        return [entry._asdict() for entry in self.entries]

    def _cells(self) -> list[list[str]]:
        head = [name.replace("_", " ") for name in ComparedModel._fields]
        return [head, *([_text(value) for value in entry] for entry in self.entries)]

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
    return "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)


_SIGN = {"log_evidence": -1.0, "loo": -1.0, "loo_error": 1.0, "error_bound": 1.0}


def compare(models: Iterable[Any] | Mapping[str, Any], by: str = "auto") -> Comparison:
    """Rank fitted machines of the same data by what their own fits say, best first.

    A machine without the figure comes last. Evidences of different losses are densities of the same
    targets and may be compared; those of different inferences carry the errors of these.

    Parameters
    ----------
    models : fitted machines, as a sequence or by name.
    by : "log_evidence", "loo", "loo_error", "error_bound", or "auto": the first that all have.

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
    values = [getattr(e, by) for e in entries]
    keys = [np.inf if value is None else _SIGN[by] * value for value in values]
    order = sorted(range(len(entries)), key=keys.__getitem__)
    return Comparison(by, tuple(entries[i] for i in order), tuple(order))


def _names(models: list[Any]) -> list[tuple[str, Any]]:
    """Return each machine with its class as a name, numbered where classes repeat."""
    classes = [type(m).__name__ for m in models]
    names = []
    for i, name in enumerate(classes):
        number = f" {classes[: i + 1].count(name)}" if classes.count(name) > 1 else ""
        names.append(name + number)
    return list(zip(names, models, strict=True))


def _parts(model: Any) -> tuple[Any, LeftOut | None]:
    """Return the machine that was searched, and the leave-one-out figures of what predicts."""
    # a support vector machine with an inference has both inside; its mode has figures of its own
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
