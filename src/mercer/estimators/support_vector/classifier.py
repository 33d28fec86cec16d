"""SVC: support vector classification with scikit-learn's parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Record
from mercer.estimators.shared.table import check_weights
from mercer.estimators.support_vector.base import SupportClassifier, SupportProblem
from mercer.estimators.support_vector.bayesian import ByEvidence
from mercer.estimators.support_vector.record import check_sigmoid
from mercer.inference.base import Report, Solution
from mercer.inference.programme import Programme, dual_of
from mercer.kernels import Kernel
from mercer.left_out.figures import LeftOut
from mercer.left_out.span import JITTER, Trained
from mercer.losses import Hinge
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted

LEFT_OUT = (
    "by the span of the free vectors, when left_out_ is asked for; it is not part of a model file"
)


class SVC(ByEvidence, SupportClassifier):
    """Support vector classification: minimise 1/2 |f|^2 + C sum_i w_i (1 - y_i f_i)_+.

    Several classes are one machine each against the rest, all on the same rows of K. With an
    ``inference`` it is Bayesian: the hinge, normalised, is a likelihood; its evidence chooses
    amplitude (C) and length scales, and the posterior gives probabilities and error bars.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinge loss, > 0, in units of f squared; numpy.inf is a hard margin.
    kernel : str, Kernel or callable, default="rbf"
        "rbf", "linear", "poly" or "precomputed" as in scikit-learn, a name of ``mercer.kernels``, a
        Kernel, or a function of X (n, d) and Z (m, d) that returns (n, m).
    degree : int, default=3
        Degree of "poly", >= 1.
    gamma : "scale", "auto" or float, default="scale"
        Of "rbf" and "poly", > 0, in units of 1 / x^2: "scale" is 1 / (d Var[X]), "auto" 1 / d.
    coef0 : float, default=0.0
        Constant of "poly", >= 0.
    probability : None, "loo" or "cv", default=None
        Fit a sigmoid (several classes: a softmax with one slope and an offset per class) on
        leave-one-out or 5-fold outputs. Then ``decision_function`` is shifted so that its zero is
        p = 1/2, and ``predict`` never contradicts ``predict_proba``.
    class_weight : None, "balanced" or dict, default=None
        Factor of the weights of the rows of each class, 1 where a class is missing; "balanced" is
        n / (k * rows of the class).
    bias : bool, default=True
        Whether there is an unpenalised offset.
    tol : float, default=1e-3
        Largest violation of optimality, > 0, in units of f; below 1e-5 rows of K are kept in double
        precision.
    cache_size : float, default=1000.0
        Megabytes for rows of K, > 0.
    max_iter : int, default=-1
        Most steps, -1 for no limit; reaching it is a ConvergenceWarning, and in ``report_``.
    inference : None, "variational", "ep" or Inference, default=None
        The Bayesian machine. A constant part of the kernel takes the place of the bias.
    search : None, "evidence" or Search, default="evidence"
        Of the Bayesian machine; None keeps the kernel as it is.
    discriminant : "mean" or "mode", default="mean"
        Of the Bayesian machine: "mode" predicts with the sparse solution of the hinge at the
        parameters found.
    random_state : None, int, RandomState or Generator, default=None
        For the folds of ``probability="cv"``, and for the search; None is a fixed seed.

    Attributes
    ----------
    support_ : (s,) rows that are support vectors (of equal rows the first).
    support_vectors_, dual_coef_, intercept_ : (s, d), (k, s) and (k,): the function is
        ``dual_coef_ @ k(support_vectors_, x) + intercept_``.
    posteriors_ : list with one :class:`mercer.process.Posterior`, whose mean is that function; it
        has no spread.
    left_out_ : :class:`mercer.left_out.figures.LeftOut`, computed when asked for: the margin of
        each row without it, by the span of the free vectors, ``proba`` where there is a sigmoid,
        and the bounds "support" and "xi_alpha" of the error. That of ``bayes_`` where its posterior
        mean predicts. None after loading from a file. ``loo_`` is the same.
    report_ : rows used, convergence and numerics of the solver (``report_["inference"]``).
    bayes_, log_evidence_ : the :class:`GPClassifier` of the normalised hinge, and its evidence.
    slope_, offsets_ : of the sigmoid; empty where there is none.
    classes_, kernel_, n_iter_, n_features_in_, feature_names_in_

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

    # ------------------------------------------------------------------ fit
    def _check_params(self) -> None:
        super()._check_params()
        if self.probability not in (None, "loo", "cv"):
            raise ValueError(f"probability must be None, 'loo' or 'cv', got {self.probability!r}")
        self._check_bayesian()

    def _learned_kernel(self, X: Any, y: Any, sample_weight: Any) -> Kernel | None:
        self.bayes_ = None if self.inference is None else self._learn(X, y, sample_weight)
        return None if self.bayes_ is None else self.bayes_.kernel_

    def _has_bias(self) -> bool:
        return self.bias and getattr(self, "bayes_", None) is None

    def _bound(self, problem: SupportProblem) -> Array:
        """Upper limit (n,) of the multipliers; large enough for a hard margin if there is one."""
        hard = np.inf == self.C
        return (1e8 / float(problem.gram.diag().mean()) if hard else self.C) * problem.total

    def _programme(self, y: Array, problem: SupportProblem) -> Programme:
        """GPML (6.38) with b_i = y_i lam_i: between 0 and y_i C w_i."""
        return dual_of(Hinge(), y, self._bound(problem), bias=self._has_bias())

    def _function(self, solution: Solution, problem: SupportProblem) -> tuple[Array, Array]:
        beta, bound, stuck = solution.alpha.T, self._bound(problem), not solution.report.converged
        if np.isinf(self.C) and (stuck or np.any(np.abs(beta) >= 0.999 * bound)):
            raise ValueError(
                "the classes cannot be separated with this kernel, so a hard margin (C=inf) does "
                "not exist; choose a finite C"
            )
        return super()._function(solution, problem)

    def _told(self, problem: SupportProblem, report: Report) -> dict[str, Any]:
        told = super()._told(problem, report) | {"left_out": LEFT_OUT}
        return told if self.bayes_ is None else told | {"posterior": self.bayes_.report_}

    def _conclude(self, problem: SupportProblem, solution: Solution, sample_weight: Any) -> None:
        self._trained = Trained(
            problem.gram.kernel,
            problem.gram.points,
            np.abs(solution.alpha),
            solution.z,
            problem.Y,
            self._bound(problem),
            problem.total,
            self._has_bias(),
            problem.place,
            problem.targets.values,
            problem.targets.weights,
            problem.X[problem.place < 0],
        )
        self._calibrate(problem, sample_weight)

    def _calibrate(self, problem: SupportProblem, sample_weight: Any) -> None:
        """Fit the sigmoid on outputs of rows left out, where probabilities are asked for."""
        self.slope_, self.offsets_ = np.ones(0), np.zeros(0)
        if self.probability is None:
            return
        codes = problem.targets.values.astype(np.intp)
        if self.probability == "loo":
            outputs = self._trained.left_out
            labels, weights = codes[problem.first], problem.total
        else:
            X, weights = problem.X, check_weights(sample_weight, len(codes))
            labels, outputs = codes, np.empty((len(codes), len(self.dual_coef_)))
            if np.bincount(codes).min() < 5:
                raise ValueError(
                    "probability='cv' needs at least five rows of each class; use 'loo'"
                )
            seed = 0 if self.random_state is None else self.random_state
            folds = StratifiedKFold(5, shuffle=True, random_state=seed)
            for train, test in folds.split(X, codes):
                part = clone(self).set_params(probability=None)
                part.fit(X[train], self.classes_[codes[train]], weights[train])
                outputs[test] = part._latent(X[test])
        slope, offsets = fit_sigmoid(outputs, labels, weights, len(self.classes_))
        self.report_["probability"] = {"slope": slope, "by": self.probability}
        if self.probability == "loo":
            self.report_["probability"]["jitter"] = JITTER
        self.slope_, self.offsets_ = np.array([slope]), offsets

    # ------------------------------------------------------------------ rows left out
    @property
    def left_out_(self) -> LeftOut | None:
        """What all other rows say about each one; None after loading from a file."""
        learner = self._by_mean()
        if learner is not None:
            figures: LeftOut | None = learner.loo_
            return figures
        trained: Trained | None = getattr(self, "_trained", None)
        if trained is None:
            return None
        plain = np.zeros((0, len(self.intercept_)))
        if len(trained.unused):
            plain = self.posteriors_[0].mean(self._seen(trained.unused))
        f = trained.by_row(plain)
        known = self.probability is not None or self.inference is not None
        return trained.figures(f, self._probabilities(f) if known else None)

    def _quality(self) -> list[tuple[str, str]]:
        figures = self.left_out_
        if figures is None:
            return super()._quality()
        lines = [("leave-one-out error, estimated", f"{figures.error:.4f}")]
        for name, bound in getattr(figures, "error_bounds", {}).items():
            words = {"support": "share of support vectors", "xi_alpha": "xi-alpha"}[name]
            text = ", ".join(f"{value:.4f}" for value in bound)
            lines.append((f"bound on it by {words}", text))
        return lines

    # ------------------------------------------------------------------ predictions
    def predict_latent(self, X: Any, return_std: bool = False) -> Any:
        """Return the raw margin f (q,), or (q, k) for several classes.

        The Bayesian machine gives the mean of its posterior (unless its discriminant is the mode),
        and with ``return_std`` also the standard deviation.
        """
        if return_std:
            return self._bayesian("return_std").predict_latent(X)
        learner = self._by_mean()
        if learner is not None:
            return learner.predict_latent(X)[0]
        f = self._latent(X)
        return np.asarray(f[:, 0] if f.shape[1] == 1 else f)

    def decision_function(self, X: Any) -> Array:
        """Return f, with ``probability`` shifted so that its zero is p = 1/2: (q,) or (q, k).

        If the sigmoid found nothing to rise with (slope 0), it is the constant log odds.
        """
        learner = self._by_mean()
        if learner is not None:
            return learner.decision_function(X)
        return super().decision_function(X)

    def _shifted(self, f: Array) -> Array:
        if self.probability is None:
            return f
        return shifted(f, float(self.slope_[0]), self.offsets_)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of each row of X (q, d); the most probable one if that is known."""
        if self.probability is None and self.inference is None:
            return super().predict(X)
        best = self._predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    @property
    def predict_proba(self) -> Any:
        """Probabilities (q, k) in the order of ``classes_``; absent unless asked for."""
        if self.probability is None and self.inference is None:
            raise AttributeError(
                "predict_proba needs probability='loo' or probability='cv', or an inference"
            )
        return self._predict_proba

    def _predict_proba(self, X: Any) -> Array:
        learner = self._by_mean()
        return self._probabilities(self._latent(X)) if learner is None else learner.predict_proba(X)

    def _probabilities(self, f: Array) -> Array:
        """Return the probabilities (q, k) of values f (q, 1) or (q, k) at the mode."""
        if self.inference is not None:
            return self._at_mode(f)
        d = self._shifted(f)
        return class_probabilities(d[:, 0] if d.shape[1] == 1 else d, float(self.slope_[0]))

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {**super()._record(), "slope_": Numbers("p", 0.0), "offsets_": Numbers("q")}

    def _check_fitted(self) -> None:
        super()._check_fitted()
        calibrated = self.probability is not None
        check_sigmoid(self.slope_, self.offsets_, len(self.intercept_), calibrated)
