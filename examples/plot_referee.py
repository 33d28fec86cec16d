"""
How good is an approximate posterior? Ask the draws
===================================================

A Gaussian process with a likelihood that is not Gaussian has no posterior in closed form. Laplace,
EP and the variational Gaussian each put a Gaussian in its place, and each is wrong in its own way.
How wrong depends on the data: many rows for each wiggle of the function, and all agree; few rows
and a large variance, and they do not. ``check_inference_on`` draws from the true posterior of the
fitted kernel and loss, on the rows of the fit, and tells.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPClassifier, check_inference_on
from mercer.inference import MCMC
from mercer.kernels import RBF
from mercer.plots import InferenceDisplay

rng = np.random.default_rng(3)
X = rng.uniform(-3, 3, size=(30, 1))
y = np.where(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=30) > 0, 1, 0)

# %%
# Three Gaussians, one truth
# --------------------------
# Kernel and loss are the same for all. A difference is flagged if it is beyond the error of the
# draws, and large enough to matter.

kernel = 25.0 * RBF(0.8)
checks = {}
for name in ("laplace", "ep", "variational"):
    model = GPClassifier(kernel, loss="logistic", inference=name, search=None).fit(X, y)
    runs = 16 if name == "laplace" else 0  # the truth is the same for all: anneal once
    checks[name] = check_inference_on(model, X, y, inference=MCMC(samples=200), runs=runs)
    print(f"{name}: {checks[name].flags or 'nothing to object to'}")

# %%
# Everything that was found, in words:

print(checks["laplace"])

# %%
# Where they differ
# -----------------
# The mode of a skewed posterior is not where its mass is: far from zero Laplace's means lie nearer
# to zero than the true ones, and its deviations are too small. EP is close; the variational
# Gaussian is a little narrow, as it must be to stay inside the posterior.

figure, axes = plt.subplots(2, 3, figsize=(10, 5), sharey="row", layout="constrained")
for column, (name, check) in zip(axes.T, checks.items(), strict=True):
    InferenceDisplay.from_check(check, "mean", ax=column[0])
    InferenceDisplay.from_check(check, "sd", ax=column[1])
    column[0].set_title(name)

# %%
# The evidence from both sides
# ----------------------------
# Below the truth is the bound of every Gaussian: that of Laplace's own is far below, because a
# Gaussian at the mode puts mass where the likelihood is small. Above is the value at the mode,
# which costs nothing and is loose. In between lie two estimates with errors: annealed importance
# sampling from the prior, and a bridge between the draws and a Gaussian.

_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
InferenceDisplay.from_check(checks["laplace"], "evidence", ax=ax)

# %%
# Predicting with the draws
# -------------------------
# If no Gaussian is good enough, ``inference="mcmc"`` predicts with the draws themselves.

grid = np.linspace(-4, 4, 81)[:, None]
method = MCMC(samples=200, keep=60)
drawn = GPClassifier(kernel, loss="logistic", inference=method, search=None).fit(X, y)
laplace = GPClassifier(kernel, loss="logistic", inference="laplace", search=None).fit(X, y)
told = drawn.report_["inference"]
print(f"R-hat {told['rhat']:.3f}, log evidence {drawn.log_evidence_:.2f}")

_, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.plot(grid, drawn.predict_proba(grid)[:, 1], color="#1d4ed8", label="draws")
ax.plot(grid, laplace.predict_proba(grid)[:, 1], color="#c2410c", ls="--", label="Laplace")
ax.plot(X[:, 0], y, "|", color="#6b7280")
ax.set(xlabel="x", ylabel="P(1)")
ax.legend(frameon=False)
plt.show()
