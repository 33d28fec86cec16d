"""GPML figure 6.1: the spline covariance beside the squared exponential, with draws.

The book's data are not published; twenty noisy observations of a smooth curve stand for them. What
the figure shows is printed as numbers, too:

- the predictive mean of the spline is a cubic between any two observations, and straight outside;
- draws from its posterior are not as smooth: their second differences shrink like h^(3/2) with the
  step h, those of a function with a second derivative like h^2, as for the squared exponential;
- all hyperparameters maximise the evidence, (2.45) for the spline with its straight lines.

    python papers/gpml_fig_6_1.py [--out fig_6_1.png] [--seed 1]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import _picture
import _store
import numpy as np

from mercer import GPRegressor, SmoothingSpline, ThinPlateSpline
from mercer.kernels import RBF, Spline

GRID = np.linspace(-5.0, 5.0, 401)[:, None]
PAGE = """\
# GPML figure 6.1: spline and squared exponential

The application of the spline covariance (6.28), with the straight lines as an unpenalised basis,
beside the squared exponential; hyperparameters by the evidence in both cases. The book does not
publish its data: twenty noisy observations of a smooth curve stand for them.

    python papers/gpml_fig_6_1.py --out docs/papers/gpml_fig_6_1.png --page <this page>

![spline and squared exponential, means, bands and draws](gpml_fig_6_1.png)

The script draws the two panels, means with 95 % bands and two draws each, and prints what the
figure is there to show:

| | spline | squared exponential |
|---|---|---|
| log evidence | {spline log evidence:.2f} (with a flat basis: not comparable) | {RBF log \
evidence:.2f} |
| noise, true 0.25 | {spline noise:.3f} | {RBF noise:.3f} |
| second differences of draws shrink with the step h like | h^{exponent, draws of the \
spline:.2f} | h^{exponent, draws of the RBF:.2f} |
| second differences of the mean | h^{exponent, mean of the spline:.2f} | |
| fourth differences of the mean between observations | {fourth difference of the mean:.0e} of \
its range | |

The mean of the spline is a cubic between observations and a straight line outside them. Draws from
its posterior are not as smooth: they are once differentiable, with second differences of order
h^(3/2), where those of the squared exponential are infinitely differentiable.

`SmoothingSpline` (an O(n) recursion), `ThinPlateSpline` of one column (contrasts) and `GPRegressor`
with the kernel (6.28) and a linear basis are three ways to the same posterior: their means agree to
{thin plate and dense, mean:.0e} and their deviations to {thin plate and dense, deviation:.0e}.
"""


def data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x (20, 1) on [-5, 5] and y (20,)."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-4.6, 4.6, 20))
    y = 1.2 * np.sin(1.1 * x) + 0.3 * x - 0.05 * x**2 + rng.normal(0, 0.25, 20)
    return x[:, None], y


def cubic_error(model: SmoothingSpline, x: np.ndarray) -> float:
    """Largest fourth difference of the mean within the gaps of x, relative to its size."""
    worst = 0.0
    for low, high in zip(x[:-1, 0], x[1:, 0], strict=True):
        inner = model.predict(np.linspace(low, high, 7)[:, None])
        worst = max(worst, float(np.abs(np.diff(inner, 4)).max()))
    return worst / float(np.ptp(model.predict(x)))


def exponent(draws: np.ndarray) -> float:
    """Return p with mean |second difference| ~ h^p, from steps h and 4 h; draws are columns."""
    sizes = [np.abs(draws[2 * j :] - 2 * draws[j:-j] + draws[: -2 * j]).mean() for j in (1, 4)]
    return float(np.log(sizes[1] / sizes[0]) / np.log(4.0))


def figures(seed: int) -> dict[str, float]:
    """Return what the figure shows, as numbers."""
    x, y = data(seed)
    spline, smooth = models(x, y)
    fine = np.linspace(-1.0, 1.0, 401)[:, None]
    plate = ThinPlateSpline(2).fit(x, y)
    kernel = spline.kernel_.variance * Spline(2, origin=float(x[0, 0]))
    dense = GPRegressor(kernel, basis="linear", loss=spline.loss_, search=None).fit(x, y)
    inside = GRID[(GRID[:, 0] >= x[0, 0]) & (GRID[:, 0] <= x[-1, 0])]
    mean, std = spline.predict_latent(inside)
    others = [plate.predict_latent(inside), dense.predict_latent(inside)]
    return {
        "spline log evidence": float(spline.log_evidence_),
        "spline noise": float(np.sqrt(spline.loss_.noise)),
        "RBF log evidence": float(smooth.log_evidence_),
        "RBF noise": float(np.sqrt(smooth.loss_.noise)),
        "RBF length scale": float(smooth.kernel_.kernel.length_scale),
        "fourth difference of the mean": cubic_error(spline, x),
        "exponent, mean of the spline": exponent(spline.predict(fine)[:, None]),
        "exponent, draws of the spline": exponent(spline.sample_y(fine, 200, 0)),
        "exponent, draws of the RBF": exponent(smooth.sample_y(fine, 200, 0)),
        "thin plate and dense, mean": max(np.abs(m - mean).max() for m, _ in others),
        "thin plate and dense, deviation": max(np.abs(s - std).max() for _, s in others),
    }


def models(x: np.ndarray, y: np.ndarray) -> tuple[SmoothingSpline, GPRegressor]:
    """Return the two models of the figure, hyperparameters by evidence."""
    return SmoothingSpline().fit(x, y), GPRegressor(1.0 * RBF(), random_state=0).fit(x, y)


def draw(seed: int, path: str) -> None:
    """Save the two panels."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = data(seed)
    fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
    titles = ("(a) spline covariance", "(b) squared exponential covariance")
    for ax, model, title in zip(axes, models(x, y), titles, strict=True):
        mean, std = model.predict_latent(GRID)
        ax.fill_between(GRID[:, 0], mean - 2 * std, mean + 2 * std, color="0.85")
        ax.plot(GRID[:, 0], mean, "k")
        for line, style in zip(model.sample_y(GRID, 2, 3).T, ("--", "-."), strict=True):
            ax.plot(GRID[:, 0], line, style, lw=0.8)
        ax.plot(x[:, 0], y, "k+")
        ax.set(title=title, xlabel="input, x", xlim=(-5, 5))
    axes[0].set_ylabel("output, y")
    fig.tight_layout()
    _picture.save(fig, path, 100)


def page(found: dict[str, float]) -> str:
    """The figures as a page of the documentation."""
    return PAGE.format_map(found)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", help="where to save the picture")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="where to store the figures")
    parser.add_argument("--page", help="write the page of the documentation")
    given = parser.parse_args(arguments)
    found = figures(given.seed)
    for name, value in found.items():
        print(f"{name:<34} {value:10.4g}")
    if given.json:
        _store.write(given.json, found)
    if given.page:
        Path(given.page).write_text(page(found), encoding="utf-8")
    if given.out:
        draw(given.seed, given.out)
        print(f"saved {given.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
