"""Pictures of the theory: what an equation says, computed by the code that implements it."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, eigvalsh
from scipy.special import ndtr

from mercer import (
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    LeastSquaresClassifier,
    OnlineLogisticClassifier,
    RVRegressor,
    SmoothingSpline,
)
from mercer.inference import MCMC
from mercer.kernels import RBF, Constant, Matern
from mercer.linalg import Inducing
from mercer.losses import Gaussian, Hinge, Logistic, Margin, NormalizedHinge, hinge_normaliser
from mercer.search import HMC
from pictures.sheet import BLUE, GREEN, GREY, INK, ORANGE, band, paper, plane, waves


def approximate_inference() -> Any:
    """The exact posterior of one latent value, which is skewed, and four Gaussians in its place."""
    figure, ax = paper()
    f, variance = np.linspace(-5, 14, 600), 16.0
    exact = ndtr(f) * np.exp(-0.5 * f**2 / variance)
    exact /= exact.sum() * (f[1] - f[0])
    ax.fill_between(f, exact, color=GREY, alpha=0.25, lw=0, label="exact")
    X, y = np.array([[0.0], [1e3]]), [1, 0]  # too far apart to know of each other
    styles = {"ep": (ORANGE, "-"), "variational": (GREEN, "--"), "laplace": (BLUE, "-.")}
    for inference, (color, line) in styles.items():
        model = GPClassifier(variance * RBF(), loss="probit", inference=inference, search=None)
        mean, std = (v[0] for v in model.fit(X, y).predict_latent(X[:1]))
        q = np.exp(-0.5 * ((f - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
        ax.plot(f, q, color=color, ls=line, lw=1.8, label=inference)
    ax.set(xlabel="latent value f", ylabel="density", ylim=(0, None))
    ax.legend()
    return figure


def committees() -> Any:
    """Bands about eight rows: of the best parameters, and of a committee of draws, much wider."""
    figure, left, right = paper(2)
    X, y = waves(8, 0.3, seed=2)
    best = GPRegressor(1.0 * RBF(1.0), random_state=0).fit(X, y)
    search = HMC(samples=40, warmup=40, chains=2, keep=24)
    drawn = GPRegressor(1.0 * RBF(1.0), search=search, random_state=0).fit(X, y)
    x = np.linspace(-1, 11, 150)
    for ax, model, name in (
        (left, best, "best parameters"),
        (right, drawn, "a committee of draws"),
    ):
        band(ax, x, *model.predict(x[:, None], return_std=True))
        ax.plot(X[:, 0], y, "o", color=BLUE, ms=4)
        ax.set(title=name, xlabel="x", ylim=(-3.2, 3.2))
    return figure


def design() -> Any:
    """Information at each place before and after the first pick: none is left beside it."""
    figure, ax = paper()
    X, y = waves(7, 0.1, seed=3)
    model = GPRegressor(1.0 * RBF(1.0), loss=Gaussian(0.01), search=None).fit(X, y)
    x = np.linspace(0, 10, 200)[:, None]
    picks = model.propose(x, 3, by="information").indices
    noise = model.loss_.noise
    colors = (BLUE, GREEN, ORANGE)
    now = model
    for t, (pick, color) in enumerate(zip(picks, colors, strict=True)):
        gain = 0.5 * np.log1p(now.predict_latent(x)[1] ** 2 / noise)
        ax.plot(x[:, 0], gain, color=color, label=f"before pick {t + 1}", lw=1.6)
        ax.plot(x[pick, 0], gain[pick], "o", color=color, ms=6)
        now = now.condition(x[[pick]], now.predict(x[[pick]]))
    ax.plot(X[:, 0], np.zeros(len(X)), "|", color=INK, ms=10)
    ax.set(xlabel="x (ticks: observed)", ylabel="information, nats")
    ax.legend()
    return figure


def discrimination() -> Any:
    """The loss of maximum entropy discrimination comes to the hinge as C grows."""
    figure, ax = paper()
    margin = np.linspace(-0.5, 1.6, 400)
    for C, color, line in ((2.0, BLUE, "-."), (5.0, GREEN, "--"), (50.0, ORANGE, "-")):
        loss = Margin(C).value(1.0, margin)
        ax.plot(margin, loss / C, color=color, ls=line, lw=1.8, label=f"C = {C:g}")
    ax.plot(margin, Hinge(1.0).value(1.0, margin), color=GREY, lw=1.2, label="hinge")
    ax.set(xlabel="margin y f", ylabel="loss / C")
    ax.legend()
    return figure


def draws() -> Any:
    """Draws of one latent value by MCMC beside the Gaussian of Laplace: longer to the right."""
    figure, ax = paper()
    X = np.linspace(0, 4, 12)[:, None]
    y = np.sin(2 * X[:, 0]) > 0
    kernel = 25.0 * RBF(0.6)
    method = MCMC(samples=150, warmup=60, keep=600)
    sampled = GPClassifier(kernel, loss="probit", inference=method, search=None).fit(X, y)
    f = np.array([draw.mean(X[[2]])[0, 0] for draw in sampled.posteriors_])
    ax.hist(f, 30, density=True, color=GREY, alpha=0.4, label="draws")
    laplace = GPClassifier(kernel, loss="probit", inference="laplace", search=None).fit(X, y)
    mean, std = (v[0] for v in laplace.predict_latent(X[[2]]))
    at = np.linspace(-3, f.max(), 300)
    q = np.exp(-0.5 * ((at - mean) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    ax.plot(at, q, color=BLUE, lw=1.8, label="Laplace")
    ax.set(xlabel="latent value f", ylabel="density")
    ax.legend()
    return figure


def gaussian_processes() -> Any:
    """The log evidence along the length scale, and the two terms of which it is the sum."""
    figure, left, right = paper(2)
    X, y = waves(20, 0.2)
    scales = np.geomspace(0.1, 10, 60)
    fit, size = np.empty(60), np.empty(60)
    for i, scale in enumerate(scales):
        factor = cho_factor(RBF(scale)(X) + 0.04 * np.eye(20), lower=True)
        fit[i] = -0.5 * y @ cho_solve(factor, y)
        size[i] = -np.log(np.diag(factor[0])).sum()
    total = fit + size - 10 * np.log(2 * np.pi)
    left.plot(scales, fit, color=BLUE, ls="--", label="fit, -1/2 y'alpha")
    left.plot(scales, size, color=GREEN, ls="-.", label="-1/2 log |K_y|")
    left.plot(scales, total, color=ORANGE, lw=2, label="evidence (G5)")
    left.axvline(scales[total.argmax()], color=GREY, lw=0.8)
    left.set(xscale="log", xlabel="length scale", ylabel="nats", ylim=(-60, 45))
    left.legend()
    model = GPRegressor(1.0 * RBF(scales[total.argmax()]), loss=Gaussian(0.04), search=None)
    x = np.linspace(-1, 12, 200)
    band(right, x, *model.fit(X, y).predict_latent(x[:, None]))
    right.plot(x, model.sample_y(x[:, None], 3, random_state=0), color=GREY, lw=0.6)
    right.plot(X[:, 0], y, "o", color=BLUE, ms=4)
    right.set(xlabel="x", title="at the best length scale")
    return figure


def kernel_classifiers() -> Any:
    """Margins of rows left out: the estimate lies on the truth, the bound below it."""
    figure, ax = paper(height=3.4)
    X, y = plane(40)
    kernel = RBF(1.0) + Constant()
    machine = KernelClassifier(kernel, C=5.0, basis=None).fit(X, y)
    sign = np.where(y == machine.classes_[1], 1.0, -1.0)
    truth = np.empty(40)
    for i in range(40):
        rest = np.arange(40) != i
        left_out = KernelClassifier(kernel, C=5.0, basis=None).fit(X[rest], y[rest])
        truth[i] = sign[i] * left_out.decision_function(X[[i]])[0]
    found = machine.left_out_
    ax.plot(truth, truth, color=GREY, lw=0.8)
    ax.plot(truth, found.margin[:, 0], "o", color=ORANGE, ms=4, label="estimate (K9)")
    ax.plot(truth, found.bound[:, 0], "^", color=BLUE, ms=4, label="bound (K7)")
    ax.set(xlabel="margin when the row is left out, by forty fits", ylabel="from one fit")
    ax.legend()
    return figure


def kernels() -> Any:
    """Eigenvalues of three kernels on a grid: a straight line for Matern, a cliff for RBF."""
    figure, ax = paper()
    x = np.linspace(0, 1, 200)[:, None]
    several = {
        "Matern 1/2": (Matern(nu=0.5, length_scale=0.3), BLUE, "-."),
        "Matern 3/2": (Matern(nu=1.5, length_scale=0.3), GREEN, "--"),
        "RBF": (RBF(0.3), ORANGE, "-"),
    }
    for name, (kernel, color, line) in several.items():
        values = eigvalsh(kernel(x))[::-1][:60] / 200
        keep = values > 1e-14
        ax.loglog(np.arange(1, 61)[keep], values[keep], color=color, ls=line, lw=1.8, label=name)
    ax.set(xlabel="i", ylabel="eigenvalue lambda_i (F1)", ylim=(1e-12, 2))
    ax.legend()
    return figure


def large_tables() -> Any:
    """The bound on the log evidence climbs to the exact one as there are more inducing points."""
    figure, ax = paper()
    X, y = waves(400, 0.2)
    kernel, loss = 1.0 * RBF(0.7), Gaussian(0.04)
    exact = GPRegressor(kernel, loss=loss, search=None).fit(X, y).log_evidence_
    counts = np.array([4, 6, 8, 10, 12, 16, 20, 25, 30, 40])
    for rule, color, marker in (("uniform", BLUE, "s"), ("kmeans", ORANGE, "o")):
        bounds = []
        for m in counts:
            gram = Inducing(m=int(m), choose=rule, move=False)
            model = GPRegressor(kernel, loss=loss, gram=gram, search=None, random_state=0)
            bounds.append(exact - model.fit(X, y).log_evidence_)
        ax.semilogy(counts, np.maximum(bounds, 1e-9), f"{marker}-", color=color, ms=4, label=rule)
    ax.axhline(0.01 * 400, color=GREY, lw=0.8, ls="--", label="0.01 nat a row")
    ax.set(xlabel="inducing points", ylabel="nats below the exact evidence")
    ax.legend(title="points by")
    return figure


def least_squares() -> Any:
    """Squared error of rows left out along lam, all of it from one decomposition."""
    figure, ax = paper()
    X, y = plane(80)
    lams = np.geomspace(1e-3, 1e2, 40)
    for width, color, line in ((0.3, BLUE, "-."), (1.0, ORANGE, "-"), (3.0, GREEN, "--")):
        sign = np.where(y == "above", 1.0, -1.0)
        d, U = np.linalg.eigh(RBF(width)(X))
        errors = []
        for lam in lams:
            alpha, C = U @ ((U.T @ sign) / (d + lam)), (U**2) @ (1 / (d + lam))
            errors.append(np.mean((alpha / C) ** 2))
        ax.semilogx(lams, errors, color=color, ls=line, lw=1.8, label=f"width {width:g}")
    model = LeastSquaresClassifier(RBF(1.0), basis=None, lams=lams).fit(X, y)
    ax.axvline(model.lam_, color=GREY, lw=0.8, label="chosen by the machine, width 1")
    ax.set(xlabel="lam", ylabel="mean squared error, left out (Q3)", ylim=(0.2, 1.2))
    ax.legend()
    return figure


def relevance_vectors() -> Any:
    """Evidence along one precision, with a maximum or without; and bands that are healed."""
    figure, left, right = paper(2)
    alpha, s = np.geomspace(1e-2, 1e4, 300), 10.0
    for r, color, line in ((4.0, ORANGE, "-"), (1.5, GREEN, "--"), (0.5, BLUE, "-.")):
        gain = 0.5 * (np.log(alpha) - np.log(alpha + s) + r * s / (alpha + s))
        left.semilogx(alpha, gain, color=color, ls=line, lw=1.8, label=f"q^2 / s = {r:g}")
    left.axhline(0.0, color=GREY, lw=0.8)
    left.set(xlabel="precision alpha", ylabel="gain (R6), nats", ylim=(-1.5, 1.2))
    left.legend()
    X, y = waves(40, 0.2)
    x = np.linspace(-4, 14, 200)
    for heal, color, name in ((False, BLUE, "as it is"), (True, ORANGE, "healed (R10)")):
        model = RVRegressor(RBF(1.2), heal=heal).fit(X, y)
        mean, std = model.predict(x[:, None], return_std=True)
        right.plot(x, mean - 2 * std, color=color, lw=1.4, label=name)
        right.plot(x, mean + 2 * std, color=color, lw=1.4)
    right.plot(X[:, 0], y, "o", color=GREY, ms=3)
    right.set(xlabel="x", title="two deviations")
    right.legend(loc="upper left")
    return figure


def splines() -> Any:
    """One smoothing spline for a small, a learned and an infinite lam."""
    figure, ax = paper()
    X, y = waves(40, 0.35)
    x = np.linspace(-1, 12, 300)
    for lam, color, line in ((1e-4, BLUE, ":"), (None, ORANGE, "-"), (np.inf, GREEN, "--")):
        model = SmoothingSpline(lam=lam).fit(X, y)
        name = f"lam = {model.lam_:.2g}, edf {model.edf_:.1f}" + (
            " (learned)" if lam is None else ""
        )
        ax.plot(x, model.predict(x[:, None]), color=color, ls=line, lw=1.8, label=name)
    ax.plot(X[:, 0], y, "o", color=GREY, ms=3)
    ax.set(xlabel="x", ylim=(-2.6, 2.6))
    ax.legend()
    return figure


def streams() -> Any:
    """What a stream knows after 200 examples, in nats below the bound of all of them together."""
    figure, ax = paper()
    X, y = plane(200, noise=0.6)
    rows = np.arange(10, 201, 10)
    for seed, color in enumerate((BLUE, GREEN, ORANGE)):
        order = np.random.default_rng(seed).permutation(200)
        learner, lost = OnlineLogisticClassifier(4.0 * RBF(1.0)), []
        for t, part in enumerate(np.split(order, 20)):
            learner.partial_fit(X[part], y[part], classes=["above", "below"])
            seen = order[: 10 * (t + 1)]
            both = len(set(y[seen])) > 1
            whole = OnlineLogisticClassifier(4.0 * RBF(1.0)).fit(X[seen], y[seen]) if both else None
            lost.append(np.nan if whole is None else whole.log_evidence_ - learner.log_evidence_)
        ax.plot(rows, lost, color=color, lw=1.6, label=f"order {seed + 1}")
    ax.set(xlabel="examples", ylabel="nats lost to the order", ylim=(0, None))
    ax.legend()
    return figure


def support_vectors() -> Any:
    """The mass that the hinge gives both labels, below one nearly everywhere; and normalised."""
    figure, left, right = paper(2)
    f = np.linspace(-3, 3, 400)
    for C, color, line in ((0.25, BLUE, "-."), (1.0, ORANGE, "-"), (4.0, GREEN, "--")):
        left.plot(f, hinge_normaliser(f, C), color=color, ls=line, lw=1.8, label=f"C = {C:g}")
    left.set(xlabel="f", title="mass of both labels", ylim=(0, 1.05))
    left.legend()
    right.plot(f, Hinge(1.0).value(1.0, f), color=ORANGE, lw=1.8, label="hinge, C = 1")
    right.plot(f, NormalizedHinge(1.0).value(1.0, f), color=BLUE, ls="--", label="normalised")
    right.plot(f, Logistic().value(1.0, f), color=GREY, lw=1.2, label="logistic")
    right.set(xlabel="margin y f", title="loss")
    right.legend()
    return figure
