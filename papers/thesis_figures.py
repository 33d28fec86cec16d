"""Figures 1.1, 2.1 and 2.6 of Seeger's thesis: curvature, normalised losses, weights of the rows.

What the pictures are there to show is printed as numbers, too:

- 1.1: W = sigma(y) (1 - sigma(y)), what a row of Bernoulli noise says about its latent value;
- 2.1: three likelihoods beside the hinge, and on which share of the margins each is closest to it;
- 2.6: how much a row counts, sigma(-t y) for the Gaussian process and the dual variable for the
  support vector machine, as functions and as two fits have them.

    python papers/thesis_figures.py [--out docs/papers/thesis_figures.png] [--json ...] [--page ...]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import _picture
import _store
import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import expit

from mercer import KernelClassifier
from mercer.kernels import RBF
from mercer.losses import Hinge, LaplaceProbit, Logistic, Loss, NormalizedHinge

STORED = Path(__file__).parent / "thesis_figures.json"
MARGINS = np.linspace(-4.0, 4.0, 801)
SLOPES = (0.2, 0.5, 1.0, 2.0, 5.0)  # C of the hinge
PAGE = """\
# Figures 1.1, 2.1 and 2.6 of Seeger's thesis

    python papers/thesis_figures.py --out docs/papers/thesis_figures.png --page <this page>

![curvature, losses and weights](thesis_figures.png)

**Figure 1.1**, the curvature W of Bernoulli noise against the margin: {largest W:.4g} at 0, and
{W at 4:.3f} at 4. Rows near the boundary say most about the latent function; its predictive
variance is that of a regression with noise 1 / W.

**Figure 2.1**, likelihoods beside the hinge: the normalised hinge (2.18), Laplace noise before a
threshold (2.17) and Bernoulli noise. Shares of the margins in [-4, 4] at which each is the closest
to the hinge C (1 - u)_+, and the largest distance of the normalised hinge from it:

| C | normalised hinge | Laplace noise | Bernoulli | largest distance |
|---|---|---|---|---|
{rows}

For C = 1 and more the normalised hinge is the closest nearly everywhere, as the thesis says; it is
not convex (the concave kink at -1).

**Figure 2.6**, how much a row counts: dots are the coefficients |alpha| of two fits to the same
{points} rows, on the curves to {logistic:.0e} (Gaussian process, sigma(-t y)) and {hinge:.0e}
(support vectors: 1 inside the margin, 0 beyond, between on it). {zero} of the rows count nothing
for the second, none for the first.
"""


def likelihoods(C: float) -> dict[str, Loss]:
    """The three likelihoods of figure 2.1, slopes C far out (Bernoulli: 1)."""
    return {
        "normalised hinge": NormalizedHinge(C=C),
        "Laplace noise": LaplaceProbit(C=C),
        "Bernoulli": Logistic(),
    }


def closest(C: float) -> dict[str, float]:
    """Share of the margins at which a likelihood is the closest to the hinge; largest distance."""
    hinge = Hinge(C).value(1.0, MARGINS)
    gaps = {name: np.abs(loss.value(1.0, MARGINS) - hinge) for name, loss in likelihoods(C).items()}
    first = np.argmin(list(gaps.values()), axis=0)
    shares = {name: float(np.mean(first == i)) for i, name in enumerate(gaps)}
    return shares | {"distance": float(gaps["normalised hinge"].max())}


def weights() -> dict[str, np.ndarray]:
    """Margins and coefficients |alpha| of the two machines on the same rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 2))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=80) > 0, 1.0, -1.0)
    kernel, found = 4.0 * RBF(1.0), {}
    for loss in ("logistic", "hinge"):
        machine = KernelClassifier(kernel, loss=loss, basis=None, search=None).fit(X, y)
        f = machine.decision_function(X)
        posterior = machine.posteriors_[0]
        rows = np.argmin(cdist(X, posterior.points), axis=1)  # its points are sorted
        alpha = posterior.alpha[rows, 0]
        found[loss] = np.column_stack([y * f, y * alpha])
    return found


def figures() -> dict[str, Any]:
    """Return what the figures show, as numbers."""
    W = Logistic().derivatives(1.0, np.array([0.0, 4.0]))[1]
    fits = weights()
    u, a = fits["hinge"].T
    step = np.where(u < 1.0 - 1e-3, np.abs(a - 1.0), np.where(u > 1.0 + 1e-3, np.abs(a), 0.0))
    return {
        "largest W": float(W[0]),
        "W at 4": float(W[1]),
        "closest": {f"{C:g}": closest(C) for C in SLOPES},
        "points": len(u),
        "logistic": float(np.abs(fits["logistic"][:, 1] - expit(-fits["logistic"][:, 0])).max()),
        "hinge": float(step.max()),
        "zero": int(np.sum(np.abs(a) < 1e-6)),
        "zero of the process": int(np.sum(np.abs(fits["logistic"][:, 1]) < 1e-6)),
    }


def draw(path: str) -> None:
    """Save the three panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
    left.plot(MARGINS, Logistic().derivatives(1.0, MARGINS)[1], "k")
    left.set(title="1.1: curvature W", xlabel="t y", ylim=(0, None))
    for (name, loss), style in zip(likelihoods(1.0).items(), ("C0-", "C2-.", "C1--"), strict=True):
        middle.plot(MARGINS, loss.value(1.0, MARGINS), style, label=name)
    middle.plot(MARGINS, Hinge(1.0).value(1.0, MARGINS), "k:", label="hinge")
    middle.set(title="2.1: losses, C = 1", xlabel="t y")
    middle.legend(fontsize=8)
    fits = weights()
    right.plot(MARGINS, expit(-MARGINS), "C0", label="Gaussian process")
    right.plot([-4, 1, 1, 4], [1, 1, 0, 0], "C1--", label="support vectors")
    for (u, a), style in zip((f.T for f in fits.values()), ("C0.", "C1x"), strict=True):
        right.plot(u, a, style, ms=4)
    right.set(title="2.6: how much a row counts", xlabel="t y", xlim=(-4, 4))
    right.legend(fontsize=8)
    _picture.save(fig, path)


def page(found: dict[str, Any]) -> str:
    """The figures as a page of the documentation."""
    rows = [
        f"| {C} | {one['normalised hinge']:.0%} | {one['Laplace noise']:.0%} "
        f"| {one['Bernoulli']:.0%} | {one['distance']:.3f} |"
        for C, one in found["closest"].items()
    ]
    return PAGE.format_map(found | {"rows": "\n".join(rows)})


def main(arguments: list[str] | None = None) -> int:
    """Print the figures, store them, write the page and the picture."""
    return _store.publish((__doc__ or "").splitlines()[0], figures, page, draw, arguments)


if __name__ == "__main__":
    sys.exit(main())
