"""
Four posteriors of one problem
==============================

A support vector machine draws a boundary; a Bayesian classifier also says how sure it is, and the
approximations differ in how sure they dare to be. The same kernel in all four panels: the mode of
the hinge loss, then Laplace, expectation propagation and the variational Gaussian.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SVC, GPClassifier
from mercer.kernels import RBF, Constant

rng = np.random.default_rng(1)
n = 40
X = np.r_[
    rng.normal(size=(n, 2)) * [1.0, 0.6] + [-1.0, 0.0],
    rng.normal(size=(n, 2)) * [0.6, 1.0] + [1.2, 0.5],
]
y = np.repeat([0, 1], n)

# %%
# The hyperparameters are those that EP's evidence likes best; the others take them over.

ep = GPClassifier(10.0 * RBF(1.0) + Constant(1.0), random_state=0).fit(X, y)
kernel = ep.kernel_
print(ep.summary())

models = {
    "Laplace": GPClassifier(kernel, inference="laplace", search=None).fit(X, y),
    "EP": ep,
    "variational": GPClassifier(kernel, inference="variational", search=None).fit(X, y),
}
for name, model in models.items():
    print(
        f"{name:12s} log evidence {model.log_evidence_:8.3f}   "
        f"leave-one-out log density {model.loo_.total:8.3f}"
    )

# %%
# Far from the data every Bayesian panel returns to the prior; the support vector machine only has
# its margins (dashed) and no opinion about distance.

grid = np.stack(np.meshgrid(np.linspace(-5, 5, 90), np.linspace(-4, 5, 90)), axis=-1)
flat = grid.reshape(-1, 2)
fig, axes = plt.subplots(2, 2, figsize=(9, 7.5), sharex=True, sharey=True)
svm = SVC(kernel=kernel, C=1.0).fit(X, y)
margin = svm.decision_function(flat).reshape(grid.shape[:2])
axes[0, 0].contourf(*np.moveaxis(grid, -1, 0), margin, levels=20, cmap="RdBu_r")
axes[0, 0].contour(
    *np.moveaxis(grid, -1, 0), margin, levels=[-1, 0, 1], colors="k", linestyles=["--", "-", "--"]
)
axes[0, 0].set_title("support vector machine: margins")
for ax, (name, model) in zip(axes.flat[1:], models.items(), strict=True):
    p = model.predict_proba(flat)[:, 1].reshape(grid.shape[:2])
    ax.contourf(*np.moveaxis(grid, -1, 0), p, levels=np.linspace(0, 1, 21), cmap="RdBu_r")
    lines = ax.contour(
        *np.moveaxis(grid, -1, 0), p, levels=[0.05, 0.25, 0.5, 0.75, 0.95], colors="k"
    )
    ax.clabel(lines, fontsize=8)
    ax.set_title(f"{name}: probability of the second class")
for ax in axes.flat:
    ax.scatter(*X.T, c=y, cmap="RdBu_r", edgecolor="k", s=20)
fig.tight_layout()
