"""What machines on partly labelled rows share: the graph, the conditioned kernel, predictions.

Theory (M6).
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.arrays import Array
from mercer.estimators.labels import Labelled, decided, encode, one_vs_rest, row_weights
from mercer.estimators.lap_params import belkin, check_graph_params
from mercer.estimators.lap_report import GraphReport, told
from mercer.estimators.partly_labelled import Vertices, merge_vertices, split_labels
from mercer.estimators.stream_input import require_moderate
from mercer.estimators.sv_base import SupportVectorMachine
from mercer.estimators.table import check_weights, read_inputs
from mercer.estimators.unchanged import UnlessItFails
from mercer.kernels import Kernel
from mercer.linalg.graph import Graph, neighbour_graph
from mercer.linalg.memory import require_memory
from mercer.linalg.smoothness import Smoothness

MOST = 1e300  # kernel values whose sums are finite; what rounding then does, the factors say


@dataclass(frozen=True)
class Found:
    """Coefficients (l,) of one machine on the labelled rows, its bias and its report."""

    coefficients: Array
    bias: float
    report: dict[str, Any]


class GraphMachine(ClassifierMixin, GraphReport, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind LapMEDClassifier, LapSVC and LapLSClassifier: a child states its loss."""

    classes_: NDArray[Any]

    @abstractmethod
    def _machine(self, K: Array, y: Array, w: Array, C: float) -> Found:
        """Solve one machine: K (l, l), y (l,) of -1 and +1, weights w (l,)."""

    @abstractmethod
    def _joined(self, reports: list[dict[str, Any]]) -> dict[str, Any]:
        """One report of several machines, and a warning if one of them did not converge."""

    def _check_params(self) -> None:
        check_graph_params(cast(Any, self))

    # ------------------------------------------------------------------ learning
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,), in which None or NaN stands for no label.

        Equal rows are one point of the graph. A weight multiplies the loss of a labelled row, as
        so many copies of it would; a row of weight zero is left out altogether.
        """
        with UnlessItFails(self):
            self._check_params()
            X = read_inputs(self, X, fitted=False)
            if y is None:
                raise ValueError(
                    "fit requires y to be passed, but the target y is None; give a list in which "
                    "None or NaN marks the rows without a label"
                )
            weights = check_weights(sample_weight, len(X))
            known, labels = split_labels(y, len(X), cast(Any, self).unlabelled)
            if not known.any():
                raise ValueError(
                    f"Input y contains NaN, None or {cast(Any, self).unlabelled!r} only: no row "
                    "has a label, and some of at least two classes are needed"
                )
            self.classes_, codes = encode(labels)
            shares = row_weights(cast(Any, self).class_weight, self.classes_, codes)
            counts = weights[known] * shares
            Labelled(self.classes_, codes, weights[known], counts).check_two()
            self._begin(X, weights)
            self._learn_at_once(merge_vertices(X, weights, known, codes, counts), len(X))
            return self

    def _begin(self, X: Array, weights: Array) -> None:
        """Resolve the kernel, which is frozen from here on."""
        kernel = self._resolved(X, weights).noise_free()
        if kernel is None:
            raise ValueError("a kernel of noise alone has nothing to say of new rows")
        if kernel.pairwise or kernel.positional:
            raise ValueError(
                "a graph of neighbours needs the rows themselves, and a precomputed kernel does "
                "not have them: give the kernel as a function of rows"
            )
        self.kernel_ = self._scaled(kernel)

    def _scaled(self, kernel: Kernel) -> Kernel:
        return kernel

    def _learn_at_once(self, vertices: Vertices, n: int) -> None:
        """Condition the kernel on the graph, and solve each machine on the labelled rows."""
        graph, C, beta = self._graph_of(vertices)
        at, size = vertices.at, len(vertices.points)
        smooth, half = None, None
        if beta > 0.0:
            require_memory(size, 5, "a graph kernel", "fit")
            K = self.kernel_(vertices.points)
            columns = K[:, at]
            smooth = Smoothness(K, 2.0 * beta * graph.laplacian)
            del K
            half = smooth.half(columns)
            prior = columns[at] - half.T @ half  # k_new, equation (3)
        else:
            require_memory(len(at), 3)
            prior = self.kernel_(vertices.points[at])
        found = [
            self._machine(prior, y, vertices.weights, C)
            for y in np.ascontiguousarray(self._targets(vertices).T)
        ]
        c = np.column_stack([one.coefficients for one in found])
        coef = np.zeros((size, len(found)))
        np.add.at(coef, at, c)
        # f(x) = k(x, X) [J'c - P K J'c]
        expansion = coef if smooth is None or half is None else coef - smooth.back(half @ c)
        self.intercept_ = np.array([one.bias for one in found])
        self._keep(vertices, 2.0 * beta * graph.laplacian, coef, expansion, n)
        self.report_ = self._joined([one.report for one in found]) | {
            "precision": "float64",
            "C": C,
            "beta": beta,
            "labelled": len(at),
            "graph": told(graph, size),
            **self._kept(),
        }
        self.n_iter_ = max(1, int(self.report_["iterations"]))

    def _graph_of(self, vertices: Vertices) -> tuple[Graph, float, float]:
        """Return the graph of a batch, C and beta."""
        machine = cast(Any, self)
        require_moderate(self.kernel_, vertices.points, MOST)
        graph = neighbour_graph(vertices.points, machine.n_neighbors, machine.heat)
        return graph, *belkin(machine, float(vertices.weights.sum()), len(vertices.points))

    def _targets(self, vertices: Vertices) -> Array:
        """Return -1 and +1 (l, k), one column for each machine."""
        Y = one_vs_rest(vertices.codes, len(self.classes_))
        return Y[:, 1:] if len(self.classes_) == 2 else Y

    def _keep(self, vertices: Vertices, M: Any, coef: Array, expansion: Array, n: int) -> None:
        """Keep the points that the function needs."""
        held = np.flatnonzero(np.any(expansion != 0.0, axis=1))
        self.support_ = vertices.rows[held]
        self.support_vectors_ = np.ascontiguousarray(vertices.points[held])
        self.dual_coef_ = np.ascontiguousarray(expansion[held].T)

    def _kept(self) -> dict[str, Any]:
        """Return what the report says of what :meth:`_keep` keeps for later."""
        return {}

    # ------------------------------------------------------------------ predictions
    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._margins(X)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        return decided(self.classes_, self.decision_function(X))

    @property
    def predict_proba(self) -> Any:
        """Absent, with the reason."""
        raise AttributeError(
            f"{type(self).__name__} has no probabilities: its loss is no likelihood, or its labels "
            "are no measurements; wrap it in sklearn.calibration.CalibratedClassifierCV, fitted on "
            "labelled rows, to have some"
        )
