"""Displays along one hyperparameter, the others as they were found: evidence, leave-one-out."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.plots.style import BLUE, CLASSES, GREY, ORANGE, Display, same_length

GREEN = CLASSES[2]


@dataclass(repr=False, eq=False)
class EvidenceDisplay(Display):
    """Log evidence against a hyperparameter; the line marks the value of the fit.

    A sharp peak means that the data determine the parameter, a plateau that they do not. The
    evidence of neighbouring values within 1/2 of the top belongs to about one standard deviation.

    Parameters
    ----------
    values : (k,) values of the hyperparameter, positive.
    evidence : (k,) log p(y | X, value), NaN where the value was refused.
    parameter : its name.
    chosen : the value of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40 * x[:, 0])
    >>> model = GPRegressor().fit(x, y)
    >>> display = EvidenceDisplay.from_estimator(model, x, y, "loss__noise")
    >>> bool(display.evidence.max() <= model.log_evidence_ + 1e-6)
    True
    """

    values: Array
    evidence: Array
    parameter: str
    chosen: float

    @classmethod
    def from_predictions(
        cls, values: Any, evidence: Any, *, parameter: str, chosen: float, ax: Any = None
    ) -> Self:
        """Draw evidences (k,) that are known."""
        along, found = same_length("values and evidence", values, evidence)
        return cls(along, found, parameter, float(chosen)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, parameter: str, *, values: Any = None, ax: Any = None
    ) -> Self:
        """Evaluate the evidence of the data of the fit along ``parameter``.

        Parameters
        ----------
        parameter : such as "kernel__kernel__length_scale" or "loss__noise", as ``get_params`` of
            ``kernel_`` and ``loss_`` name it. One scale for each column is multiplied as a whole;
            the curve is then along the first of them.
        values : (k,) to be tried; None takes 31 from a thirtieth to thirty times the value found.
        """
        along, chosen, fits = path(estimator, X, y, parameter, values)
        evidence = [float("nan") if fit is None else fit.evidence for fit in fits]
        return cls.from_predictions(along, evidence, parameter=parameter, chosen=chosen, ax=ax)

    def draw(self, ax: Any) -> None:
        ax.plot(self.values, self.evidence, color=BLUE, lw=1.8)
        ax.axvline(self.chosen, color=ORANGE, lw=1.2, label=f"fit: {self.chosen:.4g}")
        top = np.nanmax(self.evidence)
        ax.axhline(top - 0.5, color=GREY, lw=0.8, ls="--", label="top - 1/2")
        ax.set_xscale("log")
        _near_the_top(ax, self.evidence)
        ax.set(xlabel=self.parameter.replace("__", "."), ylabel="log evidence")
        self._legend(ax)


@dataclass(repr=False, eq=False)
class CriteriaDisplay(Display):
    """Log evidence and leave-one-out log density against a hyperparameter, both in nats.

    The evidence asks how probable the data are if the prior is right, leave-one-out how well each
    row is predicted whether it is or not. Where their tops are far apart the prior does not fit:
    another kernel or noise is worth a try (Seeger's thesis, 3.2.4).

    Parameters
    ----------
    values : (k,) values of the hyperparameter, positive.
    evidence, left_out : (k,) the two criteria, NaN where the value was refused.
    parameter : its name.
    chosen : the value of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> x = np.linspace(0, 6, 30)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40 * x[:, 0])
    >>> model = GPRegressor("rbf").fit(x, y)
    >>> display = CriteriaDisplay.from_estimator(model, x, y, "kernel__kernel__length_scale")
    >>> by_evidence, by_rows = display.best
    >>> bool(0.2 < by_evidence / by_rows < 5)
    True
    """

    values: Array
    evidence: Array
    left_out: Array
    parameter: str
    chosen: float

    @property
    def best(self) -> tuple[float, float]:
        """The values with the largest evidence and with the largest leave-one-out density."""
        tops = (np.nanargmax(found) for found in (self.evidence, self.left_out))
        first, second = (float(self.values[top]) for top in tops)
        return first, second

    @classmethod
    def from_predictions(
        cls,
        values: Any,
        evidence: Any,
        left_out: Any,
        *,
        parameter: str,
        chosen: float,
        ax: Any = None,
    ) -> Self:
        """Draw criteria (k,) that are known."""
        words = "values, evidence and left_out"
        along, found, rows = same_length(words, values, evidence, left_out)
        return cls(along, found, rows, parameter, float(chosen)).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, parameter: str, *, values: Any = None, ax: Any = None
    ) -> Self:
        """Fit along ``parameter``, as :meth:`EvidenceDisplay.from_estimator` does, for both."""
        along, chosen, fits = path(estimator, X, y, parameter, values, left_out=True)
        nothing = (float("nan"), float("nan"))
        both = [nothing if fit is None else (fit.evidence, fit.left_out) for fit in fits]
        evidence, left_out = zip(*both, strict=True)
        given: dict[str, Any] = {"parameter": parameter, "chosen": chosen, "ax": ax}
        return cls.from_predictions(along, evidence, left_out, **given)

    def draw(self, ax: Any) -> None:
        lines = ((self.evidence, BLUE, "-", "evidence"), (self.left_out, GREEN, "--", "left out"))
        for found, colour, style, name in lines:
            top = int(np.nanargmax(found))
            label = f"{name}: best at {self.values[top]:.4g}"
            ax.plot(self.values, found, color=colour, ls=style, lw=1.8, label=label)
            ax.plot(self.values[top], found[top], "o", color=colour, ms=5)
        ax.axvline(self.chosen, color=ORANGE, lw=1.2, label=f"fit: {self.chosen:.4g}")
        ax.set_xscale("log")
        _near_the_top(ax, np.concatenate([self.evidence, self.left_out]))
        ax.set(xlabel=self.parameter.replace("__", "."), ylabel="log density of all rows")
        self._legend(ax)


def _near_the_top(ax: Any, found: Array) -> None:
    """Show the highest 60 nats: what is far below the top only hides it."""
    top = float(np.nanmax(found))
    drop = min(top - float(np.nanmin(found)), 60.0)
    ax.set_ylim(top - min(1.05 * drop, 60.0) - 0.1, top + 0.05 * drop + 0.1)


class Fitted(NamedTuple):
    """The two criteria of one value; leave-one-out is 0 where it was not asked for."""

    evidence: float
    left_out: float


def centred(estimator: Any, y: Any) -> tuple[Any, float]:
    """Return y about the mean that the prior of a fit has, and the unit it was divided by.

    A fit that standardised its target has a prior about the target's mean; of a positive target
    about its logarithm's.
    """
    units = getattr(estimator, "units_", None)
    if units is None or hasattr(estimator, "classes_"):
        return y, 1.0
    y = np.asarray(y) - units.y_shift[0]
    ratio = float(units.y_scale[0]) if estimator.loss_.response == "positive" else 1.0
    return y / ratio, ratio


def path(
    estimator: Any, X: Any, y: Any, parameter: str, values: Any, left_out: bool = False
) -> tuple[Array, float, list[Fitted | None]]:
    """Return the values tried, the value of the fit, and the criteria at each (None: refused)."""
    part, _, path = parameter.partition("__")
    fitted: dict[str, Any] = {
        name: getattr(estimator, f"{name}_", None) for name in ("kernel", "loss")
    }
    if getattr(estimator, "log_evidence_", None) is None:
        raise ValueError(
            f"{type(estimator).__name__} has no evidence here: fit a Gaussian process first"
        )
    if left_out and getattr(getattr(estimator, "loo_", None), "total", None) is None:
        raise ValueError(
            f"{type(estimator).__name__} has no leave-one-out density here: use EvidenceDisplay"
        )
    known = [f"{n}__{k}" for n, owner in fitted.items() for k in getattr(owner, "free", {})]
    if parameter not in known:
        raise ValueError(f"there is no hyperparameter {parameter!r}; known: {', '.join(known)}")
    found = np.asarray(fitted[part].get_params()[path], dtype=np.float64)
    chosen = float(found.ravel()[0])
    along = chosen * np.geomspace(1 / 30, 30, 31) if values is None else np.asarray(values)
    target, ratio = centred(estimator, y)

    def criteria(value: float) -> Fitted | None:
        parts = {name: deepcopy(owner) for name, owner in fitted.items()}
        scaled = found * (value / chosen)
        parts[part].set_params(**{path: scaled if np.ndim(scaled) else float(scaled)})
        model = clone(estimator).set_params(**parts, search=None, standardize=False)
        try:
            model.fit(X, target)
        except np.linalg.LinAlgError:
            return None
        unit = len(y) * np.log(ratio)
        total = float(model.loo_.total) - unit if left_out else 0.0
        return Fitted(float(model.log_evidence_ - unit), total)

    return along, chosen, [criteria(value) for value in along.tolist()]
