"""The variational Gaussian from sums over blocks of rows, with nothing kept of any row.

On inducing points q(u) is known by sums over its sites, A = G'diag(W) G and g = G'h, G = [F, H],
and the sites that a natural gradient step leads to are functions of q alone. With mu = G [b; beta]
and v = res + |R^-T G_i|^2 at each row, and nu_i = w_i E[g(y_i, f_i)],

    W_i = 2 dnu_i/dv,    h_i = W_i mu_i - dnu_i/dmu

so that one pass at q answers sum nu_i, and A and g of the next step: the bound, and where it leads.
Damping, halving and acceleration are done on these (:mod:`mercer.inference.blocks.ascent`). Columns
of targets have each a Gaussian of their own, and share the features and the pass. At the optimum
the gradient is that of the collapsed bound with W and a = -dnu/dmu. Theory (I6), (I16).

Reference: Hensman, Matthews and Ghahramani (2015); Khan and Lin (2017).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from mercer.core.arrays import Array
from mercer.inference.base import Report, joined_report
from mercer.inference.blocks.ascent import Natural, NaturalAscent
from mercer.inference.blocks.collapsed import (
    broadcast,
    explained,
    freedom,
    joined,
    no_slopes,
    packed,
    slopes_of,
    standing,
    unpacked,
)
from mercer.inference.blocks.prepared import BlockRows, BlockSolution, Prepared
from mercer.inference.variational.gaussian import Variational
from mercer.kernels.base import Gradient, Kernel, added
from mercer.linalg.blocks.engine import Engine, Part, RowBlock, add
from mercer.linalg.dense.factor import solve_rows
from mercer.linalg.operators import PosteriorOperator, SeveralOperator
from mercer.linalg.reduced.factor import ReducedFactor, gather
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes
from mercer.losses.numbers.special import LOG_2PI


def variational(
    engine: Engine,
    prepared: Prepared,
    kernel: Kernel,
    loss: Loss,
    Z: Array,
    tol: float = 1e-6,
    max_iter: int = 200,
    start: BlockSolution | None = None,
) -> BlockSolution:
    """Return the variational Gaussian on inducing points Z (m, d), of all rows: a pass each step.

    Parameters
    ----------
    loss : any that :class:`~mercer.inference.Variational` takes, of one latent function.
    tol : stop when a step would move q by less than tol sqrt(n), in units of its own width.
    max_iter : passes at most; reaching it is reported.
    start : a solution at parameters nearby, to begin from.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference.blocks.prepared import Prepared
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg.blocks.local import LocalEngine
    >>> from mercer.losses import Logistic
    >>> X = np.linspace(0.0, 3.0, 50)[:, None]
    >>> engine = LocalEngine.of_arrays(X, X[:, 0] > 1.0, None, size=20)
    >>> prepared = Prepared(np.zeros(1), np.ones(1), classes=np.array([False, True]))
    >>> found = variational(engine, prepared, 4.0 * RBF(), Logistic(), X[::7])
    >>> found.report.converged, round(found.value, 3)
    (True, -12.15)
    """
    check(kernel, loss, tol, max_iter)
    gram = standing(kernel, loss, Z)
    given = broadcast(prepared, gram, loss)
    passes, begin = 0, None if start is None else start.state["x"]
    if begin is None or begin[0].shape[0] != gram.m + prepared.functions(gram.support):
        sums, passes = engine.map_sum(begun, given), 1
        begin = [natural_of(sums, j) for j in range(columns_of(sums))]
    climbs = [NaturalAscent(gram.m, x, tol, max_iter) for x in begin]
    while active := [j for j, climb in enumerate(climbs) if not climb.done]:
        asked = {j: (climbs[j].asked.R, climbs[j].asked.b) for j in active}
        sums, passes = engine.map_sum(visited, given | {"asked": asked}), passes + 1
        for j in active:
            climbs[j].receive(float(sums[f"nu {j}"]), natural_of(sums, j), sums["rows"])
    best = [climb.best for climb in climbs if climb.best is not None]
    flat = 0.5 * prepared.functions(gram.support) * len(best) * LOG_2PI  # of unit density
    value, reports = flat - sum(end.free for end in best), [climb.report() for climb in climbs]
    told = explained(sums) | {"passes": passes}
    return ended_at(gram, [end.q for end in best], value, reports, told)


def check(kernel: Kernel, loss: Loss, tol: float, max_iter: int) -> None:
    """Refuse what the variational Gaussian of blocks cannot do."""
    Variational(tol=tol, max_iter=max_iter).check(loss)
    if loss.latents:
        raise ValueError(
            f"{type(loss).__name__} has several latent functions, and blocks of rows know one per "
            "column of targets; fit it on rows that are in memory"
        )
    if kernel.signal() is not kernel:
        raise ValueError(
            "a noise part of the kernel is a latent number for each row, and blocks keep none: "
            "leave it out, the loss says what is noise"
        )


def ended_at(
    gram: ReducedGram, ends: Sequence[Natural], value: float, reports: Sequence[Report], told: Part
) -> BlockSolution:
    """Return the Gaussians at which the columns of targets ended as one solution."""
    m, c = gram.m, len(ends[0].R) - gram.m
    empty, A = (np.zeros(0), np.zeros((0, c))), [end.x[:m, :m] for end in ends]
    both = zip(ends, A, strict=True)
    factors = [ReducedFactor.among(gram, *empty, end.R, None, one) for end, one in both]
    b = np.column_stack([end.b for end in ends])
    report = joined_report(reports, "factorisations")
    told = (freedom(factors[0]) if len(factors) == 1 else {}) | factors[0].report | told
    operators: list[PosteriorOperator] = [factor.operator() for factor in factors]
    return BlockSolution(
        value,
        gram.support,
        gram.used,
        np.asarray(solve_triangular(gram.L, b[:m], lower=True, trans="T")),
        b[m:] if c else None,
        operators[0] if len(operators) == 1 else SeveralOperator(operators, None),
        replace(report, details=report.details | told),
        {"gram": gram, "factors": factors, "b": b, "x": [end.x for end in ends]},
    )


def variational_slopes(
    engine: Engine, prepared: Prepared, loss: Loss, solution: BlockSolution, *, moved: bool = False
) -> dict[str, Gradient]:
    """Return the gradient of the bound in kernel, loss and, if ``moved``, Z (m, d): one pass.

    At the optimum of q it is that of what the bound says outright.
    """
    gram, factors, b = (solution.state[name] for name in ("gram", "factors", "b"))
    m, asked, inner = gram.m, {}, None
    for j, factor in enumerate(factors):
        asked[j] = factor.R, b[:, j], factor.inverse()
        more = gram.slopes(np.zeros((0, 1)), factor, moved=moved, carried=b[:m, j : j + 1])
        inner = more if inner is None else _both(inner, more)
    given = broadcast(prepared, gram, loss) | {"asked": asked, "moved": moved}
    found = engine.map_sum(sloped, given)
    assert inner is not None
    of_loss: Gradient = {name: -found[f"loss {name}"] for name in loss.free}
    return joined(found, inner, solution.used) | {"loss": of_loss}


def _both(
    first: tuple[Gradient, Array | None], second: tuple[Gradient, Array | None]
) -> tuple[Gradient, Array | None]:
    points = None if first[1] is None or second[1] is None else first[1] + second[1]
    return added(first[0], second[0]), points


# ------------------------------------------------------------------ what is asked of a block
def visited(block: RowBlock, given: Part) -> Part:
    """Return sum nu at the Gaussian of each column that is asked for, and the x ahead of it."""
    rows, gram = _read(block, given)
    sums = _Sums(gram, rows, list(given["asked"]))
    roots = {j: np.ascontiguousarray(R.T) for j, (R, _) in given["asked"].items()}
    for some, G in sums.features():
        for j, (_, b) in given["asked"].items():
            mu, v = _moments(gram, some, G, roots[j], b)
            sums.take(j, some, G, mu, *_averages(given["loss"], rows, some, j, mu, v))
    return sums.parts()


def begun(block: RowBlock, given: Part) -> Part:
    """Return the x of sites that the losses ask for when f_i has the variance max(k_ii, 1)^1/2.

    Less where the loss is steep (an exponential would overflow), about zero or, for other than
    binary targets, a place between it and the loss's centre.
    """
    rows, gram = _read(block, given)
    loss, sums = given["loss"], _Sums(gram, rows, list(range(rows.y.shape[1])))
    for some, G in sums.features():
        for j in range(rows.y.shape[1]):
            y, prior = rows.y[some, j], gram.prior[some]
            mu, v = np.zeros(len(y)), np.sqrt(np.maximum(prior, 1.0))
            if loss.response != "binary":
                center = np.asarray(loss.centers(y), dtype=np.float64).mean(axis=0)
                mu = center * prior / (prior + np.square(loss.width(y)))
            bend = _averages(loss, rows, some, j, mu, v)[2]
            v = np.where(v * bend > 4.0, np.sqrt(v / np.maximum(bend, 1e-300)), v)
            total, slope, bend = _averages(loss, rows, some, j, mu, np.maximum(v, 1e-8))
            sums.take(j, some, G, mu, total, slope, np.maximum(bend, 0.0))
    return sums.parts()


def sloped(block: RowBlock, given: Part) -> Part:
    """Return what one block adds to the gradient."""
    rows, gram = _read(block, given)
    moved, loss, asked = given["moved"], given["loss"], given["asked"]
    n, o = rows.y.shape
    mu, v = np.empty((n, o)), np.empty((n, o))
    roots = {j: np.ascontiguousarray(R.T) for j, (R, _, _) in asked.items()}
    for some, G in _Sums(gram, rows, []).features():
        for j, (_, b, _) in asked.items():
            mu[some, j], v[some, j] = _moments(gram, some, G, roots[j], b)

    def expected(given: Loss) -> float:
        return float(
            sum(rows.w @ given.expected(rows.y[:, j], mu[:, j], v[:, j])[0] for j in asked)
        )

    found = no_slopes(gram, moved)
    everything = slice(0, n)
    for j, (R, b, inverse) in asked.items() if n else ():
        _, slope, bend = _averages(loss, rows, everything, j, mu[:, j], v[:, j])
        factor = ReducedFactor.among(gram, bend, rows.H, R, inverse, np.zeros((gram.m,) * 2))
        carried = b[: gram.m, None]
        found = add(found, slopes_of(gram, -slope[:, None], factor, carried, moved))
    return found | {f"loss {name}": slope for name, slope in slopes(loss, expected).items()}


# ------------------------------------------------------------------ rows, some at a time
def _read(block: RowBlock, given: Part) -> tuple[BlockRows, ReducedGram]:
    rows: BlockRows = given["prepared"](block)
    return rows, given["gram"].at(rows.X)


def _moments(
    gram: ReducedGram, some: slice, G: Array, root: Array, b: Array
) -> tuple[Array, Array]:
    """Mean and variance (q,) of f at rows G (q, p), the residual included; ``root`` is R'."""
    v = np.empty(len(G))
    solve_rows(root, G.copy(), v)
    v += gram.residual[some]
    return G @ b, v


def _averages(
    loss: Loss, rows: BlockRows, some: slice, j: int, mu: Array, v: Array
) -> tuple[float, Array, Array]:
    """Sum of nu_i, its derivative in mu, and twice that in v (q,)."""
    w = rows.w[some]
    with np.errstate(over="ignore", invalid="ignore"):
        value, dm, dv = loss.expected(rows.y[some, j], mu, v)
        return float(w @ value), w * dm, 2.0 * w * dv


class _Sums:
    """Sums over the rows of a block for some columns of targets."""

    def __init__(self, gram: ReducedGram, rows: BlockRows, columns: list[int]) -> None:
        self.gram, self.H = gram, rows.H
        p = gram.m + (0 if rows.H is None else rows.H.shape[1])
        self.nu = dict.fromkeys(columns, 0.0)
        self.A = {j: np.zeros((p, p)) for j in columns}
        self.g = {j: np.zeros(p) for j in columns}

    def features(self) -> Iterator[tuple[slice, Array]]:
        """Yield rows, some at a time, and [F, H] there (q, p)."""
        for some in self.gram.blocks():
            F = self.gram.features(some)
            yield some, F if self.H is None else np.hstack([F, self.H[some]])

    def take(
        self, j: int, some: slice, G: Array, mu: Array, total: float, slope: Array, bend: Array
    ) -> None:
        """Add sites at rows G (q, p) of mean mu (q,)."""
        self.nu[j] += total
        gather(self.A[j], G, bend, None, bool(np.any(bend < 0.0)))
        with np.errstate(over="ignore", invalid="ignore"):  # an infinite average is refused later
            self.g[j] += (bend * mu - slope) @ G

    def parts(self) -> Part:
        """Return the sums by name, triangles packed."""
        found: Part = {f"nu {j}": nu for j, nu in self.nu.items()}
        found |= {f"A {j}": packed(A) for j, A in self.A.items()}
        found |= {f"g {j}": g for j, g in self.g.items()}
        known = {"residual": float(self.gram.residual.sum()), "prior": float(self.gram.prior.sum())}
        return found | known | {"rows": len(self.gram.points)}


def columns_of(sums: Part) -> int:
    """Return of how many columns the sums are."""
    return sum(name.startswith("nu ") for name in sums)


def natural_of(sums: Part, j: int) -> Array:
    """Return x = [A, g] (p, p + 1) of a column."""
    return np.column_stack([unpacked(sums[f"A {j}"]), sums[f"g {j}"]])
