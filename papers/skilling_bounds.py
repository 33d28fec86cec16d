"""Skilling's bounds without a factorisation: Seeger's thesis, appendix B, and the pair used here.

For C = a I + A, A positive semidefinite, r Lanczos steps on A from b give T (r, r) and the next
coefficient beta. With Q = 1/2 b'C^-1 b, the thesis has

    lower   Q_r = 1/2 |b|^2 e_1'(a I + T)^-1 e_1                  what conjugate gradients know
    upper   (1/2 |b|^2 - Q*_r) / a
    Q*_r = 1/2 |b|^2 (T e_1)'[a T + T^2 + beta^2 e_r e_r']^-1 T e_1

The upper bound is the Gauss-Radau rule with a node at a. For log C the rules change places: that
of Gauss is above, where (B.3) of the thesis calls it a lower bound. A is the matrix of a squared
exponential on 500 points of the plane. Beside them stands the same pair in the metric of a
preconditioner, P = Q + D from 50 of the points, which ``gram="iterative"`` uses.

    python papers/skilling_bounds.py [--out skilling.png] [--json papers/skilling_bounds.json]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import _store
import numpy as np

from mercer.kernels import RBF
from mercer.linalg.iterative.gram import IterativeGram

N, STEPS = 500, 120
NOISES = (1.0, 0.1, 0.01, 0.001)
GAPS = (1e-1, 1e-2, 1e-4, 1e-6)
KERNEL = RBF(0.4)
PAGE = """\
# Skilling's bounds

Appendix B of the thesis: y'C^-1 y and log |C| from products with C alone, between two bounds that
close with every step. C = a I + K, K of a squared exponential on {points} points of the plane,
whose largest eigenvalue is {largest eigenvalue:.0f}.

    python papers/skilling_bounds.py --out docs/papers/skilling_bounds.png --page <this page>

![bounds against steps](skilling_bounds.png)

Steps until the two bounds differ by so much of the value:

| a | {head} |
|---|---|---|---|---|---|
{rows}

The upper bound of the thesis equals the Gauss-Radau rule with a node at a to {radau:.0e}. For the
log-determinant the rules change places; {probes} probes, 50 steps and a = 0.01 give the bracket
[{low:.2f}, {high:.2f}] for the mean over the probes, whose standard error is {error:.1f}; the exact
value is {logdet:.2f}.

With the preconditioner P = Q + D of 50 centres (theory (I8)), on the right of the picture, the same
pair needs {preconditioned} steps in place of {plain} for a gap of 1e-4 at a = 0.001.
"""


def problem() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return points (500, 2), K and b."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 3.0, (N, 2))
    return X, KERNEL(X), np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=N)


def lanczos(A: np.ndarray, b: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the diagonal (r,) and the coefficients beta (r,), orthogonalised twice."""
    E = np.zeros((len(b), steps + 1))
    E[:, 0] = b / np.linalg.norm(b)
    main, side = np.zeros(steps), np.zeros(steps)
    for i in range(steps):
        v = A @ E[:, i]
        main[i] = E[:, i] @ v
        for _ in range(2):
            v = v - E[:, : i + 1] @ (E[:, : i + 1].T @ v)
        side[i] = np.linalg.norm(v)
        E[:, i + 1] = v / max(side[i], 1e-300)
    return main, side


def bounds(main: np.ndarray, side: np.ndarray, r: int, a: float) -> tuple[float, float, float]:
    """Lower and upper value of e_1'C^-1 e_1 of the thesis, and the upper by Gauss-Radau."""
    T = np.diag(main[:r]) + np.diag(side[: r - 1], 1) + np.diag(side[: r - 1], -1)
    first = np.eye(r)[0]
    low = float(first @ np.linalg.solve(a * np.eye(r) + T, first))
    last = np.zeros((r, r))
    last[-1, -1] = side[r - 1] ** 2
    star = float(T[0] @ np.linalg.lstsq(a * T + T @ T + last, T[0], rcond=None)[0])
    return low, (1.0 - star) / a, _radau(T, side[r - 1], a, np.reciprocal)


def _radau(T: np.ndarray, beta: float, a: float, f: np.ufunc) -> float:
    """e_1'f(a I + A) e_1 by the rule with a node at a."""
    r = len(T)
    whole = np.zeros((r + 1, r + 1))
    whole[:r, :r] = T
    whole[r, r - 1] = whole[r - 1, r] = beta
    last = np.zeros(r)
    last[-1] = beta**2
    whole[r, r] = np.linalg.lstsq(T, last, rcond=None)[0][-1]
    values, vectors = np.linalg.eigh(whole)
    return float(vectors[0] ** 2 @ f(np.maximum(values + a, a)))


def curves(a: float) -> dict[str, np.ndarray]:
    """The two bounds on 1/2 b'C^-1 b after 1 .. STEPS steps, plain and preconditioned."""
    X, K, b = problem()
    main, side = lanczos(K, b, STEPS)
    scale = 0.5 * float(b @ b)
    plain = scale * np.array([bounds(main, side, r, a)[:2] for r in range(1, STEPS + 1)])
    factor = IterativeGram(KERNEL, X, X[:50]).factor(np.full(N, 1.0 / a))
    pairs = []
    for r in range(0, STEPS, 2):
        v = factor.solved(b[:, None], 0.0, limit=r).V[:, 0]
        pairs.append(factor.quadratic_bounds(b, v)[:2])
    exact = 0.5 * float(b @ np.linalg.solve(K + a * np.eye(N), b))
    return {"plain": plain, "preconditioned": 0.5 * np.array(pairs), "exact": np.array(exact)}


def steps_to(found: np.ndarray, exact: float, gap: float, stride: int = 1) -> int | None:
    """After how many steps the bounds are as close as ``gap`` of the value; None if never."""
    close = np.flatnonzero(found[:, 1] - found[:, 0] <= gap * exact)
    return None if not len(close) else (stride == 1) + stride * int(close[0])


def determinant(a: float, steps: int, probes: int) -> dict[str, float]:
    """The bracket of log |C| by two rules, its standard error over the probes, and the value."""
    _, K, _ = problem()
    rng, pairs = np.random.default_rng(1), []
    for _ in range(probes):
        z = rng.choice([-1.0, 1.0], size=N)
        main, side = lanczos(K, z, steps)
        T = np.diag(main) + np.diag(side[:-1], 1) + np.diag(side[:-1], -1)
        values, vectors = np.linalg.eigh(T)
        gauss = float(vectors[0] ** 2 @ np.log(np.maximum(values + a, a)))
        pairs.append((N * _radau(T, side[-1], a, np.log), N * gauss))
    low, high = np.mean(pairs, axis=0)
    spread = float(np.mean(pairs, axis=1).std(ddof=1) / np.sqrt(probes))
    exact = float(np.linalg.slogdet(K + a * np.eye(N))[1])
    return {"low": float(low), "high": float(high), "error": spread, "logdet": exact}


def figures() -> dict[str, float | int | None]:
    """Everything that the page says."""
    _, K, b = problem()
    main, side = lanczos(K, b, STEPS)
    found: dict[str, float | int | None] = {
        "points": N,
        "largest eigenvalue": float(np.linalg.eigvalsh(K)[-1]),
        "probes": 10,
    }
    for a in NOISES:
        drawn = curves(a)
        for gap in GAPS:
            name = f"steps, a = {a:g}, gap {gap:g}"
            found[name] = steps_to(drawn["plain"], float(drawn["exact"]), gap)
    found["plain"] = steps_to(drawn["plain"], float(drawn["exact"]), 1e-4)
    found["preconditioned"] = steps_to(drawn["preconditioned"], float(drawn["exact"]), 1e-4, 2)
    same = [bounds(main, side, r, 0.1)[1:] for r in (3, 8, 15)]
    found["radau"] = max(abs(one - other) / other for one, other in same)
    return found | determinant(0.01, 50, 10)


def page(found: dict[str, float | int | None]) -> str:
    """The figures as a page of the documentation."""
    head = " | ".join(f"{gap:g}" for gap in GAPS)
    rows = []
    for a in NOISES:
        cells = [found[f"steps, a = {a:g}, gap {gap:g}"] for gap in GAPS]
        said = " | ".join(f"> {STEPS}" if cell is None else str(cell) for cell in cells)
        rows.append(f"| {a:g} | {said} |")
    text = PAGE.replace("|---|---|---|---|---|---|", "|---|" + "---|" * len(GAPS))
    return text.format_map(found | {"head": head, "rows": "\n".join(rows)})


def draw(path: str) -> None:
    """Save the picture: bounds against steps, the exact value as a line."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    for ax, name, stride in zip(axes, ("plain", "preconditioned"), (1, 2), strict=True):
        for a, colour in zip((0.1, 0.01, 0.001), ("C0", "C1", "C2"), strict=True):
            found = curves(a)
            pair, exact = found[name], float(found["exact"])
            steps = (1 if stride == 1 else 0) + stride * np.arange(len(pair))
            ax.plot(steps, pair[:, 0] / exact, colour, label=f"a = {a:g}")
            ax.plot(steps, pair[:, 1] / exact, colour, ls="--")
        ax.axhline(1.0, color="k", lw=0.6)
        ax.set(xlabel="steps", ylim=(0.0, 2.5), title=f"{name}: lower (solid), upper (dashed)")
    axes[0].set_ylabel("bound / exact value")
    axes[0].legend()
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="where to save the picture")
    parser.add_argument("--json", help="where to store the figures")
    parser.add_argument("--page", help="write the page of the documentation")
    given = parser.parse_args(arguments)
    found = figures()
    for name, value in found.items():
        print(f"{name:<34} {value if value is None else f'{value:10.4g}'}")
    if given.json:
        _store.write(given.json, found)
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
    if given.out:
        draw(given.out)
        print(f"saved {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
