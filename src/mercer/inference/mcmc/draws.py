"""Draws of latent values, the averages that are made of them, and the solution they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Report, Solution
from mercer.inference.mcmc.latents import Guess, Latents
from mercer.linalg.dense.drawn import DrawnFactor
from mercer.sampling.bridge import bridged
from mercer.sampling.mixing import ENOUGH

AGREE = 1.05  # R-hat up to which chains agree; it is the largest of all latent values


class Averages(NamedTuple):
    """Series (chains, samples, ...) whose means are moments of the posterior: theory (T4)."""

    nu: Array  # (chains, samples, m, r)
    mean: Array  # (chains, samples, n, m)
    variance: Array  # (chains, samples, n, m)
    bend: Array  # (chains, samples, n, m) of Cov(f_i, w_i g'_i)


@dataclass(frozen=True)
class Draws:
    """What chains have drawn from the posterior of latent functions.

    Attributes
    ----------
    latents, guess : the target, and a Gaussian near it.
    states : (chains, samples, m, n), see :class:`Latents`.
    report : of the sampler.
    """

    latents: Latents
    guess: Guess
    states: Array
    report: dict[str, Any]

    @cached_property
    def f(self) -> Array:
        """Latent values (chains, samples, n, m)."""
        return self.latents.values(self.states)

    @cached_property
    def averages(self) -> Averages:
        """Series for means and variances, with what is known to average to zero taken off.

        E[score] = 0 and E[(nu - E nu) score'] = -I for every posterior (Stein). With S0 = T T' of
        the guess the series nu + S0 score has the mean of nu, and no variance if the guess is the
        posterior: Assaraf & Caffarel (1999); Mira, Solgi & Imparato (2013). The prior is no such
        guess: then nothing is taken off.
        """
        f = self.f.reshape(-1, *self.f.shape[2:])
        R, slope, own = self.latents.root, self.latents.slope(f), self.nu
        near = float(self.guess.name != "prior")
        moved = near * self.guess.spread(self.latents.score(own, slope))
        nu = own + moved
        along = np.swapaxes(moved @ R.T, -1, -2)  # (b, n, m)
        mean = f + along
        centred = f - mean.mean(axis=0)
        guessed = near * ((R @ self.guess.scale) ** 2).sum(axis=2).T  # (n, m), of S0
        variance = centred * (centred + along) + guessed
        bend = -centred * slope
        shape = self.states.shape[:2]
        return Averages(*(s.reshape(*shape, *s.shape[1:]) for s in (nu, mean, variance, bend)))

    @property
    def alpha(self) -> Array:
        """K^+ (f - prior mean) of each draw, (chains * samples, n, m)."""
        return np.swapaxes(self.nu @ self.latents.inverse, -1, -2)

    @cached_property
    def nu(self) -> Array:
        """Whitened coordinates (chains * samples, m, r)."""
        return self.latents.nu(self.states.reshape(-1, *self.states.shape[2:]))

    def bridged(self, rng: np.random.Generator) -> tuple[float, float]:
        """Return the log evidence by the bridge to the guess, and its error."""
        guessed = self.guess.at(rng.standard_normal(self.nu.shape))
        own, other = (
            self.latents.likelihood(nu @ self.latents.root.T) + self.guess.log_ratio(nu)
            for nu in (self.nu, guessed)
        )
        return bridged(own.reshape(self.states.shape[:2]), other)

    def solution(self, keep: int, evidence: dict[str, Any]) -> Solution:
        """Return the draws as a solution whose factor keeps them; the report says ``evidence``."""
        averages, w = self.averages, self.latents.w
        nu = averages.nu.mean(axis=(0, 1))
        alpha = (nu @ self.latents.inverse).T
        f = self.latents.mean + (nu @ self.latents.root.T).T
        variance = np.maximum(averages.variance.mean(axis=(0, 1)), 0.0)
        W = averages.bend.mean(axis=(0, 1)) / np.where(variance > 0.0, variance, 1.0)
        one = W.shape[1] == 1
        W, variance = (W[:, 0], variance[:, 0]) if one else (W, variance)
        latent = self.f.reshape(-1, *self.f.shape[2:])
        factor = DrawnFactor(self.latents.inverse, latent, self.alpha, W, variance, keep)
        details = self.report | {"kept": min(keep, len(latent))} | evidence
        complaint = self.complaint()
        steps = self.states.shape[0] * self.states.shape[1]
        report = Report(not complaint, steps, message=complaint, details=details)
        return Solution(alpha, W, f, factor, None, w, report)

    def complaint(self) -> str:
        """Say what is wrong with the draws, and what to do; or nothing."""
        said = []
        if self.report["interrupted"]:
            said.append("interrupted; what was drawn so far is kept")
        if not self.report["rhat"] <= AGREE:
            said.append(
                f"R-hat of a latent value is {self.report['rhat']:.3f}, above {AGREE}: the chains "
                "do not agree yet"
            )
        if not self.report["ess"] >= ENOUGH:
            said.append(
                f"the effective sample size of a latent value is {self.report['ess']:.0f}, below "
                f"{ENOUGH}"
            )
        if self.report["divergences"]:
            said.append(f"{self.report['divergences']} transitions lost the energy")
        text = "; ".join(said)
        return f"{text}: give inference=MCMC(samples=..., warmup=...) more" if text else ""
