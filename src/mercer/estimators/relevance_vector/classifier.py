"""RVClassifier: relevance vector classification."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.estimators.relevance_vector.base import RelevanceMachine
from mercer.estimators.shared import labels
from mercer.estimators.shared.predictions import (
    Classifies,
    ClassProbabilities,
    log_probabilities,
)
from mercer.estimators.shared.table import Table, read_rows
from mercer.estimators.shared.units import Units
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss
from mercer.losses.binary.logistic import Logistic
from mercer.losses.binary.probit import Probit
from mercer.search.relevance.kernel import Makers
from mercer.search.relevance.machines import LaplaceMachine

LOSSES: dict[str, type[Loss]] = {"logistic": Logistic, "probit": Probit}


class RVClassifier(RelevanceMachine, ClassProbabilities):
    """Relevance vector machine for classification: few kernel functions, probabilities.

    log-odds(x) = b + sum_j w_j k(x, x_j) with w_j ~ N(0, 1/alpha_j) and a flat prior on b; the
    weights have a Gaussian posterior by the Laplace approximation, whose evidence is maximised
    over the precisions. Several classes: one machine of each against the rest, on one kernel,
    their probabilities normalised.

    Parameters
    ----------
    kernel, functions, bias, search, tol, max_iter, null_test, standardize :
        See :class:`RVRegressor`. Laplace's evidence gains more on noise: each of M
        functions is charged 1 in place of 0.7.
    loss : "logistic" or "probit", default "logistic"
        The link between the latent function and the label.
    heal : bool or float > 0, default False
        As for :class:`RVRegressor`, in units of the latent function squared; True: the average
        prior variance of the learned model at the training rows. Away from the data the
        probabilities then tend towards one half.
    class_weight : None, "balanced" or a mapping from class to weight >= 0, default None
        As in scikit-learn.

    Attributes
    ----------
    classes_ : (k,) the labels, sorted.
    relevance_rows_, relevance_vectors_ : training rows kept by any machine, and their inputs.
    weights_, precisions_ : (1, M), or (k, M) for k > 2 classes; a machine without a function has
        weight zero and infinite precision there.
    intercept_ : (1,) or (k,).
    log_evidence_ : float, Laplace's approximation, summed over the machines.
    left_out_ : probability of each class for every row from all others, by the cavity of each row,
        functions and precisions held: optimistic, as they were chosen with the row in question.
        None with ``heal``.
    posteriors_ : list of processes, one for each machine.
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
    >>> len(model.relevance_rows_) < 20
    True
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['in', 'out'], dtype='<U3')
    """

    alike = True

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
        null_test: bool = True,
        standardize: bool | str = "auto",
    ) -> None:
        self.kernel, self.functions, self.bias = kernel, functions, bias
        self.loss, self.class_weight = loss, class_weight
        self.search, self.heal = search, heal
        self.tol, self.max_iter, self.standardize = tol, max_iter, standardize
        self.null_test = null_test

    # ------------------------------------------------------------------ fit
    def _read(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array, Array]:
        if not isinstance(self.loss, str) or self.loss not in LOSSES:
            raise ValueError(f"loss must be 'logistic' or 'probit', not {self.loss!r}")
        X, y = read_rows(self, X, y)
        given = labels.read_labels(y, self.class_weight, sample_weight)
        given.check_two()
        given.check_present()
        self.classes_, k = given.classes, len(given.classes)
        if k == 2:
            return X, labels.binary_targets(given.codes)[:, None], given.weights
        return X, labels.one_vs_rest(given.codes, k), given.weights

    def _likelihoods(self, table: Table, units: Units) -> tuple[Makers, float | None]:
        loss, targets = LOSSES[self.loss](), np.ascontiguousarray(table.mean.T)
        return [partial(LaplaceMachine, y=t, loss=loss) for t in targets], None

    def _found_loss(self, beta: float) -> Loss:
        return LOSSES[self.loss]()

    def _figures(self, mean: Array, variance: Array, table: Table) -> LeftOut:
        proba = np.exp(log_probabilities(self.losses_[0], mean, variance))
        codes = table.Y.argmax(axis=1) if table.Y.shape[1] > 1 else table.Y[:, 0] > 0.0
        return LeftOut.of_classes(proba, codes.astype(np.intp), table.weights)

    # ------------------------------------------------------------------ predictions
    def _latents(self, X: Any, noise: bool) -> list[tuple[Array, Array | None]]:
        inside = self._inputs(X)
        mean = np.column_stack([p.mean(inside)[:, 0] for p in self.posteriors_])
        return [(mean, np.column_stack([p.var(inside) for p in self.posteriors_]))]

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class at X (q, d), averaged over the posterior: (q, k)."""
        return np.asarray(np.exp(self.predict_log_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X (q, d), shape (q,)."""
        return Classifies.predict(self, X)

    def _facts(self) -> list[tuple[str, str]]:
        names = ", ".join(str(name) for name in self.classes_[:8])
        return [("classes", names + (", ..." if len(self.classes_) > 8 else ""))]
