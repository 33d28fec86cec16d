"""SVC: support vector classification with scikit-learn's parameters.

The Bayesian one: exp(-(1 - y f)_+) does not sum to one over the labels; divided by its sum it is a
likelihood, and everything that a Gaussian process has follows: an evidence that chooses amplitude
(C) and length scales, error bars, probabilities. At the parameters found the hinge itself gives the
sparse mode. Reference: Seeger, Bayesian methods for support vector machines and Gaussian processes,
chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Numbers, Record
from mercer.core.record import EstimatorOf, Maybe
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.shared.labels import decided
from mercer.estimators.shared.table import check_weights
from mercer.estimators.shared.units import described_density
from mercer.estimators.support_vector import joint
from mercer.estimators.support_vector.base import check_sigmoid
from mercer.estimators.support_vector.dual import SupportClassifier, SupportProblem
from mercer.inference.base import Solution
from mercer.inference.mode.programme import Programme, dual_of
from mercer.kernels import Kernel, Polynomial
from mercer.left_out.figures import LeftOut
from mercer.left_out.span import JITTER, Trained
from mercer.linalg.representation import Inducing
from mercer.losses import Hinge, NormalizedHinge
from mercer.losses.base import Loss
from mercer.losses.calibration import class_probabilities, fit_sigmoid, shifted

LEFT_OUT = (
    "by the span of the free vectors, when left_out_ is asked for; it is not part of a model file"
)


@dataclass(eq=False, repr=False, kw_only=True)
class SVC(SupportClassifier):
    """Support vector classification: minimise 1/2 |f|^2 + C sum_i w_i (1 - y_i f_i)_+.

    Several classes are one machine each against the rest, all on the same rows of K, or by
    ``multi_class`` one machine for all. With an ``inference`` it is Bayesian: the hinge,
    normalised, is a likelihood; its evidence chooses amplitude (C) and length scales, and the
    posterior gives probabilities and error bars.

    Parameters
    ----------
    C : > 0, default 1. Weight of the hinge loss, in units of f squared; numpy.inf is a hard margin.
    kernel : "rbf" (default), "linear", "poly" or "precomputed" as in scikit-learn, a name of
        ``mercer.kernels``, a Kernel, or a function of X (n, d) and Z (m, d) that returns (n, m).
    degree : >= 1, default 3. Degree of "poly".
    gamma : > 0, "scale" (default, 1 / (d Var[X])) or "auto" (1 / d). Of "rbf" and "poly", in units
        of 1 / x^2.
    coef0 : >= 0, default 0. Constant of "poly".
    probability : None (default), "loo" or "cv": fit a sigmoid (several classes: a softmax with one
        slope and an offset per class) on leave-one-out or 5-fold outputs. Then
        ``decision_function`` is shifted so that its zero is p = 1/2, and ``predict`` never
        contradicts ``predict_proba``.
    class_weight : None (default), "balanced" or dict. Factor of the weights of the rows of each
        class, 1 where a class is missing; "balanced" is n / (k * rows of the class), rows
        by their weights.
    multi_class : "ovr" (default, one against the rest), "crammer_singer" or "weston_watkins". The
        last two minimise 1/2 sum_r |f_r|^2 + C sum_i w_i xi_i over the functions f_r of all classes
        at once, xi_i the largest or the sum of (1 - f_y + f_r)_+ over the wrong classes r. Their
        bias is penalised, as in LinearSVC; two classes are "ovr" with such a bias and twice the C.
    bias : default True. Whether there is an unpenalised offset.
    gram : "auto" (default; all rows, exactly), "inducing" or :class:`~mercer.linalg.Inducing`. The
        last two take landmarks, few points that stand for all rows, chosen in each class: time and
        memory grow with the rows, not with their square. Probabilities are not to be had then.
    tol : > 0, default 1e-3. Largest violation of optimality, in units of f; below 1e-5 rows of K
        are kept in double precision. On landmarks the duality gap, in units of the objective.
    cache_size : > 0, default 1000. Megabytes for rows of K.
    max_iter : >= -1, default -1, as :class:`~mercer.inference.SMO` has it. Most steps; reaching it
        is a ConvergenceWarning, and in ``report_``.
    inference : None (default), "variational", "ep" or Inference. The Bayesian machine. A constant
        part of the kernel takes the place of the bias.
    search : "evidence" (default), Search or None, which keeps the kernel as it is. Of the Bayesian
        machine.
    discriminant : "mean" (default) or "mode". Of the Bayesian machine: "mode" predicts with the
        sparse solution of the hinge at the parameters found.
    random_state : None (default, a fixed seed), int, RandomState or Generator. For the folds of
        ``probability="cv"``, and for the search.

    Attributes
    ----------
    support_ : (s,) rows that are support vectors (of equal rows the first); empty on landmarks,
        which are ``support_vectors_`` and need not be rows.
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
    Lin, Lin & Weng (2007); Crammer & Singer (2001); Weston & Watkins (1999).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import SVC
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> SVC().fit(X, ["a", "a", "b", "b"]).predict([[0.2], [2.8]])
    array(['a', 'b'], dtype='<U1')
    """

    _hard_margin = True
    C: float = field(default=1.0, kw_only=False)
    probability: str | None = None
    multi_class: str = "ovr"
    bias: bool = True
    inference: Any = None
    search: Any = "evidence"
    discriminant: str = "mean"
    random_state: Any = None

    # ------------------------------------------------------------------ fit
    def _check_params(self) -> None:
        super()._check_params()
        if self.probability not in (None, "loo", "cv"):
            raise ValueError(f"probability must be None, 'loo' or 'cv', got {self.probability!r}")
        if self.discriminant not in ("mean", "mode"):
            raise ValueError(f"discriminant must be 'mean' or 'mode', not {self.discriminant!r}")
        if self._is_joint():
            joint.check(self)
        if self.inference is None:
            return  # what follows has no meaning beside an inference
        if self.probability is not None:
            raise ValueError(
                "with an inference the probabilities are those of the posterior: leave "
                "probability=None"
            )
        if self.C != 1.0 or self.gamma != "scale" or self.coef0 != 0.0:
            raise ValueError(
                "C, gamma and coef0 are learned by their evidence: leave them as they are, or give "
                "a kernel object, whose parameters are where the search begins, and search=None to "
                "keep them"
            )
        if not self.bias:
            raise ValueError(
                "a support vector machine with an inference has no free bias: a constant part of "
                "the kernel, whose variance is learned, takes its place; leave bias=True as it is"
            )
        if isinstance(self.kernel, str) and self.kernel in ("precomputed", "sigmoid"):
            raise ValueError(
                f"kernel={self.kernel!r} has no parameters that an evidence could choose; use a "
                "kernel of mercer.kernels"
            )

    def _learned_kernel(self, X: Any, y: Any, sample_weight: Any) -> Kernel | None:
        """Fit the normalised hinge to the table as it was given, with the names of its columns."""
        self.bayes_: GPClassifier | None = None
        if self.inference is None:
            return None
        named = isinstance(self.kernel, str) and self.kernel == "poly"
        learner = GPClassifier(
            1.0 * Polynomial(self.degree) if named else self.kernel,
            loss=NormalizedHinge().fix(),
            inference=self.inference,
            search=self.search,
            class_weight=self.class_weight,
            random_state=self.random_state,
        )
        self.bayes_ = learner.fit(X, y, sample_weight)
        return self.bayes_.kernel_

    def _has_bias(self) -> bool:
        return self.bias and getattr(self, "bayes_", None) is None

    def _is_joint(self) -> bool:
        return self.multi_class != "ovr"

    def _solved(self, problem: SupportProblem) -> tuple[object, Solution]:
        return joint.solved(self, problem) if self._is_joint() else super()._solved(problem)

    def _loss(self) -> Loss:
        return Hinge(float(self.C))

    def _check_landmarks(self, rule: Inducing) -> None:
        super()._check_landmarks(rule)
        if self.probability is not None or self.inference is not None:
            raise ValueError(
                "on landmarks there are no probabilities: leave probability=None and "
                "inference=None, or use KernelClassifier(gram=...), whose logistic loss has them, "
                "or calibrate with sklearn.calibration.CalibratedClassifierCV"
            )

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

    def _remarks(self) -> dict[str, Any]:
        if self._is_joint():
            return {"left_out": joint.LEFT_OUT, "bias": joint.BIAS if self.bias else "none"}
        posterior = {} if self.bayes_ is None else {"posterior": self.bayes_.report_}
        return {"left_out": LEFT_OUT, **posterior}

    def _conclude(
        self, problem: SupportProblem | None, solution: Solution | None, sample_weight: Any
    ) -> None:
        self._trained: Trained | None = None
        self.slope_, self.offsets_ = np.ones(0), np.zeros(0)
        if problem is None or solution is None:
            return
        if not self._is_joint():
            gram, multipliers, bound = problem.gram, np.abs(solution.alpha), self._bound(problem)
            found = (gram.kernel, gram.points, multipliers, solution.z, problem.Y, bound)
            given = (problem.place, problem.values, problem.weights, problem.X[problem.place < 0])
            self._trained = Trained(*found, problem.total, self._has_bias(), *given)
        if self.probability is None:
            return
        # the sigmoid on outputs of rows left out, where probabilities are asked for
        codes = problem.values.astype(np.intp)
        if self._trained is not None and self.probability == "loo":
            outputs = self._trained.roughly()
            labels, weights = codes[problem.first], problem.total
        else:
            weights = check_weights(sample_weight, len(codes))
            labels, outputs = codes, self._by_folds(problem.X, codes, weights)
        slope, offsets = fit_sigmoid(outputs, labels, weights, len(self.classes_))
        self.report_["probability"] = {"slope": slope, "by": self.probability}
        if self.probability == "loo":
            self.report_["probability"]["jitter"] = JITTER
        self.slope_, self.offsets_ = np.array([slope]), offsets

    # ------------------------------------------------------------------ the Bayesian machine
    @property
    def log_evidence_(self) -> float:
        """Log evidence of the normalised hinge at the parameters found."""
        value = self._bayesian("log_evidence_").log_evidence_
        assert value is not None
        return float(value)

    def _bayesian(self, what: str) -> GPClassifier:
        learner: GPClassifier | None = getattr(self, "bayes_", None)
        if learner is None:
            raise AttributeError(f"{what} needs inference='variational' or 'ep'")
        return learner

    def _by_mean(self) -> GPClassifier | None:
        """Return the learner whose posterior mean predicts, None if the support vectors do."""
        check_is_fitted(self)
        return self.bayes_ if self.discriminant == "mean" else None

    # ------------------------------------------------------------------ rows left out
    def density_report(self) -> dict[str, Any]:
        """Return what others have in ``report_["density"]``; empty after loading from a file."""
        trained: Trained | None = getattr(self, "_trained", None)
        if trained is None:
            return {}
        X = trained.points[trained.place]
        X[trained.place < 0] = trained.unused
        return described_density(X, trained.codes[:, None], trained.counts, None, None)

    @property
    def left_out_(self) -> LeftOut | None:
        """What all other rows say about each one; None after loading from a file."""
        learner = self._by_mean()
        if learner is not None:
            return learner.left_out_
        trained: Trained | None = getattr(self, "_trained", None)
        if trained is None:
            return None
        plain = np.zeros((0, len(self.intercept_)))
        if len(trained.unused):
            plain = self.posteriors_[0].mean(self._seen(trained.unused))
        f = trained.by_row(plain)
        known = self.probability is not None or self.inference is not None
        return trained.figures(f, self._probabilities(f) if known else None)

    def _summary_rows(self) -> list[tuple[str, str, str]]:
        text = f"one hinge over all of them ({self.multi_class})"
        return [*super()._summary_rows(), *[("Model", "classes", text)] * self._is_joint()]

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
        return decided(self.classes_, self._predict_proba(X))

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
        if self.inference is None:
            d = self._shifted(f)
            return class_probabilities(d[:, 0] if d.shape[1] == 1 else d, float(self.slope_[0]))
        log_p = -NormalizedHinge().value(np.asarray(1.0), f)
        if f.shape[1] == 1:
            p = np.exp(log_p[:, 0])
            return np.column_stack([1.0 - p, p])
        e = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {
            **super()._record(),
            "bayes_": Maybe(EstimatorOf(GPClassifier)),
            "slope_": Numbers("p", 0.0),
            "offsets_": Numbers("q"),
        }

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if (self.bayes_ is None) != (self.inference is None):
            raise ValueError("the posterior of the model and its inference do not belong together")
        check_sigmoid(
            self.slope_, self.offsets_, len(self.intercept_), self.probability is not None
        )
