"""The Bayesian support vector machine: the hinge, normalised, is a likelihood.

exp(-(1 - y f)_+) does not sum to one over the labels; divided by its sum it does, and everything
that a Gaussian process has follows: an evidence that chooses amplitude (C) and length scales, error
bars, probabilities. At the parameters found the hinge itself gives the sparse mode.

Reference: Seeger, Bayesian methods for support vector machines and Gaussian processes, chapter 4.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.core.kinds import Record
from mercer.core.record import EstimatorOf, Maybe
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.support_vector.record import SupportRecord
from mercer.kernels import Polynomial
from mercer.losses import NormalizedHinge

FREE_BIAS = (
    "a support vector machine with an inference has no free bias: a constant part of the kernel, "
    "whose variance is learned, takes its place; leave bias=True as it is"
)


class ByEvidence(SupportRecord):
    """What SVC does where ``inference`` is given."""

    C: float
    kernel: Any
    degree: int
    gamma: Any
    coef0: float
    probability: str | None
    class_weight: Any
    bias: bool
    inference: Any
    search: Any
    discriminant: str
    random_state: Any
    bayes_: GPClassifier | None

    def _check_bayesian(self) -> None:
        """Refuse parameters that have no meaning beside an inference."""
        if self.discriminant not in ("mean", "mode"):
            raise ValueError(f"discriminant must be 'mean' or 'mode', not {self.discriminant!r}")
        if self.inference is None:
            return
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
            raise ValueError(FREE_BIAS)
        if isinstance(self.kernel, str) and self.kernel in ("precomputed", "sigmoid"):
            raise ValueError(
                f"kernel={self.kernel!r} has no parameters that an evidence could choose; use a "
                "kernel of mercer.kernels"
            )

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> GPClassifier:
        """Fit the normalised hinge to the table as it was given, with the names of its columns."""
        kernel = self.kernel
        if isinstance(kernel, str) and kernel == "poly":
            kernel = 1.0 * Polynomial(self.degree)
        learner = GPClassifier(
            kernel,
            loss=NormalizedHinge().fix(),
            inference=self.inference,
            search=self.search,
            class_weight=self.class_weight,
            random_state=self.random_state,
        )
        return learner.fit(X, y, sample_weight)

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
        learner: GPClassifier | None = getattr(self, "bayes_", None)
        return learner if self.discriminant == "mean" else None

    def _at_mode(self, margins: Array) -> Array:
        """Probabilities (q, k) of the normalised hinge at the mode f (q, 1) or (q, k)."""
        loss = NormalizedHinge()
        if margins.shape[1] == 1:
            p = np.exp(-loss.value(np.asarray(1.0), margins[:, 0]))
            return np.column_stack([1.0 - p, p])
        log_p = -loss.value(np.asarray(1.0), margins)
        e = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    # ------------------------------------------------------------------ model files
    @classmethod
    def _record(cls) -> Record:
        return {**super()._record(), "bayes_": Maybe(EstimatorOf(GPClassifier))}

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if (self.bayes_ is None) != (self.inference is None):
            raise ValueError("the posterior of the model and its inference do not belong together")
