"""KernelFeatures: a kernel as columns, for machines of any kind that are linear in their inputs."""

from __future__ import annotations

from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, is_sparse, location_scale
from mercer.core.kinds import Numbers, PartOf, Plain, PlainReport, Record
from mercer.core.memory import require_points
from mercer.core.record import COLUMNS, Maybe, Recorded
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.summary import Summary
from mercer.estimators.shared.table import (
    build_table,
    check_weights,
    read_inputs,
    restored_on_error,
)
from mercer.kernels import Kernel, Stationary, as_kernel
from mercer.kernels.parameters import whole
from mercer.linalg.dense.factor import solve_rows
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.reduced.triangle import triangle
from mercer.linalg.representation import Inducing
from mercer.process.process import batched

LOOK = 5000  # rows of which the report says how much the points explain


class KernelFeatures(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn ships no types
    TransformerMixin,  # type: ignore[misc]  # scikit-learn ships no types
    Recorded,
    BaseEstimator,  # type: ignore[misc]  # scikit-learn ships no types
):
    """Columns phi(x) whose products are a kernel: what is linear in them is smooth in x.

        phi(x) = L^-1 k(Z, x),  k(Z, Z) = L L',      phi(x)'phi(z) = k(x, Z) k(Z, Z)^-1 k(Z, z)

    the Nystroem approximation of the kernel, for m points Z that stand for the rows.

    Parameters
    ----------
    kernel : Kernel, or the name of one, default "rbf"
        Its parameters are kept: this learns nothing of a target. A kernel object is in your units;
        a stationary kernel by its name takes sqrt(d / 2) deviations of each of the d columns as
        length scales (scikit-learn's ``gamma=1 / d`` on standardised columns).
    m : int, array (m, d) or None, default 100
        How many points, or the points themselves in your units; at most as many as distinct rows.
        Points that are the same to the kernel are dropped. None gives the features that the kernel
        itself has (``Linear``, ``RandomFourier``, ``TFIDF``, ``Fisher``, sums of them): no
        approximation.
    choose : "kmeans", "uniform", "pivots" or "random_pivots", default "kmeans"
        See :class:`~mercer.linalg.Inducing`. Weights count in all but "uniform".
    random_state : int, generator or None, default None; None is one fixed choice.

    Attributes
    ----------
    kernel_ : the kernel in your units.
    points_ : Z (m, d), or None with ``m=None``.
    n_features_out_ : how many columns there are.
    report_ : what was done: rows, points, and which share of k(x, x) they explain on average.

    References
    ----------
    Williams and Seeger, Using the Nystroem method to speed up kernel machines (2001).

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> ring = (X**2).sum(axis=1) > 1.4
    >>> model = make_pipeline(KernelFeatures(m=30), LogisticRegression(C=100.0)).fit(X, ring)
    >>> bool(model.score(X, ring) > 0.95)
    True
    """

    n_features_in_: int
    kernel_: Kernel
    points_: Array | None
    n_features_out_: int
    report_: dict[str, Any]
    _param_types: ClassVar[dict[str, tuple[type, ...]]] = {
        "kernel": (str, Kernel),
        "m": (int, np.ndarray, list, NoneType),
        "choose": (str,),
        "random_state": (int, NoneType),
    }

    def __init__(
        self, kernel: Any = "rbf", m: Any = 100, choose: str = "kmeans", random_state: Any = None
    ) -> None:
        self.kernel, self.m, self.choose = kernel, m, choose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the points among the rows of X (n, d); y is not looked at."""
        with restored_on_error(self):
            X = read_inputs(self, X, fitted=False)
            w = check_weights(sample_weight, len(X))
            table = build_table(X, np.zeros((len(X), 1)), w, by_row=False, flat=True, arrays=0)
            points, total = table.points, table.total
            names = getattr(self, "feature_names_in_", None)
            self.kernel_ = self._resolved(names, points, total)
            counts = {"given": len(X), "used": len(table.keep), "distinct": len(points)}
            self.report_ = {"rows": {**counts, "weight": float(w.sum())}}
            self.points_ = None
            self._learn(points, total)
            self._check_fitted()
        return self

    def transform(self, X: Any) -> Array:
        """Return phi(X) (q, m) of rows X (q, d)."""
        check_is_fitted(self, "kernel_")
        return batched(self._features, read_inputs(self, X), self.n_features_out_)

    def summary(self) -> Summary:
        """Return what was done, in words; readable as text and as HTML."""
        check_is_fitted(self, "kernel_")
        counts, told = self.report_["rows"], self.report_.get("inducing")
        rows = [
            ("Data", "rows", f"{counts['used']} ({counts['distinct']} distinct)"),
            ("Data", "columns", str(self.n_features_in_)),
            ("Features", "kernel", repr(self.kernel_)),
            ("Features", "columns", str(self.n_features_out_)),
        ]
        if told is None:
            rows.append(("Features", "points", "none: these are the kernel's own features"))
        else:
            rows.append(("Features", "points", f"{told['points']}, {told['chosen']}"))
            share = f"{100.0 * told['explained']:.4g} % of the kernel's variance at the rows"
            rows.append(("Features", "explained", share))
        return Summary(type(self).__name__, tuple(rows))

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    # ------------------------------------------------------------------ the kernel and its points
    def _learn(self, points: Array, weights: Array) -> None:
        """Set what :meth:`_features` needs, from the distinct rows (n, d) and their weights."""
        if self.m is None:
            self.n_features_out_ = self._explicit(points[:1]).shape[1]
        else:
            self.report_["inducing"] = self._choose_points(self._asked(), points, weights)

    def _resolved(self, names: Any, points: Array, weights: Array) -> Kernel:
        kernel, d = as_kernel(self.kernel).__sklearn_clone__(), points.shape[1]
        names = None if names is None else [str(n) for n in names]
        kernel = kernel.resolve(names, d).frozen(points, weights).signal()
        if isinstance(self.kernel, str) and isinstance(kernel, Stationary):
            scale = location_scale(points, weights)[1]
            kernel = kernel.in_units(np.zeros(d), scale * np.sqrt(d / 2.0))
        if kernel.pairwise or kernel.positional:
            raise ValueError(
                f"{type(self).__name__} needs a kernel of the inputs alone, without a precomputed "
                "matrix"
            )
        return kernel

    def _explicit(self, X: Array) -> Array:
        F = self.kernel_.features(X)
        if F is None:
            raise ValueError(
                f"{self.kernel_!r} has no features of its own, or infinitely many: give m, the "
                "number of points that stand for the rows"
            )
        return np.asarray(F.toarray() if is_sparse(F) else F, dtype=np.float64)

    def _asked(self) -> Any:
        """Return the points (m, d) that were given, or how many were asked for."""
        given = not isinstance(self.m, (int, float, str, np.number))
        return self.m if given else whole(self, "m", 1)

    def _choose_points(self, asked: Any, points: Array, weights: Array) -> dict[str, Any]:
        """Set ``points_``; return what the report says of them."""
        rule = Inducing(m=asked, choose=self.choose)
        rule.check(points.shape[1])
        if not isinstance(asked, int):
            Z = rule.given()
        else:
            m, rng = min(asked, len(points)), generator(self.random_state)
            require_points(m)
            Z = rule.chosen(self.kernel_, points, weights, m, rng)
        self.points_ = Z[triangle(self.kernel_(Z))[1]]
        self.n_features_out_ = len(self.points_)
        gram = self._gram(points[:: 1 + len(points) // LOOK])
        found = {**gram.report(), "dropped": len(Z) - len(gram.support)}
        return {"chosen": rule.described(self.kernel_, False), **found}

    def _gram(self, points: Array) -> ReducedGram:
        assert self.points_ is not None
        gram = ReducedGram(self.kernel_, points, self.points_, keep=False)
        if len(gram.support) != len(self.points_):
            raise ValueError("some of the points are the same to the kernel")
        self._root = gram.L
        return gram

    def _features(self, X: Array) -> Array:
        if self.points_ is None:
            return self._explicit(X)
        return np.asarray(solve_rows(self._root, np.asarray(self.kernel_(X, self.points_))))

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {
            **COLUMNS,
            "kernel_": PartOf(Kernel),
            "points_": Maybe(Numbers("m d")),
            "n_features_out_": Plain(int, 1),
            "report_": PlainReport(),
        }

    def _restored(self) -> None:
        if self.points_ is not None:  # L is not stored: it follows
            self._gram(self.points_[:1])

    def _check_fitted(self) -> None:
        """Refuse parts that do not belong together: features of one row."""
        some = np.zeros((1, self.n_features_in_)) if self.points_ is None else self.points_[:1]
        found = self._features(some)
        if found.shape != (1, self.n_features_out_) or not np.all(np.isfinite(found)):
            raise ValueError("the kernel and the points do not give finite features, one a column")
