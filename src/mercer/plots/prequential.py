"""PrequentialDisplay: the evidence as a sum of predictions, each made before its row is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.losses.real.gaussian import Gaussian
from mercer.plots.classes import known_codes
from mercer.plots.evidence import centred
from mercer.plots.rows import count_rows, take_rows
from mercer.plots.style import BLUE, GREY, Display, same_length


@dataclass(repr=False, eq=False)
class PrequentialDisplay(Display):
    """Running sum of the log probability of each row, predicted from the rows before it.

    The sum is the log evidence of the rows in that order (Seeger's thesis, 3.35): log p(y) =
    sum_t log p(y_t given y_1 .. y_{t-1}). Where two machines part, one predicts better from there
    on; a kink says that the stream has changed.

    Parameters
    ----------
    rows : (k,) how many rows had been seen.
    terms : (k,) log probability (or density) of those since the last entry.
    constant : (k,) the same for the shares of the classes so far, or None.
    name : of the machine, for the legend.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import OnlineLogisticClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> display = PrequentialDisplay.from_estimator(OnlineLogisticClassifier(), X, y, batch=20)
    >>> bool(display.total > display.constant.sum() + 50)
    True
    """

    rows: Array
    terms: Array
    constant: Array | None = None
    name: str = "this model"

    @property
    def total(self) -> float:
        """The log evidence: the sum of all terms."""
        return float(self.terms.sum())

    @classmethod
    def from_predictions(
        cls,
        rows: Any,
        terms: Any,
        *,
        constant: Any = None,
        name: str = "this model",
        ax: Any = None,
    ) -> Self:
        """Draw terms (k,) that are known."""
        seen, found = same_length("rows and terms", rows, terms)
        base = None if constant is None else same_length("terms and constant", found, constant)[1]
        return cls(seen, found, base, name).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        batch: int = 1,
        name: str | None = None,
        ax: Any = None,
    ) -> Self:
        """Predict the rows of X (n, d), y (n,) in their order, each from those before it.

        A classifier with ``partial_fit`` and ``predict_proba`` is learned anew (a copy) in batches;
        mercer's own learners also predict the rows within a batch one after the other. A fitted
        Gaussian process with Gaussian noise and no basis keeps its hyperparameters; its terms come
        from one Cholesky factor.
        """
        title = type(estimator).__name__ if name is None else name
        if hasattr(estimator, "partial_fit") and hasattr(estimator, "predict_proba"):
            return cls._stream(estimator, X, np.asarray(y), batch, title).plot(ax)
        plain = isinstance(getattr(estimator, "loss_", None), Gaussian)
        if not plain or getattr(estimator, "basis_", None) is not None or np.ndim(y) != 1:
            raise ValueError(
                f"{type(estimator).__name__} does not predict row after row here: use a classifier "
                "with partial_fit and predict_proba (OnlineLogisticClassifier), or a fitted "
                "GPRegressor of one target with Gaussian noise and without basis"
            )
        K = np.array(estimator.kernel_(np.asarray(X, dtype=np.float64)))
        K[np.diag_indices_from(K)] += estimator.loss_.noise
        L = cholesky(K, lower=True)
        z = solve_triangular(L, np.asarray(centred(estimator, y)[0], dtype=float), lower=True)
        terms = -0.5 * z**2 - np.log(np.diag(L)) - 0.5 * np.log(2.0 * np.pi)
        return cls(np.arange(1.0, len(terms) + 1.0), terms, None, title).plot(ax)

    @classmethod
    def _stream(cls, estimator: Any, X: Any, y: Array, batch: int, name: str) -> Self:
        if batch < 1:
            raise ValueError(f"batch must be 1 or more, not {batch}")
        model, classes = clone(estimator), np.unique(y)
        codes = known_codes(y, classes)
        n, ends, terms = count_rows(X), [], []
        for start in range(0, n, batch):
            rows = np.arange(start, min(start + batch, n))
            part = take_rows(X, rows)
            before = getattr(model, "prequential_", None)
            own = np.full(len(rows), 1.0 / len(classes))  # nothing is known before the first batch
            if start and before is None:
                own = np.asarray(model.predict_proba(part))[np.arange(len(rows)), codes[rows]]
            model.partial_fit(part, y[rows], classes=classes)
            term = float(np.log(np.maximum(own, np.finfo(float).tiny)).sum())
            if hasattr(model, "prequential_"):
                old = 0.0 if before is None else before.log_loss_sum
                term = old - model.prequential_.log_loss_sum
            ends.append(rows[-1] + 1)
            terms.append(term)
        shares = _shares(codes, len(classes), ends)
        return cls(np.array(ends, dtype=np.float64), np.array(terms), shares, name)

    def draw(self, ax: Any) -> None:
        label = f"{self.name}: {self.total:.1f}"
        ax.plot(self.rows, self.terms.cumsum(), color=BLUE, lw=1.8, label=label)
        if self.constant is not None:
            label = f"shares of the classes: {self.constant.sum():.1f}"
            ax.plot(self.rows, self.constant.cumsum(), color=GREY, lw=1, ls="--", label=label)
        self._label(ax, "rows so far", "sum of log predictions")
        self._legend(ax, "lower left")


def _shares(codes: Any, k: int, ends: list[int]) -> Array:
    """Sums of log((count so far + 1) / (t + k)) over the batches that end at ``ends``."""
    seen = np.eye(k)[codes].cumsum(axis=0) - np.eye(k)[codes]
    each = np.log((seen[np.arange(len(codes)), codes] + 1.0) / (np.arange(len(codes)) + k))
    return np.diff(each.cumsum()[np.array(ends) - 1], prepend=0.0)
