"""What classifiers of partly labelled rows share: a prior conditioned on a graph; theory (M6)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from types import NoneType
from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Numbers, Plain, Record, Rows
from mercer.core.memory import require_memory
from mercer.core.record import Fields, Later, Maybe, One
from mercer.estimators.discrimination.base import BatchProblem
from mercer.estimators.graph.choice import CRITERIA, Asked, choose
from mercer.estimators.graph.probabilities import OLDER, CalibratedMargins
from mercer.estimators.shared.labels import (
    Labelled,
    Vertices,
    encode,
    merge_vertices,
    replaced,
    row_weights,
    split_labels,
)
from mercer.estimators.shared.stream import require_moderate
from mercer.estimators.shared.table import check_weights, read_inputs, restored_on_error
from mercer.inference.base import Inference, Report
from mercer.inference.graph import Landmarked, Manifold, Smoothed, Whole, at_once
from mercer.left_out.figures import LeftOut
from mercer.linalg.graph import neighbour_graph
from mercer.losses.base import Loss, is_number

UNCHOSEN = (100.0, 0.5, 1.0)  # C, beta and times of a stream that did not begin with fit
MOST = 1e300  # kernel values whose sums are finite; what rounding then does, the factors say
Smooth = Callable[[Array, Index, Any, Index], Smoothed]  # of Manifold.smooth


@dataclass(eq=False, repr=False, kw_only=True)
class GraphMachine(CalibratedMargins):
    """The classifier behind LapMEDClassifier, LapSVC and LapLSClassifier: a child states its loss.

    The objective is 1/2 |f|^2 + beta f(X)'L f(X) + sum_i w_i g(y_i, f(x_i) + b), with the loss g
    over the labelled rows and the graph Laplacian L over all rows. The graph term is a prior
    conditioned on smoothness, and the inference of the loss then works on that prior.
    """

    _param_types: ClassVar[dict[str, tuple[type, ...]]] = {
        **CalibratedMargins._param_types,
        **dict.fromkeys(("C", "beta"), (str, int, float)),
        "heat": (str, int, float, NoneType),
        "search": (str,),
    }
    C: Any = field(default="auto", kw_only=False)
    beta: Any = "auto"
    gamma_A: float | None = None  # noqa: N815  # the letters of Belkin et al.
    gamma_I: float | None = None  # noqa: N815  # and this
    n_neighbors: int = 10
    heat: Any = None
    unlabelled: Any = None
    search: str = "left_out"

    # ------------------------------------------------------------------ hooks
    _words = (("C", "auto"),)
    _least_slack: ClassVar[float] = 0.0  # that C must exceed

    @abstractmethod
    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """Return inference and loss of a batch with labelled rows of this total weight."""

    def _remember(self, manifold: Manifold, rows: int) -> None:
        """Keep the points that the function needs, of a table of so many rows."""
        held = np.flatnonzero(np.any(manifold.weights != 0.0, axis=1))
        self.support_ = manifold.rows[held]
        self.support_vectors_ = np.ascontiguousarray(manifold.points[held])
        self.dual_coef_ = np.ascontiguousarray(manifold.weights[held].T)

    def _remarks(self, K: Array | None, C: float) -> dict[str, Any]:
        """Return what else to report; K (l, l) is k_new at the labelled rows, None without any."""
        return {}

    # ------------------------------------------------------------------ learning
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,), in which None or NaN stands for no label.

        Equal rows are one point of the graph. A weight multiplies the loss of a labelled row, as
        that many copies of the row would; a row of weight zero is left out altogether.
        """
        with restored_on_error(self):
            self._check_params()
            X = read_inputs(self, X, fitted=False)
            if y is None:
                raise ValueError(
                    "fit requires y to be passed, but the target y is None; give a list in which "
                    "None or NaN marks the rows without a label"
                )
            weights = check_weights(sample_weight, len(X))
            known, labels = split_labels(y, len(X), self.unlabelled)
            if not known.any():
                raise ValueError(
                    f"Input y contains NaN, None or {self.unlabelled!r} only: no row has a label, "
                    "and some of at least two classes are needed"
                )
            self.classes_, codes = encode(labels)
            if not np.any(weights[known] > 0.0):
                raise ValueError("all rows with a label have weight zero: give some a weight")
            counts = row_weights(self.class_weight, self.classes_, codes, weights[known])
            Labelled(self.classes_, codes, weights[known], counts).check_two()
            self._begin(X, replaced(weights, known, counts))
            batch = merge_vertices(X, weights, known, codes, counts)
            told = self._choose(batch)
            self._learn(batch, partial(at_once, self.kernel_), len(X))
            self.report_ |= told
            if self.calibration is not None:
                self._figure(X[known], codes, batch, weights[known])
            return self

    def _begin(self, X: Array, weights: Array) -> None:
        """The state before the first batch: the kernel, frozen, f = 0, and nothing chosen."""
        kernel = self._signal(X, weights)
        if kernel.pairwise or kernel.positional:
            raise ValueError(
                "a graph of neighbours needs the rows themselves, and a precomputed kernel does "
                "not have them: give the kernel as a function of rows"
            )
        amplitude = float(getattr(self, "amplitude", 1.0))
        self.kernel_ = kernel if amplitude == 1.0 else amplitude * kernel
        self.intercept_ = np.zeros(1 if len(self.classes_) == 2 else len(self.classes_))
        self.choice_ = np.zeros(0)
        self._forget()
        self._freeze()

    def _learn(self, batch: Vertices, smooth: Smooth, rows: int) -> None:
        """Condition on the graph of all rows, then on the labels, by the inference of the loss."""
        at, n = batch.at, len(batch.points)
        require_moderate(self.kernel_, batch.points, MOST)
        labelled, told = float(batch.weights.sum()), {}
        C, beta = self._weights(labelled, n)
        slack, weight, times = self.choice_ if len(self.choice_) else UNCHOSEN
        C, beta = float(slack if C is None else C), float(weight if beta is None else beta)
        heat = (None, times) if _auto(self.heat) else (self.heat, 1.0)
        graph = neighbour_graph(batch.points, self.n_neighbors, *heat)
        step = smooth(batch.points, batch.rows, 2.0 * beta * graph.laplacian, at)
        inference, c, report = None, np.zeros((0, len(self.intercept_))), Report(iterations=0)
        K = step.covariance if len(at) else None
        if K is not None:
            require_memory(len(at), 3, "a batch", "learn, batch by batch,")
            inference, loss = self._parts(C, labelled)
            Y, K_new = self._signs(batch.codes), 0.5 * (K + K.T)
            problem = BatchProblem(K_new, Y, batch.codes, batch.weights, step.latent)
            solution = problem.solve(inference, loss)
            assert solution.beta is not None
            if self.calibration is not None:
                told["calibration"] = self._calibrate(problem, inference, loss)
            c, self.intercept_, report = solution.alpha, solution.beta[0], solution.report
        self._remember(step.learn(c), rows)
        counts = {"used": rows, "distinct": n, "weight": labelled}
        edges = {"edges": graph.edges, "n_neighbors": graph.n_neighbors, "heat": graph.heat}
        more: dict[str, Any] = {"C": C if len(at) else None, "beta": beta, "labelled": len(at)}
        more |= {"graph": {"vertices": n, **edges}, **self._remarks(K, C)}
        self._tell(inference, report, counts, **more, **told)

    def _choose(self, batch: Vertices) -> dict[str, Any]:
        """Set ``choice_`` if anything is to be chosen; return what to report of it."""
        C, beta = self._weights(float(batch.weights.sum()), len(batch.points))
        if not (C is None or beta is None or _auto(self.heat)):
            return {}
        require_moderate(self.kernel_, batch.points, MOST)
        asked = Asked(C, beta, self.heat, self.n_neighbors, self.search, self._least_slack)
        found = choose(asked, self.kernel_, batch, self._signs(batch.codes))
        self.choice_ = np.array([found.C, found.beta, found.heat])
        return {"choice": asdict(found)}

    def _weights(self, labelled: float, n: int) -> tuple[float | None, float | None]:
        """Return C and beta of a batch of n points, ``labelled`` of them with a label; None: auto.

        C = 1 / (2 l gamma_A), beta = gamma_I / (2 gamma_A n^2), where gamma_A and gamma_I are
        given: the objective of Belkin et al., (1/l) sum V + gamma_A |f|^2 + gamma_I / n^2 f'L f,
        divided by 2 gamma_A.
        """
        if self.gamma_A is None or self.gamma_I is None:
            C, beta = (None if v == "auto" else float(v) for v in (self.C, self.beta))
            return C, beta
        beta = self.gamma_I / (2.0 * self.gamma_A * n * n)
        # without labels there is nothing to weigh
        return 1.0 / (2.0 * labelled * self.gamma_A) if labelled else np.inf, float(beta)

    # ------------------------------------------------------------------ answers
    @property
    def left_out_(self) -> LeftOut | None:
        """The labelled rows, each without its label; None unless ``calibration`` asks for them."""
        super().left_out_  # noqa: B018  # refused before a fit
        return self._figures

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the rows of X (n, d) that have a label in y (n,)."""
        n = _num_samples(X)
        known, labels = split_labels(y, n, self.unlabelled)
        if not known.any():
            raise ValueError(
                "no row of y has a label, so that there is nothing to score: give rows with labels "
                "(None, NaN and the value of unlabelled= mark those without)"
            )
        weights = None if sample_weight is None else check_weights(sample_weight, n)[known]
        rows = X if known.all() else _safe_indexing(X, np.flatnonzero(known))
        return float(super().score(rows, labels, weights))

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        rows, report = super()._summary_rows(), self.report_
        rows.append(("Model", "points kept", str(len(self.support_))))
        if "labelled" not in report:  # of a stream in which all rows wait for a graph
            return rows
        graph = report["graph"]
        heat = "infinite: weights of one" if graph["heat"] is None else f"{graph['heat']:.4g}"
        slack = "no labels" if report["C"] is None else f"{report['C']:.6g}"
        if "choice" in report:
            chosen = report["choice"]
            by = {"left_out": "left-out labels", "partition": "partition function"}
            text = f"by {by.get(chosen['by'], chosen['by'])}, of {chosen['candidates']} candidates"
            rows.append(("Model", "chosen", text))
        if report.get("calibration", {}).get("slope") is not None:
            found = report["calibration"]
            text = f"sigmoid of slope {found['slope']:.4g} on {found['scores']} {found['by']}"
            rows.append(("Quality", "probabilities", text))
        last = f"{graph['vertices']} distinct, {report['labelled']} labels"
        return [
            *rows,
            ("Data", "rows of the last batch", last),
            ("Data", "graph", f"{graph['edges']} edges, {graph['n_neighbors']} neighbours"),
            ("Data", "heat", heat),
            ("Model", "C", slack),
            ("Model", "beta", f"{report['beta']:.6g}"),
        ]

    # ------------------------------------------------------------------ parameters
    def _check_params(self) -> None:
        super()._check_params()
        for name in ("gamma_A", "gamma_I"):
            value, zero = getattr(self, name), name == "gamma_I"
            if value is not None and not (is_number(value, 0.0, np.inf) or (zero and _zero(value))):
                raise ValueError(f"{name} must be a positive finite number or None, got {value!r}")
        if (self.gamma_A is None) != (self.gamma_I is None):
            raise ValueError(
                "gamma_A and gamma_I belong together, in place of C and beta: give both or none"
            )
        if not (_auto(self.beta) or is_number(self.beta, 0.0, np.inf) or _zero(self.beta)):
            raise ValueError(f"beta must be a finite number >= 0 or 'auto', got {self.beta!r}")
        self._check_count("n_neighbors", 1)
        heat = self.heat
        infinite = isinstance(heat, (float, np.floating)) and heat == np.inf
        if not (heat is None or _auto(heat) or is_number(heat, 0.0, np.inf) or infinite):
            raise ValueError(
                "heat must be a positive number, numpy.inf for weights of one, None for the rule, "
                f"or 'auto': {heat!r}"
            )
        if not (isinstance(self.search, str) and self.search in CRITERIA):
            raise ValueError(f"search must be one of {', '.join(CRITERIA)}, got {self.search!r}")

    @classmethod
    def _record(cls) -> Record:
        return {**super()._record(), "choice_": Later(Numbers("t", 0.0), OLDER)}

    def _restored(self) -> None:
        super()._restored()
        found: Any = self.choice_
        self.choice_ = np.zeros(0) if found is OLDER else found

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if not isinstance(self.choice_, np.ndarray) or len(self.choice_) not in (0, 3):
            raise ValueError("choice_ must be C, beta and the factor of the heat, or nothing")

    def _check_count(self, name: str, least: int) -> None:
        value = getattr(self, name)
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least:
            raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")


def _auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _zero(value: Any) -> bool:
    """Whether the value is a number and zero."""
    plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return plain and bool(value == 0)


def _sparse(data: Array, indices: Index, indptr: Index) -> Any:
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(np.diff(indptr) < 0):
        raise ValueError("the graph of the memory has places that do not belong to its entries")
    p, table = len(indptr) - 1, (data, indices.astype(np.int32), indptr.astype(np.int32))
    return csr_array(table, shape=(p, p))


def _whole(extent: Index, **given: Any) -> Whole:
    if np.any(np.diff(extent) < 0):
        raise ValueError("the extents of the memory do not rise")
    return Whole(None, **given, extent=extent)  # type: ignore[arg-type]  # set by LapMEDClassifier


def _landmarked(place: Index, **given: Any) -> Landmarked:
    if len(np.unique(place)) != len(place):
        raise ValueError("a landmark of the memory is named twice")
    limits = dict.fromkeys(("per_batch", "most", "support"), 0)  # set by LapMEDClassifier
    return Landmarked(None, **given, place=place, **limits)  # type: ignore[arg-type]  # and this


def told_memory(kept: dict[str, Any]) -> str:
    """Return what the memory of a stream consists of, in words."""
    if kept["form"] == "exact":
        return f"exact, {kept['points']} rows"
    residual = f"{kept['support']} support vectors" if kept["residual"] else "no residual"
    dropped = kept["dropped_support_vectors"]
    gone = f", {dropped} more dropped" if dropped else ""
    return f"{kept['landmarks']} landmarks, {residual}{gone}"


# the memory of a stream: p points, q landmarks, r rows of the root, e entries of the graph
_POINTS: Record = {
    "points": Numbers("p d"),
    "rows": Rows("p"),
    "coef": Numbers("p k"),
    "weights": Numbers("p k"),
}
_GRAPH = {
    "data": Numbers("e"),
    "indices": Rows("e", rising=False, below="p"),
    "indptr": Rows("p+1", rising=False),
}
_FACTOR = Numbers("q q", diagonal="positive")
_WHOLE: Record = {
    "graph": Fields(_sparse, _GRAPH),
    "root": Maybe(Numbers("r p")),
    "extent": Rows("r", rising=False, below="p+1"),
}
_LANDMARKED: Record = {
    "place": Rows("q", rising=False, below="p"),
    "R": _FACTOR,
    "G": _FACTOR,
    "h": Numbers("q k"),
    "phi": Numbers("q p"),
    "residual": Plain(bool),
    "gone": Plain(int, 0),
}
MEMORY = One(
    {
        "Whole": Fields(_whole, {**_POINTS, **_WHOLE}),
        "Landmarked": Fields(_landmarked, {**_POINTS, **_LANDMARKED}),
    }
)
