"""Thin-plate splines of counts, labels and outliers: a Gaussian process with a free basis.

f minimises sum_i w_i g(y_i, f(x_i)) + lam/2 J_m(f) with g = -log p(y given f); lam is 1 / variance
of the process. The Green's function is anchored at some of the points, which makes a covariance of
it and changes nothing beside the polynomials (:class:`~mercer.kernels.ThinPlate`).
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer import inference as inferences
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.machine import Fit
from mercer.estimators.shared.parameters import Draw
from mercer.estimators.shared.parts import Parts, kept_gram
from mercer.estimators.shared.units import Units
from mercer.kernels.compose import Scale
from mercer.kernels.thin_plate import ThinPlate
from mercer.linalg.representation import Inducing
from mercer.losses.base import Loss
from mercer.search import Search, Space

RANGE = 1e8  # how far the variance may go from where it starts, both ways


def resolve(loss: Loss, named: bool, given: Any, search: str, knots: Any, m: int, d: int) -> Parts:
    """Return the parts of a spline of order m in d columns, or refuse what does not go together."""
    name = type(loss).__name__
    if loss.response == "multiclass":
        raise ValueError(
            f"{name} has one surface for each class, and a thin-plate spline is one; use "
            "GPClassifier, or one spline for each class"
        )
    if search != "evidence":
        raise ValueError(
            f"search={search!r} is for Gaussian noise, and the loss is {name}; use "
            "search='evidence', or give lam and compare left_out_.log_density"
        )
    auto = isinstance(given, str) and given == "auto"
    chosen = inferences.with_spread(loss) if auto else inferences.by_name(given, loss)
    if not chosen.has_evidence:
        raise ValueError(
            f"a thin-plate spline has a spread, and {type(chosen).__name__} finds a mode only; use "
            "inference='laplace', 'ep' or 'variational'"
        )
    chosen.check(loss)
    loss = loss.__sklearn_clone__()
    if loss.response == "binary" and "scale" in loss.domains:
        loss = loss.fix("scale")  # with a flat prior its scale is that of the surface
    kernel, basis = ThinPlate(m), PolynomialBasis(m - 1)
    parts = Parts(
        kernel, loss, chosen, Search.given("evidence"), basis, kept_gram, False, named, True
    )
    if knots is not None:
        parts.choose_gram(Inducing(knots, move=False), d)
    return parts


def begin(fit: Fit, lam: float | None) -> None:
    """Anchor the kernel at the points of the fit; the variance is 1 / lam, or begins at its size.

    There the surface leaves the polynomials by about one.
    """
    parts, p, m = fit.parts, fit.problem, order(fit.parts)
    if lam is not None and not 0.0 < lam < np.inf:
        raise ValueError(
            f"lam={lam:g} is for Gaussian noise: with {type(parts.loss).__name__} give a positive "
            "finite lam, a large one for the polynomial"
        )
    kernel = ThinPlate.anchored(p.points, m)
    if lam is None:
        size = 1.0 / (float(np.mean(kernel.diag(p.points))) or 1.0)
        parts.bounds["kernel__variance"] = (size / RANGE, size * RANGE)
        parts.kernel = Scale(kernel, size)
    else:
        unit = _unit(fit.units, parts.loss, m)
        parts.kernel = Scale(kernel, 1.0 / (lam * unit)).fix("variance")
        if not len(Space({"kernel": parts.kernel, "loss": parts.loss})):
            parts.search = None


def order(parts: Parts) -> int:
    """Return the order of the spline, of the Green's function or of its scaled form."""
    kernel: Any = parts.kernel
    return int(kernel.order if isinstance(kernel, ThinPlate) else kernel.kernel.order)


def variance(fit: Fit, draw: Draw) -> float:
    """Return the variance of the process in the user's units, 1 / lam."""
    scale = cast(Scale, draw.kernel)
    return float(scale.variance) * _unit(fit.units, draw.loss, order(fit.parts))


def _unit(units: Units, loss: Loss, m: int) -> float:
    """G(r / s) = s^(d - 2m) G(r) on contrasts, times the squared unit of f."""
    d, scales = len(units.x_scale), units.of_latent(loss).y_scale
    size = float(scales[0]) ** 2 if len(scales) == 1 else 1.0
    return float(units.x_scale[0]) ** (d - 2 * m) * size
