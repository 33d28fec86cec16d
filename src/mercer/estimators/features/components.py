"""KernelPCA: the directions in which rows vary most, in the space of a kernel."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh, solve_triangular
from scipy.sparse.linalg import eigsh

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Record
from mercer.core.memory import require_memory
from mercer.estimators.features.estimator import KernelFeatures
from mercer.estimators.shared.summary import Summary
from mercer.kernels import Kernel
from mercer.kernels.parameters import whole
from mercer.losses.base import is_number

EXACT, POINTS = 3000, 1000  # m="auto": rows up to which all are points, and how many points beyond
ROUNDING = 1e-12  # share of the largest variance below which a component is rounding
FEW, MANY = 0.02, 500  # components of so many rows: by Lanczos
BATCH = 4096


class KernelPCA(KernelFeatures):
    """Kernel principal components: scores of each row along the directions of largest variance.

    With features phi of a kernel, k(x, z) = phi(x)'phi(z), the directions v_j are the eigenvectors
    of their covariance, sum_i w_i (phi(x_i) - m)(phi(x_i) - m)' / sum w, m their mean, and

        t_j(x) = v_j'(phi(x) - m) = k(x, P) a_j - b_j

    On all rows, with K centred and S = diag(sqrt(w)): S K S = U diag(mu) U', a_j = S u_j mu_j^-1/2.
    With the kernel ``Linear`` these are the principal components of the columns.

    Parameters
    ----------
    kernel : Kernel, or the name of one, default "rbf"
        Its parameters are kept, see :class:`KernelFeatures`: in your units, or by name for
        standardised columns.
    n_components : int, float in (0, 1) or None, default None
        How many; the share of variance that they are to explain; None: all. Components that are
        rounding, below 1e-12 of the largest variance, are dropped.
    m : "auto", None, int or array (m, d), default "auto"
        None is exact: on the features that the kernel itself has, O(n q^2), where these are fewer
        than the rows, else on all distinct rows, O(n^2) and more. Else so many points, or those
        given, stand for the rows, O(n m^2). "auto" is None up to 3000 distinct rows or with few
        features, and 1000 points beyond.
    choose, random_state : how points are chosen, see :class:`KernelFeatures`.

    Attributes
    ----------
    explained_variance_ : (p,) variance of each score over the rows, with 1 / sum of weights where
        scikit-learn's ``PCA`` has 1 / (n - 1).
    explained_variance_ratio_ : (p,) its share of the variance in the space of the kernel.
    eigenvalues_ : (p,) mu_j, as in scikit-learn: the variance times the sum of weights.
    points_ : P (q, d), or None where the kernel's own features are used.
    coefficients_, level_ : a (q, p) and b (p,).
    kernel_, n_features_out_, report_ : as for :class:`KernelFeatures`.

    Notes
    -----
    The entry of u_j (of v_j, where there are features or points) that is largest in size is
    positive. There is no way back from scores to rows.

    References
    ----------
    Schoelkopf, Smola and Mueller, Nonlinear component analysis as a kernel eigenvalue problem
    (1998).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> angle, ring = rng.uniform(0, 6.28, 200), np.repeat([1.0, 3.0], 100)
    >>> X = np.column_stack([ring * np.cos(angle), ring * np.sin(angle)])
    >>> scores = KernelPCA(n_components=3).fit_transform(X)
    >>> scores.shape
    (200, 3)
    >>> inner, outer = np.sort(scores[:100], axis=0), np.sort(scores[100:], axis=0)
    >>> bool(np.any((inner[0] > outer[-1]) | (inner[-1] < outer[0])))  # one score tells the rings
    True
    """

    explained_variance_: Array
    explained_variance_ratio_: Array
    coefficients_: Array
    level_: Array
    _param_types: ClassVar[dict[str, tuple[type, ...]]] = {
        "kernel": (str, Kernel),
        "n_components": (int, float, NoneType),
        "m": (str, int, np.ndarray, list, NoneType),
        "choose": (str,),
        "random_state": (int, NoneType),
    }

    def __init__(
        self,
        kernel: Any = "rbf",
        n_components: Any = None,
        *,
        m: Any = "auto",
        choose: str = "kmeans",
        random_state: Any = None,
    ) -> None:
        super().__init__(kernel, m, choose, random_state)
        self.n_components = n_components

    @property
    def eigenvalues_(self) -> Array:
        """The variances times the sum of weights, (p,)."""
        return np.asarray(self.explained_variance_ * self.report_["rows"]["weight"])

    def summary(self) -> Summary:
        """Return what was done, in words; readable as text and as HTML."""
        found = super().summary()
        shares = ", ".join(f"{100.0 * s:.3g} %" for s in self.explained_variance_ratio_[:5])
        more = ", ..." if len(self.explained_variance_ratio_) > 5 else ""
        total = f"{100.0 * self.explained_variance_ratio_.sum():.4g} %"
        told = "inducing" in self.report_
        rows = [row for row in found.entries if told or row[1] != "points"]
        rows.append(("Components", "computed", self.report_["components"]["form"]))
        rows.append(("Components", "variance explained", f"{total} ({shares}{more})"))
        return Summary(found.title, tuple(rows))

    # ------------------------------------------------------------------ the components
    def _learn(self, points: Array, weights: Array) -> None:
        automatic = isinstance(self.m, str) and self.m == "auto"
        if not isinstance(self.n_components, (float, NoneType)):
            whole(self, "n_components", 1)
        elif self.n_components is not None and not is_number(self.n_components, 0.0, 1.0):
            raise ValueError(
                "n_components must be None, a number of components or a share of the variance "
                f"between 0 and 1, not {self.n_components!r}"
            )
        if len(points) < 2:
            raise ValueError(
                "Found 1 sample (n_samples=1), or rows that are all equal: components need two "
                "different rows that count"
            )
        own = self.kernel_.features(points[:1]) if self.m is None or automatic else None
        if own is not None and own.shape[1] < len(points):
            form = "from the kernel's own features"
            total, mean, axes = self._axes(self._explicit, points, weights)
            self.coefficients_ = axes
        elif self.m is None or (automatic and len(points) <= EXACT):
            form = "from all rows"
            total, mean, axes = self._exact(points, weights)
        else:
            form = "from points that stand for the rows"
            asked = POINTS if automatic else self._asked()
            self.report_["inducing"] = self._choose_points(asked, points, weights)
            total, mean, axes = self._axes(super()._features, points, weights)
            self.coefficients_ = solve_triangular(self._root, axes, lower=True, trans="T")
            del self._root  # it is in the coefficients
        self.level_ = mean @ axes
        self.explained_variance_ratio_ = self.explained_variance_ * weights.sum() / total
        self.n_features_out_ = len(self.level_)
        self.report_["components"] = {"form": form, "kept": self.n_features_out_}

    def _axes(
        self, features: Callable[[Array], Array], points: Array, weights: Array
    ) -> tuple[float, Array, Array]:
        """Principal axes of features (q of them): the total variance, their mean, axes (q, p)."""
        W = weights.sum()
        sums: Array = np.zeros(())
        squares: Array = np.zeros(())
        for start in range(0, len(points), BATCH):
            F, w = features(points[start : start + BATCH]), weights[start : start + BATCH]
            sums, squares = sums + w @ F, squares + (F.T * w) @ F
        mean = sums / W
        total = float(weights @ self.kernel_.diag(points) - W * mean @ mean)
        values, axes = self._spectrum(squares - W * np.outer(mean, mean), total)
        self.explained_variance_ = values / W
        return total, mean, axes

    def _exact(self, points: Array, weights: Array) -> tuple[float, Array, Array]:
        """The same with a feature for each row: the total, the mean of k(x_i, P), and a (n, p)."""
        require_memory(len(points), arrays=3)
        W, root = weights.sum(), np.sqrt(weights)
        M = np.array(self.kernel_(points), dtype=np.float64)
        mean = M @ weights / W
        M += weights @ mean / W - mean - mean[:, None]
        M *= root * root[:, None]
        total = float(np.trace(M))
        values, U = self._spectrum(M, total)
        self.points_, self.explained_variance_ = points.copy(), values / W
        self.coefficients_ = root[:, None] * U / np.sqrt(values)
        return total, mean, self.coefficients_

    def _spectrum(self, M: Array, total: float) -> tuple[Array, Array]:
        """Return the largest eigenvalues (p,) of M (q, q), descending, and their vectors (q, p)."""
        p, q = self.n_components, len(M)
        if p is not None and not isinstance(p, float) and q > MANY and p < FEW * q:
            start = np.random.default_rng(0).normal(size=q)
            values, vectors = eigsh(M, k=int(p), v0=start)
        else:
            most = q if p is None or isinstance(p, float) else min(int(p), q)
            values, vectors = eigh(M, subset_by_index=(q - most, q - 1))
        order = np.argsort(-values, kind="stable")
        values, vectors = values[order], vectors[:, order]
        count = int(np.count_nonzero(values > max(ROUNDING * values[0], 0.0)))
        if not (count and total > 0.0):
            raise ValueError("all rows are the same to the kernel: there are no components")
        if isinstance(p, float):
            count = min(count, 1 + int(np.searchsorted(np.cumsum(values) / total, p)))
        values, vectors = values[:count], vectors[:, :count]
        largest = np.abs(vectors).argmax(axis=0)
        return values, vectors * np.sign(vectors[largest, np.arange(count)])

    def _features(self, X: Array) -> Array:
        base = self._explicit(X) if self.points_ is None else self.kernel_(X, self.points_)
        return np.asarray(base @ self.coefficients_ - self.level_)

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {
            **super()._record(),
            "coefficients_": Numbers("q p"),
            "level_": Numbers("p"),
            "explained_variance_": Numbers("p", 0.0),
            "explained_variance_ratio_": Numbers("p", 0.0),
        }

    def _restored(self) -> None:
        """Nothing else follows from what is stored."""
