"""AdditiveRegressor: a smooth function of each column, added up, on tables of any length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.gaussian_process.additive import Additive, labels
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.machine import Figures, Fit, Given, generator
from mercer.estimators.shared.parameters import Draw, Solved, find_parameters
from mercer.estimators.shared.parts import Parts, standardizes
from mercer.estimators.shared.summary import Rows
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.kernels.compose import Sum
from mercer.kernels.parameters import whole
from mercer.linalg.gram import Covariance, Gram
from mercer.linalg.line import Line, state_space_of
from mercer.linalg.reduced.centres import CHOOSERS
from mercer.linalg.structured.additive import AdditiveGram, columns_of
from mercer.process.process import Posterior, Prior
from mercer.search.sample import first_rows, leave_if_interrupted

# Of each term by name, relative to var(y). The variance of a straight line, which is a Matern term
# of any length scale, would grow until the digits of its mean are lost.
AMPLITUDES = (1e-8, 1e3)
GRAMS = ("auto", "dense", "iterative")


@dataclass(frozen=True)
class PartialEffect:
    """What one column adds: ``mean`` and ``std`` (q,) or (q, m) at ``values`` (q,) of it."""

    values: Array
    mean: Array
    std: Array


class AdditiveRegressor(Additive, KernelRegressor):
    """Additive regression, y = c + f_1(x_1) + ... + f_d(x_d) + noise, each f_j smooth.

    A Gaussian process with one Matern term for each column and a free constant. Variances, length
    scales and the noise maximise the log evidence of at most ``rows`` rows. All rows are then
    solved with, in O(n d) for each round of conjugate gradients: the answer is that of the exact
    model within an error that ``report_`` certifies. What statisticians use additive models (GAM)
    for; interactions of columns are not part of it.

    Parameters
    ----------
    kernel : "matern52", "matern32", "matern12" or Kernel
        By name: one such term for each column, standardised. A kernel object is a sum of Matern
        kernels on one column each, in your units: ``Matern().on("age") + Matern().on("bmi")``.
    loss : "gaussian" (learns the noise) or a Gaussian loss
    search : "evidence", "loo", None (the parts as they are) or Search
    gram : "auto", "dense" or "iterative"
        "auto" is dense up to ``rows`` distinct rows: there leave-one-out figures and the evidence
        are exact as well.
    basis : "constant", None, "linear", degree, callable or Basis
        Unpenalised functions beside the terms.
    rows : int, how many rows the hyperparameters are learned from.
    rank : int, centres of the preconditioner: more of them cost memory and save rounds.
    tol : float, rho^2 at which a solution is good enough.
    probes : int, random vectors for the log-determinant.
    standardize, random_state : see :class:`KernelRegressor`.

    Attributes
    ----------
    kernel_, loss_, log_evidence_, left_out_, report_, posteriors_ : as in :class:`KernelRegressor`;
        ``left_out_`` is None for an iterative solution.
    evidence_bounds_ : certain bounds on the log evidence of an iterative solution.
    components_ : list of str, the terms, for :meth:`predict_component`.

    References: Hastie and Tibshirani, Generalized additive models (1990); Wood, Goude and Shaw,
    Generalized additive models for large data sets (2015).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import AdditiveRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (80, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=80)
    >>> model = AdditiveRegressor().fit(X, y)
    >>> effect = model.partial_effects(X[:3])["x0"]
    >>> bool(np.abs(effect.mean - np.sin(2 * X[:3, 0])).max() < 0.3)
    True
    """

    def __init__(
        self,
        kernel: Any = "matern52",
        *,
        loss: Any = "gaussian",
        search: Any = "evidence",
        gram: str = "auto",
        basis: Any = "constant",
        rows: int = 1000,
        rank: int = 200,
        tol: float = 0.001,
        probes: int = 8,
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.loss, self.search, self.gram, self.basis = (
            kernel,
            loss,
            search,
            gram,
            basis,
        )
        self.rows, self.rank, self.tol, self.probes = rows, rank, tol, probes
        self.standardize, self.random_state = standardize, random_state

    # ------------------------------------------------------------------ fit
    def _resolve(self, given: Given) -> Parts:
        self._check_settings()
        d = given.X.shape[1]
        changed = {"kernel": self._prior_kernel(d), "inference": "exact"}
        parts = self._resolved(given, **changed, gram="dense", standardize=False)
        parts.standardize = standardizes(self.standardize, self._named)
        signal = parts.kernel.noise_free()
        if signal is None or columns_of(signal, d) is None:
            raise ValueError(
                "an additive model is a sum of Matern kernels of nu 1/2, 3/2 or 5/2, each on one "
                "column: Matern().on(0) + Matern().on(1); use GPRegressor for other kernels"
            )
        parts.linear = self._iterates(len(given.X))
        return parts

    def _check_settings(self) -> None:
        if not isinstance(self.gram, str) or self.gram not in GRAMS:
            known = ", ".join(map(repr, GRAMS))
            raise ValueError(f"unknown gram {self.gram!r}; known are {known}")
        for name, least in (("rows", 10), ("rank", 1), ("probes", 2)):
            whole(self, name, least)
        if not (isinstance(self.tol, (int, float)) and 0.0 < self.tol < np.inf):
            raise ValueError(f"tol must be positive, not {self.tol!r}")

    @property
    def _named(self) -> bool:
        return isinstance(self.kernel, str)

    def _prior_kernel(self, d: int) -> Kernel:
        """Return the kernel given, for d columns; by name a term for each, of equal shares."""
        kernel = as_kernel(self.kernel)
        if not self._named:
            return kernel
        terms = [(1.0 / d) * kernel.__sklearn_clone__().on([j]) for j in range(d)]
        return terms[0] if d == 1 else Sum(terms)

    def _begin(self, fit: Fit) -> None:
        super()._begin(fit)
        if not self._named:
            return
        X, y, w = fit.problem.points, fit.problem.y, fit.problem.weights / fit.problem.weights.sum()
        spread = np.sqrt(w @ (X - w @ X) ** 2)
        square = float((w @ (y - w @ y) ** 2).mean()) or 1.0
        kernel = fit.parts.kernel
        for j, term in enumerate(kernel.terms()):
            term.set_params(variance=square / len(spread))
            term.set_params(kernel__kernel__length_scale=float(spread[j]) or 1.0)
        low, high = AMPLITUDES
        fit.parts.amplitudes = (low * square, high * square)

    def _iterates(self, n: int) -> bool:
        return self.gram == "iterative" or (self.gram == "auto" and n > self.rows)

    def _search(self, fit: Fit) -> None:
        points, weights = fit.problem.points, fit.problem.weights
        n = len(points)
        if not self._iterates(n):
            fit.parts.linear = False
            super()._search(fit)
            return
        parts, rng = fit.parts, generator(self.random_state)
        few = first_rows(fit.problem, self.rows, rng)
        parts.offset = self._in_user_units(fit, 0.0)
        draws, fit.report = find_parameters(parts, few, rng)
        if fit.report["search"] is not None:
            fit.report["search"]["rows"] = len(few.points)
            leave_if_interrupted(fit.report, few, fit.problem)
        fit.draws = [Draw(draw.kernel, draw.loss) for draw in draws]
        rank = min(self.rank, max(1, n // 2))
        centres = CHOOSERS["uniform"](parts.kernel, points, weights, rank, rng)

        def make(kernel: Covariance, points: Array, *, scratch: bool) -> Gram:
            assert isinstance(kernel, Kernel)
            return AdditiveGram(kernel, points, centres, tol=self.tol, probes=self.probes)

        parts.make_gram = make

    def _left_out(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Figures:
        if not solved.solution.factor.has_diagonal:
            return (
                "an iterative solution has no diagonal of the inverse, which leave-one-out figures "
                "need: use gram='dense'"
            )
        return super()._left_out(fit, draw, solved, posterior)

    def _describe(self, fit: Fit, draw: Draw, solved: Solved) -> dict[str, Any]:
        return super()._describe(fit, draw, solved) | {"terms": self._terms(fit, draw, solved)}

    def _terms(self, fit: Fit, draw: Draw, solved: Solved) -> dict[str, Any]:
        """Return for each term its share of the variance of what is fitted, and its scales."""
        p, stated = fit.problem, self._stated_kernel(fit, draw).noise_free()
        signal = draw.kernel.noise_free()
        assert signal is not None
        assert stated is not None
        w, d = p.weights / p.weights.sum(), p.points.shape[1]
        names = labels(signal.terms(), fit.given.names)
        found, shares = {}, []
        for name, term, own in zip(names, signal.terms(), stated.terms(), strict=True):
            states, seen = state_space_of(term, d), state_space_of(own, d)
            assert states is not None
            assert seen is not None
            f = Line(states, p.points).times(solved.solution.alpha)
            shares.append(float((w @ (f - w @ f) ** 2).sum()))
            scale = float(np.sqrt(2.0 * seen.orders[0] - 1.0) / seen.rates[0])
            found[name] = {"variance": float(seen.variances.sum()), "length_scale": scale}
        total = sum(shares) or 1.0
        for name, share in zip(names, shares, strict=True):
            found[name]["share"] = share / total
        return found

    # ------------------------------------------------------------------ what was fitted
    def partial_effects(self, X: Any = None, size: int = 25) -> dict[str, PartialEffect]:
        """Return for each column what it adds, with its deviation: by the name of the column.

        Each effect is centred: its average over the distinct training points is zero, which the
        constant takes up. Mean -+ 2 std is a band of 95 % at each value.

        Parameters
        ----------
        X : (q, d), rows at whose values each column is looked at; None: ``size`` values of each
            column, evenly spaced over those of the training table.
        size : int.
        """
        check_is_fitted(self, "posteriors_")
        first = self.posteriors_[0]
        assert isinstance(first, Posterior)
        assert isinstance(first.parent, Prior)
        points, d = first.points, first.points.shape[1]
        inside = self._inputs(X) if X is not None else None
        if inside is None:
            inside = np.linspace(points.min(axis=0), points.max(axis=0), size)
        at = self.units_.in_user_units(inside)
        each = [state_space_of(term, d) for term in first.parent.signal.terms()]
        columns = [0 if one is None else one.column or 0 for one in each]
        names, found = getattr(self, "feature_names_in_", None), {}
        for j in sorted(set(columns)):
            parts = [i for i, column in enumerate(columns) if column == j]
            mean, std = self._component(inside, parts, return_std=True, center=True)
            found[f"x{j}" if names is None else str(names[j])] = PartialEffect(at[:, j], mean, std)
        return found

    def _summary_rows(self) -> Rows:
        rows = super()._summary_rows()
        at = max(i for i, row in enumerate(rows) if row[0].startswith("Hyper")) + 1
        section = "Terms ({units})"
        told = [
            (
                section,
                name,
                f"{100.0 * term['share']:.1f} % of the fitted variance, length scale "
                f"{term['length_scale']:.4g}",
            )
            for name, term in self.report_["terms"].items()
        ]
        error = self.report_["inference"].get("row_error")
        if error is not None:
            error = float(error * self.units_.y_scale.max())
            text = f"at most {error:.3g} from that of the exact model, at every training row"
            rows.append(("Numerics", "mean", text))
        return [*rows[:at], *told, *rows[at:]]
