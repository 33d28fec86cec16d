"""
Clean labels and noisy labels
=============================

Gaussian process classification of the same points with clean labels and with one label in eight
turned around (after the figures "clean data" and "noisy data" of A. Smola's lectures): the mode of
the posterior alone beside the average over the latent values, and a noise model that knows of wrong
labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPClassifier, KernelClassifier
from mercer.kernels import RBF
from mercer.losses import Flip, Probit
from mercer.search import Optimize

rng = np.random.default_rng(1)


def side(X):
    """The true class: inside or outside of a bent strip."""
    return np.where(np.abs(X[:, 1] - np.sin(1.5 * X[:, 0])) < 0.8, 1, -1)


X = rng.uniform(-3, 3, size=(150, 2))
clean = side(X)
noisy = np.where(rng.uniform(size=150) < 0.125, -clean, clean)
new = rng.uniform(-3, 3, size=(2000, 2))
truth = side(new)
# new labels of the noisy world are wrong as often
heard = np.where(rng.uniform(size=2000) < 0.125, -truth, truth)


def scores(name, machine, label):
    """Print the share of points on their true side, and the log loss of new labels."""
    own = machine.predict_log_proba(new)[np.arange(2000), (label > 0).astype(int)]
    right = np.mean(machine.predict(new) == truth)
    print(f"{name}: right {right:.3f}, log loss {-own.mean():.3f}")


# %%
# The mode and the average
# ------------------------
# Left clean labels, right noisy ones; length scale and variance by the evidence of expectation
# propagation. Lines are the probabilities 0.1, 0.5 and 0.9: averaged over the latent values (full)
# and of the mode alone (dashed), the "maximum a posteriori" classification of the slides.

at = np.linspace(-3, 3, 61)
grid = np.column_stack([g.ravel() for g in np.meshgrid(at, at)])
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
given = {"kernel": 4.0 * RBF(1.0), "inference": "ep", "search": Optimize(restarts=0)}
fits = {}
for ax, label, later, name in zip(
    axes, (clean, noisy), (truth, heard), ("clean", "noisy"), strict=True
):
    model = GPClassifier(loss="probit", **given).fit(X, label)
    mode = KernelClassifier(model.kernel_, loss="probit", basis=None, search=None).fit(X, label)
    for machine, style in ((model, "-"), (mode, "--")):
        p = machine.predict_proba(grid)[:, 1].reshape(61, 61)
        ax.contour(at, at, p, [0.1, 0.5, 0.9], colors="k", linestyles=style, linewidths=(1, 2, 1))
        scores(f"{name} labels, {'averaged' if style == '-' else 'mode alone'}", machine, later)
    ax.scatter(*X[label > 0].T, marker="o", s=14, color="C0")
    ax.scatter(*X[label < 0].T, marker="s", s=14, color="C1")
    ax.set(title=f"{name} labels", xlim=(-3, 3), ylim=(-3, 3))
    fits[name] = model
plt.show()

# %%
# Noise that knows of wrong labels
# --------------------------------
# ``Flip`` mixes a likelihood with a share of labels that are turned around, here one in eight; it
# can be learned, too, from more points. A lone label on the wrong side bends the boundary less.

plain = fits["noisy"]
wrong = Flip(Probit(), eps=0.125).fix("eps")
robust = GPClassifier(loss=wrong, **given).fit(X, noisy)
scores("probit", plain, heard)
scores("with flips", robust, heard)
print(f"log evidence {plain.log_evidence_:.1f}, with flips {robust.log_evidence_:.1f}")

fig, ax = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
for machine, colour in ((plain, "0.5"), (robust, "k")):
    p = machine.predict_proba(grid)[:, 1].reshape(61, 61)
    ax.contour(at, at, p, [0.5], colors=colour, linewidths=2)
ax.scatter(*X[noisy > 0].T, marker="o", s=14, color="C0")
ax.scatter(*X[noisy < 0].T, marker="s", s=14, color="C1")
ax.plot(at, np.sin(1.5 * at) + 0.8, "C2:", at, np.sin(1.5 * at) - 0.8, "C2:")
ax.set(title="probit (grey), with flips (black), truth (dots)", xlim=(-3, 3), ylim=(-3, 3))
plt.show()
