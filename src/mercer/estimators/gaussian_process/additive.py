"""Components of an additive model: what each term of a sum of kernels says by itself.

With k = sum_j k_j the function is a sum of independent functions f_j, and given the data each is
Gaussian again, by the alpha and C of the whole:

    mean_j(x)   = k_j(x, P) alpha,
    cov_j(x, z) = k_j(x, z) - k_j(x, P) C k_j(P, z)            (formula (2) with h = 0)

and the unpenalised basis has mean h'beta and the covariance that is left when k(x, P) is zero. A
sum of several terms is a component like any other; all together are the posterior itself.
Theory (P15).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.words import there_is_no
from mercer.estimators.additive.terms import (
    TermFigures,
    TermTable,
    coefficients,
    degrees,
    sizes,
)
from mercer.estimators.shared.machine import KernelMachine
from mercer.estimators.shared.predictions import check_variances, mixed
from mercer.kernels.base import Kernel
from mercer.kernels.compose import Product, Scale, Sum
from mercer.kernels.inputs.columns import Columns
from mercer.linalg.line import Line
from mercer.linalg.operators import SeveralOperator
from mercer.linalg.structured.additive import AdditiveOperator, columns_of
from mercer.process.process import Posterior, Prior, Process, batched

BASIS, OFFSET = "basis", "offset"


def labels(terms: Sequence[Kernel], columns: Any) -> list[str]:
    """Return a name for each term: its kernel and columns, numbered where two are the same.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> labels([2.0 * RBF().on(0), RBF().on(0) * Linear().on([1]), RBF()], ["age", "bmi"])
    ['RBF(age)', 'RBF(age) * Linear(bmi)', 'RBF']
    """
    found = [_seen(term, columns)[0] for term in terms]
    return [
        name if found.count(name) == 1 else f"{name} [{found[: i + 1].count(name)}]"
        for i, name in enumerate(found)
    ]


def _seen(kernel: Kernel, columns: Any) -> tuple[str, set[str]]:
    """Return a name of a term and the columns it sees: none if it is not on chosen ones."""
    if isinstance(kernel, Columns):
        names = [
            c if isinstance(c, str) else f"x{c}" if columns is None else str(columns[c])
            for c in kernel.columns
        ]
        return f"{_seen(kernel.kernel, None)[0]}({', '.join(names)})", set(names)
    if isinstance(kernel, Product):
        texts, sets = zip(*(_seen(part, columns) for part in kernel.parts), strict=True)
        return " * ".join(texts), set().union(*sets) if all(sets) else set()
    if isinstance(kernel, Scale):
        return _seen(kernel.kernel, columns)
    return type(kernel).__name__, set()


def chosen_parts(part: Any, names: list[str], terms: Sequence[Kernel], columns: Any) -> list[int]:
    """Return the positions in ``names`` that ``part`` stands for; terms come first in names."""
    each = part if isinstance(part, (list, tuple)) else [part]
    found = [j for one in each for j in _one(one, names, terms, columns)]
    if not found or len(set(found)) < len(found):
        raise ValueError(f"a sum names each of them once, and at least one; got {part!r}")
    return found


def _one(part: Any, names: list[str], terms: Sequence[Kernel], columns: Any) -> list[int]:
    if isinstance(part, (int, np.integer)) and not isinstance(part, bool):
        if not -len(names) <= part < len(names):
            raise ValueError(f"there are {len(names)} components, {', '.join(names)}; not {part}")
        return [int(part) % len(names)]
    if not isinstance(part, str):
        raise TypeError(
            f"a component is given by name, by position or by its column, or as a list of these, "
            f"not as {part!r}"
        )
    if part in names:
        return [names.index(part)]
    alone = [j for j, term in enumerate(terms) if _seen(term, columns)[1] == {part}]
    if not alone:
        raise ValueError(there_is_no("component", part, names))
    return alone


class Additive(KernelMachine):
    """Adds ``components_`` and ``predict_component`` to a machine with posteriors."""

    @property
    def components_(self) -> list[str]:
        """The names of the components that :meth:`predict_component` knows, in order."""
        check_is_fitted(self, "posteriors_")
        names = labels(_terms(self.posteriors_[0]), getattr(self, "feature_names_in_", None))
        if self.basis_ is not None:
            return [*names, BASIS]
        units = self.units_.of_latent(self.losses_[0])
        return [*names, OFFSET] if np.any(units.y_shift) else names

    def predict_component(
        self,
        X: Any,
        part: int | str | Sequence[int | str],
        return_std: bool = False,
        center: bool = False,
    ) -> Any:
        """Predict one term of the sum that the latent function is: mean (q,) or (q, m), and std.

        The means of all ``components_`` sum to that of the latent function (for a Gaussian loss the
        prediction itself); their deviations do not, since the data leave the terms correlated.

        Parameters
        ----------
        X : (q, d), all columns of the table; only those of the component matter.
        part : a name of ``components_`` or its position; the name (or x0, x1, ...) of a column, for
            all terms of this column alone; or a list of these, for their sum. "basis" is the
            unpenalised basis, with the mean of a standardised target; "offset" that mean alone.
        return_std : also the standard deviation of the component, noise left out.
        center : take off the component's average over the distinct training points, and with it
            the constant that may as well belong to another component.
        """
        names = self.components_
        if self.kernel_.separate:
            raise ValueError(
                "the latent functions have kernels of their own, of which none is a sum for all: "
                "predict_latent gives each function"
            )
        columns = getattr(self, "feature_names_in_", None)
        parts = chosen_parts(part, names, _terms(self.posteriors_[0]), columns)
        return self._component(self._inputs(X), parts, return_std, center)

    def terms(self) -> TermTable:
        """Return the terms of the sum: degrees of freedom, sizes, slopes of straight ones.

        The effective degrees of freedom of a term are the trace of its smoother, which takes the
        targets to what the term adds at the training points; a straight line of d columns has at
        most d, a term that the data do not need none. Those of all terms and of the basis are those
        of the fit. Beyond 2000 points they are estimated, with a standard error. Not known for
        inducing points, several latent functions and draws of hyperparameters.

        Examples
        --------
        >>> import numpy as np
        >>> from mercer import GPRegressor
        >>> from mercer.kernels import RBF, Linear
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(0, 6, (60, 2))
        >>> y = np.sin(X[:, 0]) + 2.0 * X[:, 1] + 0.1 * rng.normal(size=60)
        >>> model = GPRegressor(1.0 * RBF().on(0) + Linear().on(1)).fit(X, y)
        >>> slope = model.terms().coefficients[0]
        >>> slope.column, bool(abs(slope.value - 2.0) < 3 * slope.std)
        ('x1', True)
        """
        check_is_fitted(self, "posteriors_")
        p, d = self.posteriors_[0], self.n_features_in_
        names = getattr(self, "feature_names_in_", None)
        columns = [f"x{j}" for j in range(d)] if names is None else [str(n) for n in names]
        if len(self.posteriors_) > 1 or self.kernel_.separate or not isinstance(p, Posterior):
            raise ValueError(
                "the terms of a sum are those of one fit with one kernel: there is none of draws "
                "of hyperparameters, nor of several latent functions"
            )
        kernels, total = _terms(p), self.report_["degrees_of_freedom"]
        known = None if p.operator.weighs else sizes(p, kernels)
        if "inducing" in self.report_ or p.operator.weighs:  # the rows themselves are gone
            k = 0 if p.basis is None or p.beta is None else len(p.beta)
            alone = total - k if len(kernels) == 1 and total is not None else None
            free: list[tuple[float | None, float]] = [(alone, 0.0)] * len(kernels)
        else:
            free = degrees(p, kernels)
        scale = float(np.mean(self.units_.of_latent(self.losses_[0]).y_scale))
        whole = 1.0 if known is None else float((known**2).sum()) or 1.0
        found = [
            TermFigures(
                name,
                *free[j],
                None if known is None else float(known[j]) * scale,
                None if known is None else float(known[j] ** 2) / whole,
            )
            for j, name in enumerate(labels(kernels, names))
        ]
        return TermTable(found, coefficients(self, [t.name for t in found], columns), total)

    def _component(self, inside: Array, parts: list[int], return_std: bool, center: bool) -> Any:
        """Mean and, if asked, deviation of the sum of some components, by position."""
        names = self.components_
        asked = [names[j] for j in parts]
        pairs = [_moments(p, parts, asked, inside, return_std, center) for p in self.posteriors_]
        mean, variance = mixed(pairs)
        units = self.units_.of_latent(self.losses_[0])
        mean = mean * units.y_scale
        if not center and (BASIS in asked or OFFSET in asked):
            mean = mean + units.y_shift
        if variance is None:
            return self._shaped(mean)
        return self._shaped(mean), self._shaped(np.sqrt(variance) * units.y_scale)


def _terms(posterior: Process) -> list[Kernel]:
    assert isinstance(posterior, Posterior)
    assert isinstance(posterior.parent, Prior)
    return posterior.parent.signal.terms()


def _moments(
    p: Process, parts: list[int], asked: list[str], X: Array, spread: bool, center: bool
) -> tuple[Array, Array | None]:
    """Mean (q, m) and, with ``spread``, variance (q, m) of the sum of the parts, centred or not."""
    if spread:
        check_variances([p], X)
    terms = _terms(p)
    assert isinstance(p, Posterior)
    points, alpha, C = p.points, p.alpha, p.operator
    kernels = [terms[j] for j in parts if j < len(terms)]
    kernel = Sum(kernels) if len(kernels) > 1 else next(iter(kernels), None)
    average = None  # k(P, P) 1/n, formed once
    if center and kernel is not None:
        own = kernel
        each = columns_of(own, points.shape[1]) if isinstance(C, AdditiveOperator) else None
        if each is not None:  # in O(n)
            share = np.full((len(points), 1), 1.0 / len(points))
            average = np.sum([Line(one, points).times(share)[:, 0] for one in each], axis=0)
        else:
            average = batched(lambda rows: own(rows, points).mean(axis=1), points, len(points))

    def covariance(X: Array) -> tuple[Array, Array]:
        """With the function at the points (n, q), and the prior variance (q,)."""
        if kernel is None:
            return np.zeros((len(points), len(X))), np.zeros(len(X))
        A, prior = kernel(points, X), kernel.diag(X)
        if average is not None:
            prior = prior - 2.0 * A.mean(axis=0) + average.mean()
            A = A - average[:, None]
        return A, prior

    def at(X: Array) -> Array:
        """Mean and variance at X (q, d) beside one another, (q, 2, m)."""
        A, prior = covariance(X)
        mean, h = A.T @ alpha, None
        if p.basis is not None and p.beta is not None:
            h = p.basis(X)
            if BASIS not in asked:
                h = np.zeros_like(h)
            elif center:
                h = h - p.basis(points).mean(axis=0)
            mean = mean + h @ p.beta
        if not spread:
            return np.asarray(mean[:, None])
        if isinstance(C, SeveralOperator):
            known = np.diagonal(C.blocks(A), axis1=1, axis2=2)
        else:
            known = C.reduce_diag(A, h)[:, None]
        variance = np.maximum(prior[:, None] - known, 0.0)  # rounding: -1e-16 of the prior's
        return np.stack([mean, np.broadcast_to(variance, mean.shape)], axis=1)

    both = batched(at, X, len(points))
    return both[:, 0], both[:, 1] if spread else None
