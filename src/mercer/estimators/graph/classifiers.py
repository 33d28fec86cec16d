"""Three classifiers of partly labelled rows, on the prior that the graph of all rows conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Numbers, Record
from mercer.estimators.graph.base import MEMORY, GraphMachine, told_memory
from mercer.estimators.shared.labels import (
    Vertices,
    merge_vertices,
    replaced,
    row_weights,
    split_labels,
)
from mercer.estimators.shared.stream import first_classes, known_codes
from mercer.estimators.shared.table import check_weights, read_inputs, restored_on_error
from mercer.inference.base import Inference, Report
from mercer.inference.exact import Exact
from mercer.inference.graph import Landmarked, Manifold, Whole, landmarked
from mercer.inference.med import MED
from mercer.inference.smo import SMO
from mercer.linalg.operators import PosteriorOperator
from mercer.losses import Gaussian, Hinge
from mercer.losses.base import Loss
from mercer.losses.binary.margins import Margin
from mercer.process.process import Posterior, Prior

NEAR_ONE = 3.0  # C k(x, x) from which on there is little to learn


@dataclass(eq=False, repr=False, kw_only=True)
class LapMEDClassifier(GraphMachine):
    """Maximum entropy discrimination of partly labelled rows, at once or batch by batch.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + sum_i w_i g_C(y_i (f(x_i) + b)): the sum is over the
    labelled rows, g_C is :class:`mercer.losses.Margin`, and L is the normalised Laplacian of the
    neighbourhood graph of all rows. The graph term turns the kernel into

        k_new(x, z) = k(x, z) - k(x, X) P k(X, z),    P = (I + 2 beta L K)^-1 2 beta L

    (a prior conditioned on smoothness), so that predictions at new points need nothing more. In
    :meth:`partial_fit` the posterior of a batch, kernel included, is the prior of the next.

    Parameters
    ----------
    C : > 1 or "auto" (default: ``fit`` lets the labels choose, ``partial_fit`` keeps that, and a
        stream that begins with it has 100). Slack parameter of every batch: the kernel shrinks by
        itself as rows come. ``report_["slack"]`` says when C k_new(x, x) comes near 1, where
        nothing more is learned.
    beta : >= 0 or "auto" (default, as C; a stream: 0.5). Weight of the smoothness.
    gamma_A, gamma_I : > 0 and >= 0, default None. The weights of Belkin, Niyogi & Sindhwani, both
        or none, instead of C and beta: C = 1 / (2 l gamma_A), beta = gamma_I / (2 gamma_A n^2) for
        the n rows of a batch of which l are labelled.
    amplitude : > 0, default 1. Prior variance of f, a factor of the kernel.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; see :class:`SVC`. What depends on
        the data (``gamma="scale"``) is that of the first batch, unlabelled rows included.
    n_neighbors : >= 1, default 10. Neighbours of each row in the graph.
    heat : > 0, in squared units of X; default None. h in the weights exp(-d^2 / (4 h));
        ``numpy.inf`` makes all of them one, None is the median squared distance to the farthest of
        a row's neighbours, in each batch; "auto" lets the labels choose a multiple of it.
    search : what chooses: "left_out" (default), the log density of each label given all others;
        "evidence", that of all labels; "partition", the paper's partition function, for comparison
        (it asks for the largest beta). A graph is used if the first two find it a nat better than
        none, ``beta=0``.
    calibration : None (default) or "sigmoid": ``predict_proba`` by a sigmoid (several classes: a
        softmax) of the scores of labels left out, in a stream of those before each batch. It has
        a slope and no offset: decisions stay.
    unlabelled : default None. Rows whose label is None or NaN are unlabelled. A value given here
        marks them too: -1 for scikit-learn's convention (by default -1 is a label like others).
    class_weight : None (default, all 1), "balanced" (in ``fit`` only, over the labelled rows) or a
        dict from class to weight >= 0.
    budget : >= 0, default 2000. Rows up to which a stream is exact, at 8 budget^2 bytes; beyond,
        and from the first batch on if 0, it is carried by landmarks. None is exact whatever it
        takes, as ``fit`` is.
    landmarks : >= 0, default 20. Points of each batch, at most, that become landmarks.
    max_landmarks : >= 0, default 1000. Landmarks in all, at most.
    residual : default True, which keeps what the landmarks miss of the kernel; this needs the
        support vectors. False drops it, and memory no longer grows with the labelled rows.
    max_support : >= 0, default 5000. Support vectors that are kept beside the landmarks; those that
        matter least beyond are represented by the landmarks alone.
    merge : >= 1, default "auto", ``n_neighbors + 1``. Rows that unlabelled batches must have
        together to make a graph; until then they wait (and join a batch with labels if one comes).
    tol, max_iter : > 0 and >= 1, default 1e-8 and 200; see :class:`MEDClassifier`.

    Attributes
    ----------
    posteriors_ : list with one :class:`mercer.process.Posterior`: mean f + b, covariance k_new.
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,), as of :class:`SVC`;
        unlabelled rows are among them. ``support_`` counts from the beginning of the stream.
    stream_ : (2,) batches and rows learned.
    process_ : the prior of the next batch, a Posterior: mean f without bias, covariance k_new.
    kernel_ : the kernel before any smoothing, amplitude included.
    memory_, waiting_ : what carries the stream, and (u, d) rows too few for a graph so far.
    choice_ : (3,) C, beta and the multiple of the heat that were chosen, or empty.
    slope_ : (1,) of the sigmoid, or empty.
    left_out_ : with ``calibration``, after ``fit``: :class:`mercer.left_out.figures.LeftOut` of the
        labelled rows, each without its label, by fits (ten folds of more than 60). Else None.
    report_ : ``inference`` (convergence, duality gap, objective), ``C``, ``beta``, ``labelled``
        rows, the ``graph`` (its edges and heat), ``margin_scale``, the median of C k_new(x, x) at
        the labelled rows, the ``choice`` (its criterion, and the gain over no graph), the
        ``calibration`` and the ``memory`` in use.
    classes_, n_features_in_, feature_names_in_

    References
    ----------
    Hou & Hero, Sequential maximum margin classifiers for partially labeled data, 2018, Theorem 2;
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapMEDClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> y = ["a", None, None, None, None, "b"]
    >>> model = LapMEDClassifier(n_neighbors=2).fit(X, y)
    >>> model.predict([[2.5], [5.5]])
    array(['a', 'b'], dtype='<U1')
    >>> model.partial_fit([[2.4], [3.0], [3.4]], [None, "a", None]).predict([[3.5]])
    array(['a'], dtype='<U1')
    """

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "amplitude")
    _least_slack: ClassVar[float] = 1.0
    amplitude: float = 1.0
    budget: int | None = 2000
    landmarks: int = 20
    max_landmarks: int = 1000
    residual: bool = True
    max_support: int = 5000
    merge: int | str = "auto"
    tol: float = 1e-8
    max_iter: int = 200

    # ------------------------------------------------------------------ streams
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from one more batch X (n, d), y (n,), in which None or NaN stands for no label.

        Without y, or without any label in it, a batch changes the kernel only; if it has fewer
        rows than ``merge`` it waits for more. Rows of one class only are fine. ``classes`` are all
        labels that will ever occur, for the first call: without them they are those of its batch.
        ``kernel`` and ``amplitude`` are frozen by it: a stream in which one of them is changed is
        refused. If anything fails, the classifier stays as it was.
        """
        with restored_on_error(self):
            self._check_params()
            self._require_frozen()
            first = not hasattr(self, "classes_")
            X = read_inputs(self, X, fitted=not first)
            weights = check_weights(sample_weight, len(X))
            known, labels = split_labels(y, len(X), self.unlabelled)
            if first and classes is None and not known.any():
                raise ValueError(
                    "the first batch has no label: give all labels of the stream as "
                    "classes=[...] at the first call of partial_fit"
                )
            self.classes_ = first_classes(labels, classes, getattr(self, "classes_", None))
            if self.unlabelled in self.classes_.tolist():
                raise ValueError(
                    f"classes name {self.unlabelled!r}, which unlabelled= says is not a label: "
                    "leave it out of classes"
                )
            codes = known_codes(labels, self.classes_)
            self._check_stream_weights()
            counts = weights[known]
            if len(codes):
                counts = counts * row_weights(self.class_weight, self.classes_, codes)
            if first:
                self._begin(X, replaced(weights, known, counts))
            batch = self._gathered(X, weights, known, codes, counts)
            if batch is None:
                self.stream_ = self.stream_ + np.array([0.0, len(X)])
            else:  # Theorem 2: condition once more
                self._learn(batch, self._memory_for(len(batch.points)).smooth, len(X))
            return self

    def _begin(self, X: Array, weights: Array) -> None:
        super()._begin(X, weights)
        d, k = self.n_features_in_, len(self.intercept_)
        self.stream_ = np.zeros(2)
        self.waiting_, self.waiting_rows_ = np.zeros((0, d)), np.zeros(0)
        self._keep(Whole.empty(self.kernel_, d, k))

    def _gathered(
        self, X: Array, weights: Array, known: NDArray[np.bool_], codes: Index, counts: Array
    ) -> Vertices | None:
        """Return the batch together with the rows that waited, or None: it waits, too."""
        u, use = len(self.waiting_), weights > 0.0
        rows = np.append(self.waiting_rows_, np.flatnonzero(use) + self.stream_[1])
        points = np.concatenate([self.waiting_, X[use]])
        enough = self.n_neighbors + 1 if self.merge == "auto" else int(self.merge)
        if not np.any(counts > 0.0) and len(points) < enough:
            self.waiting_, self.waiting_rows_ = points, rows
            if not hasattr(self, "report_"):
                self._tell(None, Report(iterations=0), {"used": 0, "distinct": 0, "weight": 0.0})
            self.report_ = self.report_ | {"waiting": len(points)}
            return None
        labelled = np.append(np.zeros(u, dtype=bool), known[use])
        kept = use[known]
        batch = merge_vertices(points, np.ones(len(points)), labelled, codes[kept], counts[kept])
        self.waiting_, self.waiting_rows_ = self.waiting_[:0], self.waiting_rows_[:0]
        return replace(batch, rows=rows[batch.rows].astype(np.intp))

    def _memory_for(self, n: int) -> Manifold:
        """The memory that takes n more rows: exact within the budget, landmarks beyond it."""
        memory = self._limited(self.memory_)
        exact = self.budget is None or len(memory.points) + n <= self.budget
        if exact or not isinstance(memory, Whole):
            return memory
        count = max(self.landmarks * int(self.stream_[0]), self.max_landmarks // 2)
        limits = (self.landmarks, self.max_landmarks, self.max_support)
        return landmarked(memory, bool(self.residual), *limits, count)

    def _limited(self, memory: Manifold) -> Manifold:
        """Return the memory with the limits that the parameters set now."""
        if not isinstance(memory, Landmarked):
            return memory
        most, support = self.max_landmarks, self.max_support
        return replace(memory, per_batch=self.landmarks, most=most, support=support)

    def _remember(self, manifold: Manifold, rows: int) -> None:
        """Keep all points: the next batch needs them."""
        self._keep(manifold)
        self.stream_ = self.stream_ + np.array([1.0, rows])

    def _keep(self, manifold: Manifold) -> None:
        self.memory_ = manifold
        self.support_, self.support_vectors_ = manifold.rows, manifold.points
        self.dual_coef_ = np.ascontiguousarray(manifold.weights.T)

    # ------------------------------------------------------------------ what was learned
    def _operator(self) -> PosteriorOperator:
        return self.memory_.operator()

    @property
    def process_(self) -> Posterior:
        """The prior of the next batch: mean f without bias, covariance k_new."""
        memory, operator = self.memory_, self.memory_.operator()
        try:
            operator.Q  # noqa: B018  # computed here, so that a memory without it is refused
        except ValueError as error:
            raise AttributeError(str(error)) from error
        prior = Prior(self.kernel_, memory.weights.shape[1])
        return Posterior(prior, memory.points, memory.weights, operator)

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        rows, report = super()._summary_rows(), self.report_
        if report.get("waiting"):
            rows.append(("Data", "rows that wait for a graph", str(report["waiting"])))
        if "memory" in report:
            rows.append(("Model", "memory", told_memory(report["memory"])))
        if "slack" in report:
            rows.append(("Model", "slack", report["slack"]))
        return rows

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        inside = ("support_", "support_vectors_", "dual_coef_")  # the memory has them
        rest = {name: kind for name, kind in super()._record().items() if name not in inside}
        return {
            **rest,
            "memory_": MEMORY,
            "stream_": Numbers("2", 0.0, whole=True),
            "waiting_": Numbers("u d"),
            "waiting_rows_": Numbers("u", 0.0, whole=True),
        }

    def _restored(self) -> None:
        super()._restored()
        self._keep(self._limited(replace(self.memory_, kernel=self.kernel_)))

    # ------------------------------------------------------------------ parts and parameters
    def _check_params(self) -> None:
        super()._check_params()
        if self.gamma_A is None and self.C != "auto":
            self._check_slack(self.C)
        for name in ("landmarks", "max_landmarks", "max_support"):
            self._check_count(name, 0)
        if self.budget is not None:
            self._check_count("budget", 0)
        if self.merge != "auto":
            self._check_count("merge", 1)
        if not isinstance(self.residual, (bool, np.bool_)):
            raise ValueError(f"residual must be True or False, got {self.residual!r}")
        if not self.residual and not (self.landmarks and self.max_landmarks):
            raise ValueError("without residual and landmarks nothing would be kept: give landmarks")

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """Theorem 2: the dual with the conditioned kernel."""
        if C <= 1.0:
            raise ValueError(
                f"gamma_A={self.gamma_A!r} makes C = 1 / (2 l gamma_A) = {C:.3g} for "
                f"{labelled:g} labelled rows; at C <= 1 nothing is learned: make gamma_A smaller"
            )
        return MED(self.tol, self.max_iter, near=self.intercept_), Margin(C)

    def _remarks(self, K: Array | None, C: float) -> dict[str, Any]:
        found: dict[str, Any] = {"memory": self.memory_.describe()}
        found |= {"batches": int(self.stream_[0]), "waiting": 0}
        if K is None:
            return found
        scale = C * float(np.median(K.diagonal()))
        if scale < NEAR_ONE:
            found["slack"] = (
                f"C k(x, x) is {scale:.3g} at the labelled rows of the last batch, near 1, below "
                "which a label has no weight: use a larger C or a smaller beta"
            )
        return found | {"margin_scale": scale}


@dataclass(eq=False, repr=False, kw_only=True)
class LapSVC(GraphMachine):
    """Support vector classification of partly labelled rows.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (1 - y_i (f(x_i) + b))_+ over functions f
    on the whole space. The loss is that of :class:`SVC`, to which it falls back without unlabelled
    rows and with ``beta=0``. The prior is that of :class:`LapMEDClassifier`: L, and all parameters
    and attributes but C, tol and max_iter, are described there.

    Parameters
    ----------
    C : > 0 or "auto" (default). Weight of the hinge loss, the largest coefficient a row can get.
    beta, gamma_A, gamma_I, n_neighbors, heat, unlabelled, class_weight, search, calibration :
        default "auto", None, None, 10, None, None, None, "left_out", None.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; "scale" counts all rows.
    tol : > 0, default 1e-6. Largest violation of optimality, in units of f; 1e-8 at most where C or
        beta is chosen.
    max_iter : default -1, as SMO has it. Steps at most; reaching it is a ConvergenceWarning.

    References
    ----------
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006, section 4.4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapSVC
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> model = LapSVC(n_neighbors=2).fit(X, ["a", None, None, None, None, "b"])
    >>> model.predict([[2.5], [5.5]])
    array(['a', 'b'], dtype='<U1')
    """

    tol: float = 1e-6
    max_iter: int = -1

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """The dual of the hinge, as in SVC (GPML 6.38)."""
        tol = min(self.tol, 1e-8) if len(self.choice_) else self.tol
        return SMO(tol=tol, max_iter=self.max_iter), Hinge(C)


class LapLSClassifier(GraphMachine):
    """Least-squares classification of partly labelled rows, on labels -1 and +1.

    Minimise 1/2 |f|^2 + beta f(X)'L f(X) + C sum_i w_i (y_i - f(x_i) - b)^2 over functions f on
    the whole space. The prior is that of :class:`LapMEDClassifier`: L, and all parameters and
    attributes but C, are described there.

    Parameters
    ----------
    C : > 0 or "auto" (default). Weight of the squares, 1 / (2 noise variance of a label).
    beta, gamma_A, gamma_I, n_neighbors, heat, unlabelled, class_weight, search, calibration :
        default "auto", None, None, 10, None, None, None, "left_out", None.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; "scale" counts all rows.

    References
    ----------
    Belkin, Niyogi & Sindhwani, Manifold regularization, 2006, section 4.3.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LapLSClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [6.0], [7.0], [8.0]])
    >>> model = LapLSClassifier(n_neighbors=2).fit(X, ["a", None, None, None, None, "b"])
    >>> model.predict([[2.5], [5.5]])
    array(['a', 'b'], dtype='<U1')
    """

    def _parts(self, C: float, labelled: float) -> tuple[Inference, Loss]:
        """Exact regression with noise 1/(2 C)."""
        return Exact(), Gaussian(noise=0.5 / C)
