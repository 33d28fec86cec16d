"""
A published kernel from parts: thesis (4.22)
============================================

M. Seeger's thesis *Bayesian methods for support vector machines and Gaussian processes* uses the kernel

.. code-block:: text

    K(x, x') = C ( exp(-1/(2d) sum_k w_k (x_k - x'_k)^2) + v )                         (4.22)

with a variance C, a bias variance v and an inverse squared length scale w_k for each of d columns, and puts
independent N(-3, 9) hyperpriors on the logarithms of all of them. Nothing of this needs a new class.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor
from mercer.kernels import RBF, Constant
from mercer.losses import Gaussian
from mercer.search import LogNormal

d = 6


def thesis_kernel(C, v, w):
    """Return kernel (4.22) for w of shape (d,)."""
    return C * (RBF(length_scale=np.sqrt(d / w)) + Constant(v))


# %%
# The composition against the formula
# -----------------------------------

rng = np.random.default_rng(5)
X = rng.normal(size=(60, d))
w = rng.uniform(0.1, 2.0, size=d)
squares = (w * (X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
literal = 1.7 * (np.exp(-squares / (2 * d)) + 0.3)
print("largest difference:", np.abs(thesis_kernel(1.7, 0.3, w)(X) - literal).max())

# %%
# The hyperprior
# --------------
# The length scale is l = sqrt(d / w), so log l = (log d - log w) / 2, and log w ~ N(-3, 9) is
# log l ~ N((log d + 3) / 2, 9/4). Paths name the parameters inside the composition.

start = thesis_kernel(1.0, 1.0, np.ones(d))
print(list(start.free))
with_prior = start.prior(
    variance=LogNormal(-3.0, 3.0),
    **{
        "kernel__0__length_scale": LogNormal((np.log(d) + 3) / 2, 1.5),
        "kernel__1__value": LogNormal(-3.0, 3.0),
    },
)

# %%
# Two of six columns matter
# -------------------------
# Without a prior the evidence can push the relevance of a useless column to nothing at all; the prior keeps
# it finite.

y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=60)
fig, ax = plt.subplots(figsize=(6, 3))
for offset, (name, kernel) in enumerate({"evidence": start, "with prior": with_prior}.items()):
    model = GPRegressor(kernel, loss=Gaussian(noise=0.01), random_state=0).fit(X, y)
    scales = model.kernel_.get_params()["kernel__parts"][0].length_scale
    ax.bar(np.arange(d) + 0.4 * offset, d / scales**2, width=0.4, label=name)
    print(f"{name:10s} log evidence {model.log_evidence_:.2f}, w = {np.round(d / scales**2, 4)}")
ax.set(yscale="log", xlabel="column", ylabel="learned w")
ax.legend()
plt.show()
