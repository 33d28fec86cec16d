"""GPML figures 6.2 and 6.3: the maximum margin, and the losses of support vector machines.

What the pictures show is printed as numbers, too:

- 6.2: the widest street between two classes, by `SVC` with a hard margin; half the distance between
  the convex hulls of the classes, found without it, is the same;
- 6.3 (a): the hinge beside -log sigma(z) and -log Phi(z); all three fall to 0 on the right, the
  first two are lines on the left, the third is a parabola;
- 6.3 (b): the epsilon-insensitive loss, whose normaliser (6.40) does not depend on f.

    python papers/gpml_figures.py [--out docs/papers/gpml_figures.png] [--json ...] [--page ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import _picture
import _store
import numpy as np
from scipy import integrate, optimize

from mercer import SVC
from mercer.losses import EpsilonInsensitive, Hinge, Logistic, Probit

STORED = Path(__file__).parent / "gpml_figures.json"
Z = np.linspace(-3.0, 4.0, 701)
PAGE = """\
# GPML figures 6.2 and 6.3: margins and losses

    python papers/gpml_figures.py --out docs/papers/gpml_figures.png --page <this page>

![maximum margin and losses](gpml_figures.png)

**Figure 6.2 (b)**, the maximum margin: `SVC(C=inf, kernel="linear")` on {rows} separable points has
{support vectors} support vectors (circles) and a street of half-width 1 / |w| = {margin:.6f}. Half
the distance between the convex hulls of the two classes, a quadratic programme of its own, is
{hulls:.6f}. Panel (a) of the book shows that many lines separate the classes: the first direction
tried here that does is {other:.1f} degrees off, with a half-width of {other margin:.3f}.

**Figure 6.3 (a)**, three losses of the margin z:

| | hinge | -log sigma(z) | -log Phi(z) |
|---|---|---|---|
| at 0 | {hinge at 0:.3f} | {logistic at 0:.3f} | {probit at 0:.3f} |
| slope at -20 | {hinge slope:.3f} | {logistic slope:.3f} | {probit slope:.3f} |
| zero beyond 1 | yes | no | no |

The hinge and the logistic loss are lines on the left, with slope -1; the probit grows like z^2 / 2.

**Figure 6.3 (b)**, the epsilon-insensitive loss with eps = {eps}: zero inside the tube, a line
outside. exp(-C g) has the mass {mass:.6f} over y for every f, which is 2 (eps + 1/C), (6.40).
"""


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return two separable classes, X (24, 2) and y (24,)."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(24, 2)) * 0.7
    y = np.repeat([1.0, -1.0], 12)
    return X + 1.35 * y[:, None] * np.array([0.8, 0.6]), y


def machine() -> SVC:
    """Return the machine of figure 6.2 (b)."""
    return SVC(C=np.inf, kernel="linear", tol=1e-8).fit(*data())


def hulls() -> float:
    """Half the distance between the convex hulls of the classes."""
    X, y = data()
    D = X * y[:, None]

    def square(a: np.ndarray) -> tuple[float, np.ndarray]:
        v = D.T @ a
        return float(v @ v), 2 * D @ v

    each = [{"type": "eq", "fun": lambda a, c=c: a[y == c].sum() - 1.0} for c in (1.0, -1.0)]
    found = optimize.minimize(
        square,
        np.full(24, 1 / 12),
        jac=True,
        bounds=[(0, 1)] * 24,
        constraints=each,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return float(np.sqrt(found.fun)) / 2


def other_line() -> tuple[float, float]:
    """Degrees between the normal of another separating line and the best, and its half-width."""
    X, y = data()
    w = machine().coef_[0]
    best = np.degrees(np.arctan2(w[1], w[0]))
    for turn in range(20, 0, -1):
        angle = np.radians(best + turn)
        along = X @ np.array([np.cos(angle), np.sin(angle)])
        gap = along[y > 0].min() - along[y < 0].max()
        if gap > 0:
            return float(turn), float(gap / 2)
    raise ValueError("no other line within 20 degrees separates the classes")


def figures() -> dict[str, Any]:
    """Return what the figures show, as numbers."""
    model = machine()
    losses = {"hinge": Hinge(), "logistic": Logistic(), "probit": Probit()}
    turn, width = other_line()
    eps, C = 0.4, 2.0
    tube = EpsilonInsensitive(C, eps)

    def density(y: float) -> float:
        return float(np.exp(-C * max(abs(y - 0.7) - eps, 0.0)))

    mass = sum(integrate.quad(density, *part)[0] for part in ((-30, 0.3), (0.3, 1.1), (1.1, 30)))
    constant = float(tube.value(0.7, 0.7))  # the logarithm of the normaliser, inside the tube
    found: dict[str, Any] = {
        "rows": 24,
        "support vectors": len(model.support_),
        "margin": float(1 / np.linalg.norm(model.coef_)),
        "hulls": hulls(),
        "other": turn,
        "other margin": width,
        "eps": eps,
        "mass": mass,
        "mass by (6.40)": 2 * (eps + 1 / C),
        "mass of the loss": float(np.exp(constant)),
    }
    for name, loss in losses.items():
        found[f"{name} at 0"] = float(loss.value(1.0, 0.0))
        low, high = (float(loss.value(1.0, z)) for z in (-20.0005, -19.9995))
        found[f"{name} slope"] = (high - low) / 1e-3
    return found


def draw(path: str) -> None:
    """Save the panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    X, y = data()
    model = machine()
    w, b = model.coef_[0], float(model.intercept_[0])
    fig, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    at = np.linspace(-3.5, 3.5, 2)
    axes[0].plot(*X[y > 0].T, "C0+", *X[y < 0].T, "C1o", ms=5)
    for level, style in ((0.0, "k-"), (1.0, "k:"), (-1.0, "k:")):
        axes[0].plot(at, (level - b - w[0] * at) / w[1], style, lw=1)
    axes[0].plot(*X[model.support_].T, "o", mfc="none", mec="k", ms=10)
    axes[0].set(title="6.2 (b): maximum margin", xlim=(-3.5, 3.5), ylim=(-3.5, 3.5))
    lines = (
        (Hinge(), "k-", "hinge"),
        (Logistic(), "C0--", "-log sigma"),
        (Probit(), "C1-.", "-log Phi"),
    )
    for loss, style, name in lines:
        axes[1].plot(Z, loss.value(1.0, Z), style, label=name)
    axes[1].set(title="6.3 (a): losses", xlabel="z", ylim=(0, 4.2))
    axes[1].legend(fontsize=8)
    tube = EpsilonInsensitive(1.0, 0.5)
    axes[2].plot(Z - 0.5, tube.value(0.0, Z - 0.5) - tube.value(0.0, 0.0), "k")
    axes[2].set(title="6.3 (b): epsilon-insensitive", xlabel="y - f", xlim=(-3, 3))
    axes[2].set_xticks([-0.5, 0, 0.5], ["-eps", "0", "eps"])
    _picture.save(fig, path)


def page(found: dict[str, Any]) -> str:
    """The figures as a page of the documentation."""
    return PAGE.format_map(found)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures, store them, write the page and the picture."""
    return _store.publish((__doc__ or "").splitlines()[0], figures, page, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
