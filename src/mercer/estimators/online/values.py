"""What an online regressor predicts: means, deviations, intervals, densities, draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from mercer.core.arrays import Array
from mercer.core.memory import require_memory
from mercer.estimators.online.told import ValuesRecord
from mercer.estimators.shared.labels import signed_labels
from mercer.estimators.shared.machine import generator
from mercer.estimators.shared.parts import given_loss
from mercer.estimators.shared.table import check_target, read_inputs
from mercer.losses.base import ONE
from mercer.process.inducing import InducedStream


class PredictsValues(ValuesRecord):
    """Predictions from the posterior of one function and the level of its noise."""

    loss: Any

    def _targets(self, y: Any) -> Array:
        """Return y (n,) as the loss wants it, or refuse it."""
        loss = given_loss(self.loss)
        if loss.latents or loss.response == "multiclass" or not (loss.convex and loss.normalised):
            raise ValueError(
                f"an online regressor needs a convex likelihood of one function, and "
                f"{type(loss).__name__} is none; use Gaussian, Poisson, Gamma, Ordinal, "
                "Logistic or Probit, or fit GPRegressor on stored data"
            )
        if loss.response == "binary":
            return signed_labels(y)
        return np.ascontiguousarray(loss.check_targets(y), dtype=np.float64)

    @property
    def stream_(self) -> InducedStream:
        """The posterior of the function, given all rows so far: ``posteriors_[0]``."""
        return self.posteriors_[0]

    def _marginals(self, X: Any) -> tuple[Array, Array]:
        """Return mean and variance (q,) of f inside."""
        check_is_fitted(self, "posteriors_")
        mean, var = self.stream_.marginals(self.units_.standardised(read_inputs(self, X)))
        return mean[:, 0], var[:, 0]

    def _noise(self) -> float | None:
        """Return the noise inside of a Gaussian loss, None for another."""
        loss = self.losses_[0]
        return float(loss.noise) if loss.offers("quadratic") else None  # type: ignore[attr-defined]  # the Gaussian has it

    def _noise_at(self, mean: Array) -> Array | None:
        """Return the noise inside (q,) at means (q,) of f, None without a Gaussian loss: (O20)."""
        noise = self._noise()
        if noise is None:
            return None
        return noise * (np.ones(len(mean)) if self.spread_ is None else self.spread_.factors(mean))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the mean (q,) of a new observation, of labels the probability of 1.

        With ``return_std`` also its standard deviation.
        """
        mean, var = self._marginals(X)
        noise, units = self._noise_at(mean), self.units_
        if noise is not None:
            spread = self.scale_.spread * (var + noise)
        elif self.losses_[0].response == "binary":
            mean = np.asarray(self.losses_[0].predict(mean, np.maximum(var, 1e-300)))
            spread = mean * (1.0 - mean)
        else:
            mean, spread = self.losses_[0].predict(mean, np.maximum(var, 1e-300))
        said = units.y_in_user_units(mean[:, None])[:, 0]
        if not return_std:
            return said
        return said, np.asarray(np.sqrt(spread) * units.y_scale[0])

    def predict_latent(self, X: Any) -> tuple[Array, Array]:
        """Return mean and standard deviation (q,) of the function itself, noise left out."""
        mean, var = self._marginals(X)
        units = self.units_.of_latent(self.losses_[0])
        level = 1.0 if self._noise() is None else self.scale_.spread
        std = np.sqrt(level * var) * units.y_scale[0]
        return units.y_in_user_units(mean[:, None])[:, 0], np.asarray(std)

    @available_if(lambda machine: given_loss(machine.loss).response == "binary")  # type: ignore[untyped-decorator]  # scikit-learn ships no types
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities (q, 2) of the labels 0 and 1 at X (q, d)."""
        p = self.predict(X)
        return np.column_stack([1.0 - p, p])

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[Array, Array]:
        """Return (low, high), (q,) each, that contain a new observation with such probability."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must lie between 0 and 1, got {coverage!r}")
        mean, var = self._marginals(X)
        loss, ends = self.losses_[0], []
        if loss.response == "binary":
            raise ValueError("a label has no interval: predict gives its probability")
        for level in (0.5 * (1.0 - coverage), 0.5 * (1.0 + coverage)):
            noise = self._noise_at(mean)
            if noise is not None:
                end = self.scale_.quantile(level, mean, var + noise)
            else:
                end = loss.quantile(np.asarray(level), mean, np.maximum(var, 1e-300))
            ends.append(self.units_.y_in_user_units(end[:, None])[:, 0])
        return ends[0], ends[1]

    def predict_with_interval(
        self, X: Any, coverage: float = 0.9
    ) -> tuple[Array, Array, Array, Array]:
        """Return mean, standard deviation, low and high of a new observation, (q,) each."""
        mean, std = self.predict(X, return_std=True)
        return mean, std, *self.predict_interval(X, coverage)

    def predict_spread(self, X: Any) -> Array:
        """Return half the width of the central 68.27 % interval of a new observation: (q,)."""
        low, high = self.predict_interval(X, ONE)
        return np.asarray(0.5 * (high - low))

    def predictive_log_density(self, X: Any, y: Any) -> Array:
        """Return log p(y_i | x_i, all rows so far), (q,)."""
        mean, var = self._marginals(X)
        check_target(y)
        check_consistent_length(X, y)
        target = self.units_.y_standardised(self._targets(y)[:, None])[:, 0]
        noise = self._noise_at(mean)
        if noise is not None:
            found = self.scale_.log_density(target - mean, var + noise)
        else:
            found = self.losses_[0].log_predictive(target, mean, np.maximum(var, 1e-300))
        return np.asarray(found - np.log(self.units_.y_scale[0]))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = None) -> Array:
        """Draw functions from the posterior at X (q, d): (q, n_samples).

        At the mean level of the noise, where that is learned.
        """
        check_is_fitted(self, "posteriors_")
        inside = self.units_.standardised(read_inputs(self, X))
        require_memory(len(inside), 3, "a joint draw", "draw at")
        draws = self.stream_.sample(inside, n_samples, generator(random_state))[:, 0]
        mean = self.stream_.mean(inside)
        level = 1.0 if self._noise() is None else self.scale_.level
        units = self.units_.of_latent(self.losses_[0])
        draws = mean + np.sqrt(level) * (draws - mean)
        return np.asarray(draws * units.y_scale[0] + units.y_shift[0])
