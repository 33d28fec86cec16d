"""Summary: a fitted machine in words, as text and as HTML.

Convergence: a warning, beside the entry in ``report_``, where a solver stopped too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, TypeAlias

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
        """Return the rows (section, label, value).

        ``units`` is what the estimator's inputs and outputs are measured in; behind an encoder of
        a table they are not the user's.
        """
        return [(section.format(units=units), label, v) for section, label, v in self.entries]

    def __str__(self) -> str:
        width = max(len(label) for _, label, _ in self.entries)
        lines, section = [self.title, "=" * len(self.title)], None
        for part, label, value in self.rows():
            if part != section:
                lines += ["", part, "-" * len(part)]
                section = part
            lines.append(f"{label:<{width}}  {value}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        body, section = [], None
        for part, label, value in self.rows():
            if part != section:
                body.append(f'<tr><th colspan="2" style="text-align:left">{escape(part)}</th></tr>')
                section = part
            body.append(f"<tr><td>{escape(label)}</td><td>{escape(value)}</td></tr>")
        return f"<table><caption>{escape(self.title)}</caption>{''.join(body)}</table>"


class Summarised:
    """An estimator that says what was fitted in rows: a child states ``_summary_rows``."""

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return Summary(type(self).__name__, tuple(self._summary_rows()))

    def _summary_rows(self) -> Rows:
        raise NotImplementedError


def machine_rows(machine: Any) -> Rows:
    """Return the rows of a fitted kernel machine."""
    report = machine.report_
    rows: Rows = []

    def add(section: str, label: str, value: str) -> None:
        rows.append((section, label, value))

    counts = report["rows"]
    add("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct inputs)")
    if counts["weight"] != counts["used"]:
        add("Data", "total weight", f"{counts['weight']:.6g}")
    add("Data", "columns", str(machine.n_features_in_))
    add("Data", "standardised", _standardised(report["standardize"]))
    add("Model", "kernel", repr(machine.kernel_))
    add("Model", "loss", repr(machine.loss_))
    if machine.basis_ is not None:
        add("Model", "unpenalised basis", repr(machine.basis_))
    several = len(machine.units_.y_scale) > 1 and report["standardize"]["on"]
    units = "inputs in {units}, outputs standardised" if several else "{units}"
    for label, value in _hyperparameters(machine):
        add(f"Hyperparameters ({units})", label, value)
    if report.get("ard"):
        add(f"Hyperparameters ({units})", "one length scale per column", _ard(report["ard"]))
    if machine.log_evidence_ is not None:
        add("Quality", "log evidence", f"{machine.log_evidence_:.4f}")
    for label, text in left_out_rows(machine.left_out_, counts["weight"]):
        add("Quality", label, text)
    if report["degrees_of_freedom"] is not None:
        add("Quality", "effective degrees of freedom", f"{report['degrees_of_freedom']:.2f}")
    if report["inference"].get("iterations") is not None:
        what = "mode" if machine.log_evidence_ is None else report["inference"]["name"]
        add("Numerics", what, _steps(report["inference"]))
    add("Numerics", "convergence", _convergence(report))
    jitter = report["inference"].get("jitter", 0.0)
    add("Numerics", "jitter", "none" if not jitter else f"{jitter:.1g} of each variance")
    return rows


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


def _steps(report: dict[str, Any]) -> str:
    text = "converged" if report["converged"] else "not converged"
    text += f" after {report['iterations']} steps"
    return text if report.get("gap") is None else f"{text}, duality gap {report['gap']:.2g}"


def _standardised(report: dict[str, Any]) -> str:
    if not report["on"]:
        return "no: kernel parameters are in your units"
    parts = {"x": "columns", "y": "target"}
    moved = [
        word
        for side, word in parts.items()
        if any(scale != 1.0 for scale in report[f"{side}_scale"]) or any(report[f"{side}_shift"])
    ]
    what = " and ".join(moved or ["columns"])
    return f"yes: {what}, inside the machine; undone in all that is reported"


def _ard(report: dict[str, Any]) -> str:
    word = "kept" if report["kept"] else "not kept, one in standard deviations of the columns is"
    return (
        f"{word}: log evidence gains {report['gain']:.2f}, {report['needed']:.2f} are needed "
        f"for {report['extra_parameters']} more parameters"
    )


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
            if value.ndim and names is not None and value.size == len(names):
                pairs = zip(names, value, strict=True)
                text = ", ".join(f"{column}: {v:.4g}" for column, v in pairs)
            else:
                text = ", ".join(f"{v:.4g}" for v in np.atleast_1d(value))
            if name == "noise" and value.ndim == 0:
                text += f" (standard deviation {np.sqrt(value):.4g})"
            found.append((label, text))
    return found
