"""The Bayesian support vector machine: the hinge, normalised, is a likelihood.

exp(-(1 - y f)_+) does not sum to one over the labels; divided by its sum it does, and everything
that a Gaussian process has follows: an evidence that chooses amplitude (C) and length scales, error
bars, probabilities. At the parameters found the hinge itself gives the sparse mode.

Reference: Seeger, Bayesian methods for support vector machines and Gaussian processes, chapter 4.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.kinds import Maybe, Record
from mercer.core.record import Nested
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

    bayes_: GPClassifier | None

    def _check_bayesian(self) -> None:
        """Refuse parameters that have no meaning beside an inference."""
        machine = cast(Any, self)
        if machine.discriminant not in ("mean", "mode"):
            raise ValueError(f"discriminant must be 'mean' or 'mode', not {machine.discriminant!r}")
        if machine.inference is None:
            return
        if machine.probability is not None:
            raise ValueError(
                "with an inference the probabilities are those of the posterior: leave "
                "probability=None"
            )
        if machine.C != 1.0 or machine.gamma != "scale" or machine.coef0 != 0.0:
            raise ValueError(
                "C, gamma and coef0 are learned by their evidence: leave them as they are, or give "
                "a kernel object, whose parameters are where the search begins, and search=None to "
                "keep them"
            )
        if not machine.bias:
            raise ValueError(FREE_BIAS)
        if isinstance(machine.kernel, str) and machine.kernel in ("precomputed", "sigmoid"):
            raise ValueError(
                f"kernel={machine.kernel!r} has no parameters that an evidence could choose; use a "
                "kernel of mercer.kernels"
            )

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> GPClassifier:
        """Fit the normalised hinge to the table as it was given, with the names of its columns."""
        machine = cast(Any, self)
        kernel = machine.kernel
        if isinstance(kernel, str) and kernel == "poly":
            kernel = 1.0 * Polynomial(machine.degree)
        learner = GPClassifier(
            kernel,
            loss=NormalizedHinge().fix(),
            inference=machine.inference,
            search=machine.search,
            class_weight=machine.class_weight,
            random_state=machine.random_state,
        )
        return learner.fit(X, y, sample_weight)

    @property
    def log_evidence_(self) -> float:
        """Log evidence of the normalised hinge at the parameters found."""
        return float(cast(Any, self._posterior("log_evidence_")).log_evidence_)

    def _posterior(self, what: str) -> GPClassifier:
        found = getattr(self, "bayes_", None)
        if found is None:
            raise AttributeError(f"{what} needs inference='variational' or 'ep'")
        return cast(GPClassifier, found)

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
        return {**super()._record(), "bayes_": Maybe(Nested(GPClassifier))}

    def _check_fitted(self) -> None:
        super()._check_fitted()
        if (self.bayes_ is None) != (cast(Any, self).inference is None):
            raise ValueError("the posterior of the model and its inference do not belong together")
