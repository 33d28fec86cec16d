"""EvidenceDisplay: the log evidence along one hyperparameter, the others as they were found."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.plots.style import BLUE, GREY, ORANGE, Display, same_length


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
        part, _, path = parameter.partition("__")
        fitted: dict[str, Any] = {
            name: getattr(estimator, f"{name}_", None) for name in ("kernel", "loss")
        }
        if getattr(estimator, "log_evidence_", None) is None:
            raise ValueError(
                f"{type(estimator).__name__} has no evidence here: fit a Gaussian process first"
            )
        known = [f"{n}__{k}" for n, owner in fitted.items() for k in getattr(owner, "free", {})]
        if parameter not in known:
            raise ValueError(f"there is no hyperparameter {parameter!r}; known: {', '.join(known)}")
        found = np.asarray(fitted[part].get_params()[path], dtype=np.float64)
        chosen = float(found.ravel()[0])
        along = chosen * np.geomspace(1 / 30, 30, 31) if values is None else np.asarray(values)
        units, ratio = getattr(estimator, "units_", None), 1.0
        if units is not None and not hasattr(estimator, "classes_"):
            # a fit that standardised its target has a prior about the target's mean
            y = np.asarray(y) - units.y_shift[0]
            if estimator.loss_.response == "positive":  # or about its logarithm's
                ratio = units.y_scale[0]
                y = y / ratio

        def log_evidence(value: float) -> float:
            parts = {name: deepcopy(owner) for name, owner in fitted.items()}
            scaled = found * (value / chosen)
            parts[part].set_params(**{path: scaled if np.ndim(scaled) else float(scaled)})
            model = clone(estimator).set_params(**parts, search=None, standardize=False)
            try:
                return float(model.fit(X, y).log_evidence_ - len(y) * np.log(ratio))
            except np.linalg.LinAlgError:
                return float("nan")

        evidence = [log_evidence(value) for value in along.tolist()]
        return cls.from_predictions(along, evidence, parameter=parameter, chosen=chosen, ax=ax)

    def draw(self, ax: Any) -> None:
        ax.plot(self.values, self.evidence, color=BLUE, lw=1.8)
        ax.axvline(self.chosen, color=ORANGE, lw=1.2, label=f"fit: {self.chosen:.4g}")
        top = np.nanmax(self.evidence)
        ax.axhline(top - 0.5, color=GREY, lw=0.8, ls="--", label="top - 1/2")
        ax.set_xscale("log")
        # far below the top the curve only hides the top
        drop = top - np.nanmin(self.evidence)
        ax.set_ylim(top - min(1.05 * drop, 60.0) - 0.1, top + 0.05 * min(drop, 60.0) + 0.1)
        ax.set(xlabel=self.parameter.replace("__", "."), ylabel="log evidence")
        self._legend(ax)
