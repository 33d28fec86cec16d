"""Components of an additive model: what each term of a sum of kernels says by itself.

With k = sum_j k_j the function is a sum of independent functions f_j, and given the data each is
Gaussian again, by the alpha and C of the whole:

    mean_j(x)   = k_j(x, P) alpha,
    cov_j(x, z) = k_j(x, z) - k_j(x, P) C k_j(P, z)            (formula (2) with h = 0)

and the unpenalised basis has mean h'beta and the covariance that is left when k(x, P) is zero. A
sum of several terms is a component like any other; all together are the posterior itself.
Theory (P15).

Names of the components of an additive model, and what a user means by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.words import there_is_no
from mercer.kernels.base import Kernel
from mercer.kernels.columns import Columns
from mercer.kernels.compose import Product, Scale, Sum
from mercer.linalg.operators import SeveralOperator
from mercer.process.process import BATCH_BYTES, Posterior, Prior

BASIS, OFFSET = "basis", "offset"


def labels(terms: Sequence[Kernel], columns: Any) -> list[str]:
    """Return a name for each term: its kernel and columns, numbered where two are the same.

    Examples
    --------
    >>> from mercer.kernels import RBF, Linear
    >>> labels([2.0 * RBF().on(0), RBF().on(0) * Linear().on([1]), RBF()], ["age", "bmi"])
    ['RBF(age)', 'RBF(age) * Linear(bmi)', 'RBF']
    """
    found = [_label(term, columns) for term in terms]
    return [
        name if found.count(name) == 1 else f"{name} [{found[: i + 1].count(name)}]"
        for i, name in enumerate(found)
    ]


def _label(kernel: Kernel, columns: Any) -> str:
    if isinstance(kernel, Columns):
        inner = _label(kernel.kernel, None)
        return f"{inner}({', '.join(_column(c, columns) for c in kernel.columns)})"
    if isinstance(kernel, Product):
        return " * ".join(_label(part, columns) for part in kernel.parts)
    if isinstance(kernel, Scale):
        return _label(kernel.kernel, columns)
    return type(kernel).__name__


def _column(column: int | str, columns: Any) -> str:
    if isinstance(column, str):
        return column
    return f"x{column}" if columns is None else str(columns[column])


def chosen_parts(part: Any, names: list[str], terms: Sequence[Kernel], columns: Any) -> list[int]:
    """Return the positions in ``names`` that ``part`` stands for; terms come first in names."""
    if not isinstance(part, (list, tuple)):
        return _one(part, names, terms, columns)
    found = [j for each in part for j in _one(each, names, terms, columns)]
    if not found or len(set(found)) < len(found):
        raise ValueError(
            f"a sum of components names each of them once, and at least one; got {part!r}"
        )
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
    alone = [j for j, term in enumerate(terms) if _columns(term, columns) == {part}]
    if not alone:
        raise ValueError(there_is_no("component", part, names))
    return alone


def _columns(kernel: Kernel, columns: Any) -> set[str]:
    """Return the names of the columns a term sees; empty if it is not on chosen columns."""
    if isinstance(kernel, Columns):
        return {_column(c, columns) for c in kernel.columns}
    if isinstance(kernel, Scale):
        return _columns(kernel.kernel, columns)
    if isinstance(kernel, Product):
        each = [_columns(part, columns) for part in kernel.parts]
        return set().union(*each) if all(each) else set()
    return set()


class Additive:
    """Adds ``components_`` and ``predict_component`` to a machine with posteriors."""

    @property
    def components_(self) -> list[str]:
        """The names of the components that :meth:`predict_component` knows, in order."""
        check_is_fitted(self, "posteriors_")
        machine = cast(Any, self)
        names = labels(_terms(machine.posteriors_[0]), getattr(machine, "feature_names_in_", None))
        if machine.basis_ is not None:
            return [*names, BASIS]
        return [*names, OFFSET] if np.any(machine.units_.y_shift) else names

    def predict_component(
        self,
        X: Any,
        part: int | str | Sequence[int | str],
        return_std: bool = False,
        center: bool = False,
    ) -> Any:
        """Predict one term of the sum that the latent function is, at X (q, d).

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

        Returns
        -------
        mean (q,) or (q, m); or (mean, std).
        """
        machine = cast(Any, self)
        names = self.components_
        columns = getattr(machine, "feature_names_in_", None)
        parts = chosen_parts(part, names, _terms(machine.posteriors_[0]), columns)
        inside = machine._inputs(X)
        pairs = [_moments(p, parts, names, inside, return_std, center) for p in machine.posteriors_]
        means = np.array([mean for mean, _ in pairs])
        scale, flat = machine.units_.y_scale, machine.flat_
        mean = means.mean(axis=0) * scale
        if not center and any(names[j] in (BASIS, OFFSET) for j in parts):
            mean = mean + machine.units_.y_shift
        if not return_std:
            return mean[:, 0] if flat else mean
        variance = np.mean([cast(Array, v) for _, v in pairs], axis=0) + means.var(axis=0)
        std = np.sqrt(variance) * scale
        return (mean[:, 0], std[:, 0]) if flat else (mean, std)


def _terms(posterior: Posterior) -> list[Kernel]:
    assert isinstance(posterior.parent, Prior)
    return posterior.parent.signal.terms()


def _moments(
    posterior: Posterior, parts: list[int], names: list[str], X: Array, spread: bool, center: bool
) -> tuple[Array, Array | None]:
    """Mean (q, m) and, with ``spread``, variance (q, m) of the sum of the chosen parts."""
    if spread and not posterior.has_spread:
        raise ValueError(
            "a mode has no spread: there are means of the components, and no deviations; "
            "use an inference with a posterior"
        )
    if spread and not posterior.variance_known_at(X):
        raise ValueError(
            "kernel values of new points with the training points do not say how the new points "
            "vary: there are means of the components, and deviations for the training matrix only"
        )
    terms = _terms(posterior)
    one = Part(posterior, [terms[j] for j in parts if j < len(terms)], center)
    one.with_basis = any(names[j] == BASIS for j in parts)
    each = [one.moments(rows, spread) for rows in _batches(X, posterior.points)]
    mean = np.concatenate([mean for mean, _ in each])
    return mean, np.concatenate([cast(Array, v) for _, v in each]) if spread else None


def _batches(X: Array, points: Array) -> Iterator[Array]:
    """Yield rows of X, so many that their covariance with the points is of bounded size."""
    size = max(1, BATCH_BYTES // (8 * max(1, len(points))))
    return (X[i : i + size] for i in range(0, len(X), size))


class Part:
    """The sum of some terms of a posterior, its average over the points taken off if ``center``."""

    def __init__(self, posterior: Posterior, kernels: list[Kernel], center: bool) -> None:
        self.posterior = posterior
        self.kernel: Kernel | None = None
        if kernels:
            self.kernel = kernels[0] if len(kernels) == 1 else Sum(kernels)
        self.center = center
        self.with_basis = False
        self.average: Array | None = None  # k(P, P) 1/n, formed once
        if center and self.kernel is not None:
            kernel, P = self.kernel, posterior.points
            self.average = np.concatenate([kernel(rows, P).mean(axis=1) for rows in _batches(P, P)])

    def moments(self, X: Array, spread: bool) -> tuple[Array, Array | None]:
        """Mean (q, m) and variance (q, m) at X (q, d)."""
        p = self.posterior
        A, prior = self._cross(X)
        h = self._rows(X)
        mean = A.T @ p.alpha
        if h is not None and p.beta is not None:
            mean = mean + h @ p.beta
        if not spread:
            return np.asarray(mean), None
        if isinstance(p.operator, SeveralOperator):
            known = np.diagonal(p.operator.blocks(A), axis1=1, axis2=2)
        else:
            known = p.operator.reduce_diag(A, h)[:, None]
        variance = np.maximum(prior[:, None] - known, 0.0)  # rounding: -1e-16 of the prior's
        return np.asarray(mean), np.broadcast_to(variance, mean.shape)

    def _cross(self, X: Array) -> tuple[Array, Array]:
        """Covariance (n, q) with the function at the points, and prior variance (q,)."""
        points = self.posterior.points
        if self.kernel is None:
            return np.zeros((len(points), len(X))), np.zeros(len(X))
        A, prior = self.kernel(points, X), self.kernel.diag(X)
        if self.average is not None:
            prior = prior - 2.0 * A.mean(axis=0) + self.average.mean()
            A = A - self.average[:, None]
        return A, prior

    def _rows(self, X: Array) -> Array | None:
        """Rows of the basis (q, k), zeros if it is not part of the sum."""
        p = self.posterior
        if p.basis is None:
            return None
        h = p.basis(X)
        if not self.with_basis:
            return np.zeros_like(h)
        return h - p.basis(p.points).mean(axis=0) if self.center else h
