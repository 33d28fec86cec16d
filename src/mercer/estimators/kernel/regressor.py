"""KernelRegressor: bring your own kernel, loss and inference; committees by theory (H2), (H3)."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted

from mercer.core.arrays import Array, as_columns
from mercer.core.errors import outside
from mercer.core.memory import require_memory
from mercer.estimators.additive.check import Checked
from mercer.estimators.shared.labels import signed_labels
from mercer.estimators.shared.machine import KernelMachine, generator
from mercer.estimators.shared.parts import given_loss
from mercer.estimators.shared.predictions import (
    SMALLEST,
    check_variances,
    infinite_variance,
    mixed,
)
from mercer.estimators.shared.table import as_numbers, check_finite, check_target
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.losses.base import ONE, Loss
from mercer.losses.numbers import defaults as numeric
from mercer.losses.numbers.special import exp
from mercer.process.process import Posterior, Prior, Process


def mixture_quantile(
    losses: Sequence[Loss], latents: Sequence[tuple[Array, Array]], level: float
) -> Array:
    """Return the quantile (q, m) of a new y under equal shares of the members.

    ``latents`` are mean (q, m) and variance (q, 1) of f for each. The root of the average of the
    distribution functions; it lies between the quantiles of the members.
    """
    q = np.asarray(level)
    each = np.array([loss.quantile(q, *f) for loss, f in zip(losses, latents, strict=True)])
    low, high = np.asarray(each.min(axis=0)), np.asarray(each.max(axis=0))
    if len(each) == 1:
        return low

    def share(y: Array) -> Array:
        parts = [loss.cdf(y, *f) for loss, f in zip(losses, latents, strict=True)]
        return np.asarray(np.mean(parts, axis=0))

    response = losses[0].response
    if response in ("count", "ordinal"):
        return numeric.smallest_integer(share, np.full(low.shape, level))
    positive = response == "positive"  # in logarithms
    if positive:
        low, high = np.log(low), np.log(high)
    step = np.maximum(0.5 * (high - low), 1e-12 * (1.0 + np.abs(low)))
    root = numeric.increasing_root(
        lambda y: share(exp(y) if positive else y) - level, 0.5 * (low + high), step
    )
    return exp(root) if positive else root


def _at_mode(loss: Loss, f: Array) -> Array:
    """The mean (q, m) of y given latent values f, or these themselves."""
    if loss.latents:
        return loss.moments(f)[0][:, None] if loss.offers("moments") else f[:, :1]
    return loss.moments(f)[0] if loss.offers("moments") else f


def _drawn(p: Process, X: Array, count: int, rng: np.random.Generator) -> Array:
    """Draws (q, m, count) of a process; of several latent functions those of the first."""
    if not (isinstance(p, Posterior) and p.separate):
        return p.sample(X, count, rng)
    values, vectors = np.linalg.eigh(p.cov_of(0, X))
    root = vectors * np.sqrt(np.maximum(values, 0.0))  # singular at close points: -1e-16
    draws = p.mean(X)[:, :1] + root @ rng.standard_normal((len(X), count))
    return np.asarray(draws[:, None])


class KernelRegressor(Checked, RegressorMixin, KernelMachine):  # type: ignore[misc]  # scikit-learn ships no types
    """Regression with a kernel, a loss, an inference and a search of your choice.

    Parameters
    ----------
    kernel : Kernel, name, scikit-learn kernel, callable or None
        What is smooth; None is "rbf". One given by name is scaled, starts at the data's own length
        scale and gets one per column only if the log evidence gains more than (log n)/2 for each.
        A kernel object is taken as it is, in your units; its methods fix, bound or give a prior.
    loss : Loss or name
        What is observed: real numbers ("gaussian" learns the noise), counts, positive numbers or
        ordered categories; your own included.
    inference : "auto", Inference or name
        How the posterior comes out; "auto" is exact for a quadratic loss, "newton" for a smooth
        one and "dual" for one with kinks. The last two find a mode, which has no spread: there are
        predictions, but no deviations, intervals or evidence, and search must be None.
    search : "evidence", "loo", None (the parts as they are) or Search
    gram : "auto", "dense", "markov" or "weights" (few features of the kernel, O(n m^2)), the linear
        algebra; "auto" chooses among exact forms only.
        "inducing" or :class:`~mercer.linalg.Inducing` knows the function through few points, for
        very many rows: with search=None any convex loss has its mode there, with a duality gap.
        "kronecker" is for products of kernels on complete grids.
    basis : None, "constant", "linear", degree, callable or Basis
        Unpenalised functions beside the kernel, with a flat prior on their coefficients.
    standardize : "auto", True or False
        Work on columns and targets of mean zero and unit deviation, and undo it in everything that
        is reported. "auto": on for a default or named kernel, off for a kernel object, for which
        True is refused.
    random_state : int, RandomState, Generator or None
        For the random starts of the search; None is a fixed seed, so that fits repeat.

    Attributes
    ----------
    kernel_, loss_ : the fitted parts in the user's units.
    log_evidence_ : float, log p(y | X) in the user's units; None for a mode.
    left_out_ : leave-one-out mean, variance, log_density of every row; for a mode by its cavity, an
        estimate, and None where the loss has no moments.
    report_ : dict, what was done to the numbers.
    posteriors_ : list of Posterior, in standardised units.
    relevance_ : (d,) inverse length scales of the standardised columns, or None.
    n_features_in_, feature_names_in_ : as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRegressor
    >>> X = np.linspace(0, 10, 30)[:, None]
    >>> model = KernelRegressor().fit(X, np.sin(X[:, 0]))
    >>> bool(abs(model.predict([[5.0]])[0] - np.sin(5.0)) < 1e-2)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    # ------------------------------------------------------------------ predictions
    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False) -> Any:
        """Predict the mean (q,) or (q, m), of labels the probability of 1; other moments if asked.

        At a mode this is the mean of y given f (for a loss without one, f itself). Of a quantile
        loss (:class:`~mercer.losses.Pinball`) it is the quantile that was asked for, f; how sure
        that is says :meth:`predict_latent`.

        Parameters
        ----------
        X : (q, d).
        return_std : also the standard deviation of a new observation, shape as the mean. If the
            noise was given per training row, that of a new one is not known and left out. Where
            it is infinite (Student's t with df <= 2) a warning names :meth:`predict_spread`.
        return_cov : also the covariance of new observations: (q, q), or (q, q, m); for noise that
            is added to the function, not for a loss with a link (Poisson, ...).
        """
        if return_std and return_cov:
            raise RuntimeError("ask for return_std or return_cov, not both")
        if return_cov:
            self._check_additive()
            return self._with_cov(self._inputs(X))
        inside = self._inputs(X)
        if return_std:
            mean, variance = self._moments(inside)
            return self._shaped(mean), self._deviation(variance)
        at_f = all(loss.latent_is_mean or loss.latent_is_answer for loss in self.losses_)
        if not at_f and self._has_spread():
            return self._shaped(self._moments(inside)[0])
        means = [posterior.mean(inside) for posterior in self.posteriors_]
        if self.losses_[0].latents and at_f:
            means = [f[:, :1] for f in means]
        if not at_f:
            means = [_at_mode(loss, f) for f, loss in zip(means, self.losses_, strict=True)]
        return self._shaped(self.units_.y_in_user_units(np.mean(means, axis=0)))

    def predict_latent(self, X: Any) -> tuple[Array, Array | None]:
        """Return mean and standard deviation of the function itself at X, noise left out.

        A mode has no spread: the deviation is then None. Of a loss with several latent functions
        both are (q, m), a column for each in the order of ``loss_.latents``.
        """
        inside, spread = self._inputs(X), self._has_spread()
        if spread:
            check_variances(self.posteriors_, inside)
        if self.losses_[0].latents:
            return self._several(inside, spread)
        each = self.posteriors_
        variances = [p.var(inside)[:, None] if spread else None for p in each]
        mean, variance = mixed([(p.mean(inside), v) for p, v in zip(each, variances, strict=True)])
        units = self.units_.of_latent(self.losses_[0])
        shaped = self._shaped(units.y_in_user_units(mean))
        if variance is None:
            return shaped, None
        return shaped, self._shaped(np.sqrt(variance) * units.y_scale)

    @available_if(lambda machine: machine._has_labels())  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, 2) of the labels 0 and 1 at X (q, d)."""
        p = self.predict(X)
        return np.column_stack([1.0 - p, p])

    def _several(self, inside: Array, spread: bool) -> tuple[Array, Array | None]:
        """Mean and deviation (q, m) of each latent function, in the user's units."""
        pairs = []
        for posterior in self.posteriors_:
            found = np.einsum("nii->ni", posterior.blocks(inside)) if spread else None
            own = None if found is None else np.maximum(found, 0.0)
            pairs.append((posterior.mean(inside), own))
        mean, variance = mixed(pairs)
        loss = self.losses_[0]
        units = [self.units_.of_latent(loss, j) for j in range(len(loss.latents))]
        shift, scale = (
            np.concatenate([getattr(u, n) for u in units]) for n in ("y_shift", "y_scale")
        )
        std = None if variance is None else np.sqrt(variance) * scale
        return mean * scale + shift, std

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return (low, high) that contain a new observation with probability ``coverage``.

        What is left of it lies half below and half above; of a committee, under its mixture.
        """
        inside = self._inputs(X)
        self._check_interval(coverage)
        return self._ends(self._latents(inside), coverage)

    def predict_with_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Array, Array, Array, Array]:
        """Return mean, standard deviation, low and high of a new observation, (q,) or (q, m) each.

        The same as ``predict(X, return_std=True)`` and ``predict_interval(X, coverage)``, in half
        the time: the variances are formed once.
        """
        inside = self._inputs(X)
        self._check_interval(coverage)
        latents = self._latents(inside)
        mean, variance = self._moments(inside, latents)
        low, high = self._ends(latents, coverage)
        return self._shaped(mean), self._deviation(variance), low, high

    def _check_interval(self, coverage: float) -> None:
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        if self.losses_[0].response == "binary":
            raise ValueError(
                "a label has no interval: predict gives its probability, predict_latent the curve "
                "behind it with a standard deviation"
            )
        self._check_noise_known()

    def _deviation(self, variance: Array) -> Array:
        if not np.all(np.isfinite(variance)) and (said := infinite_variance(self.loss_)):
            warnings.warn(said, UserWarning, stacklevel=outside())
        return self._shaped(np.sqrt(variance))

    def _ends(self, latents: list[tuple[Array, Array]], coverage: float) -> tuple[Array, Array]:
        levels = (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage))
        ends = (mixture_quantile(self.losses_, latents, level) for level in levels)
        low, high = (self._shaped(self.units_.y_in_user_units(end)) for end in ends)
        return low, high

    def predict_spread(self, X: Any) -> Array:
        """Return half the width of the central 68.27 % interval of a new observation: (q,), (q, m).

        Of Gaussian noise that is the standard deviation; it is finite where that is infinite.
        """
        low, high = self.predict_interval(X, ONE)
        return np.asarray(0.5 * (high - low))

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_i | x_i, training data), shape (q,) or (q, m)."""
        inside = self._inputs(X)
        self._check_noise_known()
        check_target(y)
        check_consistent_length(X, y)
        if self.losses_[0].response == "binary":
            y = signed_labels(y)
        elif not self.losses_[0].offers("quadratic"):
            y = self.losses_[0].check_new_targets(y)
        target, m = self.units_.y_standardised(as_columns(y)), len(self.units_.y_scale)
        if target.shape[1] != m:
            raise ValueError(f"y has {target.shape[1]} outputs, the model has {m}")
        members = zip(self.losses_, self._latents(inside), strict=True)
        each = [loss.log_predictive(target, *pair) for loss, pair in members]
        value = np.logaddexp.reduce(each, axis=0) - np.log(len(each))
        return self._shaped(value - np.log(self.units_.y_scale))

    def distribution_at(self, X: Any) -> Callable[[Array], Array]:
        """Return the function y -> P(Y <= y) of new observations at the rows of X (q, d).

        It takes and returns (q,) or (q, m); what depends on X alone is computed once.
        """
        inside = self._inputs(X)
        self._check_interval(0.5)  # what has no interval has no distribution function
        latents = self._latents(inside)

        def below(y: Any) -> Array:
            inside_y = self.units_.y_standardised(as_columns(y))
            members = zip(self.losses_, latents, strict=True)
            each = [loss.cdf(inside_y, *pair) for loss, pair in members]
            return self._shaped(np.mean(each, axis=0))

        return below

    def predictive_cdf(self, X: Any, y: Any) -> Array:
        """Return P(Y <= y_i | x_i, training data), shape (q,) or (q, m)."""
        check_target(y)
        check_consistent_length(X, y)
        return self.distribution_at(X)(y)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions from the posterior at X (q, d): (q, n_samples) or (q, m, n_samples).

        Of several latent functions the first: what the targets are about.
        """
        inside = self._inputs(X)
        check_variances(self.posteriors_, inside)
        require_memory(len(inside), 3, "a joint draw", "draw at")
        rng = generator(random_state)
        which = rng.integers(len(self.posteriors_), size=n_samples)
        counts = np.bincount(which, minlength=len(self.posteriors_)).tolist()
        members = zip(self.posteriors_, counts, strict=True)
        draws = np.concatenate([_drawn(p, inside, count, rng) for p, count in members], axis=2)
        units = self.units_.of_latent(self.losses_[0])
        return self._shaped(draws * units.y_scale[:, None] + units.y_shift[:, None])

    def sample_prior(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions from the prior of the given kernel at X (q, d): (q, n_samples)."""
        names = None if getattr(X, "columns", None) is None else [str(name) for name in X.columns]
        points = check_array(as_numbers(X), dtype=np.float64, order="C", ensure_all_finite=False)
        check_finite(points, "X", names)
        require_memory(len(points), 3, "a joint draw", "draw at")
        kernel = self._prior_kernel(points.shape[1])
        prior = Prior(kernel.resolve(names, points.shape[1]).frozen(points))
        return np.asarray(prior.sample(points, n_samples, generator(random_state))[:, 0])

    # ------------------------------------------------------------------ helpers
    def _prior_kernel(self, d: int) -> Kernel:
        """Return the kernel as given, for d columns."""
        return as_kernel("rbf" if self.kernel is None else self.kernel)

    def _check_noise_known(self) -> None:
        if np.ndim(getattr(self.loss_, "noise", 0.0)):
            raise ValueError(
                "the noise was given per training row, so that of a new observation is not known; "
                "predict_latent gives mean and standard deviation of the function itself"
            )

    def _check_additive(self) -> None:
        """Refuse the covariance of observations that are no sum of the function and a noise."""
        check_is_fitted(self, "posteriors_")
        loss = self.losses_[0]
        if not (loss.offers("quadratic") or hasattr(loss, "noise_moments")):
            raise ValueError(
                f"observations with {type(loss).__name__} depend on the function through a link, "
                "and their covariance is not that of the function: predict(X, return_std=True) "
                "gives their deviation, predict_latent that of the function, sample_y draws of it"
            )

    def _has_labels(self) -> bool:
        """Whether the loss, of the fit or as given, is one of labels."""
        loss = getattr(self, "loss_", None) or given_loss(self.loss)
        return loss.response == "binary"

    def _has_spread(self) -> bool:
        return all(posterior.has_spread for posterior in self.posteriors_)

    def _latent(self, inside: Array, draw: int) -> tuple[Array, Array]:
        """Latent mean (q, m) and variance (q, 1) inside, noise parts of the kernel included."""
        check_variances(self.posteriors_, inside)
        posterior = self.posteriors_[draw]
        if self.losses_[draw].latents:  # one target for all functions: (q, 1, m), (q, 1, m, m)
            return posterior.mean(inside)[:, None], posterior.blocks(inside)[:, None]
        variance = posterior.var(inside) + posterior.noise(inside)
        if not self.losses_[draw].offers("quadratic"):  # others average over f, zero included
            variance = np.maximum(variance, SMALLEST)
        return posterior.mean(inside), variance[:, None]

    def _latents(self, inside: Array) -> list[tuple[Array, Array]]:
        found: list[tuple[Array, Array]] = []
        for i, posterior in enumerate(self.posteriors_):
            own = posterior.follows
            pair = (posterior.mean(inside), found[-1][1]) if own else self._latent(inside, i)
            found.append(pair)
        return found

    def _moments(
        self, inside: Array, latents: list[tuple[Array, Array]] | None = None
    ) -> tuple[Array, Array]:
        """Mean and variance (q, m) of a new observation in the user's units.

        In place of the mean the quantile that a loss asks for; the variance stays as it is.
        """
        members = zip(self.losses_, latents or self._latents(inside), strict=True)
        if self.losses_[0].response == "binary":
            p, _ = mixed([(np.asarray(loss.predict(*pair)), None) for loss, pair in members])
            return p, p * (1.0 - p)
        mean, variance = mixed([loss.predict(*pair) for loss, pair in members])
        if self.losses_[0].latent_is_answer and not self.losses_[0].latents:
            mean = np.mean([posterior.mean(inside) for posterior in self.posteriors_], axis=0)
        return self.units_.y_in_user_units(mean), cast(Array, variance) * self.units_.y_scale**2

    def _with_cov(self, inside: Array) -> tuple[Array, Array]:
        members = len(self.posteriors_)
        require_memory(len(inside), 3 if members == 1 else 5, "the covariance", "predict")
        mean, variance = self._moments(inside)
        cov = np.zeros((len(inside), len(inside)))
        for posterior in self.posteriors_:
            cov += posterior.cov(inside) / members
            noise = posterior.noise_cov(inside)
            if noise is not None:
                cov += noise / members
        scaled = cov[:, :, None] * self.units_.y_scale**2
        if members > 1:
            pairs = (loss.predict(*self._latent(inside, i)) for i, loss in enumerate(self.losses_))
            means = np.array([m for m, _ in pairs])
            d = means - means.mean(axis=0)  # the law of total covariance adds that of the means
            between = np.einsum("kim,kjm->ijm", d, d, optimize=True) / members
            scaled += between * self.units_.y_scale**2
        index = np.arange(len(inside))
        scaled[index, index] = variance
        return self._shaped(mean), np.asarray(scaled[:, :, 0] if self.flat_ else scaled)
