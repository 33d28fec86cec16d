"""Least-squares classification, plain and probabilistic; theory (Q1), (Q4)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import numpy as np
from scipy.special import log_ndtr, log_softmax, ndtr, softmax
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.estimators.kernel.classifier import LabelMachine
from mercer.estimators.shared.inducing import ROWS
from mercer.estimators.shared.machine import Fit, Given, generator
from mercer.estimators.shared.parameters import Draw, find_parameters
from mercer.estimators.shared.parts import Parts, data_scales
from mercer.estimators.shared.predictions import check_variances
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.shared.units import Units, in_column_order, measure
from mercer.kernels.base import Kernel
from mercer.left_out.figures import LeftOut
from mercer.losses import Gaussian, Probit, SquaredProbit
from mercer.losses.base import Loss, is_number
from mercer.search import Optimize, PlscCriterion, Problem, Search, Space, balanced, times
from mercer.search.one_parameter import default_lams, ridge_path
from mercer.search.sample import first_rows

# Where PLSC searches, unless the parts say otherwise. Labels are +-1: a function of far larger
# variance is a polynomial in disguise, certain of itself wherever there are no data.
BOUNDS = {
    "kernel__variance": (1e-4, 1e2),
    "loss__noise": (1e-5, 1e1),
    "loss__tau": (1e-4, 1e2),
    "loss__offset": (-1e2, 1e2),
}


AS_NUMBERS = "density of the labels, taken for numbers"


class LabelRegression(LabelMachine):
    """Regression on one column of targets for two classes, on one per class for more.

    All columns share one kernel, one noise and one factorisation.
    """

    left_out_: LeftOut | None  # a Gaussian regression in memory always has it

    def _label_targets(self, counts: Array) -> tuple[Array, Array]:
        """Return (y+, y-), each (m,), for classes of ``counts`` (k,) rows."""
        m = 1 if len(counts) == 2 else len(counts)
        return np.ones(m), -np.ones(m)

    def _choose(self, fit: Fit) -> tuple[Kernel, Loss]:
        """Return kernel and loss; say in the report how they were found."""
        raise NotImplementedError

    def _targets(self, given: Given, parts: Parts) -> Array:
        given.labels.check_two()
        plus, minus = self._label_targets(given.labels.counts)
        wanted = np.arange(len(plus)) if len(plus) > 1 else np.array([1])
        return np.where(given.labels.codes[:, None] == wanted, plus, minus)

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        flat, arrays = Y.shape[1] == 1, parts.arrays + 4
        return build_table(given.X, Y, given.weights, parts.by_row, flat, arrays)

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        seen, weights = given.labels.rows, given.weights
        # class weights say what a mistake costs, not how often a row was seen: a row that is left
        # out takes its class weight with it, whole
        with np.errstate(invalid="ignore", divide="ignore"):
            alone = np.where(seen > 1.0, weights / seen, weights)
        return replace(super()._pose(given, parts, table, units), left_out=alone[table.keep])

    def _search(self, fit: Fit) -> None:
        kernel, fit.parts.loss = self._choose(fit)
        # learning is Gaussian regression, whatever the loss says of new labels
        noise = float(fit.parts.loss.get_params()["noise"])
        fit.draws = [Draw(kernel, Gaussian(noise=noise))]
        if fit.parts.inducing is not None and fit.parts.search is None:  # points for this kernel
            given = replace(fit.parts, kernel=kernel, loss=Gaussian(noise=noise))
            found = find_parameters(given, fit.problem, generator(self.random_state))[1]
            fit.parts.make_gram = given.make_gram
            fit.report["inducing"] = found["inducing"]

    def _calibrate(self, fit: Fit) -> None:
        super()._calibrate(fit)
        self.losses_, self.loss_ = [fit.parts.loss], fit.parts.loss

    def _measures(self, loss: Loss, machines: int) -> tuple[str, str]:
        return AS_NUMBERS, AS_NUMBERS

    def _variance(self, inside: Array) -> Array:
        """Return the variance (q, 1) of f, noise parts of the kernel included."""
        posterior = self.posteriors_[0]
        check_variances([posterior], inside)
        return np.asarray((posterior.var(inside) + posterior.noise(inside))[:, None])

    def _members(self, X: Any) -> Any:
        """As for all, with the loss by which it learns: a proposal asks what a label will say."""
        found = super()._members(X)
        noise = float(self.loss_.get_params()["noise"])
        return found and ([(p, Gaussian(noise=noise)) for p, _ in found[0]], *found[1:])

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean (q,) or (q, k) and standard deviation (q,) of the regression function."""
        inside = self._inputs(X)
        mean = self._shaped(self.posteriors_[0].mean(inside))
        return mean, np.sqrt(self._variance(inside)[:, 0])


def loo_error(scores: Array, codes: Index, weights: Array) -> float:
    """Return the weighted share of rows whose left-out score (N, m) points to another class."""
    best = (scores[:, 0] > 0.0).astype(np.intp) if scores.shape[1] == 1 else scores.argmax(axis=1)
    return float(weights @ (best != codes) / weights.sum())


class LeastSquaresClassifier(LabelRegression):
    """Kernel ridge regression on the labels: regularised least-squares classification.

    f minimises sum_i w_i (y_i - f(x_i))^2 + lam |f|^2_k with y = +1 or -1, and an unpenalised
    offset: alpha = (K + lam W^-1)^-1 (y - b). Two classes: the sign of f. More: one column each,
    one against the rest, from one factorisation; the largest wins. As n grows, f estimates
    2 p - 1, but it is not confined to [-1, 1], so there is no ``predict_proba``: for probabilities
    take :class:`ProbabilisticLeastSquaresClassifier`.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        None is an RBF of unit variance whose length scale is that of the standardised table.
    lam : "loo" or number > 0
        The ridge parameter (``alpha`` of scikit-learn's KernelRidge). "loo" takes the one of
        ``lams`` with the best leave-one-out predictions, all from one eigendecomposition.
    lams : values > 0, or None: 20 values from 1e-6 to 1000 times the mean of k(x, x).
    criterion : "squared" or "error"
        What the leave-one-out predictions should have least of: squared error, or mistakes (among
        equal ones the squared error decides).
    targets : (y+, y-) or "fisher"
        The numbers for the class and for the others. The decision is at their midpoint. "fisher"
        is (n/n+, -n/n-), n+ and n- the rows of the class and of the others, with the decision at 0:
        with a linear kernel and lam -> 0 this is Fisher's discriminant.
    basis : "constant" (an offset), None, "linear", degree, callable or Basis, unpenalised.
    search : None, "evidence", "loo" or Search
        Learn the kernel and lam (as a start, if it is a number) like a Gaussian process on the
        targets; None takes the kernel as it is.
    class_weight : None, "balanced" or dict
    gram, standardize, random_state : see :class:`KernelRegressor`. Targets are not standardised.

    Attributes
    ----------
    classes_ : (k,) the labels.
    left_out_ : leave-one-out mean (of f), variance and log density of every row's target.
    report_ : dict; "loo" has the leave-one-out error and squared error, "lam" their path.
    kernel_, loss_, log_evidence_, posteriors_, relevance_ : those of the regression on the targets.

    References: Rasmussen & Williams, section 6.5; Rifkin & Klautau (2004), In defense of one-vs-all
    classification; Rifkin & Lippert (2007), Notes on regularized least squares.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import LeastSquaresClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1.1, "in", "out")
    >>> model = LeastSquaresClassifier().fit(X, y)
    >>> model.predict([[0.0, 0.0], [2.0, 2.0]])
    array(['in', 'out'], dtype='<U3')
    >>> model.report_["loo"]["error"] < 0.15
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        lam: Any = "loo",
        lams: Any = None,
        criterion: str = "squared",
        targets: Any = (1.0, -1.0),
        basis: Any = "constant",
        search: Any = None,
        class_weight: Any = None,
        gram: str = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.basis, self.search = kernel, basis, search
        self.class_weight, self.gram, self.standardize = class_weight, gram, standardize
        self.lam, self.lams, self.criterion, self.targets = lam, lams, criterion, targets
        self.random_state = random_state

    loss_: Gaussian

    @property
    def lam_(self) -> float:
        """The ridge parameter that was used."""
        return float(self.loss_.noise)

    def _resolve(self, given: Given) -> Parts:
        if self.criterion not in ("squared", "error"):
            raise ValueError(f"criterion must be 'squared' or 'error', not {self.criterion!r}")
        by_loo = isinstance(self.lam, str) and self.lam == "loo"
        if not (by_loo or is_number(self.lam, 0.0, np.inf)):
            raise ValueError(f"lam must be 'loo' or a positive number, not {self.lam!r}")
        loss = "gaussian" if by_loo else Gaussian(noise=float(self.lam))
        return self._resolved(given, loss=loss, inference="exact")

    def _label_targets(self, counts: Array) -> tuple[Array, Array]:
        plus, minus = super()._label_targets(counts)
        if isinstance(self.targets, str) and self.targets == "fisher":
            if not np.all(counts > 0.0):
                raise ValueError("the targets 'fisher' need a row of positive weight of each class")
            own = counts[1:] if len(plus) == 1 else counts
            return counts.sum() / own, -counts.sum() / (counts.sum() - own)
        given = np.asarray(self.targets, dtype=object)
        fine = given.shape == (2,) and all(is_number(t, -np.inf, np.inf) for t in given)
        if not fine or not float(given[0]) > float(given[1]):
            raise ValueError(
                f"targets must be 'fisher' or two numbers (y+, y-), y+ > y-: {self.targets!r}"
            )
        return float(given[0]) * plus, -float(given[1]) * minus

    def _choose(self, fit: Fit) -> tuple[Kernel, Loss]:
        parts, report = fit.parts, fit.report
        kernel, loss = parts.kernel, parts.loss
        plus, minus = self._label_targets(fit.given.labels.counts)
        threshold = np.zeros(len(plus)) if isinstance(self.targets, str) else 0.5 * (plus + minus)
        report["search"] = None
        if parts.search is not None:
            draws, found = find_parameters(parts, fit.problem, generator(self.random_state))
            kernel, loss = draws[0].kernel, draws[0].loss
            report |= found
        elif parts.named_kernel and "variance" in kernel.domains:
            kernel.set_params(variance=1.0)
        if parts.search is None and isinstance(self.lam, str):
            few = fit.problem
            if parts.inducing is not None:  # all of them have an n x n matrix
                few = first_rows(few, ROWS, generator(self.random_state))
            lam, report["lam"] = self._best(kernel, few, plus, threshold)
            loss = Gaussian(noise=lam)
        targets = {"plus": plus, "minus": minus, "threshold": threshold}
        report["targets"] = {name: values.tolist() for name, values in targets.items()}
        return kernel, loss

    def _best(
        self, kernel: Kernel, problem: Problem, plus: Array, threshold: Array
    ) -> tuple[float, dict[str, Any]]:
        """Return the best lam of the grid and the path that shows it."""
        own = problem.rows == plus
        codes = own[:, 0].astype(np.intp) if len(plus) == 1 else own.argmax(axis=1)
        if self.lams is None:
            lams = default_lams(kernel, problem)
            if not np.all(lams > 0.0):
                raise ValueError(
                    "k(x, x) is negative on average: this is not a positive semidefinite kernel; "
                    "choose another"
                )
        else:
            lams = np.sort(np.asarray(self.lams, dtype=np.float64).ravel())[::-1]
            if not len(lams) or not np.all((lams > 0.0) & np.isfinite(lams)):
                raise ValueError(f"lams must be positive numbers, not {self.lams!r}")
        w, path = problem.row_weights, []
        for lam, mean in ridge_path(kernel, problem, lams):
            squared = float(w @ ((problem.rows - mean) ** 2).mean(axis=1) / w.sum())
            path.append((lam, loo_error(mean - threshold, codes, w), squared))
        order = (1, 2) if self.criterion == "error" else (2,)
        best = min(path, key=lambda row: tuple(row[i] for i in order))[0]
        edge = len(lams) > 1 and best in (lams[0], lams[-1])
        names = ("lams", "loo_error", "loo_squared_error")
        report = {name: list(c) for name, c in zip(names, zip(*path, strict=True), strict=True)}
        return best, report | {"chosen": best, "at_edge": bool(edge)}

    def _calibrate(self, fit: Fit) -> None:
        super()._calibrate(fit)
        if self.left_out_ is None:  # of rows that came in blocks
            return
        Y, w = fit.table.Y, fit.table.weights
        mean = np.reshape(cast(Array, self.left_out_.mean), Y.shape)
        squared = float(w @ ((Y - mean) ** 2).mean(axis=1) / w.sum())
        error = loo_error(mean - self._threshold(), fit.given.labels.codes, w)
        self.report_["loo"] = {"error": error, "squared_error": squared}

    def _check_fitted(self) -> None:
        """Refuse a report without the thresholds of its outputs, which predictions read."""
        given = self.report_["targets"]["threshold"]
        plain = isinstance(given, list) and all(isinstance(t, float) for t in given)
        if not plain or len(given) != len(self.units_.y_scale):
            raise ValueError("the report has no threshold for each output")
        super()._check_fitted()

    def _threshold(self) -> Array:
        return np.asarray(self.report_["targets"]["threshold"], dtype=np.float64)

    def decision_function(self, X: Any) -> Array:
        """Return f less the threshold: (q,), positive for the second class; (q, k) for more."""
        inside = self._inputs(X)
        return self._shaped(self.posteriors_[0].mean(inside) - self._threshold())


class ProbabilisticLeastSquaresClassifier(LabelRegression):
    """Least-squares classification with probabilities that are trained to be right (PLSC).

    f is learned by Gaussian regression on labels +1 and -1, and P(+1 | x) =
    Phi((mean + b) / sqrt(tau^2 + variance)). Kernel, noise, tau and b maximise the log probability
    of the left-out labels, sum_i log p(y_i | all others), which is closed for this model. The
    default counts the noise into the variance, as GPML does; ``latent=True`` does not.

    Several classes: one against the rest, with one kernel and one noise for all and a tau and a b
    for each; the criterion is the sum over the classes, the probabilities are divided by their sum.
    A wrong label far inside the other class gets a tiny probability: mind it in log losses.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        None is a scaled RBF with one length scale, on standardised columns.
    latent : bool, leave the noise out of the predictive variance, in training and in prediction.
    smooth : bool
        Train towards the probabilities (n+ + 1)/(n+ + 2) and 1/(n- + 2) of Platt in place of 1 and
        0, n+ and n- the labels of each kind. Without it, labels that can all be told from the
        others make the probabilities as extreme as the bounds allow. False is the book's criterion.
    basis : None, "constant", "linear", degree, callable or Basis, unpenalised; b is there anyway.
    search : "plsc", None (kernel, ``noise``, ``tau`` and ``offset`` as they are) or Optimize
    noise, tau, offset : numbers, where the search starts.
    class_weight : None, "balanced" or dict
    gram, standardize, random_state : see :class:`KernelRegressor`.

    Attributes
    ----------
    classes_ : (k,) the labels.
    loss_ : SquaredProbit, with noise, tau and offset (b).
    left_out_ : leave-one-out mean and variance (of f plus noise) of every row, and log_density, the
        log probability of its label (for several classes: of each class against the rest).
    kernel_, log_evidence_, report_, posteriors_, relevance_ : as elsewhere.

    References: Rasmussen & Williams, section 6.5.1 and (5.12), (6.42)-(6.44).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ProbabilisticLeastSquaresClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(80, 2))
    >>> y = np.where(np.hypot(X[:, 0], X[:, 1]) < 1.1, "in", "out")
    >>> model = ProbabilisticLeastSquaresClassifier().fit(X, y)
    >>> p = model.predict_proba([[0.0, 0.0], [1.5, 0.0]])
    >>> bool(p[0, 0] > 0.9), bool(p[1, 1] > 0.9)
    (True, True)
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        latent: bool = False,
        smooth: bool = True,
        basis: Any = None,
        search: Any = "plsc",
        noise: float = 0.1,
        tau: float = 0.1,
        offset: float = 0.0,
        class_weight: Any = None,
        gram: str = "auto",
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel, self.basis, self.search = kernel, basis, search
        self.class_weight, self.gram, self.standardize = class_weight, gram, standardize
        self.latent, self.smooth = latent, smooth
        self.noise, self.tau, self.offset = noise, tau, offset
        self.random_state = random_state

    loss_: SquaredProbit
    left_out_: LeftOut

    def _fit_blocks(self, table: Any) -> Any:
        raise TypeError(
            "ProbabilisticLeastSquaresClassifier trains its probabilities on every row left out, "
            "and blocks keep nothing of single rows: use GPClassifier(gram=...) for probabilities, "
            "or LeastSquaresClassifier(gram=...) for classes"
        )

    @property
    def loo_log_probability_(self) -> float:
        """The weighted sum of the log probabilities of the left-out labels."""
        return cast(float, self.left_out_.total)

    def _resolve(self, given: Given) -> Parts:
        search = self.search
        if isinstance(search, str) and search == "plsc":
            search = Optimize(criterion="plsc")
        if search is not None and not isinstance(search, Search):
            raise ValueError(f"search must be 'plsc', None or an Optimize, not {search!r}")
        criterion = None if search is None else search.get_params().get("criterion")
        if search is not None and criterion != "plsc":
            raise ValueError(
                f"a search by {criterion!r} does not train a sigmoid; give "
                "Optimize(criterion='plsc')"
            )
        loss = SquaredProbit(self.noise, self.tau, self.offset, self.latent)
        return self._resolved(given, loss=loss, inference="exact", search=search)

    def _choose(self, fit: Fit) -> tuple[Kernel, Loss]:
        parts, problem, loss = fit.parts, fit.problem, fit.parts.loss
        m = problem.y.shape[1]
        if m > 1:
            loss.set_params(tau=np.full(m, self.tau), offset=np.full(m, self.offset))
        fit.report["search"] = None
        if parts.search is None:
            return parts.kernel, loss
        if parts.search.kept is not None:  # what other rows have found
            kernel, found, report = parts.search.kept
            fit.report |= report
            return kernel, found
        # exact copies and weights say how much a row counts, not how little noise there is
        factor = balanced(problem)[1]
        kernel, scaled, as_given = in_column_order(parts.kernel, times(problem, factor))
        space = Space({"kernel": kernel, "loss": loss}, parts.bounds | BOUNDS)
        if not parts.named_kernel:
            space.suggest(data_scales(kernel, scaled.points, scaled.y, scaled.weights))
        criterion = PlscCriterion(space, scaled, parts.inference, parts.make_gram, self.smooth)
        best = parts.search.run(criterion, space, generator(self.random_state))[0]
        at = space.parts_at(best.u)
        fit.report["search"] = {**best.report, "search_weight_factor": factor}
        return as_given(cast(Kernel, at["kernel"])), cast(Loss, at["loss"])

    def _calibrate(self, fit: Fit) -> None:
        super()._calibrate(fit)
        loss, left, Y = self.loss_, self.left_out_, fit.table.Y
        given = cast(Array, left.mean)
        mean, variance = np.reshape([given, left.variance], (2, *Y.shape))
        s = variance - loss.noise if loss.latent else variance
        log_p = loss.log_probability(0.5 * (1.0 + Y), mean, s)[0]
        self.left_out_ = replace(left, log_density=np.reshape(log_p, given.shape))
        scores = loss.score_of_sum(mean, s)
        error = loo_error(scores, fit.given.labels.codes, fit.table.weights)
        self.report_["loo"] = {"error": error}

    def _measures(self, loss: Loss, machines: int) -> tuple[str, str]:
        return AS_NUMBERS, measure(Probit(), machines)

    def _scores(self, X: Any) -> Array:
        """Return r (q, m) with P = Phi(r) for each class against the rest."""
        inside = self._inputs(X)
        return self.loss_.score(self.posteriors_[0].mean(inside), self._variance(inside))

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, k), in the order of ``classes_``."""
        r = self._scores(X)
        if self.flat_:
            return np.column_stack([ndtr(-r[:, 0]), ndtr(r[:, 0])])
        each = log_ndtr(r)  # a row of only tiny ones is divided by its sum in logarithms
        return np.asarray(softmax(each, axis=1))

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities (q, k), finite in the far tails as well."""
        r = self._scores(X)
        if self.flat_:
            return np.column_stack([log_ndtr(-r[:, 0]), log_ndtr(r[:, 0])])
        return np.asarray(log_softmax(log_ndtr(r), axis=1))

    def decision_function(self, X: Any) -> Array:
        """Return r with P = Phi(r) for the second of two classes (q,); else the probabilities.

        Its zero is p = 1/2: ``predict`` never contradicts ``predict_proba``.
        """
        check_is_fitted(self, "posteriors_")
        if not self.flat_:
            return self.predict_proba(X)
        r = self._scores(X)
        tie = ndtr(r) == ndtr(-r)  # rounding may make p = 1/2 of a tiny r: then it is a tie
        return np.asarray(np.where(tie, 0.0, r)[:, 0])
