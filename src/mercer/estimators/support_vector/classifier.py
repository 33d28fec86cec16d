"""SVC: support vector classification with scikit-learn's parameters."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.shared.labels import decided, one_vs_rest, read_labels
from mercer.estimators.shared.table import check_weights, merged, restored_on_error
from mercer.estimators.support_vector.base import SupportVectorMachine, joined
from mercer.estimators.support_vector.bayesian import ByEvidence
from mercer.inference.smo import Programme
from mercer.left_out.span import JITTER, SupportLoo, Trained
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted


class SVC(ClassifierMixin, ByEvidence, SupportVectorMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Support vector classification: minimise 1/2 |f|^2 + C sum_i w_i (1 - y_i f_i)_+.

    Several classes are one machine each against the rest, all on the same rows of K. With an
    ``inference`` it is Bayesian: the hinge, normalised, is a likelihood; its evidence chooses
    amplitude (C) and length scales, and the posterior gives probabilities and error bars.

    Parameters
    ----------
    C : weight of the hinge loss.
    kernel : "rbf", "linear", "poly", a name of ``mercer.kernels``, a Kernel, a callable.
    degree, gamma, coef0 : of the kernels named as in scikit-learn, where they mean the same.
    probability : None, "loo" or "cv": fit a sigmoid (several classes: a softmax with one slope and
        an offset per class) on leave-one-out or 5-fold outputs. Then ``decision_function`` is
        shifted so that its zero is p = 1/2, and ``predict`` never contradicts ``predict_proba``.
    class_weight : None, "balanced" or a dict.
    bias : an unpenalised offset; False leaves it out.
    tol : largest violation of optimality; below 1e-5 rows of K are kept in double precision.
    cache_size : megabytes for rows of K.
    max_iter : steps at most, -1 for no limit; reaching it is a ConvergenceWarning, and in
        ``report_``.
    inference : None, "variational", "ep" or Inference: the Bayesian machine. A constant part of the
        kernel takes the place of the bias.
    search : of the Bayesian machine: "evidence", None (the kernel as it is) or a Search.
    discriminant : of the Bayesian machine: "mean", or "mode" to predict with the sparse solution of
        the hinge at the parameters found.
    random_state : for the folds of ``probability="cv"``, and for the search.

    Attributes
    ----------
    support_ : rows that are support vectors (of equal rows the first).
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ k(support_vectors_, x) + intercept_``.
    bayes_, log_evidence_ : the :class:`GPClassifier` of the normalised hinge, and its evidence.
    classes_, kernel_, report_, n_features_in_, feature_names_in_

    References
    ----------
    GPML section 6.4; Seeger's thesis, chapter 4; Fan, Chen & Lin (2005); Vapnik & Chapelle (2000);
    Lin, Lin & Weng (2007).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> SVC().fit(X, ["a", "a", "b", "b"]).predict([[0.2], [2.8]])
    array(['a', 'b'], dtype='<U1')
    """

    classes_: NDArray[Any]
    _hard_margin = True
    _trained: Trained

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        probability: str | None = None,
        class_weight: Any = None,
        bias: bool = True,
        tol: float = 1e-3,
        cache_size: float = 1000.0,
        max_iter: int = -1,
        inference: Any = None,
        search: Any = "evidence",
        discriminant: str = "mean",
        random_state: Any = None,
    ) -> None:
        self.C = C
        self.kernel = kernel
        self.degree = degree
        self.gamma = gamma
        self.coef0 = coef0
        self.probability = probability
        self.class_weight = class_weight
        self.bias = bias
        self.tol = tol
        self.cache_size = cache_size
        self.max_iter = max_iter
        self.inference = inference
        self.search = search
        self.discriminant = discriminant
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,)."""
        with restored_on_error(self):
            return self._fit(X, y, sample_weight)

    def _check_params(self) -> None:
        super()._check_params()
        if self.probability not in (None, "loo", "cv"):
            raise ValueError(f"probability must be None, 'loo' or 'cv', got {self.probability!r}")
        self._check_bayesian()

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        table = X
        X, y = self._validated(X, y)
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        classes, codes, weights = given.classes, given.codes, given.weights
        self.bayes_ = None if self.inference is None else self._learn(table, y, sample_weight)
        kernel = self._resolved(X, weights) if self.bayes_ is None else self.bayes_.kernel_
        first, total = merged(X, codes.astype(np.float64), weights)
        points = np.ascontiguousarray(X[first])
        n, k = len(first), len(classes)
        Y = one_vs_rest(codes[first], k)[:, 1:] if k == 2 else one_vs_rest(codes[first], k)
        kernel, points, rows = self._rows(kernel, points, first)
        bound = (1e8 / float(kernel.diag(points).mean()) if np.inf == self.C else self.C) * total
        segments = np.array([[0, n, 0]], dtype=np.int64)
        betas, outputs, biases, reports = [], [], [], []
        for target in np.ascontiguousarray(Y.T):
            programme = Programme(
                target,
                np.minimum(0.0, bound * target),
                np.maximum(0.0, bound * target),
                np.zeros(n),
                np.zeros(n),
                segments,
                self.bias and self.bayes_ is None,
            )
            optimum = self._climb(programme, rows)
            betas.append(optimum.beta)
            biases.append(float(optimum.level[0]))
            outputs.append(target - optimum.slope + optimum.level[0])
            reports.append(optimum.report)
        beta = np.array(betas)
        stuck = not all(report["converged"] for report in reports)
        if np.isinf(self.C) and (stuck or np.any(np.abs(beta) >= 0.999 * bound)):
            raise ValueError(
                "the classes cannot be separated with this kernel, so a hard margin (C=inf) does "
                "not exist; choose a finite C"
            )
        self.classes_ = classes
        self.report_ = joined(reports)
        if self.bayes_ is not None:
            self.report_["posterior"] = self.bayes_.report_
        self._store(kernel, points, first, beta, np.array(biases))
        self._trained = Trained(points, np.abs(beta.T), np.column_stack(outputs), Y, bound, total)
        self._squash(X, y, codes, first, sample_weight)
        return self

    @property
    def loo_(self) -> SupportLoo:
        """Left-out margins of the merged rows and the classical bounds, without refitting."""
        trained: Trained | None = getattr(self, "_trained", None)
        if trained is None:
            raise AttributeError("loo_ is there after fit; it is not part of a model file")
        return trained.summary(self.kernel_, self.bias and self.bayes_ is None)

    # ------------------------------------------------------------------ probabilities
    def _squash(
        self,
        X: Array,
        y: Any,
        codes: Any,
        first: Any,
        sample_weight: Any,
    ) -> None:
        self.slope_, self.offsets_ = np.ones(0), np.zeros(0)
        if self.probability is None:
            return
        if self.probability == "loo":
            outputs = self._trained.left_out(self.kernel_, self.bias)
            labels, weights = codes[first], self._trained.weights
        else:
            weights = check_weights(sample_weight, len(X))
            labels, outputs = codes, np.empty((len(X), len(self.dual_coef_)))
            if np.bincount(codes).min() < 5:
                raise ValueError(
                    "probability='cv' needs at least five rows of each class; use 'loo'"
                )
            seed = 0 if self.random_state is None else self.random_state
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            for train, test in folds.split(X, codes):
                part = clone(self).set_params(probability=None)
                part.fit(X[train], np.asarray(y)[train], weights[train])
                outputs[test] = part._margins(X[test])
        slope, offsets = fit_sigmoid(outputs, labels, weights, len(self.classes_))
        self.report_["probability"] = {"slope": slope, "by": self.probability}
        if self.probability == "loo":
            self.report_["probability"]["jitter"] = JITTER
        self.slope_, self.offsets_ = np.array([slope]), offsets

    def predict_latent(self, X: Any, return_std: bool = False) -> Any:
        """Return the raw margin f (q,), or (q, k) for several classes.

        The Bayesian machine gives the mean of its posterior (unless its discriminant is the mode),
        and with ``return_std`` also the standard deviation.
        """
        if return_std:
            return self._posterior("return_std").predict_latent(X)
        if self._by_mean():
            return self._posterior("the mean").predict_latent(X)[0]
        f = self._margins(X)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def _by_mean(self) -> bool:
        check_is_fitted(self)
        return getattr(self, "bayes_", None) is not None and self.discriminant == "mean"

    def decision_function(self, X: Any) -> Array:
        """Return f, with ``probability`` shifted so that its zero is p = 1/2: (q,) or (q, k).

        If the sigmoid found nothing to rise with (slope 0), it is the constant log odds.
        """
        if self._by_mean():
            return self._posterior("the mean").decision_function(X)
        f = self._margins(X)
        if self.probability is not None:
            f = shifted(f, float(self.slope_[0]), self.offsets_)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d); the most probable one if that is known."""
        if self.probability is not None or self.inference is not None:
            return np.asarray(self.classes_[self._predict_proba(X).argmax(axis=1)])
        f = self.decision_function(X)
        return decided(self.classes_, f)

    def _probabilities_asked(self) -> bool:
        if self.probability is None and self.inference is None:
            raise AttributeError(
                "predict_proba needs probability='loo' or probability='cv', or an inference"
            )
        return True

    @property
    def predict_proba(self) -> Any:
        """Probabilities (q, k) in the order of ``classes_``; absent unless asked for."""
        self._probabilities_asked()
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        if self._by_mean():
            return self._posterior("predict_proba").predict_proba(X)
        if getattr(self, "bayes_", None) is not None:
            return self._at_mode(self._margins(X))
        return class_probabilities(self.decision_function(X), float(self.slope_[0]))

    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        return ("slope_", "offsets_")
