"""Summary: a fitted machine in words, as text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
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
    """An estimator that says what was fitted in rows: a child states ``_summary_rows``."""

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return Summary(type(self).__name__, tuple(self._summary_rows()))

    def _summary_rows(self) -> Rows:
        raise NotImplementedError


def machine_rows(machine: Any) -> Rows:
    """Return the rows of a fitted kernel machine."""
    report, counts = machine.report_, machine.report_["rows"]
    data = [("rows", f"{counts['used']} ({counts['distinct']} distinct inputs)")]
    if counts["weight"] != counts["used"]:
        data.append(("total weight", f"{counts['weight']:.6g}"))
    data.append(("columns", str(machine.n_features_in_)))
    data.append(("standardised", _standardised(report["standardize"])))
    model = [("kernel", repr(machine.kernel_)), ("loss", repr(machine.loss_))]
    if machine.basis_ is not None:
        model.append(("unpenalised basis", repr(machine.basis_)))
    several = len(machine.units_.y_scale) > 1 and report["standardize"]["on"]
    units = "inputs in {units}, outputs standardised" if several else "{units}"
    learned = _hyperparameters(machine)
    if report.get("ard"):
        ard = report["ard"]
        word = "kept" if ard["kept"] else "not kept, one in standard deviations of the columns is"
        text = f"{word}: log evidence gains {ard['gain']:.2f}, {ard['needed']:.2f} are needed for "
        text += f"{ard['extra_parameters']} more parameters"
        learned.append(("one length scale per column", text))
    quality = []
    if machine.log_evidence_ is not None:
        quality.append(("log evidence", f"{machine.log_evidence_:.4f}"))
    quality += left_out_rows(machine.left_out_, counts["weight"])
    if report["degrees_of_freedom"] is not None:
        quality.append(("effective degrees of freedom", f"{report['degrees_of_freedom']:.2f}"))
    numerics, inference = [("convergence", _convergence(report))], report["inference"]
    if inference.get("iterations") is not None:
        what = "mode" if machine.log_evidence_ is None else inference["name"]
        text = "converged" if inference["converged"] else "not converged"
        text += f" after {inference['iterations']} steps"
        gap = inference.get("gap")
        numerics.insert(0, (what, text if gap is None else f"{text}, duality gap {gap:.2g}"))
    jitter = inference.get("jitter", 0.0)
    numerics.append(("jitter", "none" if not jitter else f"{jitter:.1g} of each variance"))
    sections = {
        "Data": data,
        "Model": model,
        f"Hyperparameters ({units})": learned,
        "Quality": quality,
        "Numerics": numerics,
    }
    return [(section, *row) for section, rows in sections.items() for row in rows]


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
    moved = [
        word
        for side, word in (("x", "columns"), ("y", "target"))
        if any(scale != 1.0 for scale in report[f"{side}_scale"]) or any(report[f"{side}_shift"])
    ]
    what = " and ".join(moved or ["columns"])
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
