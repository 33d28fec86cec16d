"""Pictures of the guide: what the machine of a page does to a small table."""

from __future__ import annotations

import json
from collections import Counter
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes, make_moons

from mercer import (
    SVC,
    AdditiveRegressor,
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    KernelRegressor,
    LapSVC,
    MEDClassifier,
    OnlineLogisticClassifier,
    OnlineRegressor,
    RVRegressor,
    SmoothingSpline,
    to_onnx,
)
from mercer.core.device.accelerator import Accelerator
from mercer.kernels import RBF, Linear, Matern, OrnsteinUhlenbeck, Periodic, RationalQuadratic
from mercer.linalg import Inducing
from mercer.losses import Gaussian, Loss
from mercer.plots import (
    BandDisplay,
    CheckDisplay,
    CoverageDisplay,
    DecisionRegionDisplay,
    EvidenceDisplay,
    ObservedDisplay,
    ReliabilityDisplay,
    TermDisplay,
)
from mercer.search import LogNormal
from pictures.sheet import BLUE, GREEN, GREY, INK, ORANGE, PALE, band, paper, plane, waves


def additive() -> Any:
    """Three effects with their bands; the third is zero throughout."""
    figure, *axes = paper(3, sharey=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[:, 1] += 0.7 * X[:, 0]
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.3 * rng.normal(size=300)
    model = AdditiveRegressor(random_state=0).fit(X, y)
    for j, ax in enumerate(axes):
        TermDisplay.compute(model, j, X, y).plot(ax)
    return figure


def basis() -> Any:
    """Far from the data the trend goes on with a basis, and returns to zero without."""
    figure, ax = paper()
    x = np.linspace(0, 10, 40)[:, None]
    y = 5 + 2 * x[:, 0] + np.sin(x[:, 0])
    far = np.linspace(0, 30, 200)
    for given, color, name in ((None, BLUE, "no basis"), ("linear", ORANGE, 'basis="linear"')):
        model = GPRegressor(1.0 * RBF(), basis=given, random_state=0).fit(x, y)
        band(ax, far, *model.predict_latent(far[:, None]), label=name, color=color)
    ax.plot(x[:, 0], y, ".", color=INK, ms=4)
    ax.set(xlabel="x", ylim=(-40, 110))
    ax.legend()
    return figure


def bayesian_classification() -> Any:
    """Regions of two classes: the colour fades where there are no rows."""
    figure, left, right = paper(2, height=3.3)
    X, y = make_moons(60, noise=0.2, random_state=0)
    for ax, model in ((left, GPClassifier(random_state=0)), (right, KernelClassifier(C=10.0))):
        DecisionRegionDisplay.from_estimator(model.fit(X, y), X, y, margin=0.8, grid=80, ax=ax)
        name = "averaged over" if ax is left else "one best function"
        ax.set_title(f"{type(model).__name__}: {name}")
    return figure


def beyond_one_machine() -> Any:
    """Length scale and noise that samples of 25 to 400 rows find: they come together."""
    figure, left, right = paper(2)
    X, y = waves(2000, 0.3)
    rng = np.random.default_rng(0)
    for n in (25, 50, 100, 200, 400):
        for _ in range(4):
            rows = rng.choice(2000, n, replace=False)
            model = GPRegressor(1.0 * RBF(), random_state=0).fit(X[rows], y[rows])
            left.semilogx(n, model.kernel_.kernel.length_scale, "o", color=BLUE, ms=4)
            right.semilogx(n, np.sqrt(model.loss_.noise), "o", color=BLUE, ms=4)
    for ax in (left, right):
        ax.set_xticks([25, 50, 100, 200, 400], ["25", "50", "100", "200", "400"])
        ax.minorticks_off()
    right.axhline(0.3, color=ORANGE, label="true")
    left.set(xlabel="rows of the sample", ylabel="length scale", ylim=(0, None))
    right.set(xlabel="rows of the sample", ylabel="standard deviation of the noise", ylim=(0, 0.5))
    right.legend()
    return figure


def classification() -> Any:
    """The same rows: margins of a support vector machine, probabilities of a logistic one."""
    figure, left, right = paper(2, height=3.3)
    X, y = plane(100)
    machine = SVC(C=5.0).fit(X, y)
    for ax, model in ((left, machine), (right, KernelClassifier(C=5.0).fit(X, y))):
        DecisionRegionDisplay.from_estimator(model, X, y, grid=80, ax=ax)
        ax.set_title(type(model).__name__)
    left.plot(*X[machine.support_].T, "o", mfc="none", mec=INK, ms=9, mew=0.8)
    return figure


def cluster_size() -> Any:
    """Seconds of a pass over 1e9 rows: twice the machines halve it, until the scheduler limits."""
    figure, ax = paper()
    stored = Path(__file__).parents[1] / "benchmarks" / "sizing.json"
    rows = json.loads(stored.read_text(encoding="utf-8"))["rows"]
    machines, blocks = np.geomspace(1, 512, 100), 1e9 / 65536
    dask = next(row["value"] for row in rows if row["who"].startswith("Dask")) / 1000
    for m, color, line in ((250, BLUE, "-."), (500, ORANGE, "-"), (1000, GREEN, "--")):
        what = f"a block of 65536 rows, 8 columns, m = {m}"
        t = next(row["value"] for row in rows if (row["what"], row["who"]) == (what, "value"))
        seconds = np.maximum(blocks * t / (16 * machines), blocks * dask)
        ax.loglog(machines, seconds, color=color, ls=line, lw=1.8, label=f"{m} points")
    ax.axhline(blocks * dask, color=GREY, lw=0.8, label=f"scheduler, {1000 * dask:.1f} ms a block")
    ax.set(xlabel="machines of 16 cores", ylabel="seconds of a pass, 1e9 rows")
    ax.legend()
    return figure


def command_line() -> Any:
    """Diabetes: what was observed against what the others predict of each row, with deviations."""
    figure, ax = paper(height=3.6)
    X, y = load_diabetes(return_X_y=True)
    model = GPRegressor(random_state=0).fit(X[:200], y[:200])
    ObservedDisplay.from_loo(model, y[:200], ax=ax)
    return figure


def diagnostics() -> Any:
    """Four pictures of a check: a straight line on a sine leaves residuals that follow x."""
    figure, ax = paper(height=5.4)
    figure.set_figwidth(8.2)
    X, y = waves(80, 0.2)
    y = y + 0.5 * X[:, 0]
    CheckDisplay.from_estimator(GPRegressor(1.0 * Linear() + 1.0).fit(X, y), X, y, ax=ax)
    return figure


def discrimination() -> Any:
    """Accuracy on new rows as batches come: the posterior of each is the prior of the next."""
    figure, ax = paper()
    test = plane(1000, seed=99)
    for schedule, color, line in (("sqrt", ORANGE, "-"), ("constant", BLUE, "--")):
        model, right = MEDClassifier(kernel=RBF(1.0), schedule=schedule), []
        for t in range(15):
            model.partial_fit(*plane(20, seed=t), classes=["above", "below"])
            right.append(model.score(*test))
        rows = 20 * np.arange(1, 16)
        ax.plot(rows, right, color=color, ls=line, marker="o", ms=3, label=f'schedule="{schedule}"')
    ax.set(xlabel="rows learned", ylabel="accuracy on 1000 new rows")
    ax.legend()
    return figure


def experimental_design() -> Any:
    """Where to observe next: for knowledge in the gaps, for the minimum near the lowest values."""
    figure, ax = paper(height=3.2)
    X, y = waves(9, 0.05, seed=5)
    model = GPRegressor(1.0 * RBF(1.0), loss=Gaussian(0.0025), search=None).fit(X, y)
    x = np.linspace(0, 10, 200)
    band(ax, x, *model.predict_latent(x[:, None]))
    ax.plot(X[:, 0], y, "o", color=INK, ms=4, label="observed")
    for by, color, marker in (("information", BLUE, "s"), ("improvement", GREEN, "v")):
        found = x[model.propose(x[:, None], 3, by=by).indices]
        ax.plot(found, model.predict(found[:, None]), marker, color=color, ms=7, label=f'by="{by}"')
    ax.set(xlabel="x", ylim=(-3, 3))
    ax.legend(ncols=3, loc="upper center")
    return figure


def from_sklearn_svc() -> Any:
    """Probabilities from left-out margins against shares of the class among 2000 new rows."""
    figure, ax = paper(height=3.4)
    model = SVC(C=5.0, probability="loo").fit(*plane(200, noise=0.6))
    ReliabilityDisplay.from_estimator(model, *plane(2000, seed=1, noise=0.6), ax=ax)
    return figure


def gpu() -> Any:
    """GiB of a device by rows: two arrays for Gaussian noise, four for labels; cards as lines."""
    figure, ax = paper()
    n = np.linspace(1000, 100_000, 200)
    for arrays, color, line, name in (
        (2, BLUE, "-", "Gaussian noise"),
        (4, ORANGE, "--", "EP, Laplace, variational"),
    ):
        ax.plot(
            n, [Accelerator._need(int(k), arrays) / 2**30 for k in n], line, color=color, label=name
        )
    for size in (16, 24, 80, 139):
        ax.axhline(size, color=GREY, lw=0.8)
        ax.annotate(f"{size} GiB", (1000, size), va="bottom", fontsize=8)
    ax.set(xlabel="distinct rows", ylabel="GiB on the device", ylim=(0, 170))
    ax.legend(loc="lower right")
    return figure


def hyperparameters() -> Any:
    """Log evidence along the length scale, from twelve rows; the bands with and without a prior."""
    figure, left, right = paper(2)
    X, y = waves(12, 0.4, seed=4)
    free = GPRegressor(1.0 * RBF(), random_state=0).fit(X, y)
    EvidenceDisplay.from_estimator(free, X, y, "kernel__kernel__length_scale", ax=left)
    prior = RBF().prior(length_scale=LogNormal(np.log(0.5), 0.1))
    held = GPRegressor(1.0 * prior, random_state=0).fit(X, y)
    x = np.linspace(-1, 11, 200)
    for model, color, name in ((free, BLUE, "no prior"), (held, ORANGE, "LogNormal(log 0.5, 0.1)")):
        scale = model.kernel_.kernel.length_scale
        band(right, x, *model.predict_latent(x[:, None]), f"{name}: {scale:.2g}", color)
    right.plot(X[:, 0], y, "o", color=INK, ms=4)
    right.set(xlabel="x", ylim=(-3, 4))
    right.legend()
    return figure


def kernels() -> Any:
    """Three functions drawn from each of six kernels."""
    figure, *axes = paper(3, rows=2, height=1.8, sharex=True)
    several = {
        "RBF": RBF(1.0),
        "Matern, nu = 3/2": Matern(nu=1.5),
        "OrnsteinUhlenbeck": OrnsteinUhlenbeck(),
        "RationalQuadratic": RationalQuadratic(alpha=0.3),
        "Periodic": Periodic(period=3.0),
        "RBF * Linear": 0.1 * (RBF(1.0) * Linear()),
    }
    x = np.linspace(0, 10, 250)[:, None]
    for ax, (name, kernel) in zip(axes, several.items(), strict=True):
        values, vectors = np.linalg.eigh(kernel(x))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = root @ np.random.default_rng(1).standard_normal((250, 3))
        for draw, color in zip(draws.T, (BLUE, ORANGE, GREEN), strict=True):
            ax.plot(x[:, 0], draw, color=color, lw=1.1)
        ax.set_title(name)
    return figure


def large_tables() -> Any:
    """Twelve inducing points, where they come to lie, and the band beside that of all 600 rows."""
    figure, ax = paper()
    X, y = waves(600, 0.3)
    x = np.linspace(0, 10, 200)
    exact = GPRegressor(1.0 * RBF(1.5), loss=Gaussian(0.09), search=None).fit(X, y)
    few = GPRegressor(
        exact.kernel_, loss=exact.loss_, gram=Inducing(m=12), search=None, random_state=0
    ).fit(X, y)
    ax.plot(X[:, 0], y, ".", color=GREY, ms=2)
    band(ax, x, *few.predict_latent(x[:, None]), label=f"12 points: {few.log_evidence_:.1f} nats")
    mean, std = exact.predict_latent(x[:, None])
    ax.plot(x, mean - 2 * std, ":", color=BLUE, lw=1.2)
    ax.plot(x, mean + 2 * std, ":", color=BLUE, lw=1.2, label=f"exact: {exact.log_evidence_:.1f}")
    ax.plot(few.posteriors_[0].points[:, 0], np.full(12, -1.9), "^", color=INK, ms=5)
    ax.set(xlabel="x (triangles: inducing points)", ylim=(-2, 2))
    ax.legend()
    return figure


def onnx() -> Any:
    """The operators of an exported classifier and how often each occurs: matrices, no loops."""
    figure, ax = paper()
    X, y = plane(80)
    graph = to_onnx(GPClassifier(random_state=0).fit(X, y)).graph
    counts = Counter(node.op_type for node in graph.node).most_common(15)
    ax.barh([name for name, _ in counts][::-1], [n for _, n in counts][::-1], color=BLUE)
    ax.tick_params(axis="y", labelsize=7)
    ax.set(xlabel=f"nodes of the graph ({len(graph.node)} in all)")
    return figure


def own_loss() -> Any:
    """Where too much costs nine times as much as too little, the curve keeps to the lower rows."""
    figure, ax = paper()

    class Asymmetric(Loss):
        """(y - f)^2 / 2, times ``over`` where f is above y."""

        def __init__(self, over: float = 3.0, scale: float = 1.0) -> None:
            self.over, self.scale = over, scale

        def value(self, y: Any, f: Any) -> Any:
            r = np.asarray(f) - y
            return np.where(r > 0, self.over, 1.0) * r**2 / (2 * self.scale)

    rng = np.random.default_rng(0)
    X = np.linspace(0, 10, 120)[:, None]
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(120)
    x = np.linspace(0, 10, 200)
    ax.plot(X[:, 0], y, ".", color=GREY, ms=4)
    for over, color in ((1.0, BLUE), (9.0, ORANGE)):
        model = KernelRegressor(RBF(), loss=Asymmetric(over, 0.1), search=None).fit(X, y)
        f = model.predict_latent(x[:, None])[0]
        ax.plot(x, f, color=color, lw=1.8, label=f"over = {over:g}")
    ax.set(xlabel="x")
    ax.legend()
    return figure


def partly_labelled() -> Any:
    """Two rings with four labels: without the graph a wrong line, with it the rings."""
    figure, *axes = paper(2, height=3.4)
    rng = np.random.default_rng(0)
    side, angle = np.arange(200) % 2, rng.uniform(0, 2 * np.pi, 200)
    radius = np.where(side == 0, 1.0, 2.0) + 0.05 * rng.normal(size=200)
    X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    y = np.where(np.arange(200) < 4, np.array(["inner", "outer"])[side], None)
    for ax, beta in zip(axes, (0.0, 100.0), strict=True):
        model = LapSVC(beta=beta, kernel=RBF(0.5), n_neighbors=6).fit(X, y)
        DecisionRegionDisplay.from_estimator(model, X, grid=80, margin=0.15, ax=ax)
        ax.plot(*X[4:].T, ".", color=GREY, ms=3)
        for row, label in zip(X[:4], y[:4], strict=True):
            ax.plot(*row, "o" if label == "inner" else "s", color=INK, ms=7)
        ax.set(title=f"beta = {beta:g}", aspect="equal")
    return figure


def regression() -> Any:
    """Outliers pull the band of Gaussian noise apart; Student's t noise leaves them out."""
    figure, *axes = paper(2, sharey=True)
    X, y = waves(60, 0.1)
    y[::9] += np.random.default_rng(1).choice([-3.0, 3.0], len(y[::9]))
    x = np.linspace(0, 10, 200)
    for ax, loss in zip(axes, ("gaussian", "student_t"), strict=True):
        model = GPRegressor(loss=loss, random_state=0).fit(X, y)
        ax.fill_between(x, *model.predict_interval(x[:, None], 0.9), color=PALE, lw=0)
        ax.plot(x, model.predict(x[:, None]), color=ORANGE, lw=2)
        ax.plot(X[:, 0], y, "o", color=BLUE, ms=3)
        ax.set_xlabel("x")
        ax.set_title(f'loss="{loss}"')
    return figure


def relevance_vectors() -> Any:
    """A curve that few of its 100 rows carry: the circles."""
    figure, ax = paper()
    X, y = waves(100, 0.2)
    model = RVRegressor(RBF(1.5)).fit(X, y)
    x = np.linspace(0, 10, 200)
    band(ax, x, *model.predict(x[:, None], return_std=True))
    ax.plot(X[:, 0], y, ".", color=BLUE, ms=4)
    kept = model.relevance_vectors_
    at = [int(np.abs(X[:, 0] - v).argmin()) for v in np.ravel(kept)]
    ax.plot(X[at, 0], y[at], "o", mfc="none", mec=INK, ms=10, mew=1.2)
    ax.set(xlabel="x", title=f"{len(at)} of 100 rows")
    return figure


def report() -> Any:
    """Two displays of a report: promised against kept coverage, and the band along a column."""
    figure, left, right = paper(2, height=3.3)
    X, y = load_diabetes(return_X_y=True)
    model = GPRegressor(random_state=0).fit(X[:200], y[:200])
    CoverageDisplay.from_loo(model, y[:200], ax=left)
    BandDisplay.from_estimator(model, X[:200], column=2, name="bmi", target="disease", ax=right)
    return figure


def splines() -> Any:
    """A smoothing spline with its band, and its derivative with the band of that."""
    figure, left, right = paper(2)
    X, y = waves(80, 0.3)
    model = SmoothingSpline().fit(X, y)
    x = np.linspace(0, 10, 200)
    band(left, x, *model.predict_latent(x[:, None]))
    left.plot(X[:, 0], y, ".", color=BLUE, ms=4)
    left.set(title="the curve", xlabel="x")
    band(right, x, *model.derivative(x[:, None], return_std=True), label="derivative")
    right.plot(x, np.cos(x), color=GREY, lw=1, ls="--", label="true")
    right.set(title="its slope", xlabel="x")
    right.legend()
    return figure


def streams() -> Any:
    """Log loss of each batch before it is learned; the labels turn round, and two recover."""
    figure, ax = paper()
    settings: dict[str, dict[str, Any]] = {
        "keep": {},
        "rho = 0.8": {"rho": 0.8},
        'drift = "auto"': {"drift": "auto"},
    }
    for (name, given), color, line in zip(
        settings.items(), (BLUE, GREEN, ORANGE), ("-.", "--", "-"), strict=True
    ):
        learner, losses = OnlineLogisticClassifier(RBF(1.5), budget=60, **given), []
        rng = np.random.default_rng(0)
        for t in range(30):
            X = rng.normal(size=(30, 2))
            y = (X[:, 0] > 0) ^ (t >= 15)
            if t:
                p = learner.predict_proba(X)[np.arange(30), y.astype(int)]
                losses.append(-np.log(p).mean())
            learner.partial_fit(X, y)
        ax.plot(np.arange(1, 30), losses, color=color, ls=line, lw=1.8, label=name)
    ax.axvline(15, color=GREY, lw=0.8)
    ax.set(xlabel="batch", ylabel="log loss before learning")
    ax.legend()
    return figure


def service() -> Any:
    """A learner that is rolled back to its checkpoint after bad batches goes on as before them."""
    figure, ax = paper()
    rng = np.random.default_rng(0)
    test = rng.uniform(0, 10, (200, 1))
    learner, kept, errors = OnlineRegressor(RBF(1.0), noise=0.04, search=None), None, []
    for t in range(24):
        X = rng.uniform(0, 10, (20, 1))
        bad = 10 <= t < 14
        kept = deepcopy(learner) if t == 10 else kept
        learner = kept if t == 14 else learner
        learner.partial_fit(X, np.sin(X[:, 0]) + (3.0 if bad else 0.2 * rng.normal(size=20)))
        errors.append(np.sqrt(np.mean((learner.predict(test) - np.sin(test[:, 0])) ** 2)))
    ax.semilogy(np.arange(24), errors, "o-", color=ORANGE, ms=4)
    ax.axvspan(9.5, 13.5, color=PALE, lw=0, label="a broken sensor")
    ax.axvline(13.5, color=BLUE, label="rolled back")
    ax.set(xlabel="batch", ylabel="error on new rows")
    ax.legend()
    return figure


def tables() -> Any:
    """Mean log density of rows left out, with its error, of three machines for one table."""
    figure, ax = paper(height=2.2)
    X, y = load_diabetes(return_X_y=True)
    X, y = X[:150], y[:150]
    machines = {
        "straight lines": GPRegressor("linear", basis="constant"),
        "additive": AdditiveRegressor(random_state=0),
        "Gaussian process": GPRegressor(random_state=0),
    }
    for i, machine in enumerate(machines.values()):
        each = np.ravel(machine.fit(X, y).left_out_.log_density)
        ax.errorbar(each.mean(), i, xerr=each.std() / np.sqrt(150), fmt="o", color=BLUE, capsize=3)
    baseline = -0.5 * np.log(2 * np.pi * y.var()) - 0.5
    ax.axvline(baseline, color=GREY, ls="--", label="the mean alone")
    ax.set_yticks(range(len(machines)), list(machines))
    ax.set(xlabel="log density of a row left out, nats (right is better)", ylim=(-0.6, 2.6))
    ax.legend()
    return figure


def weights_and_outputs() -> Any:
    """A band that widens with the noise, which is a second function of x."""
    figure, *axes = paper(2, sharey=True)
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, size=(150, 1))
    y = np.sin(X[:, 0]) + (0.02 + 0.08 * X[:, 0]) * rng.normal(size=150)
    for ax, loss in zip(axes, ("gaussian", "heteroscedastic"), strict=True):
        model = GPRegressor(loss=loss, random_state=0).fit(X, y)
        BandDisplay.from_estimator(model, X, y, target="y", ax=ax)
        ax.set_title(f'loss="{loss}"')
    return figure
