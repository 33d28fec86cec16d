"""
Kernels from differential operators
===================================

A kernel is also a penalty. If rough functions are to cost

.. code-block:: text

    |f|^2 = int a_0 f(x)^2 + a_1 f'(x)^2 + a_2 f''(x)^2 + ... dx,

the kernel that belongs to this norm is Green's function of the operator: its spectral density is
1 / (a_0 + a_1 z + a_2 z^2 + ...) with z = (2 pi s)^2 (GPML, section 6.2). ``Operator`` takes the
coefficients and does the rest, in one or more dimensions.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor
from mercer.kernels import Matern, Operator, OrnsteinUhlenbeck
from mercer.process import Prior
from mercer.search import Optimize

# %%
# Penalties and their kernels
# ---------------------------
# With a_0 and a_1 only, the paths are continuous and nowhere smooth (Ornstein-Uhlenbeck); each
# further coefficient buys a derivative. A negative coefficient in the middle is allowed as long
# as the polynomial stays positive: it favours a frequency, and the kernel oscillates.

penalties = {
    "1, 1": [1.0, 1.0],
    "1, 2, 1": [1.0, 2.0, 1.0],
    "1, 0, 0, 0.1": [1.0, 0.0, 0.0, 0.1],
    "1, -1.6, 1": [1.0, -1.6, 1.0],
}
r = np.linspace(0, 8, 200)[:, None]
rng = np.random.default_rng(1)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
for i, (name, a) in enumerate(penalties.items()):
    kernel = Operator(np.array(a))
    k = kernel(r, np.zeros((1, 1)))[:, 0]
    axes[0].plot(r, k / k[0], label=f"a = {name}")
    draw = Prior(kernel).sample(r, 1, rng)[:, 0, 0] / np.sqrt(k[0])
    axes[1].plot(r, draw - 5 * i)
axes[0].set(xlabel="distance", title="kernel / variance")
axes[0].legend()
axes[1].set(xlabel="x", yticks=[], title="draws from the prior")
fig.tight_layout()

# %%
# Special cases
# -------------
# (a^2, 1) is the Ornstein-Uhlenbeck kernel exp(-a r) / (2 a); the square (a^2 + z)^2 in one
# dimension is a Matern kernel with nu = 3/2 and length scale sqrt(3) / a, up to its variance 1 /
# (4 a^3).

a = 1.5
ou = np.exp(-a * r[:, 0]) / (2 * a)
print("OU:     ", np.abs(Operator(np.array([a**2, 1.0]))(r, np.zeros((1, 1)))[:, 0] - ou).max())
matern = Matern(nu=1.5, length_scale=np.sqrt(3) / a)(r, np.zeros((1, 1)))[:, 0] / (4 * a**3)
square = Operator(np.array([a**4, 2 * a**2, 1.0]))(r, np.zeros((1, 1)))[:, 0]
print("Matern: ", np.abs(square - matern).max())

# %%
# Learning the penalty
# --------------------
# The coefficients are hyperparameters as any others.

x = np.sort(rng.uniform(0, 12, 60))[:, None]
y = np.exp(-0.1 * x[:, 0]) * np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=60)
models = {
    "order 1": GPRegressor(OrnsteinUhlenbeck()),
    "order 2": GPRegressor(Operator(np.array([1.0, 0.5, 0.2]))),
}
for name, model in models.items():
    model.fit(x, y)
    print(f"{name}: log evidence {model.log_evidence_:.2f}, {model.kernel_}")

# %%
# A penalty that resonates at frequency w has the polynomial (z - w^2)^2 + c w^4. With its shape
# fixed and its variance learned, the evidence as a function of w shows the frequency of the data,
# which is 2.


def resonant(w, c=0.02):
    """Return a kernel of oscillations near the angular frequency w."""
    return 1.0 * Operator(np.array([(1 + c) * w**4, -2 * w**2, 1.0])).fix()


frequencies = np.linspace(1.0, 3.0, 21)
scan = [GPRegressor(resonant(w), search=Optimize(restarts=0)).fit(x, y) for w in frequencies]
evidence = [model.log_evidence_ for model in scan]
best = scan[int(np.argmax(evidence))]
print(f"best frequency {frequencies[np.argmax(evidence)]:.1f}, log evidence {max(evidence):.2f}")

grid = np.linspace(0, 16, 300)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=[1, 2])
axes[0].plot(frequencies, evidence)
axes[0].set(xlabel="frequency w", ylabel="log evidence")
axes[1].plot(x, y, "k.", ms=4)
for name, model in {**models, "resonant": best}.items():
    axes[1].plot(grid, model.predict(grid), label=name)
axes[1].legend()
axes[1].set(xlabel="x", title="posterior means, and what they extrapolate")
fig.tight_layout()
plt.show()
