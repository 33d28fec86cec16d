"""What machines on partly labelled rows share: the graph, the conditioned kernel, predictions.

Theory (M6).

Parameters of machines on graphs: what they may be, and those of Belkin et al. as ours.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.estimators.graph.report import GraphReport, told
from mercer.estimators.shared.labels import (
    Labelled,
    Vertices,
    decided,
    encode,
    merge_vertices,
    one_vs_rest,
    row_weights,
    split_labels,
)
from mercer.estimators.shared.stream import require_moderate
from mercer.estimators.shared.table import check_weights, read_inputs, restored_on_error
from mercer.estimators.support_vector.base import SupportVectorMachine
from mercer.kernels import Kernel
from mercer.linalg.graph import Graph, neighbour_graph
from mercer.linalg.smoothness import Smoothness
from mercer.losses.base import is_number


def check_graph_params(machine: Any) -> None:
    """Refuse parameters that no fit can have had."""
    _positive(machine, "C", "tol", "amplitude")
    for name in ("gamma_A", "gamma_I"):
        value = getattr(machine, name)
        if value is not None and not (is_number(value, 0.0, np.inf) or _zero(name, value)):
            raise ValueError(f"{name} must be a positive finite number or None, got {value!r}")
    if (machine.gamma_A is None) != (machine.gamma_I is None):
        raise ValueError(
            "gamma_A and gamma_I belong together, in place of C and beta: give both or none"
        )
    if not (is_number(machine.beta, 0.0, np.inf) or _zero("beta", machine.beta)):
        raise ValueError(f"beta must be a finite number >= 0, got {machine.beta!r}")
    _count(machine, "n_neighbors", 1)
    heat = machine.heat
    if heat is not None and not (is_number(heat, 0.0, np.inf) or _infinite(heat)):
        raise ValueError(
            f"heat must be a positive number, numpy.inf for weights of one, or None: {heat!r}"
        )
    limit = getattr(machine, "max_iter", 1)
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < -1:
        raise ValueError(f"max_iter must be a number of steps, or -1 for no limit: {limit!r}")


def check_memory_params(machine: Any) -> None:
    """Refuse limits of memory that are no counts."""
    if machine.budget is not None:
        _count(machine, "budget", 0)
    for name in ("landmarks", "max_landmarks", "max_support"):
        _count(machine, name, 0)
    if machine.merge != "auto":
        _count(machine, "merge", 1)
    if not isinstance(machine.residual, (bool, np.bool_)):
        raise ValueError(f"residual must be True or False, got {machine.residual!r}")
    if not machine.residual and not (machine.landmarks and machine.max_landmarks):
        raise ValueError("without residual and landmarks nothing would be kept: give landmarks")


def belkin(machine: Any, labelled: float, n: int) -> tuple[float, float]:
    """Return C and beta of a batch of n points, ``labelled`` of them with a label.

    C = 1 / (2 l gamma_A), beta = gamma_I / (2 gamma_A n^2), where gamma_A and gamma_I are given:
    the objective of Belkin et al., (1/l) sum V + gamma_A |f|^2 + gamma_I / n^2 f'L f, divided by
    2 gamma_A.
    """
    if machine.gamma_A is None:
        return float(machine.C), float(machine.beta)
    beta = machine.gamma_I / (2.0 * machine.gamma_A * n * n)
    # without labels there is nothing to weigh
    return 1.0 / (2.0 * labelled * machine.gamma_A) if labelled else np.inf, float(beta)


def _positive(machine: Any, *names: str) -> None:
    for name in names:
        value = getattr(machine, name, 1.0)
        if not is_number(value, 0.0, np.inf):
            raise ValueError(f"{name} must be a positive finite number, got {value!r}")


def _count(machine: Any, name: str, least: int) -> None:
    value = getattr(machine, name)
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")


def _zero(name: str, value: Any) -> bool:
    """Whether the value is the zero that beta and gamma_I may be."""
    plain = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    return name != "gamma_A" and plain and value == 0


def _infinite(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and value == np.inf


MOST = 1e300  # kernel values whose sums are finite; what rounding then does, the factors say


@dataclass(frozen=True)
class GraphFit:
    """Coefficients (l,) of one machine on the labelled rows, its bias and its report."""

    coefficients: Array
    bias: float
    report: dict[str, Any]


class GraphMachine(ClassifierMixin, GraphReport, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind LapMEDClassifier, LapSVC and LapLSClassifier: a child states its loss."""

    classes_: NDArray[Any]

    @abstractmethod
    def _machine(self, K: Array, y: Array, w: Array, C: float) -> GraphFit:
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
        with restored_on_error(self):
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
