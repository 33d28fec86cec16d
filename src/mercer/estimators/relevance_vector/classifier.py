"""RVClassifier: relevance vector classification."""

from __future__ import annotations

from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import losses
from mercer.core.arrays import Array
from mercer.estimators.relevance_vector.base import RelevanceMachine, column_units, kernel_outside
from mercer.estimators.relevance_vector.fit import RelevanceRows
from mercer.estimators.relevance_vector.state import RelevanceState
from mercer.estimators.shared import labels
from mercer.estimators.shared.predictions import log_probabilities
from mercer.estimators.shared.table import build_table, read_inputs, read_rows, restored_on_error
from mercer.estimators.shared.units import Units
from mercer.kernels.convert import is_pairwise
from mercer.losses.base import Loss
from mercer.process.sparse import Sparse
from mercer.search.relevance.laplace import LaplaceMachine


class RVClassifier(RelevanceState, RelevanceMachine, ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """Relevance vector machine for classification: few kernel functions, probabilities.

    log-odds(x) = b + sum_j w_j k(x, x_j) with w_j ~ N(0, 1/alpha_j) and a flat prior on b; the
    weights have a Gaussian posterior by the Laplace approximation, whose evidence is maximised
    over the precisions. Several classes: one machine of each against the rest, on one kernel,
    their probabilities normalised.

    Parameters
    ----------
    kernel, functions, bias, search, tol, max_iter, standardize : see :class:`RVRegressor`.
    loss : "logistic" or "probit", the link between the latent function and the label.
    heal : bool or float
        As for :class:`RVRegressor`; True: the average prior variance of the learned model at the
        training rows. Away from the data the probabilities then tend towards one half.
    class_weight : None, "balanced" or a mapping from class to weight, as in scikit-learn.

    Attributes
    ----------
    classes_ : (k,) the labels, sorted.
    relevance_, relevance_vectors_ : training rows kept by any machine, and their inputs.
    weights_, precisions_ : (1, M), or (k, M) for k > 2 classes; a machine without a function has
        weight zero and infinite precision there.
    intercept_ : (1,) or (k,).
    log_evidence_ : float, Laplace's approximation, summed over the machines.
    kernel_, loss_, report_, n_iter_, n_features_in_, feature_names_in_ : see :class:`RVRegressor`.

    References
    ----------
    Tipping (2001), section 3; Tipping & Faul (2003); GPML section 6.6.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import RVClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 2))
    >>> y = np.where(X[:, 0] ** 2 + X[:, 1] ** 2 + 0.3 * rng.normal(size=200) < 1, "in", "out")
    >>> model = RVClassifier().fit(X, y)
    >>> len(model.relevance_) < 20
    True
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['in', 'out'], dtype='<U3')
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        functions: Any = None,
        loss: str = "logistic",
        bias: bool = True,
        search: Any = "auto",
        heal: bool | float = False,
        class_weight: Any = None,
        tol: float = 1e-2,
        max_iter: int = 10000,
        standardize: bool | str = "auto",
    ) -> None:
        self.kernel = kernel
        self.functions = functions
        self.loss = loss
        self.bias = bias
        self.search = search
        self.heal = heal
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.standardize = standardize

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and labels y (n,).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        machine stays as it was.
        """
        with restored_on_error(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        options, loss = self._options(), self._loss()
        X, y = read_rows(self, X, y)
        given = labels.read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        given.check_present()
        choice, standardize = self._choice(X.shape[1])
        k = len(given.classes)
        S = (
            labels.binary_targets(given.codes)[:, None]
            if k == 2
            else labels.one_vs_rest(given.codes, k)
        )
        table = build_table(X, S, given.weights, False, k == 2, 3, alike=True)
        m = S.shape[1]
        shift, scale = column_units(table.points, table.total, standardize)
        units = Units(shift, scale, np.zeros(m), np.ones(m))
        rows = RelevanceRows(choice, units.inside(table.points), table.total, options)
        targets = np.ascontiguousarray(table.mean.T)
        found = rows.fit([partial(LaplaceMachine, y=t, loss=loss) for t in targets], None)
        self.classes_ = given.classes
        self._keep(found, table, units, choice)
        self._settled([one.process for one in found], loss, units)
        kernel = found[0].kernel
        self.kernel_ = None if kernel is None else kernel_outside(units, kernel)
        self.log_evidence_ = float(sum(one.state.evidence for one in found))
        return self

    def _settled(self, processes: list[Sparse], loss: Loss, units: Units) -> None:
        """Keep what the predictions need."""
        self.posteriors_, self.losses_, self.units_ = processes, [loss], units
        self.loss_ = loss

    def _loss(self) -> Loss:
        if self.loss not in ("logistic", "probit"):
            raise ValueError(f"loss must be 'logistic' or 'probit', not {self.loss!r}")
        return losses.by_name(self.loss)

    # ------------------------------------------------------------------ predictions
    def _latent(self, X: Any) -> tuple[Array, Array]:
        """Latent means and variances at X, (q, m) each."""
        check_is_fitted(self, "posteriors_")
        inside = self.units_.inside(read_inputs(self, X))
        mean = np.column_stack([p.mean(inside)[:, 0] for p in self.posteriors_])
        return mean, np.column_stack([p.var(inside) for p in self.posteriors_])

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithm of :meth:`predict_proba`, (q, k)."""
        mean, var = self._latent(X)
        return log_probabilities(self.loss_, mean, var)

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class at X (q, d), averaged over the posterior: (q, k)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X (q, d), shape (q,)."""
        chosen = np.argmax(self.predict_log_proba(X), axis=1)
        return np.asarray(self.classes_[chosen])

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes the log probabilities.

        Zero, or a tie, exactly where the probabilities tie.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation of the latent function, (q,), or (q, k) each."""
        mean, var = self._latent(X)
        std = np.sqrt(var)
        return (mean[:, 0], std[:, 0]) if mean.shape[1] == 1 else (mean, std)

    def _facts(self) -> list[tuple[str, str]]:
        names = ", ".join(str(name) for name in self.classes_[:8])
        return [("classes", names + (", ..." if len(self.classes_) > 8 else ""))]
