"""MEDClassifier: maximum entropy discrimination, at once or batch by batch; theory (M4).

Its probabilities, where they are asked for, are Platt's sigmoid of scores of rows that had not been
learned. The scores are f without the bias: in a stream that is the last batch's alone, and the
offset of the sigmoid, which comes from many, takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array, Index, canonical_order, is_sparse
from mercer.core.kinds import Numbers, Record
from mercer.core.memory import require_memory
from mercer.estimators.discrimination.base import BatchProblem, MarginClassifier
from mercer.estimators.shared.labels import read_labels, row_weights
from mercer.estimators.shared.stream import first_classes, known_codes
from mercer.estimators.shared.table import (
    merged_rows,
    read_any_inputs,
    read_any_rows,
    restored_on_error,
)
from mercer.estimators.support_vector.base import check_sigmoid, require_square
from mercer.inference.med import MED
from mercer.kernels import Kernel, Precomputed
from mercer.kernels.features.fourier import product
from mercer.losses.binary.margins import Margin
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted
from mercer.process.features import FeatureProcess
from mercer.process.process import Process

WINDOW = 2000  # held-out scores that are kept: the function changes, and memory must not grow
FLOOR = 1.1  # of C in a stream: below 1 nothing is learned, and just above it hardly anything


@dataclass(eq=False, repr=False, kw_only=True)
class MEDClassifier(MarginClassifier):
    """Maximum entropy discrimination: minimise 1/2 |f|^2 + sum_i w_i g_C(y_i (f(x_i) + b)).

    g_C is :class:`mercer.losses.Margin`; f has the prior of ``amplitude`` times the kernel, b is
    free. The posterior of one batch is the prior of the next (:meth:`partial_fit`). Several
    classes are one function each against the rest. For large C it is the support vector machine.
    Without ``calibration`` there are no probabilities: the variance of f stays that of the prior.

    Parameters
    ----------
    C : > 1, default 100. Slack parameter: the largest weight a row can get. At C <= 1 no row has
        any weight, and nothing is learned.
    amplitude : > 0, default 0.01. Prior variance of f, a factor of the kernel. For a softer margin
        make it smaller, not C: amplitude * C is what C is for :class:`SVC`, as long as C is large.
    kernel, degree, gamma, coef0 : default "rbf", 3, "scale", 0; see :class:`SVC`. What depends on
        the data (``gamma="scale"``, the frequencies of :class:`~mercer.kernels.TFIDF`) is that of
        the first batch. Sparse rows are taken with ``"linear"`` and TFIDF.
    class_weight : None (default, all 1), "balanced" (in ``fit`` only) or a dict from class to
        weight >= 0.
    bias_rule : "exact" (default), the optimum, or "median", that of the paper, for comparison.
    schedule : C of batch t = 1, 2, ... in ``partial_fit``. "sqrt" (default) is
        max(C / sqrt(t), 1.1), which averages over the batches; "constant" is C, with which the
        score keeps following the last batch.
    calibration : None (default), or "sigmoid": ``predict_proba`` by Platt's sigmoid (several
        classes: a softmax with one slope) of held-out scores: five folds of the first batch, or of
        ``fit``; in a stream the scores of each later batch before it is learned, the last 2000 of
        all. The offset of the sigmoid takes the place of the bias (which is the last batch's
        alone): the zero of ``decision_function`` is p = 1/2.
    tol : > 0, default 1e-8. Duality gap at which a batch is solved, relative to the objective.
    max_iter : >= 1, default 200. Most steps; reaching it is a ConvergenceWarning.

    Attributes
    ----------
    posteriors_ : list with one :class:`mercer.process.Process`; its mean is f + b, k outputs.
    support_ : rows that are support vectors, counted from the beginning of the stream.
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,), as of :class:`SVC`. A
        precomputed kernel has the amplitude in ``dual_coef_``.
    feature_weights_ : (k, m). A kernel that offers m features (linear, TF-IDF, random Fourier,
        Nystroem, Fisher) has no support vectors: the function is
        ``feature_weights_ @ kernel_.features(x) + intercept_``; memory does not grow. Else m = 0.
    stream_ : (2,) batches and rows seen.
    kernel_ : the kernel, amplitude included.
    slope_, offsets_ : of the calibration; empty where there is none.
    left_out_ : None.
    report_ : of the last batch: ``inference`` (duality gap, objective, which is the divergence from
        the prior, and jitter, see :class:`mercer.inference.MED`), ``C`` and its ``support``.
    classes_, n_features_in_, feature_names_in_

    References
    ----------
    Hou & Hero, Sequential maximum margin classifiers for partially labeled data, 2018, Theorem 1
    and its corollaries, with the exact bias; Jaakkola, Meila & Jebara, 1999.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import MEDClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> model = MEDClassifier(kernel="linear").fit(X, ["a", "a", "b", "b"])
    >>> model.predict([[0.2], [2.8]])
    array(['a', 'b'], dtype='<U1')
    >>> model.partial_fit([[1.4]], ["b"]).predict([[1.45]])
    array(['b'], dtype='<U1')
    """

    _freezes: ClassVar[tuple[str, ...]] = ("kernel", "amplitude")
    C: float = field(default=100.0, kw_only=False)
    amplitude: float = 0.01
    bias_rule: str = "exact"
    schedule: str = "sqrt"
    calibration: str | None = None
    tol: float = 1e-8
    max_iter: int = 200

    def _check_params(self) -> None:
        super()._check_params()
        self._check_slack(self.C)
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be a positive number of steps: {self.max_iter!r}")
        choices = (("exact", "median"), ("sqrt", "constant"), (None, "sigmoid"))
        for name, known in zip(("bias_rule", "schedule", "calibration"), choices, strict=True):
            given = getattr(self, name)
            if given not in known:
                raise ValueError(f"{name} must be {known[0]!r} or {known[1]!r}, got {given!r}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse()
        return tags

    # ------------------------------------------------------------------ learning
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,) alone, whatever was seen before."""
        with restored_on_error(self):
            self._check_params()
            X, y = read_any_rows(self, X, y, sparse=self._takes_sparse(), reset=True)
            given = read_labels(y, self.class_weight, sample_weight)
            given.check_two()
            self.classes_ = given.classes
            self._begin(X, given.weights)
            self._learn(X, given.codes, given.weights, float(self.C))
            if self.calibration is not None and not len(self.slope_):
                raise ValueError(
                    "calibration needs at least two different rows of each class, so that each can "
                    "be left out once; give more rows, or calibration=None"
                )
            return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from one more batch X (n, d), y (n,), which may have rows of one class only.

        ``classes`` are all labels that will ever occur, for the first call: without them they are
        those of its batch. ``kernel`` and ``amplitude`` are frozen by it: a stream in which one of
        them is changed is refused. If anything fails, the classifier stays as it was.
        """
        with restored_on_error(self):
            self._check_params()
            self._require_frozen()
            first = not hasattr(self, "classes_")
            X, y = read_any_rows(self, X, y, sparse=self._takes_sparse(), reset=first)
            if self._precomputed():
                raise ValueError(
                    "a precomputed kernel says nothing of rows to come: give partial_fit the "
                    "kernel itself, or use fit"
                )
            self._check_stream_weights()
            self.classes_ = first_classes(y, classes, getattr(self, "classes_", None))
            codes = known_codes(y, self.classes_)
            weights = row_weights(self.class_weight, self.classes_, codes, sample_weight)
            if not np.any(weights > 0.0):
                raise ValueError(
                    "sample_weight and class_weight leave no row of this batch any weight: leave "
                    "the batch out, or give the class of its rows a weight"
                )
            if first:
                self._begin(X, weights)
            t = 1.0 if self.schedule == "constant" else self.stream_[0] + 1.0
            C = float(min(self.C, max(self.C / np.sqrt(t), FLOOR)))
            self._learn(X, codes, weights, C)
            return self

    def _begin(self, X: Any, weights: Array) -> None:
        """The state before the first batch: the kernel, frozen, and f = 0."""
        k = 1 if len(self.classes_) == 2 else len(self.classes_)
        kernel = self._signal(X, weights)
        self.kernel_ = kernel if kernel.pairwise else float(self.amplitude) * kernel
        self.support_ = np.zeros(0, dtype=np.intp)
        self.support_vectors_, self.dual_coef_ = np.zeros((0, X.shape[1])), np.zeros((k, 0))
        sample = self.kernel_.features(X[:1])
        self.feature_weights_ = np.zeros((k, 0 if sample is None else sample.shape[1]))
        self.intercept_, self.stream_ = np.zeros(k), np.zeros(2)
        # scores, class and weight of held-out rows; the sigmoid is empty as long as there are none
        self._held, self.slope_, self.offsets_ = np.zeros((0, k + 2)), np.zeros(0), np.zeros(0)
        self._freeze()

    def _learn(self, X: Any, codes: Index, weights: Array, C: float) -> None:
        """Condition once more, by Theorem 1: what was learned before is the prior of the batch."""
        first, total = merged_rows(X, codes, weights)
        n, m = len(first), self.feature_weights_.shape[1]
        require_memory(n, 3 + -(-m // n) * (not is_sparse(X)))
        points = X[first]
        with np.errstate(over="ignore", invalid="ignore"):  # the solver refuses what is not finite
            F = self.kernel_.features(points) if m else None
            if self.kernel_.pairwise:
                require_square(self.kernel_, X, len(X))
                K = np.asarray(self.amplitude * X[np.ix_(first, first)])
            else:
                K = product(F, F) if m else self.kernel_(points)
        if F is not None:
            before = FeatureProcess(self.kernel_, self.feature_weights_).of_features(F)
        elif len(self.support_):
            before = self._posterior(None).mean(points)
        else:  # f is zero before the first rows, and those of a precomputed kernel come once only
            before = np.zeros((n, len(self.intercept_)))
        batch = BatchProblem(K, self._signs(codes[first]), codes[first], total, before)
        inference = MED(self.tol, self.max_iter, self.bias_rule, self.intercept_)
        solution = batch.solve(inference, Margin(C))
        # as long as f is zero its scores say nothing, whatever was seen (a single row, one class)
        fresh = not (len(self.support_) or self.feature_weights_.any())
        scores: Array | None = before
        order = np.arange(n)
        if self.calibration is not None:
            pairwise = self.kernel_.pairwise
            order = canonical_order(K if pairwise else points, codes[first], pairwise=pairwise)
        if self.calibration is not None and fresh:
            scores = batch.held_out(inference, Margin(C), order)
        self._append(first, points, F, np.ascontiguousarray(solution.alpha.T))
        assert solution.beta is not None
        self.intercept_ = solution.beta[0]
        self.stream_ = self.stream_ + np.array([1.0, X.shape[0]])
        used, weight = int(np.count_nonzero(weights > 0.0)), float(total.sum())
        support = int(np.count_nonzero(np.any(solution.alpha != 0.0, axis=1)))
        more = {"C": C, "batches": int(self.stream_[0]), "bias": self.bias_rule, "support": support}
        if C < self.C and C <= FLOOR:
            more["schedule"] = (
                f"C / sqrt(t) has reached its floor {C}: from here on every batch counts the "
                "same; start with a larger C and a smaller amplitude for a longer stream"
            )
        rows = {"used": used, "distinct": n, "weight": weight}
        self._tell(inference, solution.report, rows, **more)
        if self.calibration is not None:
            by = "folds" if fresh else "scores before each batch"
            self._calibrate(scores, batch, by, order)

    def _append(self, first: Index, points: Any, F: Any, coefficients: Array) -> None:
        """Take the support vectors of a batch into f; coefficients is (k, n)."""
        if F is not None:  # w = sum_i y_i a_i phi(x_i): memory does not grow
            self.feature_weights_ = self.feature_weights_ + np.asarray(F.T @ coefficients.T).T
            return
        held = np.flatnonzero(np.any(coefficients != 0.0, axis=0))
        if self.kernel_.pairwise:
            coefficients, self.kernel_ = self.amplitude * coefficients, Precomputed()
        self.support_ = np.concatenate([self.support_, first[held] + int(self.stream_[1])])
        self.support_vectors_ = np.concatenate([self.support_vectors_, points[held]])
        self.dual_coef_ = np.column_stack([self.dual_coef_, coefficients[:, held]])

    # ------------------------------------------------------------------ probabilities
    def _calibrate(self, scores: Array | None, batch: BatchProblem, by: str, order: Index) -> None:
        """Fit the sigmoid to the scores kept and those of a batch (n, k), None: it has none."""
        if scores is not None:
            new = np.column_stack([scores, batch.codes, batch.weights])
            held = np.concatenate([self._held, new])
            k = scores.shape[1]
            slope, self.offsets_ = fit_sigmoid(
                held[:, :k], held[:, k].astype(np.intp), held[:, k + 1], len(self.classes_)
            )
            self.slope_ = np.array([slope])
            # of a batch larger than the window rows from all over it, of older ones the latest
            rows = np.unique(np.linspace(0, len(new) - 1, WINDOW).astype(np.intp))
            self._held = np.concatenate([self._held, new[order[rows]]])[-WINDOW:]
        self.report_["calibration"] = {
            "by": by if scores is not None else "none: a class of the batch has a single row",
            "slope": float(self.slope_[0]) if len(self.slope_) else None,
            "scores": len(self._held),
        }

    def _shifted(self, f: Array) -> Array:
        """Return f + b (q, k), moved to the middle of the sigmoid where there is one."""
        if not len(self.slope_):
            return f
        return shifted(f - self.intercept_, float(self.slope_[0]), self.offsets_)

    @property
    def predict_proba(self) -> Any:
        """Probabilities (q, k) in the order of ``classes_``; absent without ``calibration``."""
        if self.calibration is None:
            raise AttributeError(
                "maximum entropy discrimination has no probabilities: its variance does not shrink "
                "with the data; calibration='sigmoid' fits some to held-out scores, "
                "sklearn.calibration.CalibratedClassifierCV has other ways"
            )
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        d = self.decision_function(X)
        if not len(self.slope_):
            raise ValueError(
                "there is no held-out score to calibrate with yet: learn one more batch, with "
                "rows of every class, before asking for probabilities"
            )
        return class_probabilities(d, float(self.slope_[0]))

    # ------------------------------------------------------------------ what was learned
    def _posterior(self, bias: Array | None) -> Process:
        """The same function in weight space, where the kernel has features."""
        if self.feature_weights_.shape[1]:
            return FeatureProcess(self.kernel_, self.feature_weights_, bias)
        return super()._posterior(bias)

    def _read_inputs(self, X: Any) -> Any:
        return read_any_inputs(self, X, sparse=self._takes_sparse())

    def _takes_sparse(self) -> bool:
        given = self.kernel
        return given.takes_sparse if isinstance(given, Kernel) else given == "linear"

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        report, (batches, rows) = self.report_, self.stream_
        m = self.feature_weights_.shape[1]
        kept = f"{m} weights of its features" if m else f"{len(self.support_)} support vectors"
        divergence = float(np.sum(report["inference"]["objective"]))
        learned = super()._summary_rows()
        found = report.get("calibration")
        if found is not None:
            slope, scores = found["slope"], f"{found['scores']} held-out scores"
            if slope is None:
                text = "none yet: there are no held-out scores"
            elif slope:
                text = f"sigmoid of slope {slope:.4g} on {scores}"
            else:
                text = f"sigmoid on {scores}, which say nothing: the shares of the classes"
            learned.append(("Quality", "probabilities", text))
        lines = [
            ("Data", "rows", f"{int(rows)}, batches: {int(batches)}"),
            *learned,
            ("Model", "kept of each function" if m else "kept", kept),
            ("Model", "C of the last batch", f"{report['C']:.6g}"),
            ("Model", "bias", report["bias"]),
            ("Quality", "support vectors of the last batch", str(report["support"])),
            ("Quality", "divergence from the prior", f"{divergence:.6g}"),
        ]
        if "schedule" in report:
            lines.append(("Model", "schedule", report["schedule"]))
        return lines

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        # f features, h held-out scores with class and weight
        return {
            **super()._record(),
            "stream_": Numbers("2", 1.0, whole=True),
            "feature_weights_": Numbers("k f"),
            "slope_": Numbers("p", 0.0),
            "offsets_": Numbers("q"),
            "_held": Numbers("h k+2"),
        }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        k, held = len(self.intercept_), self._held
        if self.feature_weights_.size and len(self.support_):
            raise ValueError("there are feature_weights_, and support vectors, too")
        check_sigmoid(self.slope_, self.offsets_, k, calibrated=len(self.slope_) > 0)
        if len(held) > WINDOW or len(self.slope_) > len(held):
            raise ValueError("the held-out scores do not fit the functions or their calibration")
        codes = held[:, k]
        known = (codes >= 0.0) & (codes < max(2, k)) & (codes == np.floor(codes))
        if not (known.all() and (held[:, k + 1] > 0.0).all()):
            raise ValueError("the held-out scores have classes or weights that cannot be")

    def _check_kernel(self) -> None:
        m, X = self.feature_weights_.shape[1], np.zeros((1, self.n_features_in_))
        if not m:
            super()._check_kernel()
            return
        F = self.kernel_.features(X)
        if F is None or F.shape != (1, m) or not np.isfinite(self.posteriors_[0].mean(X)).all():
            raise ValueError("the kernel of the model does not belong to its feature weights")
