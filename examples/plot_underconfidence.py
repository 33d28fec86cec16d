"""
Laplace is under-confident
==========================

The mode of a classification posterior sits where the likelihood is already flat, so a Gaussian
around it sees the wrong curvature. On twenty-dimensional "ringnorm" (two Gaussians, one inside the
other) Laplace ranks rows as well as EP does, and is far too modest about it. This is why EP is the
default for two classes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve
from sklearn.metrics import brier_score_loss, log_loss

from mercer import GPClassifier
from mercer.kernels import RBF, Constant
from mercer.search import Optimize


def ringnorm(rng, n, d=20):
    """Class 0 is N(0, 4 I), class 1 is N(a 1, I) with a = 2 / sqrt(20)."""
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, d))
    return np.where(y[:, None] == 1, X + 2.0 / np.sqrt(20.0), 2.0 * X), y


rng = np.random.default_rng(0)
X, y = ringnorm(rng, 300)
Z, labels = ringnorm(rng, 3000)

# %%
# The same kernel family, each with the hyperparameters that its own evidence likes best.

models = {}
for inference in ("laplace", "ep", "variational"):
    model = GPClassifier(
        10.0 * RBF(6.0) + Constant(1.0),
        loss="logistic" if inference != "ep" else "probit",
        inference=inference,
        search=Optimize(restarts=0),
    )
    models[inference] = model.fit(X, y)

fig, ax = plt.subplots(figsize=(5.5, 5))
ax.plot([0, 1], [0, 1], "k:", label="calibrated")
for name, model in models.items():
    p = model.predict_proba(Z)[:, 1]
    sure = np.maximum(p, 1 - p)
    right = (p > 0.5) == labels
    print(
        f"{name:12s} errors {int((~right).sum()):4d} of 3000   log loss {log_loss(labels, p):.4f}"
        f"   Brier {brier_score_loss(labels, p):.4f}   mean confidence {sure.mean():.3f}, "
        f"accuracy {right.mean():.3f}"
    )
    observed, predicted = calibration_curve(labels, p, n_bins=12)
    ax.plot(predicted, observed, "o-", label=name)
ax.set(xlabel="predicted probability", ylabel="observed frequency", title="ringnorm, 300 labels")
ax.legend()
fig.tight_layout()
