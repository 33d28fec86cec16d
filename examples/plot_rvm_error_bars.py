"""
Error bars of a relevance vector machine, collapsed and augmented
=================================================================

A relevance vector machine predicts with a handful of functions. Where none of them reaches, the
function is known to be zero (or the constant): its error bars are narrowest where there are no data
at all. Adding, for each prediction, one function centred on the point itself mends them.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor, RVRegressor
from mercer.kernels import RBF

rng = np.random.default_rng(0)
x = np.concatenate([rng.uniform(-10, -3, 50), rng.uniform(3, 10, 50)])[:, None]
y = np.sinc(x[:, 0] / np.pi) + 0.1 * rng.normal(size=100)
grid = np.linspace(-22, 22, 441)[:, None]

models = {
    "relevance vectors": RVRegressor(RBF(2.0), bias=False),
    "augmented": RVRegressor(RBF(2.0), bias=False, heal=True),
    "Gaussian process": GPRegressor(),
}
fig, axes = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(x, y)
    mean, std = model.predict(grid, return_std=True)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.25)
    ax.plot(grid[:, 0], mean)
    ax.plot(x[:, 0], y, ".", color="0.4", markersize=3)
    if hasattr(model, "relevance_vectors_"):
        rows = model.relevance_rows_
        ax.plot(x[rows, 0], y[rows], "o", mfc="none", color="C3")
    ax.set(title=name, xlabel="x")
fig.tight_layout()

# %%
# The figures
# -----------
# Standard deviation of a new observation: left to itself the machine is as sure in the gap and far
# outside as on the data, where only the noise is left.

for point in (-20.0, -6.0, 0.0, 6.0, 20.0):
    row = [model.predict([[point]], return_std=True)[1][0] for model in models.values()]
    print(f"x = {point:5.0f}: " + ", ".join(f"{s:.3f}" for s in row))

plt.show()
