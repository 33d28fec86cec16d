"""check(): a fitted regressor in the manner of mgcv's gam.check."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.left_out.check import FitCheck, check_of

EXPLAINED, GAINED = 0.95, 0.01  # of the prior variance; nats a row by twice the inducing points
FULL = {"knots": 0.8, "distinct rows": 0.9}  # as degrees of freedom


class Checked:
    """Adds ``check`` to a regressor with deviations."""

    def check(self, X: Any, y: Any) -> FitCheck:
        """Return what the residuals of the training rows say of the fit.

        Whether deviations are honest and residuals normal, whether residuals of neighbours are
        alike (along each column, the prediction, the order of the rows, and in all inputs), which
        rows the fit leans on, and whether the search ended well and inducing points, knots and
        degrees of freedom suffice. Each row is predicted from the others where the fit has such
        figures.

        Parameters
        ----------
        X, y : the rows of the fit.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import GPRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (80, 1))
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=80)
        >>> GPRegressor().fit(X, y).check(X, y).flags
        []
        >>> GPRegressor("linear").fit(X, y).check(X, y).flags[0][:46]
        "neighbours along 'x0' have like residuals (ind"
        """
        check_is_fitted(self)
        machine: Any = self
        targets = np.asarray(y, dtype=np.float64)
        mean, std = machine.predict(X, return_std=True)
        if mean.shape != targets.shape or mean.ndim != 1:
            raise ValueError(f"y is {targets.shape}, and a check takes one target for each row")
        names = getattr(self, "feature_names_in_", None)
        inside = np.asarray(machine._inputs(X), dtype=np.float64)
        columns = [f"x{j}" for j in range(inside.shape[1])] if names is None else [*names]
        left: Any = getattr(self, "left_out_", None)
        known = left is not None and left.mean is not None and np.shape(left.mean) == mean.shape
        influence, fitted = None, np.asarray(mean)
        if known:
            own = np.maximum(left.std, np.finfo(float).tiny)
            influence = np.abs(mean - left.mean) / own
            mean, std = left.mean, left.std
        with np.errstate(divide="ignore", invalid="ignore"):
            residuals = (targets - mean) / std
        gaussian = type(machine.losses_[0]).__name__ == "Gaussian"
        return check_of(
            residuals,
            fitted,
            inside,
            columns,
            left_out=known,
            normal=gaussian,
            influence=influence,
            parts=of_parts(machine.report_, len(targets)),
            **against_structure(machine.report_),
        )


def against_structure(report: dict[str, Any]) -> dict[str, str]:
    """Return the remedy where few points or knots may be why the function is too stiff."""
    knots, few = report.get("knots"), report.get("inducing")
    if isinstance(knots, int):
        return {"remedy": f"{knots} knots are too few, or the model misses something"}
    if few is not None:
        return {"remedy": f"{few['points']} inducing points are too few, or it misses something"}
    return {}


def of_parts(report: dict[str, Any], n: int) -> list[tuple[bool, str]]:
    """Return (fine, sentence) on the search, inducing points, knots and degrees of freedom."""
    found: list[tuple[bool, str]] = []
    search = report.get("search")
    if isinstance(search, dict) and "converged" in search:
        fine = bool(search["converged"])
        how = "converged" if fine else f"did not converge ({search.get('message', '')})"
        found.append((fine, f"the search for hyperparameters {how}"))
        if search.get("at_bounds"):
            names = ", ".join(search["at_bounds"])
            fine = "loss__noise" not in search["at_bounds"]  # a straight line has no length scale
            found.append((fine, f"at a bound of the search: {names}; the data do not determine it"))
    few = report.get("inducing")
    if few is not None and few.get("explained") is not None:
        share, gain = float(few["explained"]), few.get("gain_by_doubling")
        fine = share >= EXPLAINED if gain is None else gain <= GAINED
        words = f"{few['points']} inducing points explain {100.0 * share:.1f} % of the prior "
        words += "variance" + (
            "" if gain is None else f"; the last doubling gained {gain:.3g} a row"
        )
        found.append((fine, words + ("" if fine else ": take more of them")))
    knots, free = report.get("knots"), report.get("degrees_of_freedom")
    limit = knots if isinstance(knots, int) else (report.get("rows") or {}).get("distinct", n)
    if free is not None and limit:
        what = "knots" if isinstance(knots, int) else "distinct rows"
        fine = free < FULL[what] * limit
        words = f"{free:.1f} effective degrees of freedom for {limit} {what}"
        more = "take more knots" if what == "knots" else "the fit nearly interpolates"
        found.append((fine, words if fine else f"{words}: {more}"))
    return found
