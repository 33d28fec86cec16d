"""GPRegressor: Gaussian process regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.estimators.gaussian_process.additive import Additive
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.shared.machine import Fit, Given
from mercer.estimators.shared.parts import Parts, given_loss, positional
from mercer.inference import with_spread
from mercer.kernels import Constant, Several


class GPRegressor(Additive, KernelRegressor):
    """Gaussian process regression that is right by default on raw tables.

    y = f(x) + noise, f a Gaussian process. Hyperparameters maximise the log evidence (or the
    leave-one-out density); columns and targets are standardised inside, repeated rows merged.

    Parameters
    ----------
    kernel, loss, inference, search, gram, basis, standardize, random_state
        See :class:`KernelRegressor`. The loss must be normalised: a likelihood. The inference
        "auto" is exact for Gaussian noise, "laplace" for a smooth convex loss (counts, positive
        numbers, ordered categories) and "variational" for the others (Student t, Laplace noise).
        For counts, whose rate is exp(f) in no unit that could be divided out, None or a name is
        that kernel plus a constant whose variance is learned: far from the data the rate returns
        to their level, and not to one. A basis (``basis=1``: a linear trend) goes with every loss;
        beside one that has a constant, there is no other.
    device : "cpu", "cuda", "cuda:1", "auto" or "torch"
        Where the n x n arrays of a dense fit are, and k(x, P) of its predictions. "cpu" is NumPy
        and the compiled core. "cuda" is a GPU, by PyTorch (``pip install 'mercer[gpu]'``), in
        double precision; "auto" takes one where there is one, it serves and the rows are many.
        "torch" does the same on the CPU: it is there to compare. ``report_["device"]`` says what
        was used; files of such a model are those of any other, and are read without PyTorch.

    Attributes
    ----------
    kernel_, loss_, log_evidence_, left_out_, report_, posteriors_, relevance_ : as there.
    components_ : list of str, the terms of a sum of kernels, for :meth:`predict_component`.

    References: Rasmussen & Williams, Gaussian Processes for Machine Learning, chapters 2 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, (60, 1))
    >>> y = 50 + 10 * np.sin(X[:, 0] / 10) + rng.normal(size=60)
    >>> model = GPRegressor().fit(X, y)
    >>> mean, std = model.predict([[30.0]], return_std=True)
    >>> bool(abs(mean[0] - (50 + 10 * np.sin(3.0))) < 1.5)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        loss: Any = "gaussian",
        inference: Any = "auto",
        search: Any = "evidence",
        gram: str = "auto",
        basis: Any = None,
        standardize: bool | str = "auto",
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.kernel, self.loss, self.inference, self.search = kernel, loss, inference, search
        self.gram, self.basis, self.standardize = gram, basis, standardize
        self.random_state, self.device = random_state, device

    def _resolve(self, given: Given) -> Parts:
        loss = given_loss(self.loss)
        if not loss.normalised:
            raise ValueError(
                f"a Gaussian process needs a likelihood, and {type(loss).__name__} is not "
                "normalised; use KernelRegressor, or a normalised loss"
            )
        auto = isinstance(self.inference, str) and self.inference == "auto"
        parts = self._resolved(given, inference=with_spread(loss) if auto else self.inference)
        if not parts.inference.has_evidence:
            raise ValueError(
                f"a Gaussian process has a spread, and {type(parts.inference).__name__}, the "
                f"inference for {type(parts.loss).__name__}, finds a mode only; use KernelRegressor"
            )
        return parts

    def _begin(self, fit: Fit) -> None:
        super()._begin(fit)
        parts, p = fit.parts, fit.problem
        level_free = parts.has_constant or positional(parts.kernel)
        if parts.loss.response == "count" and parts.named_kernel and not level_free:
            level = Constant(max(float(np.log(np.mean(p.y) + 0.5) ** 2), 1.0))
            if isinstance(parts.kernel, Several):
                first, *others = parts.kernels
                parts.kernel = Several([first + level, *(one + Constant(1.0) for one in others)])
            else:
                parts.kernel = parts.kernel + level
