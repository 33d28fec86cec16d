"""What displays of regressions have in common: three ways to y, mean and standard deviation."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np

from mercer.arrays import Array
from mercer.plots.style import Display


class GaussianPredictions(Display):
    """A display of observations y (n,) and their Gaussian predictions."""

    @classmethod
    @abstractmethod
    def compute(cls, y: Array, mean: Array, std: Array, **names: Any) -> Self:
        """Return the display of y, mean and std, (n,) each, without drawing it."""

    @classmethod
    def from_predictions(cls, y: Any, mean: Any, std: Any, *, ax: Any = None, **names: Any) -> Self:
        """Draw observations y (n,) against predictions with ``mean`` and ``std`` (n,)."""
        checked = checked_predictions(y, mean, std)
        return cls.compute(*checked, **names).plot(ax)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any, *, ax: Any = None, **names: Any
    ) -> Self:
        """Draw the predictions of a fitted regressor for X (n, d), best rows it has not seen."""
        mean, std = gaussian(estimator, X)
        return cls.from_predictions(y, mean, std, ax=ax, **names)

    @classmethod
    def from_loo(cls, estimator: Any, y: Any, *, ax: Any = None, **names: Any) -> Self:
        """Draw every training row y (n,) as it is predicted from all others (``loo_``)."""
        loo: Any = getattr(estimator, "loo_", None)
        if not hasattr(loo, "std"):
            raise ValueError(
                f"{type(estimator).__name__} has no leave-one-out predictions (loo_ with mean and "
                "std): use from_estimator with rows that were held out"
            )
        counted = loo.weights > 0
        y = np.asarray(y, dtype=np.float64)
        if y.shape != loo.mean.shape:
            raise ValueError(
                f"y has shape {y.shape}, but the fit had {loo.mean.shape}: give the y of the fit"
            )
        return cls.from_predictions(y[counted], loo.mean[counted], loo.std[counted], ax=ax, **names)


def gaussian(estimator: Any, X: Any) -> tuple[Array, Array]:
    """Return mean and standard deviation (n,) of new observations at X."""
    try:
        mean, std = estimator.predict(X, return_std=True)
    except TypeError as error:
        raise ValueError(
            f"{type(estimator).__name__}.predict gives no standard deviation (return_std=True), "
            "and this picture is about it: use a probabilistic regressor, e.g. GPRegressor"
        ) from error
    return np.asarray(mean), np.asarray(std)


def checked_predictions(y: Any, mean: Any, std: Any) -> tuple[Array, Array, Array]:
    """Return the three as float64 (n,), or say what is wrong with them."""
    found = [np.asarray(a, dtype=np.float64) for a in (y, mean, std)]
    shapes = {a.shape for a in found}
    if len(shapes) > 1 or found[0].ndim != 1 or not len(found[0]):
        raise ValueError(
            "y, mean and std need the same length and one dimension, not shapes "
            f"{', '.join(str(a.shape) for a in found)}"
        )
    if not all(np.all(np.isfinite(a)) for a in found) or not np.all(found[2] > 0):
        raise ValueError("y, mean and std need finite values, and std positive ones")
    return found[0], found[1], found[2]
