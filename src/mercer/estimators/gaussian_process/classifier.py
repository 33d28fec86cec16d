"""GPClassifier: Gaussian process classification."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from mercer import inference as inferences
from mercer import losses
from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.estimators.gaussian_process.additive import Additive
from mercer.estimators.kernel.classified import Classified, class_loo, prepare
from mercer.estimators.shared import ard
from mercer.estimators.shared.labels import read_labels
from mercer.estimators.shared.machine import KernelMachine, describe, generator
from mercer.estimators.shared.parameters import Draw, find_parameters
from mercer.estimators.shared.parts import Parts, positional, resolve
from mercer.estimators.shared.predictions import latent, log_probabilities, sides_of_means
from mercer.estimators.shared.summary import Summary, summarise, warn_inference
from mercer.estimators.shared.table import read_rows
from mercer.inference.base import Inference
from mercer.kernels import Constant
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior

AMPLITUDE, BIAS = 10.0, 1.0  # variances at which a kernel given by name starts
LIMITS = (float(np.exp(-12.0)), float(np.exp(9.0)))  # of every variance: separable data want more


class GPClassifier(Additive, ClassifierMixin, KernelMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Gaussian process classification: probabilities with the uncertainty of f averaged over.

    Two classes by expectation propagation with a probit link, several by a coupled Laplace
    approximation with a softmax; the kernel's parameters maximise the log evidence.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        See :class:`KernelRegressor`. None or a name is that kernel plus a constant, each with a
        variance that is learned; one length scale per column is kept only if the log evidence
        gains more than (log n)/2 for each. A kernel object is taken as it is.
    loss : None, Loss or name
        A likelihood for classes. None is "probit" for EP, "logistic" for the others, "softmax" for
        more than two classes. A binary loss with several classes is one machine per class against
        the rest, with one kernel.
    inference : "auto", "ep", "laplace", "variational", "bound" or Inference
        "auto" is EP for two classes (its probabilities have the smallest measured log loss, those
        of Laplace are under-confident) and Laplace for several.
    search : "evidence", None or Search
        Which hyperparameters; ``HMC()`` averages over them: a committee.
    discriminant : "mean" or "mode"
        Predict with the mean of the approximate posterior and its spread, or with the mode of the
        posterior at the parameters found, which has no spread: the probability is then that of the
        loss at the mode. (Seeger compares the two.)
    class_weight : None, "balanced" or dict
        Weights by class, times the sample weights.
    gram, standardize, random_state
        See :class:`KernelRegressor`.

    Attributes
    ----------
    classes_ : the labels, sorted; columns of ``predict_proba`` are in this order.
    kernel_, loss_ : the fitted parts in the user's units.
    log_evidence_ : float, the approximate log p(y | X).
    loo_ : leave-one-out probabilities ``proba`` of every row, with ``error`` and ``total``.
    report_ : what was done: convergence, factorisations, parameters at a bound.
    components_ : list of str, the terms of a sum of kernels, for :meth:`predict_component`.
    posteriors_, relevance_, n_features_in_, feature_names_in_
        See :class:`KernelRegressor`. Of a committee ``kernel_``, ``loss_`` and ``loo_`` are those
        of its first member, and ``log_evidence_`` is the largest.

    References
    ----------
    GPML chapter 3; Seeger, Bayesian methods for support vector machines and Gaussian processes.

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

    classes_: NDArray[Any]

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
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.inference = inference
        self.search = search
        self.discriminant = discriminant
        self.class_weight = class_weight
        self.gram = gram
        self.standardize = standardize
        self.random_state = random_state

    # ------------------------------------------------------------------ fit
    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        X, y = read_rows(self, X, y)
        given = read_labels(y, self.class_weight, sample_weight)
        given.check_present()
        k = len(given.classes)
        names = getattr(self, "feature_names_in_", None)
        parts = self._parts(names, X.shape[1], k)
        if parts.kernel.pairwise and np.any(given.weights == 0.0):
            raise ValueError(
                "a row of weight zero cannot be left out of a matrix of kernel values: drop the "
                "row and its column"
            )
        if parts.kernel.noise_free() is not parts.kernel and np.any(given.weights != 1.0):
            raise ValueError(
                "weights need rows that are their inputs: with a noise part in the kernel every "
                "copy of a row has a draw of its own, and a weighted row would have one; leave the "
                "noise part out (the loss has noise of its own), or give the row several times"
            )
        data = prepare(parts, X, given.codes, k, given.weights, given.rows)
        outputs = len(data.units.y_scale)
        if not parts.linear:
            require_memory(len(data.problem.points), 4 + 2 * outputs)
        parts.start(data.problem.points, data.problem.y, data.problem.weights, data.units)
        _start(parts)
        draws, report = find_parameters(parts, data.problem, generator(self.random_state))
        self._conclude(parts, data, given.classes, draws, report)
        return self

    def _parts(self, names: Any, d: int, k: int) -> Parts:
        if self.discriminant not in ("mean", "mode"):
            raise ValueError(f"discriminant must be 'mean' or 'mode', not {self.discriminant!r}")
        method = self.inference
        if isinstance(method, str) and method == "auto":
            joint = k > 2 and (self.loss is None or _named(self.loss).response == "multiclass")
            joint |= self.loss is not None and _named(self.loss).response == "multiclass"
            method = "laplace" if joint else "ep"
        chosen = inferences.by_name(method)
        loss = _loss_for(self.loss, chosen, k)
        if not chosen.has_evidence:
            raise ValueError(
                f"a Gaussian process has a spread, and {type(chosen).__name__} finds a mode only; "
                "use KernelClassifier for it, or inference='ep', 'laplace' or 'variational'"
            )
        if self.discriminant == "mode":
            _finder(loss)  # refuses before the search
        return resolve(
            names,
            d,
            kernel=self.kernel,
            loss=loss,
            inference=chosen,
            search=self.search,
            # the mode of a loss with kinks asks for rows of K
            gram="dense" if self.gram == "auto" and self.discriminant == "mode" else self.gram,
            standardize=self.standardize,
        )

    def _conclude(
        self,
        parts: Parts,
        data: Classified,
        classes: NDArray[Any],
        draws: list[Draw],
        report: dict[str, Any],
    ) -> None:
        problem, units = data.problem, data.units
        posteriors: list[Posterior] = []
        values: list[float] = []
        for draw in draws:
            kernel, loss, solved = draw.kernel, draw.loss, draw.solve(parts, problem)
            gram, solution = solved.gram, solved.solution
            warn_inference(parts.inference, solution.report)
            values.append(solved.value)
            prior = Prior(kernel, solution.alpha.shape[1])
            posterior = prior.condition(problem.points, solution)
            if not posteriors:
                loo = class_loo(data, gram, loss, solution, posterior, len(classes))
                report |= describe(parts, kernel, units, problem, solution)
            if self.discriminant == "mode":
                finder, convex = _finder(loss)
                mode = finder.solve(gram, problem.y, convex, weights=problem.weights)
                warn_inference(finder, mode.report)
                report.setdefault("mode", {"name": type(finder).__name__, **mode.report.plain()})
                posterior = prior.condition(problem.points, mode)
            posteriors.append(posterior)
        self.classes_ = classes
        self.posteriors_, self.losses_ = [*posteriors], [draw.loss for draw in draws]
        self.units_, self.basis_ = units, None
        self.flat_ = posteriors[0].alpha.shape[1] == 1
        self.kernel_ = units.kernel_outside(draws[0].kernel)
        self.loss_ = draws[0].loss
        self.log_evidence_ = max(values)
        self.loo_ = loo
        self.relevance_ = ard.relevance(draws[0].kernel, problem.points, problem.weights)
        self.report_ = report

    # ------------------------------------------------------------------ predictions
    def predict_latent(self, X: Any) -> tuple[Array, Array | None]:
        """Return mean and standard deviation of f at X: (q,), or (q, k) for several classes.

        Noise parts of the kernel are left out. The deviation is None for the mode. A committee
        gives those of its mixture.
        """
        inside = self._inputs(X)
        pairs = [
            latent(p, loss, inside, noise=False)
            for p, loss in zip(self.posteriors_, self.losses_, strict=True)
        ]
        means = np.array([m for m, _ in pairs])
        mean = means.mean(axis=0)
        std = None
        if pairs[0][1] is not None:
            spreads = [_diagonal(v) for _, v in pairs if v is not None]
            std = np.sqrt(np.mean(spreads, axis=0) + means.var(axis=0))
        if self.flat_:
            return mean[:, 0], None if std is None else std[:, 0]
        return mean, std

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of :meth:`predict_proba`; finite."""
        inside = self._inputs(X)
        each = [
            log_probabilities(loss, *latent(posterior, loss, inside))
            for posterior, loss in zip(self.posteriors_, self.losses_, strict=True)
        ]
        return np.asarray(np.logaddexp.reduce(each, axis=0) - np.log(len(each)))

    def predict_proba(self, X: Any) -> Array:
        """Return the probability of each class (q, k), in the order of ``classes_``.

        Averaged over the posterior of f: for two classes by a closed form or quadrature to 1e-10,
        for a softmax by a fixed quasi-random rule (see :meth:`mercer.losses.Softmax.predict`), and
        over the members of a committee.
        """
        p = np.exp(self.predict_log_proba(X))
        return np.asarray(p / p.sum(axis=1, keepdims=True))

    def decision_function(self, X: Any) -> Array:
        """Return the log odds of ``classes_[1]`` (q,); for several classes the log probabilities.

        Zero, or a tie, exactly where the probabilities tie.
        """
        log_p = self.predict_log_proba(X)
        return np.asarray(log_p[:, 1] - log_p[:, 0] if log_p.shape[1] == 2 else log_p)

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class at X: (q,).

        With ``kernel="precomputed"`` X is (q, n), the kernel values of new rows with the training
        rows. They do not say how f varies at the new rows, so that there are no probabilities; of
        two classes the more probable one is known all the same.
        """
        inside = self._inputs(X)
        sides = sides_of_means(self.posteriors_, self.losses_, inside)
        if sides is not None:
            return np.asarray(self.classes_[sides])
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def summary(self) -> Summary:
        """Return what was fitted, in words; readable as text and as HTML."""
        check_is_fitted(self, "posteriors_")
        return summarise(self)


def _named(loss: Any) -> Loss:
    found = losses.by_name(loss) if isinstance(loss, str) else loss
    if not isinstance(found, Loss):
        raise TypeError(f"loss must be None, a Loss or the name of one, not {loss!r}")
    if found.response not in ("binary", "multiclass"):
        raise ValueError(
            f"{type(found).__name__} is a loss for {found.response} targets, not for classes; "
            "choose 'probit', 'logistic' or 'softmax', or use GPRegressor"
        )
    return found


def _loss_for(given: Any, inference: Inference, k: int) -> Loss:
    """Return the loss; one given by name keeps its scale: the kernel's variance learns it."""
    if isinstance(given, Loss):
        return _named(given)
    if isinstance(given, str):
        return _named(given).fix()
    if k > 2 and all(losses.Softmax.offers(name) for name in inference.needs):
        return losses.Softmax()
    return losses.by_name(inference.link).fix()


def _start(parts: Parts) -> None:
    """Give a kernel named by the user its bias and a start; bound every variance."""
    if parts.named_kernel and not positional(parts.kernel):
        parts.kernel.set_params(variance=AMPLITUDE)
        parts.kernel = parts.kernel + Constant(BIAS)
    parts.amplitudes = LIMITS


def _finder(loss: Loss) -> tuple[Inference, Loss]:
    """Return what finds the mode, and of which loss: the hinge for the normalised hinge.

    Refuses a loss whose mode nothing finds.
    """
    convex = getattr(loss, "unnormalised", lambda: loss)()
    return inferences.for_loss(convex), convex


def _diagonal(v: Array) -> Array:
    return np.asarray(np.diagonal(v, axis1=1, axis2=2) if v.ndim == 3 else v)
