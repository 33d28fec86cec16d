"""Kernel machines for classes, and KernelClassifier: a loss of your choice, at its mode."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer import losses, search
from mercer.core.arrays import Array
from mercer.estimators.shared import labels
from mercer.estimators.shared.machine import (
    LANDMARKS,
    Figures,
    Fit,
    Given,
    KernelMachine,
    generator,
)
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import Parts, data_scales, given_loss
from mercer.estimators.shared.predictions import (
    Classifies,
    ClassProbabilities,
    latent,
    log_probabilities,
)
from mercer.estimators.shared.table import Table, build_table, read_rows
from mercer.estimators.shared.units import Units
from mercer.inference.base import Problem
from mercer.kernels import Constant
from mercer.kernels.base import Kernel
from mercer.left_out import margins
from mercer.left_out.cavity import cavities, no_density
from mercer.left_out.figures import LeftOut
from mercer.losses.base import Loss, is_number
from mercer.process.process import Posterior
from mercer.search import LooBound, LooBoundCriterion, Space


def class_loss(given: Any, others: str, also: str = "", ordered: bool = False) -> Loss:
    """Return the loss that a user gave; refuse one that is not for classes and name ``others``.

    Of classes that are ``ordered`` there may be one latent function.
    """
    loss = given_loss(given, also)
    if loss.response not in ("binary", "multiclass", *(["ordinal"] if ordered else [])):
        raise ValueError(
            f"{type(loss).__name__} is a loss for {loss.response} targets, not for classes; "
            f"choose {others}"
        )
    return loss


class LabelMachine(Classifies, KernelMachine):
    """A kernel machine that reads labels, sorted as ``classes_``."""

    class_weight: Any

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        X, y = read_rows(self, X, y)
        found = labels.read_labels(y, self.class_weight, sample_weight)
        return Given(X, y, found.weights, getattr(self, "feature_names_in_", None), found)

    def _calibrate(self, fit: Fit) -> None:
        self.classes_ = fit.given.labels.classes


class ClassMachine(ClassProbabilities, LabelMachine):
    """A kernel machine with a loss for classes."""

    def _check(self, given: Given, parts: Parts) -> None:
        given.labels.check_present()
        if parts.kernel.pairwise and np.any(given.weights == 0.0):
            raise ValueError(
                "a row of weight zero cannot be left out of a matrix of kernel values: drop the "
                "row and its column"
            )

    def _targets(self, given: Given, parts: Parts) -> Array:
        codes, k = given.labels.codes, len(given.labels.classes)
        if parts.loss.response in ("multiclass", "ordinal"):
            return codes[:, None].astype(np.float64)
        return labels.binary_targets(codes)[:, None] if k == 2 else labels.one_vs_rest(codes, k)

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat = Y.shape[1] == 1 and parts.loss.response != "multiclass"
        beyond = parts.beyond if "gram" in self.get_params(deep=False) else tuple
        return build_table(
            given.X, Y, given.weights, parts.by_row, flat, parts.arrays, True, beyond
        )

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        columns = replace(units, y_shift=np.zeros(1), y_scale=np.ones(1))
        rows = given.labels.rows[table.keep]
        # a row that is left out takes its class weight with it
        gone = given.weights[table.keep] * np.minimum(1.0, 1.0 / rows)
        problem = super()._pose(given, parts, table, columns)
        return replace(problem, row_weights=rows, left_out=gone)

    def _check_basis(self, H: Array) -> None:
        if np.linalg.matrix_rank(H) < H.shape[1]:
            raise ValueError(
                f"the {H.shape[1]} basis functions are linearly dependent on the {len(H)} distinct "
                "training rows; choose a smaller basis"
            )

    def _left_out(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Figures:
        """Return the probability of each class for every row, from the cavities."""
        given, table, loss = fit.given.labels, fit.table, draw.loss
        if not loss.normalised:
            return no_density(loss)
        proba = np.empty((len(table.X), len(given.classes)))
        pair = cavities(fit.problem, solved.gram, loss, solved.solution)
        proba[table.keep] = np.exp(log_probabilities(loss, *pair))
        unused = table.weights == 0.0
        if np.any(unused):
            inside = fit.units.standardised(table.X[unused])
            proba[unused] = np.exp(log_probabilities(loss, *latent(posterior, loss, inside)))
        return LeftOut.of_classes(proba, given.codes.astype(np.float64), given.rows)


def _gives_probabilities(machine: Any) -> bool:
    fitted = getattr(machine, "losses_", None)
    loss = machine._given_loss() if fitted is None else fitted[0]
    if not loss.normalised:
        raise AttributeError(
            f"{type(loss).__name__} is not a likelihood: exp(-loss) does not sum to one over the "
            "classes, so that there are no probabilities; choose loss='logistic' or 'probit'"
        )
    return True


class KernelClassifier(ClassMachine):
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
    inference : "auto" (by what the loss offers), "newton", "dual" or Inference
    search : None, "loo_bound" or LooBound
        Choose the kernel's parameters and C by the leave-one-out error bound, from one fit per
        candidate. The bound needs a penalised bias: a constant in the kernel replaces the basis.
    class_weight : None, "balanced" or dict, weights by class, times the sample weights.
    gram, basis, standardize, random_state
        See :class:`KernelRegressor`. The basis "constant" is a free bias. Inducing points are
        chosen in each class.

    Attributes
    ----------
    classes_ : the labels, sorted; columns of ``predict_proba`` are in this order.
    kernel_, loss_ : the fitted parts in the user's units.
    left_out_ : leave-one-out margins: ``error_bound`` (Lemma 1; refused for a free bias and for
        softmax) and the closer estimate ``cavity_error``.
    report_ : what was done: steps, objective, duality gap, standardisation.
    posteriors_, relevance_, n_features_in_, feature_names_in_ : see :class:`KernelRegressor`.

    References: Jaakkola & Haussler, Probabilistic kernel regression models, 1999; GPML section 6.4.

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
        self.kernel, self.loss, self.inference, self.search = kernel, loss, inference, search
        self.C, self.class_weight = C, class_weight
        self.gram, self.basis, self.standardize = gram, basis, standardize
        self.random_state = random_state

    def _given_loss(self) -> Loss:
        others = "'logistic', 'softmax', 'probit' or 'hinge', or use KernelRegressor"
        return class_loss(self.loss, others)

    def _resolve(self, given: Given) -> Parts:
        loss, chosen = self._given_loss(), search.by_name(self.search)
        bounded = chosen is not None and not chosen.needs_evidence
        if self.loss == "logistic" and len(given.labels.classes) > 2 and not bounded:
            loss = losses.Softmax()
        if not is_number(self.C, 0.0, np.inf):
            raise ValueError(f"C must be a positive number, not {self.C!r}")
        return self._resolved(given, loss=loss, search=chosen)

    def _begin(self, fit: Fit) -> None:
        """Start the kernel, take C into it, and make the bias fit the search."""
        super()._begin(fit)
        parts = fit.parts
        if parts.search is not None or self.C != 1.0:
            parts.kernel = float(self.C) * parts.kernel
        if parts.search is not None and parts.basis is not None:
            fit.report["basis"] = (
                f"{parts.basis!r} was replaced by a constant of variance 1 in the kernel: the "
                "leave-one-out bound of the search does not hold for a free bias"
            )
            parts.kernel, parts.basis = parts.kernel + Constant(1.0).fix(), None
            fit.problem = replace(fit.problem, basis=None)

    def _search(self, fit: Fit) -> None:
        parts, problem = fit.parts, fit.problem
        if parts.inducing is not None:
            super()._search(fit)
            return
        fit.report["search"] = None
        if parts.search is not None:
            if not isinstance(parts.search, LooBound):
                raise ValueError(
                    "a kernel classifier searches by 'loo_bound' or LooBound() only; GPClassifier "
                    "searches by the evidence"
                )
            if parts.loss.response == "multiclass":
                raise ValueError(margins.JOINT)
            if not parts.loss.convex:
                raise ValueError(margins.NOT_CONVEX)
            space = Space({"kernel": parts.kernel, "loss": parts.loss.fix()})
            if not parts.named_kernel:
                y = np.ones((len(problem.points), 1))  # labels have no scale of their own
                space.suggest(data_scales(parts.kernel, problem.points, y, problem.weights))
            criterion = LooBoundCriterion(
                space, problem, parts.inference, parts.make_gram, figure=parts.search.figure
            )
            (found,) = parts.search.run(criterion, space, generator(self.random_state))
            parts.kernel = cast(Kernel, deepcopy(space.parts_at(found.u)["kernel"]))
            fit.report["search"] = found.report
        fit.draws = [Draw(parts.kernel, parts.loss, scored=False)]

    def _left_out(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Figures:
        """Return margins, bounded and estimated; probabilities where f has a spread."""
        if posterior.has_spread:
            return super()._left_out(fit, draw, solved, posterior)
        given, table, problem, loss = fit.given.labels, fit.table, fit.problem, draw.loss
        codes = given.codes.astype(np.float64)
        if not solved.gram.exact:
            return LANDMARKS
        if loss.response == "multiclass":
            return LeftOut(given.rows, codes=codes, reason=margins.JOINT)
        reason = None if problem.basis is None else margins.FREE_BIAS
        if not loss.convex or solved.solution.report.gap is None:
            reason = margins.NOT_CONVEX
        plain, unused = np.zeros(table.Y.shape), table.weights == 0.0
        if np.any(unused):  # rows of weight zero are predicted by all others
            inside = fit.units.standardised(table.X[unused])
            plain[unused] = table.Y[unused] * posterior.mean(inside)
        bound, margin = (plain.copy() if reason is None else None), None
        if bound is not None:
            bound[table.keep] = margins.bounded_margins(problem, solved.gram, solved.solution)
        f = margins.left_out_latent(problem, solved.gram, solved.solution)
        if f is not None:
            margin = plain
            margin[table.keep] = problem.rows * f
        return LeftOut(given.rows, codes=codes, margin=margin, bound=bound, reason=reason)

    def _calibrate(self, fit: Fit) -> None:
        super()._calibrate(fit)
        self.report_["loo_bound"] = None if self.left_out_ is None else self.left_out_.reason
        if fit.parts.inducing is not None and fit.parts.loss.response == "multiclass":
            self.report_["probabilities"] = "those of the softmax at the mode"

    # ------------------------------------------------------------------ predictions
    def decision_function(self, X: Any) -> Array:
        """Return f (q,), positive for ``classes_[1]``; for several classes (q, k), largest wins."""
        f = self.predict_latent(X)[0]
        two = f.ndim == 2 and len(self.classes_) == 2  # softmax of two classes
        return np.asarray(f[:, 1] - f[:, 0] if two else f)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`."""
        return super().predict_log_proba(X)

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``.

        That of the loss at the mode of f, averaged over f where the inference gives it a spread.
        """
        return np.asarray(softmax(self.predict_log_proba(X), axis=1))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class, or the one with the largest f, at X: (q,)."""
        check_is_fitted(self, "posteriors_")
        if self.losses_[0].normalised:
            return labels.decided(self.classes_, self.predict_proba(X))
        return Classifies.predict(self, X)
