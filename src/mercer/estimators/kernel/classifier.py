"""KernelClassifier: classification with a kernel and a loss of your choice, as a mode."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import losses, search
from mercer.core.arrays import Array
from mercer.estimators.kernel.classified import Classified, left_out, prepare, searched
from mercer.estimators.shared import ard
from mercer.estimators.shared.labels import decided, read_labels
from mercer.estimators.shared.machine import KernelMachine, describe, generator
from mercer.estimators.shared.parts import Parts, given_loss, resolve
from mercer.estimators.shared.predictions import latent, log_probabilities
from mercer.estimators.shared.summary import Summary, summarise, warn_inference
from mercer.estimators.shared.table import read_rows
from mercer.estimators.shared.units import basis_inside
from mercer.losses.base import Loss, is_number
from mercer.process.process import Prior


def _gives_probabilities(machine: Any) -> bool:
    loss = machine._given_loss()
    if not loss.normalised:
        raise AttributeError(
            f"{type(loss).__name__} is no likelihood: exp(-loss) does not sum to one over the "
            "classes, so that there are no probabilities; choose loss='logistic' or 'probit'"
        )
    return True


class KernelClassifier(ClassifierMixin, KernelMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Classification by the minimum of C sum_i w_i g(y_i, f(x_i)) + 1/2 |f|^2_k.

    Kernel logistic regression by default: probabilities by construction, which never contradict
    ``predict``. Several classes are modelled jointly by softmax, other losses by one machine per
    class against the rest on one kernel matrix.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        See :class:`KernelRegressor`; None is an RBF whose length scale is sqrt(d) deviations of the
        columns.
    C : float > 0
        Weight of the loss against the penalty, as in scikit-learn: larger fits closer. The same as
        an amplitude C of the kernel, and that is how ``kernel_`` states it.
    loss : Loss or name
        "logistic" (two classes; several jointly by softmax), "softmax", "probit", "hinge",
        "squared_hinge", ... A Logistic object is one machine per class also for several.
    inference : "auto", "newton", "dual" or Inference
        "auto" chooses by what the loss offers.
    search : None, "loo_bound" or LooBound
        Choose the kernel's parameters and C by the leave-one-out error bound, from one fit per
        candidate. The bound needs a penalised bias: a constant in the kernel takes the place of
        the basis, and ``report_`` says so.
    class_weight : None, "balanced" or dict
        Weights by class, times the sample weights.
    gram, basis, standardize, random_state
        See :class:`KernelRegressor`. The basis "constant" is a free bias.

    Attributes
    ----------
    classes_ : the labels, sorted; columns of ``predict_proba`` are in this order.
    kernel_, loss_ : the fitted parts in the user's units.
    loo_ : leave-one-out margins: ``error_bound`` (Lemma 1; refused for a free bias and for softmax)
        and the closer estimate ``cavity_error``.
    report_ : what was done: steps, objective, duality gap, standardisation.
    posteriors_, relevance_, n_features_in_, feature_names_in_
        See :class:`KernelRegressor`.

    References
    ----------
    Jaakkola & Haussler, Probabilistic kernel regression models, 1999; GPML section 6.4.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = KernelClassifier(C=10.0).fit(X, y)
    >>> model.predict([[1.0, 1.0], [-1.0, 1.0]])
    array(['same', 'different'], dtype='<U9')
    >>> bool(model.predict_proba([[1.0, 1.0]])[0, 1] > 0.9)
    True
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        kernel: Any = None,
        *,
        C: float = 1.0,
        loss: Any = "logistic",
        inference: Any = "auto",
        search: Any = None,
        class_weight: Any = None,
        gram: str = "auto",
        basis: Any = "constant",
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.C = C
        self.loss = loss
        self.inference = inference
        self.search = search
        self.class_weight = class_weight
        self.gram = gram
        self.basis = basis
        self.standardize = standardize
        self.random_state = random_state

    # ------------------------------------------------------------------ fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y = read_rows(self, X, y)
        given = read_labels(y, self.class_weight, sample_weight)
        classes, weights = given.classes, given.weights
        given.check_present()
        names = getattr(self, "feature_names_in_", None)
        parts = self._parts(names, X.shape[1], len(classes))
        if parts.kernel.pairwise and np.any(weights == 0.0):
            raise ValueError(
                "a row of weight zero cannot be left out of a matrix of kernel values: drop the "
                "row and its column"
            )
        data = prepare(parts, X, given.codes, len(classes), weights, given.rows)
        report = self._adapt(parts, data)
        searched_for = searched(parts, data.problem, generator(self.random_state))
        report |= {"search": searched_for}
        self._conclude(parts, data, classes, report)
        return self

    def _given_loss(self) -> Loss:
        loss = given_loss(self.loss)
        if loss.response not in ("binary", "multiclass"):
            raise ValueError(
                f"{type(loss).__name__} is a loss for {loss.response} targets, not for classes; "
                "choose 'logistic', 'softmax', 'probit' or 'hinge', or use KernelRegressor"
            )
        return loss

    def _parts(self, names: Any, d: int, k: int) -> Parts:
        loss, chosen = self._given_loss(), search.by_name(self.search)
        bounded = chosen is not None and not chosen.needs_evidence
        if self.loss == "logistic" and k > 2 and not bounded:
            loss = losses.Softmax()
        if not is_number(self.C, 0.0, np.inf):
            raise ValueError(f"C must be a positive number, not {self.C!r}")
        return resolve(
            names,
            d,
            kernel=self.kernel,
            loss=loss,
            inference=self.inference,
            search=chosen,
            gram=self.gram,
            basis=self.basis,
            standardize=self.standardize,
        )

    def _adapt(self, parts: Parts, data: Classified) -> dict[str, Any]:
        """Start the kernel, take C into it, and make the bias fit the search."""
        parts.start(data.problem.points, data.problem.y, data.problem.weights, data.units)
        if parts.search is not None or self.C != 1.0:
            parts.kernel = float(self.C) * parts.kernel
        report: dict[str, Any] = {}
        if parts.search is not None and parts.basis is not None:
            report["basis"] = (
                f"{parts.basis!r} was replaced by a constant of variance 1 in the kernel: the "
                "leave-one-out bound of the search does not hold for a free bias"
            )
            data.drop_basis(parts)
        return report

    def _conclude(
        self, parts: Parts, data: Classified, classes: NDArray[Any], report: dict[str, Any]
    ) -> None:
        problem, units = data.problem, data.units
        gram = parts.make_gram(parts.kernel, problem.points, scratch=False)
        solution = parts.inference.solve(
            gram, problem.y, parts.loss, basis=problem.basis, weights=problem.weights
        )
        warn_inference(parts.inference, solution.report)
        prior = Prior(parts.kernel, solution.alpha.shape[1])
        posterior = prior.condition(problem.points, solution, basis_inside(parts.basis, units))
        report |= describe(parts, parts.kernel, units, problem, solution)
        self.classes_ = classes
        self.posteriors_, self.losses_ = [posterior], [parts.loss]
        self.units_, self.basis_ = units, parts.basis
        self.flat_ = solution.alpha.shape[1] == 1
        self.kernel_ = units.kernel_outside(parts.kernel)
        self.loss_ = parts.loss
        self.log_evidence_ = None
        self.loo_ = left_out(parts, data, gram, solution, posterior, len(classes))
        self.relevance_ = ard.relevance(parts.kernel, problem.points, problem.weights)
        self.report_ = report | {"loo_bound": getattr(self.loo_, "reason", None)}

    # ------------------------------------------------------------------ predictions
    def predict_latent(self, X: Any) -> tuple[Array, Array | None]:
        """Return f at X (q,), or (q, k) for several classes, and its deviation: None for a mode."""
        inside = self._inputs(X)
        f, v = latent(self.posteriors_[0], self.losses_[0], inside, noise=False)
        std = None if v is None else np.sqrt(np.diagonal(v, axis1=1, axis2=2) if v.ndim == 3 else v)
        if f.shape[1] > 1:
            return f, std
        return f[:, 0], None if std is None else std[:, 0]

    def decision_function(self, X: Any) -> Array:
        """Return f (q,), positive for ``classes_[1]``; for several classes (q, k), largest wins."""
        f = self.predict_latent(X)[0]
        two = f.ndim == 2 and len(self.classes_) == 2  # softmax of two classes
        return np.asarray(f[:, 1] - f[:, 0] if two else f)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`."""
        inside = self._inputs(X)
        loss, posterior = self.losses_[0], self.posteriors_[0]
        return log_probabilities(loss, *latent(posterior, loss, inside))

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``.

        The probability of the loss at the mode of f, averaged over f where the inference gives it
        a spread; with one machine per class these are normalised over the classes.
        """
        return np.asarray(softmax(self.predict_log_proba(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, or the one with the largest f, at X: (q,)."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].normalised:
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        return decided(self.classes_, self.decision_function(X))

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return summarise(self)
