"""One block of a stream of quantities: foreseen, then learned. Theory (O19), (O23)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import lapack

from mercer.core.arrays import Array
from mercer.estimators.online.scale import NoiseLevel
from mercer.estimators.online.spread import NoiseByLevel
from mercer.inference import with_spread
from mercer.linalg.dense.gram import DenseGram
from mercer.losses.base import Loss
from mercer.process.inducing import Ahead, InducedStream
from mercer.process.stream import LOG_PRIOR, SHARES

SMALLEST = 1e-300  # stands for a latent variance of zero, where an average is the value at m
SILENT = 1e-12  # precision, relative to the prior's, below which an observation says nothing


@dataclass(frozen=True, eq=False)
class Foreseen:
    """What was known of b rows before they were learned."""

    logs: Array  # (b,) log densities, each row by itself
    errors: Array  # (b,) y less its mean
    value: float  # the log density of all together, less what the points leave out

    def in_units(self, log_unit: float, unit: float, weight: float) -> Foreseen:
        """Return it for targets that were divided by a unit."""
        return replace(
            self,
            logs=self.logs - log_unit,
            errors=self.errors * unit,
            value=self.value - weight * log_unit,
        )


def _innovations(cov: Array, extra: Array, r: Array) -> tuple[float, float] | None:
    """Return r'S^-1 r and log|S| for S = cov + diag(extra), (b, b); None if it is singular."""
    S = cov.copy()
    S.flat[:: len(S) + 1] += extra
    C, info = lapack.dpotrf(S, lower=1, overwrite_a=1)
    if info:
        return None
    z = lapack.dtrtrs(C, r, lower=1)[0]
    return float(z @ z), 2.0 * float(np.log(C.diagonal()).sum())


def absorbed(
    stream: InducedStream,
    scale: NoiseLevel,
    spread: NoiseByLevel | None,
    loss: Loss,
    X: Array,
    y: Array,
    w: Array,
) -> tuple[InducedStream, NoiseLevel, NoiseByLevel | None, Foreseen]:
    """Learn y (b,) at X (b, d) with weights w (b,); all in standardised units."""
    ahead = stream.ahead(X)
    if not loss.offers("quadratic"):
        after, block = _by_sites(stream, loss, ahead, y, w)
        return after, scale, spread, block
    noise = float(loss.noise)  # type: ignore[attr-defined]  # the Gaussian has it
    d, r, cov = noise / w, y - ahead.mean, ahead.cov
    var = cov.diagonal() + ahead.residual
    logs = scale.log_density(r, var + noise)
    if spread is not None:
        own = noise * np.exp(spread.weights @ spread.features(ahead.mean))
        gained = scale.log_density(r, var + own) - logs
        logs = logs + gained if spread.used else logs
        spread = spread.given(ahead.mean, r * r / scale.level, var, noise, w, gained)
    after, quad = stream.given(ahead, y, d)
    # log|S| of the block, without forming S: what it adds to the determinant of R'R; log d of w
    # equal rows in place of one of weight w
    logdet = 2.0 * (after.logdet() - stream.logdet()) + float(np.sum(w * np.log(noise)))
    weight = float(w.sum())
    value = scale.log_joint(weight, quad, logdet)
    if not scale.known:
        # the level of what was foreseen, residuals included: with none it is (O19) exactly
        with_residual = _innovations(cov, d + ahead.residual, r) if ahead.residual.any() else None
        scale = scale.given(weight, quad if with_residual is None else with_residual[0])
    return after, scale, spread, Foreseen(logs, r, value - 0.5 * (after.tau - stream.tau))


def _by_sites(
    stream: InducedStream, loss: Loss, ahead: Ahead, y: Array, w: Array
) -> tuple[InducedStream, Foreseen]:
    """Learn rows of another likelihood as Gaussian observations of f, residuals and all: (O23)."""
    K, inference = ahead.cov, with_spread(loss)
    K.flat[:: len(K) + 1] += ahead.residual
    gram, var = DenseGram.given(0.5 * (K + K.T)), np.maximum(K.diagonal(), SMALLEST)
    solution = inference.solve(gram, y[:, None], loss, mean=ahead.mean[:, None], weights=w)
    value = inference.evidence(gram, y[:, None], loss, solution).value
    W = np.asarray(solution.W, dtype=np.float64).reshape(len(y))
    says = W * var > SILENT
    logs = np.asarray(loss.log_predictive(y, ahead.mean, var))
    mean = (
        loss.predict(ahead.mean, var)
        if loss.response == "binary"
        else loss.predict(ahead.mean, var)[0]
    )
    errors = (0.5 * (y + 1.0) if loss.response == "binary" else y) - np.asarray(mean)
    if says.any():
        target = (solution.z + solution.alpha / np.where(says, W, 1.0)[:, None])[says, 0]
        own = Ahead(
            ahead.features[:, says], ahead.half[:, says], ahead.mean[says], ahead.residual[says]
        )
        stream, _ = stream.given(own, target, 1.0 / W[says] + own.residual, taxed=False)
    return stream, Foreseen(logs, errors, float(value))


def likely_drift(
    stream: InducedStream, scale: NoiseLevel, loss: Loss, X: Array, y: Array, w: Array
) -> tuple[float, float]:
    """Return the most probable share of the function to renew before rows X, and its log prior.

    A drift scales the mean and mixes what is known with the prior: features are formed once.
    """
    ahead = stream.ahead(X)
    F, cov, value = ahead.features, ahead.cov, LOG_PRIOR.copy()
    prior = F.T @ F
    for i, share in enumerate(SHARES):
        mean = stream.offset + np.sqrt(1.0 - share) * (ahead.mean - stream.offset)
        mixed = (1.0 - share) * cov + share * prior
        if loss.offers("quadratic"):
            extra = float(loss.noise) / w + ahead.residual  # type: ignore[attr-defined]  # the Gaussian has it
            found = _innovations(mixed, extra, y - mean)
            value[i] += -np.inf if found is None else scale.log_joint(float(w.sum()), *found)
        else:
            var = np.maximum(mixed.diagonal() + ahead.residual, SMALLEST)
            value[i] += float(w @ loss.log_predictive(y, mean, var))
    best = int(value.argmax())
    return float(SHARES[best]), float(LOG_PRIOR[best])
