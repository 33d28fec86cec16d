"""The problem that a fitted model solved, put together again from its training rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array
from mercer.estimators.shared.labels import NO_LABELS
from mercer.estimators.shared.machine import Fit, KernelMachine
from mercer.inference.base import Task
from mercer.kernels.base import Kernel
from mercer.linalg.dense.gram import DenseGram
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior

MEANT = (
    "GPRegressor, GPClassifier, or KernelRegressor and KernelClassifier with an inference that has "
    "a spread"
)


@dataclass(frozen=True)
class Training:
    """A fitted model and what it was fitted to, in the units of the fit."""

    model: Any
    fit: Fit
    posterior: Posterior
    kernel: Kernel
    loss: Loss
    exact: bool  # the posterior stands on all rows

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any = None) -> Training:
        """Return the training rows of a fitted model, or refuse with a sentence."""
        check_is_fitted(model, "posteriors_")
        posterior = model.posteriors_[0]
        plain = isinstance(model, KernelMachine) and isinstance(posterior, Posterior)
        if not plain or not isinstance(posterior.parent, Prior):
            raise TypeError(f"{type(model).__name__} has no posterior of this kind; use {MEANT}")
        if not posterior.has_spread:
            raise ValueError(f"a mode has no spread to be judged; use {MEANT}")
        if model.report_["inference"]["name"] == "MCMC":
            raise ValueError(
                "this model is made of draws already, and report_['inference'] says how sure they "
                "are: check one with inference='laplace', 'ep' or 'variational'"
            )
        if posterior.beta is not None:
            raise ValueError(
                "a basis without a prior cannot be drawn: fit with basis=None and put its "
                "functions into the kernel, e.g. kernel + Constant() or kernel + Linear()"
            )
        kernel, loss = posterior.parent.kernel, model.losses_[0]
        if kernel.noise_free() is not kernel or np.ndim(getattr(model.loss_, "noise", 0.0)):
            raise ValueError(
                "noise in the kernel, or for each row, is not known here: use one noise in the loss"
            )
        twin = clone(model)  # reading rows notes their columns
        given = twin._given(X, y, sample_weight)
        parts = twin._resolve(given)
        table = twin._merge(given, parts, twin._targets(given, parts))
        if given.labels is NO_LABELS:
            parts.free_constant(len(table.points))
        problem = twin._pose(given, parts, table, model.units_)
        exact = parts.inducing is None and parts.iterative is None
        same = problem.points.shape == posterior.points.shape
        if exact and not (same and np.allclose(problem.points, posterior.points)):
            raise ValueError(
                "these are not the rows that the model was fitted to: give the X, y and "
                "sample_weight of its fit"
            )
        fit = Fit(given, parts, table, model.units_, problem)
        return cls(model, fit, posterior, kernel, loss, exact)

    @property
    def outputs(self) -> int:
        """How many problems were solved one by one: 1 for a softmax."""
        return 1 if self.loss.response == "multiclass" else int(self.fit.problem.y.shape[1])

    def tasks(self) -> Iterator[Task]:
        """Yield the task of each output, or the one of all classes, with the exact prior."""
        p = self.fit.problem
        gram = DenseGram(self.kernel, p.points, keep=True)
        m = self.posterior.alpha.shape[1]
        whole = Task(gram, p.y, self.loss, p.weights, np.zeros((len(p.y), m)))
        if self.loss.response == "multiclass":
            yield whole
            return
        for j in range(m):
            yield whole.column(j)

    def in_user_units(self, value: float) -> float:
        """Return a log evidence in the user's units."""
        return float(self.model._in_user_units(self.fit, value))

    def marginals(self) -> tuple[Array, Array]:
        """Return mean and deviation (n, m) of f at the points, as the model has them."""
        points = self.fit.problem.points
        blocks = self.posterior.blocks(points)
        variance = np.maximum(np.diagonal(blocks, axis1=1, axis2=2), 0.0)
        return self.posterior.mean(points), np.sqrt(variance)
