"""MEDClassifier: maximum entropy discrimination, at once or batch by batch."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Record
from mercer.estimators.discrimination.calibration import WINDOW
from mercer.estimators.discrimination.stream import MEDStream
from mercer.estimators.shared.labels import decided, read_labels, row_weights
from mercer.estimators.shared.stream import first_classes, known_codes, require_frozen
from mercer.estimators.shared.table import read_any_rows, restored_on_error
from mercer.estimators.support_vector.record import check_sigmoid
from mercer.losses.base import is_number


class MEDClassifier(ClassifierMixin, MEDStream):  # type: ignore[misc]  # scikit-learn ships no types
    """Maximum entropy discrimination: minimise 1/2 |f|^2 + sum_i w_i g_C(y_i (f(x_i) + b)).

    g_C is :class:`mercer.losses.Margin`; f has the prior of ``amplitude`` times the kernel, b is
    free. The posterior of one batch is the prior of the next (:meth:`partial_fit`). Several
    classes are one machine each against the rest. For large C it is the support vector machine.

    There are no probabilities of its own: the variance of f stays that of the prior, whatever is
    seen. ``calibration`` fits some to scores of rows that had not been learned.

    Parameters
    ----------
    C : slack parameter > 1; at C <= 1 no row has any weight, and nothing is learned.
    amplitude : prior variance of f, a factor of the kernel. For a softer margin make it smaller,
        not C: amplitude * C is what C is for ``SVC``, as long as C is large.
    kernel, degree, gamma, coef0 : see :class:`SVC`. What depends on the data (``gamma="scale"``,
        the frequencies of :class:`~mercer.kernels.TFIDF`) is that of the first batch. Sparse rows
        are taken with ``"linear"`` and :class:`~mercer.kernels.TFIDF`.
    class_weight : None, "balanced" (in ``fit`` only) or a dict.
    bias_rule : "exact", the optimum, or "median", that of the paper, for comparison.
    schedule : C of batch t in ``partial_fit``: "sqrt" is max(C / sqrt(t), 1.1), which averages over
        the batches; "constant" is C, with which the score keeps following the last batch.
    calibration : None, or "sigmoid": ``predict_proba`` by Platt's sigmoid (several classes: a
        softmax with one slope) of held-out scores: five folds of the first batch, or of ``fit``;
        in a stream the scores of each later batch before it is learned, the last 2000 of all.
        The offset of the sigmoid takes the place of the bias (which is the last batch's alone):
        the zero of ``decision_function`` is p = 1/2.
    tol : duality gap at which a batch is solved, relative to the objective.
    max_iter : steps of the interior point at most; reaching it is a ConvergenceWarning.

    Attributes
    ----------
    support_ : rows that are support vectors, counted from the beginning of the stream.
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ kernel_(support_vectors_, x) + intercept_``. A precomputed kernel has the
        amplitude in ``dual_coef_``.
    feature_weights_ : (k, m). A kernel that offers m features (linear, TF-IDF, random Fourier,
        Nystroem, Fisher) has no support vectors; there the function is
        ``feature_weights_ @ kernel_.features(x) + intercept_``, and memory does not grow. For any
        other kernel m = 0.
    stream_ : (2,) batches and rows seen.
    kernel_ : the kernel, amplitude included.
    slope_, offsets_ : of the calibration; empty where there is none.
    report_ : of the last batch: duality gap, objective (the divergence from the prior), C, and
        jitter, what rounding made the solver add to a diagonal on its way (mostly 0).
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

    def __init__(
        self,
        C: float = 100.0,
        *,
        amplitude: float = 0.01,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        class_weight: Any = None,
        bias_rule: str = "exact",
        schedule: str = "sqrt",
        calibration: str | None = None,
        tol: float = 1e-8,
        max_iter: int = 200,
    ) -> None:
        self.C = C
        self.amplitude = amplitude
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.class_weight = class_weight
        self.bias_rule = bias_rule
        self.schedule = schedule
        self.calibration = calibration
        self.tol = tol
        self.max_iter = max_iter

    def _check_params(self) -> None:
        for name in ("C", "amplitude", "tol"):
            if not is_number(getattr(self, name), 0.0, np.inf):
                raise ValueError(
                    f"{name} must be a positive finite number, got {getattr(self, name)!r}"
                )
        if self.C <= 1.0:
            raise ValueError(
                f"C must be above 1, got {self.C!r}: at C <= 1 no row has any weight and nothing "
                "is learned; for a softer margin make the amplitude smaller"
            )
        if not isinstance(self.max_iter, (int, np.integer)) or self.max_iter < 1:
            raise ValueError(f"max_iter must be a positive number of steps: {self.max_iter!r}")
        for name, known in (("bias_rule", ("exact", "median")), ("schedule", ("sqrt", "constant"))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"{name} must be {known[0]!r} or {known[1]!r}, got {getattr(self, name)!r}"
                )
        if self.calibration not in (None, "sigmoid"):
            raise ValueError(f"calibration must be None or 'sigmoid', got {self.calibration!r}")

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
            self._absorb(X, given.codes, given.weights, float(self.C))
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
        them is changed is refused. If anything fails, the machine stays as it was.
        """
        with restored_on_error(self):
            self._check_params()
            require_frozen(self)
            first = not hasattr(self, "classes_")
            X, y = read_any_rows(self, X, y, sparse=self._takes_sparse(), reset=first)
            if self._precomputed():
                raise ValueError(
                    "a precomputed kernel says nothing of rows to come: give partial_fit the "
                    "kernel itself, or use fit"
                )
            if isinstance(self.class_weight, str):
                raise ValueError(
                    f"class_weight={self.class_weight!r} needs all rows at once: give a dict"
                )
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
            self._absorb(X, codes, weights, self._slack())
            return self

    # ------------------------------------------------------------------ predictions
    def decision_function(self, X: Any) -> Array:
        """Return f + b at X (q, d): (q,) for two classes, (q, k) for several."""
        f = self._shifted(self._margins(X))
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d)."""
        check_is_fitted(self, "support_vectors_")
        return decided(self.classes_, self.decision_function(X))

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
            raise ValueError("the held-out scores do not fit the machines or their calibration")
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
        if F is None or F.shape != (1, m) or not np.isfinite(self._expanded(X)).all():
            raise ValueError("the kernel of the model does not belong to its feature weights")
