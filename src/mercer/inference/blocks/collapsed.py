"""The collapsed bound of Gaussian noise from sums over blocks of rows; theory (I2), (I3), (I15).

One pass collects, for all rows, the triangle of

    S = [F, H, z]'E [F, H, z]          F = k(X, Z) L^-T whitened before anything is summed

and few numbers. With R'R = [I 0; 0 0] + S at [F, H] and r = R^-T S at z the bound is

    E = -1/2 (z'E z - |r|^2) - sum log R_jj + 1/2 sum log E_i - (n - c)/2 log 2 pi
        - 1/2 sum E_i res_i

for each output, [b; beta] = R^-1 r are the coefficients, and F'alpha = b. A second pass finds alpha
at the rows of each block, and with them the gradient in the kernel, the noise and Z. Where the
noise is tiny beside the signal, blocks answer with triangles, and two are merged by the QR
decomposition of one above the other.

Reference: Titsias (2009).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import lapack, solve_triangular

from mercer.core.arrays import Array, mirror, transposed_solve
from mercer.inference.base import Report
from mercer.inference.blocks.prepared import BlockRows, BlockSolution, Prepared
from mercer.kernels.base import Gradient, Kernel, added, zero_gradient
from mercer.linalg.blocks.engine import Engine, Part, RowBlock
from mercer.linalg.reduced.factor import ReducedFactor, reflected, root
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses.base import Loss
from mercer.losses.numbers.special import LOG_2PI

LOST = 1e-8  # of z'E z: a rest below is found by reflections, not by a difference


def gaussian(
    engine: Engine, prepared: Prepared, kernel: Kernel, loss: Loss, Z: Array
) -> BlockSolution:
    """Return the posterior on inducing points Z (m, d) for a quadratic loss, of all rows: one pass.

    Several columns of targets share the kernel and the noise.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference.blocks.prepared import Prepared
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg.blocks.local import LocalEngine
    >>> from mercer.losses import Gaussian
    >>> X = np.linspace(0.0, 3.0, 50)[:, None]
    >>> engine = LocalEngine.of_arrays(X, np.sin(X), None, size=20)
    >>> prepared = Prepared(np.zeros(1), np.ones(1))
    >>> found = gaussian(engine, prepared, RBF(), Gaussian(0.01), X[::7])
    >>> round(found.value, 3), found.alpha.shape
    (53.819, (8, 1))
    """
    gram = standing(kernel, loss, Z)
    given = broadcast(prepared, gram, loss)
    sums, passes = engine.map_sum(collected, given), 1
    S, c = unpacked(sums["triangle"]), prepared.functions(gram.support)
    p, known = len(S), gram.m + c  # columns of [F, H, z], and of [F, H]
    R = root(S[:known, :known].copy(), gram.m, signed=False, rows=float(sums["rows"]))
    rest = 0.0
    if R is not None:
        r = transposed_solve(R, S[:known, known:])
        whole = float(np.trace(S[known:, known:]))
        rest = whole - float(np.vdot(r, r))
    if R is None or rest < LOST * whole:
        rows = engine.map_merge(triangled, given, stacked)["triangle"]
        top = reflected(np.eye(gram.m, p), rows)
        top, passes = np.sign(np.diagonal(top))[:, None] * top, 2
        R, r = np.ascontiguousarray(top[:known, :known]), top[:known, known:]
        rest = float(np.sum(top[known:, known:] ** 2))
    b, o = np.asarray(solve_triangular(R, r)), p - known
    value = -0.5 * rest + o * (
        0.5 * sums["log_E"] - float(np.log(np.diagonal(R)).sum()) - sums["charge"] + sums["counted"]
    )
    value -= 0.5 * o * (sums["rows"] - c) * LOG_2PI
    factor = ReducedFactor.among(
        gram, np.zeros(0), np.zeros((0, c)), R, None, S[: gram.m, : gram.m]
    )
    told = factor.report | {"passes": passes} | ({"reflections": True} if passes > 1 else {})
    state = {"gram": gram, "factor": factor, "b": b, "sums": sums}
    return BlockSolution(
        value,
        gram.support,
        gram.used,
        np.asarray(solve_triangular(gram.L, b[: gram.m], lower=True, trans="T")),
        b[gram.m :] if c else None,
        factor.operator(),
        Report(True, None, details=told | explained(sums) | freedom(factor)),
        state,
    )


def gaussian_slopes(
    engine: Engine,
    prepared: Prepared,
    loss: Loss,
    solution: BlockSolution,
    *,
    moved: bool = False,
) -> dict[str, Gradient]:
    """Return the gradient of the bound in kernel, loss and, if ``moved``, Z (m, d): one pass."""
    gram, factor, b, sums = (solution.state[name] for name in ("gram", "factor", "b", "sums"))
    given = broadcast(prepared, gram, loss) | {"b": b, "moved": moved}
    given |= {"R": factor.R, "inverse": factor.inverse()}
    found = engine.map_sum(sloped, given)
    o, d_precision = b.shape[1], found.pop("precision")
    if gram.signal is gram.kernel:  # of one noise for all rows only sums count
        precision = float(loss.quadratic(np.zeros((1, o)))[1][0])
        free = sums["rows"] - len(factor.R) + float(np.trace(factor.inverse()))
        more = sums["weight"] - sums["rows"] + free
        d_precision += 0.5 * o * (more / precision - sums["unexplained"])
    pulled = loss.quadratic_pullback(np.zeros((1, o)), np.array([d_precision]))
    inner = gram.slopes(np.zeros((0, o)), factor, moved=moved, carried=b[: gram.m])
    return joined(found, inner, solution.used) | {"loss": pulled}


# ------------------------------------------------------------------ what is asked of a block
def collected(block: RowBlock, given: Part) -> Part:
    """Return the sums of one block."""
    rows, gram, W, precision, z = quadratic(block, given)
    factor = ReducedFactor.among(gram, W, beside(rows, z))
    S, res, w = factor.collected(), gram.known(), rows.w
    counted = 0.5 * float(((w - 1.0) * (np.log(precision) - LOG_2PI)).sum())
    return {
        "triangle": packed(S),
        "rows": len(w),
        "weight": float(w.sum()),
        "log_E": float(np.log(factor.E).sum()),
        "charge": 0.5 * float(factor.E @ res),
        "counted": counted - 0.5 * float(np.log(w).sum()),
        "unexplained": float(w @ res),
        "residual": float(res.sum()),
        "prior": float(gram.prior.sum()),
    }


def triangled(block: RowBlock, given: Part) -> Part:
    """Return the rows E^1/2 [F, H, z] of one block as a triangle."""
    rows, gram, W, _, z = quadratic(block, given)
    factor = ReducedFactor.among(gram, W, beside(rows, z))
    return {"triangle": factor.reflections(np.zeros((0, gram.m + factor.H.shape[1])))}


def stacked(left: Part, right: Part) -> Part:
    """Merge two triangles."""
    return {"triangle": reflected(left["triangle"], right["triangle"])}


def sloped(block: RowBlock, given: Part) -> Part:
    """Return what one block adds to the gradient, and dE/d precision as far as it knows."""
    rows, gram, W, precision, z = quadratic(block, given)
    b, moved, w = given["b"], given["moved"], rows.w
    if not len(w):
        return no_slopes(gram, moved) | {"precision": 0.0}
    R, inverse = given["R"], given["inverse"]
    factor = ReducedFactor.among(gram, W, rows.H, R, inverse, np.zeros((gram.m,) * 2))
    alpha = factor.E[:, None] * (z - gram.expand(b[: gram.m]) - factor.H @ b[gram.m :])
    squares, o = (alpha**2).sum(axis=1), b.shape[1]
    d_precision = -0.5 * squares / (w * precision**2)
    if gram.signal is not gram.kernel:  # its noise parts tell rows apart
        d_precision += 0.5 * o * (factor.diag() / (w * precision**2) + (w - 1.0) / precision)
        d_precision -= 0.5 * o * w * gram.known() / (1.0 + W * gram.lam) ** 2
    found = slopes_of(gram, alpha, factor, b[: gram.m], moved)
    return found | {"precision": float(d_precision.sum())}


# ------------------------------------------------------------------ helpers of all passes
def standing(kernel: Kernel, loss: Loss, Z: Array, *, corrected: bool = False) -> ReducedGram:
    """Return the Gram of inducing points Z (m, d) without rows: blocks bring theirs."""
    signal = kernel.signal()
    if signal.positional or signal.pairwise or loss.of_rows:
        raise ValueError(
            "rows that come in blocks are described by their inputs alone: a precomputed matrix, "
            "or a noise or function for each row number, is of rows that are in memory"
        )
    return ReducedGram(kernel, Z[:0], Z, keep=False, corrected=corrected)


def broadcast(prepared: Prepared, gram: ReducedGram, loss: Loss) -> Part:
    """Return what every task is given; kernel and points tell a pass from one at other ones."""
    at = {"kernel": gram.kernel, "points": gram.support}
    return {"prepared": prepared, "gram": gram, "loss": loss} | at


def quadratic(block: RowBlock, given: Part) -> tuple[BlockRows, ReducedGram, Array, Array, Array]:
    """Return the rows of a block, their Gram, W (b,), precisions (b,) and targets (b, o)."""
    rows: BlockRows = given["prepared"](block)
    z, precision = given["loss"].quadratic(rows.y)
    return rows, given["gram"].at(rows.X), rows.w * precision, precision, z


def beside(rows: BlockRows, z: Array) -> Array:
    """[H, z]."""
    return z if rows.H is None else np.hstack([rows.H, z])


def slopes_of(
    gram: ReducedGram, alpha: Array, factor: ReducedFactor, carried: Array, moved: bool
) -> Part:
    """Return what the rows of a Gram add to the gradient in the kernel, and in Z if ``moved``."""
    gradient, points = gram.slopes(alpha, factor, moved=moved, carried=carried)
    return _named(gradient) | ({"inducing": points} if moved else {})


def no_slopes(gram: ReducedGram, moved: bool) -> Part:
    """Return the same of no rows."""
    points = {"inducing": np.zeros_like(gram.support)} if moved else {}
    return _named(zero_gradient(gram.kernel)) | points


def _named(gradient: Gradient) -> Part:
    return {f"kernel {path}": slope for path, slope in gradient.items()}


def joined(found: Part, inner: tuple[Gradient, Array | None], used: Any) -> dict[str, Gradient]:
    """Return the gradient by part: of all rows, and what goes through Kzz; dropped points stay."""
    kernel = {path: found[f"kernel {path}"] for path in inner[0]}
    by_part: dict[str, Gradient] = {"kernel": added(kernel, inner[0])}
    if inner[1] is not None:
        whole = np.zeros((len(used), inner[1].shape[1]))
        whole[used] = found["inducing"] + inner[1]
        by_part["inducing"] = {"points": whole}
    return by_part


def packed(S: Array) -> Array:
    """The upper triangle of a symmetric matrix (p, p) as a vector: half the traffic."""
    return np.asarray(lapack.dtrttp(S.T, uplo="L")[0])


def unpacked(triangle: Array) -> Array:
    """The symmetric matrix (p, p) of a vector of its upper triangle, p (p + 1) / 2."""
    p = int(np.sqrt(2.0 * len(triangle)))
    return mirror(lapack.dtpttr(p, triangle, uplo="L")[0].T)


def explained(sums: Part) -> dict[str, float]:
    """How much of the prior variance the inducing points explain."""
    return {"explained": 1.0 - sums["residual"] / sums["prior"]}


def freedom(factor: ReducedFactor) -> dict[str, float | None]:
    """The trace of the smoother, m + c - tr S; not known where noise is part of the kernel."""
    m, gram = factor.gram.m, factor.gram
    known = gram.signal is gram.kernel
    free = len(factor.R) - float(np.trace(factor.inverse()[:m])) if known else None
    return {"degrees_of_freedom": free}
