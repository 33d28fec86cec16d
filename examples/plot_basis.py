"""
A trend without penalty: basis functions with a flat prior
==========================================================

A Gaussian process with mean zero falls back to zero away from the data. If a straight line is a
better guess, it can be given as a basis, h(x)'beta, whose coefficients have a flat prior (GPML,
section 2.7): they are not shrunk, and their uncertainty is part of the predicted one.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor
from mercer.kernels import RBF, Constant, Linear

rng = np.random.default_rng(4)
x = np.sort(rng.uniform(0, 10, 40))[:, None]
y = 20 + 3 * x[:, 0] + 2 * np.sin(2 * x[:, 0]) + 0.5 * rng.normal(size=40)
kernel = 4.0 * RBF(1.0)

# %%
# Three bases
# -----------

grid = np.linspace(-5, 20, 300)[:, None]
fig, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True)
for ax, basis in zip(axes, [None, "constant", "linear"], strict=True):
    model = GPRegressor(kernel, basis=basis, random_state=0).fit(x, y)
    mean, std = model.predict_latent(grid)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, alpha=0.25)
    ax.plot(grid[:, 0], mean)
    ax.plot(x, y, "k.", ms=3)
    ax.set(title=f"basis={basis!r}", ylim=(-20, 110))
fig.tight_layout()

# %%
# The limit of a wide prior
# -------------------------
# The same model with a proper prior of variance s on intercept and slope is the kernel s + s x z
# added to the first. As s grows, predictions tend to those of the flat prior. So does the log
# evidence, after adding log(2 pi s) for the two coefficients: the flat prior is a density of one.

fixed = model.kernel_.fix()
flat = GPRegressor(fixed, loss=model.loss_.fix(), basis="linear", search=None).fit(x, y)
print("      s   largest difference of means   difference of log evidence")
for s in [1e2, 1e4, 1e6]:
    wide = fixed + Constant(s) + Linear(s)
    proper = GPRegressor(wide, loss=model.loss_.fix(), search=None).fit(x, y)
    means = np.abs(proper.predict(grid) - flat.predict(grid)).max()
    evidence = proper.log_evidence_ + np.log(2 * np.pi * s) - flat.log_evidence_
    print(f"{s:7.0e}   {means:27.2e}   {evidence:26.2e}")
plt.show()
