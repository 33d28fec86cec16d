"""What a fitted machine says of itself in words."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.left_out.figures import LeftOut

WIDE = 34  # characters of a label beside its value
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
        width = min(WIDE, max(len(label) for _, label, _ in self.entries))
        lines = [self.title, "=" * len(self.title)]
        for section, rows in groupby(self.rows(), itemgetter(0)):
            lines += ["", section, "-" * len(section)]
            for _, label, value in rows:
                above = [label] if len(label) > width else []  # its value stands below it
                lines += [*above, f"{'' if above else label:<{width}}  {value}"]
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


def used_rows(counts: dict[str, Any]) -> str:
    """Return how many rows counted, and how many of them differ where that is known."""
    distinct = f" ({counts['distinct']} distinct inputs)" if "distinct" in counts else ""
    return f"{counts['used']}{distinct}"


def passed(report: dict[str, Any]) -> str | None:
    """Return how often rows in blocks were read, and how many of them were looked at closely."""
    found = report.get("blocks")
    if found is None:
        return None
    text = f"{found['blocks']} blocks ({found['engine']}), read {found['passes']} times"
    return f"{text}; parameters begun and points chosen on a sample of {found['sample']} rows"


TIED = "not kept, one in standard deviations of the columns is"
STRAIGHT = "not kept, the columns are as they are"


def machine_rows(machine: Any) -> Rows:
    """Return the rows of a fitted kernel machine."""
    report, evidence, basis = machine.report_, machine.log_evidence_, machine.basis_
    counts, inference, degrees = report["rows"], report["inference"], report["degrees_of_freedom"]
    used, weight, jitter = counts["used"], counts["weight"], inference.get("jitter", 0.0)
    several = len(machine.units_.y_scale) > 1 and report["standardize"]["on"]
    units = "inputs in {units}, outputs standardised" if several else "{units}"
    learned = f"Hyperparameters ({units})"
    rows = [
        ("Data", "rows", used_rows(counts)),
        ("Data", "blocks", passed(report)),
        ("Data", "total weight", None if weight == used else f"{weight:.6g}"),
        ("Data", "columns", str(machine.n_features_in_)),
        ("Data", "standardised", _standardised(report["standardize"])),
        ("Model", "kernel", str(machine.kernel_)),
        ("Model", "loss", str(machine.loss_)),
        ("Model", "representation", represented(report)),
        ("Model", "unpenalised basis", None if basis is None else repr(basis)),
        *((learned, label, value) for label, value in _hyperparameters(machine)),
        (learned, "one length scale per column", _paid(report.get("ard"), TIED)),
        (learned, "columns bent by powers", _paid(report.get("powers"), STRAIGHT)),
        ("Quality", "log evidence", None if evidence is None else f"{evidence:.4f}"),
        ("Quality", "log evidence of the exact model", _bounds(report.get("evidence_bounds"))),
        *(("Quality", *row) for row in left_out_rows(machine.left_out_, weight)),
        ("Quality", "rows left out", report.get("left_out")),
        *(("Quality", "doubtful", text) for text in doubts(report)),
        *(("Quality", "few rows", text) for text in few_rows(machine)),
        ("Quality", "effective degrees of freedom", None if degrees is None else f"{degrees:.2f}"),
        ("Numerics", _method(inference, evidence), _steps(inference)),
        ("Numerics", "convergence", _convergence(report)),
        ("Numerics", "jitter", f"{jitter:.1g} of each variance" if jitter else "none"),
    ]
    return [(section, label, value) for section, label, value in rows if value is not None]


ABSURD = 0.3  # mean difference of stated and observed frequencies; the worst is 0.5


def noise_at_bound(report: dict[str, Any]) -> list[str]:
    """Return the sentence about a noise that ended at the bound of its search, if it did."""
    search = report.get("search")
    at = search.get("at_bounds") or [] if isinstance(search, dict) else []
    if "loss__noise" not in at:
        return []
    return [
        "the noise ended at the bound of its search: the machine takes the targets for exact, and "
        "its densities are as high as that bound allows"
    ]


def doubts(report: dict[str, Any]) -> list[str]:
    """Return what makes the figures of a fit doubtful, in sentences: a noise at its bound.

    Or rows left out that their intervals or probabilities miss altogether.
    """
    found = noise_at_bound(report)
    calibration = (report.get("density") or {}).get("calibration")
    if calibration is not None and calibration > ABSURD:
        found.append(f"{absurd(calibration)}; do not trust its densities")
    return found


SMALL = 30  # rows, below which one set of hyperparameters is not known well enough


def few_rows(machine: Any) -> list[str]:
    """Say of intervals from few rows that they are too narrow, and what makes them honest."""
    search, count = (
        machine.report_.get("search"),
        machine.report_.get("rows", {}).get("used", SMALL),
    )
    found = isinstance(search, dict) and "sampler" not in search
    if not found or count >= SMALL or not hasattr(machine, "predict_interval"):
        return []
    hmc = f'{type(machine).__name__}(search="hmc") averages over them'
    hmc = hmc if "search" in machine.get_params(deep=False) else ""
    return [
        f"{count} rows do not determine the hyperparameters well, and intervals that take them for "
        f"known are too narrow as a rule{'; ' if hmc else ''}{hmc}"
    ]


def absurd(calibration: float) -> str:
    """Return the sentence for a calibration above ``ABSURD``."""
    return (
        f"the frequencies that it states for rows left out are off by {calibration:.2f} on average "
        "(0.5 is the worst there is)"
    )


def _bounds(found: list[float | None] | None) -> str | None:
    if found is None:
        return None
    low, high = found
    return f"at least {low:.4f}" if high is None else f"between {low:.4f} and {high:.4f}"


def represented(report: dict[str, Any]) -> str | None:
    """Return how K was held, if not whole: the model is then another one, or has an error."""
    found, ended = report.get("inducing"), report["inference"]
    if found is not None:
        text = f"{found['points']} inducing points ({found['chosen']})"
        if "explained" in found:
            text += f", which explain {100.0 * found['explained']:.2f} % of the prior variance"
        gain = found.get("gain_by_doubling")
        return text if gain is None else f"{text}; the last doubling gained {gain:.3f} a row"
    if report.get("gram") == "weights":
        each = ended.get("columns") or [ended]
        m = each[0].get("weights")
        return "by the weights of its features" + ("" if m is None else f": {m}") + ", exactly"
    if report.get("gram") == "iterative":
        scale = report["standardize"].get("y_scale", [1.0])
        error, what = ended["mean_error"] * scale[0], ""
        if len(scale) > 1 and report["standardize"]["on"]:
            error, what = ended["mean_error"], " standardised units"
        return (
            f"conjugate gradients on {ended['centres']} centres, {ended['iterations']} rounds, "
            f"rho^2 = {ended['rho2']:.2g}: means are within {error:.2g}{what} of the exact ones"
        )
    return None


def _paid(report: dict[str, Any] | None, otherwise: str) -> str | None:
    if not report:
        return None
    word = "kept" if report["kept"] else otherwise
    gained = f"{word}: log evidence gains {report['gain']:.2f}, {report['needed']:.2f} are needed"
    return f"{gained} for {report['extra_parameters']} more parameters"


def _method(report: dict[str, Any], evidence: float | None) -> str:
    return "mode" if evidence is None and "rhat" not in report else str(report["name"])


def _steps(report: dict[str, Any]) -> str | None:
    if report.get("iterations") is None:
        return None
    if "rhat" in report:
        text = f"{report['iterations']} draws, R-hat {report['rhat']:.3f}, effective sample size "
        text += f"{report['ess']:.0f}"
        error = report.get("log_evidence_error")
        return text if error is None else f"{text}, error of the log evidence {error:.2g}"
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
        count = report.get("settings")
        best = f"the best of {count} settings, by rows left out"
        return best if count else "no search: the parameters are as given"
    none: dict[str, Any] = {"kept": False, "search": {"evaluations": 0}}
    ard, powers = report.get("ard") or none, report.get("powers") or none
    last = next((one["search"] for one in (powers, ard) if one["kept"]), search)
    stopped, message = search.get("interrupted"), last.get("message")
    text = "converged" if last["converged"] else "not converged"
    if not last["converged"] and message and not stopped:
        text += f" ({message})"
    evaluations = sum(one["evaluations"] for one in (search, ard["search"], powers["search"]))
    text += f" after {evaluations} evaluations from {search['starts']} starts"
    if stopped:
        every = (powers["search"], ard["search"], search)
        ended = next((one["ended"] for one in every if one.get("ended")), "interrupted")
        text += f"; {ended}, the best point so far is kept"
    if last.get("at_bounds"):
        text += f"; at a bound: {', '.join(last['at_bounds'])}"
    if "bands" in search:
        text += f"; {search['bands']}"
    if search.get("origin"):
        text += f"; {search['origin']}"
    if search.get("search_weight_factor", 1.0) != 1.0:
        text += f"; weights times {search['search_weight_factor']:.4g} in the search (exact copies)"
    return text


def _named(path: str, part: Any, machine: Any) -> str:
    """Return a parameter's path in words: that of several kernels begins with whose it is."""
    if not getattr(part, "separate", False):
        return path.replace("__", ".")
    number, _, rest = path.partition("__")
    owners = machine.loss_.latents or [str(one) for one in getattr(machine, "classes_", [])]
    return f"{owners[int(number)]}: {rest.replace('__', '.')}"


MOST = 20  # values of one hyperparameter that are listed


def _hyperparameters(machine: Any) -> list[tuple[str, str]]:
    found = []
    own = machine._parameter_words()
    names = getattr(machine, "feature_names_in_", None)
    for part in (machine.kernel_, machine.loss_):
        for path, owner, name in part.differentiable():
            value = np.asarray(getattr(owner, name), dtype=np.float64)
            word = own.get(name) or owner.word_for(name)
            label = _named(path, part, machine) + (f" ({word})" if word else "")
            if owner.mark(name).fixed:
                label += ", fixed"
            shown = [f"{v:.4g}" for v in value.ravel()]
            if value.ndim and names is not None and value.size == len(names):
                shown = [f"{column}: {v}" for column, v in zip(names, shown, strict=True)]
            text = ", ".join(shown[:MOST])
            if len(shown) > MOST and len(set(shown)) == 1:
                text = f"{shown[0]} (each of {len(shown)})"
            elif len(shown) > MOST:
                text += (
                    f" and {len(shown) - MOST} more, from {value.min():.4g} to {value.max():.4g}"
                )
            if name == "noise" and value.ndim == 0:
                text += f" (standard deviation {np.sqrt(value):.4g})"
            found.append((label, text))
    return found
