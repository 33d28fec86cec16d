"""MCMC over the latent values, as an inference; theory (T1)-(T5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Inference, Solution, Task, joined_report
from mercer.inference.mcmc.draws import Draws
from mercer.inference.mcmc.latents import Guess, Latents, stand_in
from mercer.inference.mode.prox import has_kinks
from mercer.linalg.dense.drawn import DrawnFactors
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.sampling.annealed import annealed
from mercer.sampling.elliptical import elliptical
from mercer.sampling.mixing import FEWEST, ess_bulk, rhat
from mercer.sampling.nuts import Chain
from mercer.sampling.told import Tell, teller

WATCHED = 200  # latent values whose R-hat and effective sample size are computed
THIN = 20  # transitions of the slice sampler from one draw to the next
SAMPLERS = ("auto", "hmc", "slice")
EVIDENCES = ("auto", "bridge", "annealed", None)


class MCMC(Inference):
    """Draws of the latent values from the posterior itself: no approximation but their number.

    Smooth losses by the no-U-turn sampler, in coordinates whitened by a Gaussian near the posterior
    (exact, Laplace or variational); losses with kinks by elliptical slices, which need no slope.
    The evidence comes with a standard error. Predictions are the equal
    mixture of ``keep`` draws, each of the form (1)-(2): a committee. A search runs on the Gaussian
    approximation, and its result is drawn. Chains that disagree or are too short are reported.

    Parameters
    ----------
    sampler : "auto", "hmc" or "slice".
    samples, warmup : draws of each chain, after so many that are thrown away. The slice sampler
        makes 20 transitions from one draw to the next.
    chains : independent chains.
    keep : draws that predict, evenly from all; the Monte Carlo error of a prediction is about
        its posterior deviation over sqrt(keep).
    by : "auto", "bridge", "annealed" or None
        How the log evidence is had: by bridge sampling between the draws and a Gaussian near the
        posterior, by annealed importance sampling from the prior (where there is no such Gaussian),
        or not at all.
    target : mean acceptance that the step size of "hmc" aims at.
    seed : of the random numbers; the same fit gives the same draws.
    progress : True writes to standard error, a function is called with {"stage", "done", "total"}.

    References: Neal (1999), Regression and classification using Gaussian process priors; Murray,
    Adams & MacKay (2010); Hoffman & Gelman (2014); Neal (2001).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPClassifier
    >>> from mercer.inference import MCMC
    >>> from mercer.kernels import RBF
    >>> X = np.linspace(0, 3, 8)[:, None]
    >>> y = np.array([0, 0, 0, 1, 0, 1, 1, 1])
    >>> method = MCMC(samples=100, warmup=50, keep=50)
    >>> model = GPClassifier(4.0 * RBF(), loss="logistic", inference=method, search=None).fit(X, y)
    >>> len(model.posteriors_), bool(model.predict_proba([[3.0]])[0, 1] > 0.7)
    (50, True)
    """

    needs: ClassVar[tuple[str, ...]] = ("derivatives",)
    takes_classes: ClassVar[bool] = True
    factors_repeatedly: ClassVar[bool] = True
    sampled: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ("converged", "iterations", "rhat", "ess", "sampler")

    def __init__(
        self,
        sampler: str = "auto",
        samples: int = 250,
        warmup: int = 100,
        chains: int = 4,
        keep: int = 100,
        by: str | None = "auto",
        target: float = 0.8,
        seed: int = 0,
        progress: bool | Callable[[dict[str, Any]], None] = False,
    ) -> None:
        self.sampler, self.samples, self.warmup, self.chains = sampler, samples, warmup, chains
        self.keep, self.by, self.target = keep, by, target
        self.seed, self.progress = seed, progress
        if sampler not in SAMPLERS:
            raise ValueError(f"unknown sampler {sampler!r}; known: {', '.join(SAMPLERS)}")
        if by not in EVIDENCES:
            raise ValueError(f"unknown evidence {by!r}; known: {EVIDENCES}")
        if min(chains, keep) < 1 or samples < FEWEST or warmup < 0:
            raise ValueError(
                f"MCMC needs chains and keep of at least 1, samples of at least {FEWEST}, and "
                "warmup of at least 0"
            )
        if not 0.0 < target < 1.0:
            raise ValueError(f"target is a mean acceptance between 0 and 1, got {target!r}")

    @classmethod
    def example(cls) -> MCMC:
        return cls(samples=4, warmup=4, chains=2)

    def for_search(self, loss: Loss) -> Inference:
        return stand_in(loss)

    def infer(self, task: Task, start: Solution | None) -> Solution:
        if task.H.shape[1]:
            raise ValueError(
                "MCMC takes no unpenalised basis: its coefficients have no prior to draw from; set "
                "basis=None and put its functions into the kernel, e.g. kernel + Constant() or "
                "kernel + Linear()"
            )
        if task.loss.response == "multiclass":
            return self._solved(task)
        each = [self._solved(task.column(j)) for j in range(task.y.shape[1])]
        if len(each) == 1:
            return each[0]
        alpha, z = (np.hstack([getattr(s, name) for s in each]) for name in ("alpha", "z"))
        W, reports = np.column_stack([s.W for s in each]), [s.report for s in each]
        report = joined_report(reports, "divergences")
        report.details.update(
            sampler=reports[0].details["sampler"],
            rhat=max(one.details["rhat"] for one in reports),
            ess=min(one.details["ess"] for one in reports),
        )
        return Solution(alpha, W, z, DrawnFactors([s.factor for s in each]), None, task.w, report)

    def _solved(self, task: Task) -> Solution:
        draws = self.draw(task)
        by = None if not task.loss.normalised or draws.report["interrupted"] else self.by
        if by == "auto":
            by = "annealed" if draws.guess.name == "prior" else "bridge"
        if by is None:
            return draws.solution(self.keep, {})
        rng = np.random.default_rng([self.seed, 1])
        if by == "bridge":
            value, error = draws.bridged(rng)
        else:
            found = annealed(draws.latents, rng, most=1000, tell=teller(self.progress))
            value, error = found.value, found.error
        said = {"log_evidence": value, "log_evidence_error": error, "log_evidence_by": by}
        return draws.solution(self.keep, said)

    def draw(self, task: Task) -> Draws:
        """Return draws of the latent function of a task with one column, or of its classes.

        An interrupt ends the chains and keeps what they have; before the first draws of all chains
        it is passed on.
        """
        latents = Latents.of(task)
        guess = Guess.of(latents, task)
        sampler = self.sampler
        if sampler == "auto":
            sampler = "slice" if has_kinks(task.loss) else "hmc"
        rng, tell = np.random.default_rng([self.seed, 0]), teller(self.progress)
        run = self._by_hmc if sampler == "hmc" else self._by_slices
        states, report = run(latents, guess, rng, tell)
        x = latents.values(states)
        x = x.reshape(*x.shape[:2], -1)
        watched = np.unique(np.linspace(0, x.shape[2] - 1, WATCHED).astype(int))
        report |= {
            "sampler": sampler,
            "chains": len(states),
            "draws": int(states.shape[0] * states.shape[1]),
            "rhat": max(rhat(x[:, :, i]) for i in watched),
            "ess": min(ess_bulk(x[:, :, i]) for i in watched),
            "rank": latents.rank,
            "guess": guess.name,
            "interrupted": states.shape[1] < self.samples,
        }
        return Draws(latents, guess, states, report)

    def _by_hmc(
        self, latents: Latents, guess: Guess, rng: np.random.Generator, tell: Tell
    ) -> tuple[Array, dict[str, Any]]:
        shape, size = guess.centre.shape, guess.centre.size
        chains = [Chain() for _ in range(self.chains)]
        total = self.chains * self.samples

        def density(u: Array) -> tuple[float, Array]:
            tell("sampling", sum(len(chain.draws) for chain in chains), total)
            nu = guess.at(u.reshape(1, *shape))
            states = nu @ latents.root.T
            with np.errstate(over="ignore", invalid="ignore"):
                value = float(latents.likelihood(states)[0] - 0.5 * np.vdot(nu, nu))
                slope = latents.slope(latents.values(states))
                gradient = guess.back(latents.score(nu, slope)).ravel()
            fine = np.isfinite(value) and np.all(np.isfinite(gradient))
            return (value, gradient) if fine else (-np.inf, np.zeros(size))

        walls = np.tile([-np.inf, np.inf], (size, 1))
        limits: dict[str, Any] = {"warmup": self.warmup, "samples": self.samples}
        try:
            for chain, own in zip(chains, rng.spawn(self.chains), strict=True):
                start = own.standard_normal(size)
                while not np.isfinite(density(start)[0]):
                    start *= 0.5
                limits |= {"rng": own, "target": self.target}
                chain.run(density, start, np.ones(size), walls, **limits)
        except KeyboardInterrupt:
            chains = longest(chains)
            if not chains:
                raise
        drawn = min(len(chain.draws) for chain in chains)
        u = np.array([chain.draws[:drawn] for chain in chains]).reshape(-1, *shape)
        states = (guess.at(u) @ latents.root.T).reshape(len(chains), drawn, shape[0], -1)
        accepted = [a for chain in chains for a in chain.acceptance]
        return states, {
            "acceptance": float(np.mean(accepted)),
            "divergences": int(sum(chain.divergences for chain in chains)),
            "step_sizes": [chain.step_size for chain in chains],
        }

    def _by_slices(
        self, latents: Latents, guess: Guess, rng: np.random.Generator, tell: Tell
    ) -> tuple[Array, dict[str, Any]]:
        b, steps = self.chains, self.warmup + self.samples
        state = guess.at(rng.standard_normal((b, *guess.centre.shape))) @ latents.root.T
        value = latents.likelihood(state)
        lost = ~np.isfinite(value)
        state[lost] = 0.0  # the prior mean has a likelihood wherever the loss has a value
        value = latents.likelihood(state)
        seen: list[Array] = []
        try:
            for i in range(steps):
                for _ in range(THIN):
                    draw = latents.prior(rng, b)
                    state, value = elliptical(state, value, draw, latents.likelihood, rng)
                if i >= self.warmup:
                    seen.append(state)
                tell("sampling", i + 1, steps)
        except KeyboardInterrupt:
            if len(seen) < FEWEST:
                raise
        # every transition of a slice moves: there is no rejection to report
        return np.array(seen).swapaxes(0, 1), {"acceptance": 1.0, "divergences": 0, "thin": THIN}

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        """Return the log evidence of a solution; nan where it was not asked for.

        Its gradient is that of formula (3) with the moments of the draws, which have an error: a
        search uses the approximation that stands in.
        """
        each = [one.details.get("log_evidence", np.nan) for one in solution.report.each()]
        return Evidence(float(np.sum(each)))


def longest(chains: list[Chain]) -> list[Chain]:
    """Return the chains that have the most draws in all if each is cut to the shortest of them."""
    known = sorted((c for c in chains if len(c.draws) >= FEWEST), key=lambda c: -len(c.draws))
    counts = [(i + 1) * len(chain.draws) for i, chain in enumerate(known)]
    return known[: int(np.argmax(counts)) + 1] if known else []
