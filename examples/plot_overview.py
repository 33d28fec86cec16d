"""
Three machines from the same parts
==================================

A Gaussian process says how little it knows between the observations; a Bayesian classifier says
where the classes overlap and where nothing was seen; a machine for partly labelled rows follows
the rows that have no label. The picture of the README is this one:
``python examples/plot_overview.py overview.png``.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import GPClassifier, GPRegressor, LapSVC
from mercer.kernels import RBF

rng = np.random.default_rng(3)
fig, axes = plt.subplots(1, 3, figsize=(11, 3.3), layout="constrained")
blue, orange, grey = "#30638e", "#d1495b", "#8d99ae"
# sphinx_gallery_defer_figures

# %%
# **Regression.** Forty observations with a gap; 90 % intervals of a new observation.

x = np.sort(np.r_[rng.uniform(0, 3.5, 26), rng.uniform(6, 9, 14)])
y = np.sin(1.4 * x) + 0.2 * x + 0.15 * rng.normal(size=40)
model = GPRegressor(random_state=0).fit(x[:, None], y)
grid = np.linspace(-0.5, 9.5, 200)[:, None]
low, high = model.predict_interval(grid, coverage=0.9)
axes[0].fill_between(grid[:, 0], low, high, color=blue, alpha=0.2, lw=0, label="90 % interval")
axes[0].plot(grid[:, 0], model.predict(grid), color=blue, label="mean")
axes[0].plot(x, y, ".", color="black", ms=4)
axes[0].legend(loc="upper left", frameon=False, fontsize=8)
axes[0].set_title("GPRegressor", fontsize=10)
print(f"noise {model.loss_.noise**0.5:.2f} (0.15 was added), {model.log_evidence_:.1f} nats")
# sphinx_gallery_defer_figures

# %%
# **Classification.** Probabilities, averaged over what the latent function may be.

X, label = make_moons(80, noise=0.25, random_state=1)
classifier = GPClassifier(random_state=0).fit(X, label)
u, v = np.meshgrid(np.linspace(-2.5, 3.5, 80), np.linspace(-2, 2.5, 80))
p = classifier.predict_proba(np.c_[u.ravel(), v.ravel()])[:, 1].reshape(u.shape)
drawn = axes[1].contourf(u, v, p, levels=np.linspace(0, 1, 11), cmap="RdBu", alpha=0.8)
axes[1].scatter(*X.T, c=label, cmap="RdBu", edgecolors="black", linewidths=0.4, s=14)
fig.colorbar(drawn, ax=axes[1], ticks=[0, 0.5, 1])
axes[1].set_title("GPClassifier: P(class 1)", fontsize=10)
print(f"leave-one-out error {classifier.loo_.error:.3f}, without a held-out row")
# sphinx_gallery_defer_figures

# %%
# **Six labels.** The other 194 rows say where the classes run.

Z, truth = make_moons(200, noise=0.07, random_state=2)
known = np.r_[np.flatnonzero(truth == 0)[:3], np.flatnonzero(truth == 1)[:3]]
partly = np.full(200, None, dtype=object)
partly[known] = truth[known]
machine = LapSVC(C=100.0, beta=5.0, kernel=RBF(0.4), n_neighbors=8).fit(Z, partly)
u, v = np.meshgrid(np.linspace(-1.4, 2.4, 80), np.linspace(-0.9, 1.4, 80))
f = machine.decision_function(np.c_[u.ravel(), v.ravel()]).reshape(u.shape)
axes[2].contour(u, v, f, levels=[0.0], colors="black", linewidths=1.2)
axes[2].plot(*Z.T, ".", color=grey, ms=3)
for row in known:
    axes[2].plot(*Z[row], "o", color=(orange, blue)[truth[row]], ms=7, mec="black")
right = np.mean(machine.predict(Z) == truth)
axes[2].set_title(f"LapSVC: six labels, {right:.1%} right", fontsize=10)
print(f"{right:.1%} of all rows right")

for ax in axes:
    ax.set(xticks=[], yticks=[])
if len(sys.argv) > 1:
    fig.savefig(sys.argv[1], dpi=110)
