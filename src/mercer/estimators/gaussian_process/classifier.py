"""GPClassifier: Gaussian process classification."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from mercer import inference as inferences
from mercer import losses
from mercer.core.component import Mark
from mercer.core.memory import require_memory
from mercer.estimators.gaussian_process.additive import Additive
from mercer.estimators.kernel.classifier import ClassMachine, class_loss
from mercer.estimators.shared.machine import Fit, Given
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import AMPLITUDES, Parts, inducing_of, positional
from mercer.inference.base import Inference, Problem
from mercer.kernels import Constant, Kernel, Several
from mercer.losses import LearnedOrdinal, Probit
from mercer.losses.base import Loss
from mercer.losses.ordinal import CumulativeLink
from mercer.process.process import Posterior, Process
from mercer.search import FlatBelow

AMPLITUDE, BIAS = 10.0, 1.0  # variances at which a kernel given by name starts
LARGE = 1e10  # n m^2 beyond which the sweeps of EP take long, and the bound is as good
LIMITS = (float(np.exp(-12.0)), float(np.exp(9.0)))  # of every variance: separable data want more


class GPClassifier(Additive, ClassMachine):
    """Gaussian process classification: probabilities with the uncertainty of f averaged over.

    Two classes by expectation propagation with a probit link, several by a coupled Laplace
    approximation with a softmax; the kernel's parameters maximise the log evidence.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        See :class:`KernelRegressor`. None or a name is that kernel plus a constant, each with a
        variance that is learned; one length scale per column is kept only if the log evidence
        gains more than (log n)/2 for each. A kernel object is taken as it is. A list is one kernel
        for each class, in the order of ``classes_``: a softmax whose functions differ in kind.
    loss : None, Loss or name
        A likelihood for classes. None is "probit" for EP, "logistic" for the others, "softmax" for
        several classes. A binary loss is one machine per class against the rest, on one kernel.
        "ordinal" is for classes that are ordered numbers (grades): one function, with cut points
        that are learned with the kernel (:class:`~mercer.losses.LearnedOrdinal`).
    inference : "auto", "ep", "laplace", "variational", "bound", "mcmc" or Inference
        "auto" is EP for two classes (its probabilities have the smallest measured log loss, those
        of Laplace are under-confident) and Laplace for several. On m inducing points several
        classes are one machine each against the rest, by EP, or variational where n m^2 > 1e10.
    search : "evidence", None or Search
        Which hyperparameters; ``HMC()`` averages over them: a committee.
    discriminant : "mean" or "mode"
        Predict with the mean of the approximate posterior and its spread, or with the mode at the
        parameters found, which has none: the probability of the loss at it. (Seeger compares both.)
        Members of a committee keep the rows that support them, each its own
        (``report_["mode"]["support"]``): of a normalised hinge these are few.
    class_weight : None, "balanced" or dict, weights by class, times the sample weights.
    basis : None, "constant", "linear", degree, callable or Basis
        Unpenalised functions of the log odds beside the kernel, integrated out under a flat prior:
        a semi-parametric classifier. Labels that these functions separate are refused: their
        evidence is infinite. Of a softmax the contrasts of the classes are free. Labels do not
        hold the scale of f, and beside a flat prior the evidence would grow with it: each variance
        of the kernel without a prior or bounds of yours gets a
        :class:`~mercer.search.FlatBelow` prior, which ``report_["amplitudes"]`` states.
    gram, standardize, random_state : see :class:`KernelRegressor`.
    device : see :class:`GPRegressor`; for two classes, by EP, Laplace or variational inference.

    Attributes
    ----------
    classes_ : the labels, sorted; columns of ``predict_proba`` are in this order.
    kernel_, loss_ : the fitted parts in the user's units.
    log_evidence_ : float, the approximate log p(y | X).
    left_out_ : leave-one-out probabilities ``proba`` of every row, with ``error`` and ``total``.
    report_ : what was done: convergence, factorisations, parameters at a bound.
    components_ : list of str, the terms of a sum of kernels, for :meth:`predict_component`.
    posteriors_, relevance_, n_features_in_, feature_names_in_ : see :class:`KernelRegressor`.

    Of a committee ``kernel_``, ``loss_`` and ``left_out_`` are those of its first member, and
    ``log_evidence_`` is the largest.

    References: GPML chapter 3; Seeger, Bayesian methods for support vector machines and Gaussian
    processes.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(60, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> model = GPClassifier().fit(X, y)
    >>> model.predict([[1.0, 1.0], [-1.0, 1.0]])
    array(['same', 'different'], dtype='<U9')
    >>> bool(model.predict_proba([[1.0, 1.0]])[0, 1] > 0.8)
    True
    """

    def __init__(
        self,
        kernel: Any = None,
        *,
        loss: Any = None,
        inference: Any = "auto",
        search: Any = "evidence",
        discriminant: str = "mean",
        class_weight: Any = None,
        gram: str = "auto",
        basis: Any = None,
        standardize: bool | str = "auto",
        random_state: Any = None,
        device: str = "cpu",
    ) -> None:
        self.kernel, self.loss, self.inference, self.search = kernel, loss, inference, search
        self.discriminant, self.class_weight = discriminant, class_weight
        self.gram, self.basis, self.standardize = gram, basis, standardize
        self.random_state, self.device = random_state, device

    def _resolve(self, given: Given) -> Parts:
        if self.discriminant not in ("mean", "mode"):
            raise ValueError(f"discriminant must be 'mean' or 'mode', not {self.discriminant!r}")
        method, several, loss = self.inference, len(given.labels.classes) > 2, None
        named = isinstance(self.loss, str)
        if named and self.loss == "ordinal":
            loss = _graded(given.labels.classes)
        elif self.loss is not None:
            others = "'probit', 'logistic', 'softmax' or 'ordinal', or use GPRegressor"
            loss = class_loss(self.loss, others, "None, ", ordered=True)
            _check_grades(loss, given.labels.classes)
        few = inducing_of(self.gram)
        own = isinstance(self.kernel, (list, tuple, Several))  # a kernel for each class
        coupled = (several or own) and few is None  # a softmax needs n x n arrays
        if isinstance(method, str) and method == "auto":
            joint = coupled if loss is None else loss.response == "multiclass"
            method = "laplace" if joint else "ep"
            if few is not None and few.work(len(given.X)) > LARGE:
                method = "variational"
        chosen = inferences.by_name(method)
        if not chosen.has_evidence:
            raise ValueError(
                f"a Gaussian process has a spread, and {type(chosen).__name__} finds a mode only; "
                "use KernelClassifier for it, or inference='ep', 'laplace' or 'variational'"
            )
        # a loss given by name keeps its scale: the kernel's variance learns it
        if named and loss is not None and loss.response != "ordinal":
            loss = loss.fix()
        elif loss is None and coupled and all(map(losses.Softmax.offers, chosen.needs)):
            loss = losses.Softmax()
        elif loss is None:
            loss = Loss.by_name(chosen.link).fix()
        if self.discriminant == "mode":
            _finder(loss)  # refuses before the search
        # the mode of a loss with kinks asks for rows of K
        gram = "dense" if self.gram == "auto" and self.discriminant == "mode" else self.gram
        return self._resolved(given, loss=loss, inference=chosen, gram=gram)

    def _check(self, given: Given, parts: Parts) -> None:
        super()._check(given, parts)
        classes = given.labels.classes
        if parts.kernel.separate and len(parts.kernels) != len(classes):
            raise ValueError(
                f"there are {len(parts.kernels)} kernels for {len(classes)} classes: give one for "
                f"each, in the order {', '.join(map(str, classes))}, or one kernel for all"
            )
        if parts.kernel.noise_free() is not parts.kernel and np.any(given.weights != 1.0):
            raise ValueError(
                "weights need rows that are their inputs: with a noise part in the kernel every "
                "copy of a row has a draw of its own, and a weighted row would have one; leave the "
                "noise part out (the loss has noise of its own), or give the row several times"
            )

    def _begin(self, fit: Fit) -> None:
        parts = fit.parts
        if not parts.linear and parts.device is None:
            require_memory(len(fit.problem.points), 4 + 2 * len(fit.units.y_scale))
        super()._begin(fit)
        if parts.named_kernel and not positional(parts.kernel):
            for kernel in parts.kernels:
                kernel.set_params(variance=AMPLITUDE)
            free = parts.has_constant or parts.loss.response == "ordinal"  # cut points are a level
            if not free:
                own = isinstance(parts.kernel, Several)
                biased = [kernel + Constant(BIAS) for kernel in parts.kernels]
                parts.kernel = Several(biased) if own else biased[0]
        if isinstance(parts.loss, LearnedOrdinal) and isinstance(self.loss, str):
            parts.loss = _started(parts, fit.problem)
        parts.amplitudes = LIMITS
        if fit.problem.basis is not None and parts.search is not None:
            parts.kernel = _held(parts.kernel, self._flat_functions(fit))

    def _flat_functions(self, fit: Fit) -> int:
        """Return how many coefficients have a flat prior, over all latent functions."""
        assert fit.problem.basis is not None
        joint = fit.parts.loss.response == "multiclass"
        return int(fit.problem.basis.shape[1]) * (len(fit.units.y_scale) - int(joint))

    def _search(self, fit: Fit) -> None:
        super()._search(fit)
        if fit.problem.basis is not None and fit.parts.search is not None:
            fit.report["amplitudes"] = (
                "labels do not hold the scale of f, and a flat prior lets the evidence grow with "
                "it: each variance without a prior of yours had "
                f"{_amplitude_prior(self._flat_functions(fit))!r}"
            )

    def _condition(self, fit: Fit) -> None:
        super()._condition(fit)
        if self.discriminant == "mode" and len(self.posteriors_) > 1:
            # a member of a committee needs its own support, not that of the others
            sparse = [p.supported() if isinstance(p, Posterior) else p for p in self.posteriors_]
            if any(new is not old for new, old in zip(sparse, self.posteriors_, strict=True)):
                self.posteriors_, self.observed_ = sparse, None
            self.report_["mode"]["support"] = [len(getattr(p, "points", ())) for p in sparse]

    def _discriminant(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Process:
        """Return the posterior, or the mode in its place."""
        if self.discriminant == "mean":
            return posterior
        p = fit.problem
        finder, convex = _finder(draw.loss)
        mode = finder.solve(solved.gram, p.y, convex, basis=p.basis, weights=p.weights)
        finder.warn(mode.report)
        fit.report.setdefault("mode", {"name": type(finder).__name__, **mode.report.plain()})
        return posterior.parent.condition(p.points, mode, posterior.basis)


def _amplitude_prior(functions: int) -> FlatBelow:
    """Return the prior of a variance v beside k flat functions, where E grows like k/2 log v."""
    return FlatBelow(scale=1.0, power=0.5 * (functions + 1.0))


def _held(kernel: Kernel, functions: int) -> Kernel:
    """Return the kernel with a prior on each amplitude of which nothing was said."""
    free = [
        path
        for path, owner, name in kernel.differentiable()
        if name in AMPLITUDES and owner.mark(name) == Mark()
    ]
    return kernel.prior(**dict.fromkeys(free, _amplitude_prior(functions))) if free else kernel


def _graded(classes: NDArray[Any]) -> Loss:
    """Return the loss of ordered classes; two are two, whatever their order."""
    if classes.dtype.kind not in "biuf":
        raise ValueError(
            "ordered classes must be numbers, so that their order is known; encode the grades, "
            "e.g. by sklearn.preprocessing.OrdinalEncoder(categories=[['low', 'mid', 'high']])"
        )
    if len(classes) == 2:
        return Probit().fix()
    return LearnedOrdinal(gaps=np.ones(len(classes) - 2))


def _check_grades(loss: Loss, classes: NDArray[Any]) -> None:
    if isinstance(loss, CumulativeLink) and len(loss.cuts()) + 1 != len(classes):
        raise ValueError(
            f"{len(loss.cuts())} cut points are between {len(loss.cuts()) + 1} grades, and y has "
            f"{len(classes)}: give as many cut points as there are steps, or loss='ordinal'"
        )


def _started(parts: Parts, problem: Problem) -> Loss:
    """Return the loss with cut points where the prior gives each grade its share of the rows."""
    total = np.bincount(problem.y[:, 0].astype(np.intp), problem.weights)
    spread = np.sqrt(1.0 + float(np.mean(parts.kernel.diag(problem.points))))
    cuts = spread * ndtri(np.cumsum(total)[:-1] / total.sum())
    found = LearnedOrdinal(float(cuts[0]), np.diff(cuts))
    return found.fix("first") if parts.has_constant else found  # a flat constant moves them all


def _finder(loss: Loss) -> tuple[Inference, Loss]:
    """Return what finds the mode, or refuse; and of which loss: the hinge if it is normalised."""
    convex = getattr(loss, "unnormalised", lambda: loss)()
    return inferences.for_loss(convex), convex
