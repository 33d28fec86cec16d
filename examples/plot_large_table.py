"""
Many rows: few points, or products alone
========================================

A Gaussian process on 1500 rows, held in three ways: exactly; by inducing points, whose
evidence is a lower bound that rises with their number; and by conjugate gradients, which keep the
exact evidence between two bounds. The hyperparameters are the same in all of them.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor
from mercer.kernels import RBF
from mercer.linalg import Inducing, Iterative
from mercer.losses import Gaussian

rng = np.random.default_rng(0)
n = 1500
X = rng.uniform(-3, 3, (n, 2))
f = np.sin(2 * X[:, 0]) * np.cos(1.5 * X[:, 1]) + 0.3 * X[:, 0]
y = f + 0.2 * rng.normal(size=n)
given = {"kernel": 1.0 * RBF([0.9, 1.1]), "loss": Gaussian(0.04), "search": None}

exact = GPRegressor(**given).fit(X, y)
print(f"log evidence, exact: {exact.log_evidence_:.2f}")

# %%
# Inducing points
# ---------------
# The points are centres of the rows. With few of them much of the prior variance stays unexplained,
# and the bound pays for it.

sizes = [20, 40, 80, 120, 160]
bounds, explained = [], []
for m in sizes:
    model = GPRegressor(**given, gram=Inducing(m=m)).fit(X, y)
    bounds.append(model.evidence_bounds_[0])
    explained.append(model.report_["inducing"]["explained"])
    print(f"{m:4d} points explain {100 * explained[-1]:6.2f} %: at least {bounds[-1]:.2f}")

# %%
# Conjugate gradients
# -------------------
# The tolerance is on rho^2: half of it bounds what is left of the quadratic form. The bounds also
# hold the determinant, which the centres of the preconditioner know well enough here.

tolerances, pairs = [1e4, 1e3, 1e2, 1e1, 1.0, 1e-2], []
for tol in tolerances:
    model = GPRegressor(**given, gram=Iterative(rank=120, tol=tol)).fit(X, y)
    pairs.append(model.evidence_bounds_)
low, high = np.array(pairs).T
print(f"between {low[-1]:.2f} and {high[-1]:.2f}")

# %%
# Both against the exact value
# ----------------------------

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].plot(sizes, bounds, "o-", label="lower bound")
axes[0].axhline(exact.log_evidence_, color="k", lw=0.8, label="exact")
axes[0].set(xlabel="inducing points", ylabel="log evidence", yscale="symlog")
axes[0].legend()
axes[1].fill_between(tolerances, low, high, color="0.85", label="certain")
axes[1].axhline(exact.log_evidence_, color="k", lw=0.8, label="exact")
axes[1].set(xlabel="rho^2 at the end", xscale="log", yscale="symlog")
axes[1].invert_xaxis()
axes[1].legend()
fig.tight_layout()
plt.show()
