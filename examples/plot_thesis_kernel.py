"""
A published kernel, from parts and as a class
=============================================

M. Seeger's thesis *Bayesian methods for support vector machines and Gaussian processes* uses the
kernel

.. code-block:: text

    K(x, x') = C ( exp(-1/(2d) sum_k w_k (x_k - x'_k)^2) + v )                         (4.22)

with a variance C, a bias variance v and an inverse squared length scale w_k for each of d
columns, and puts independent N(-3, 9) hyperpriors on the logarithms of all of them. The function
needs no new class; the parameters of the source do, because the hyperprior is about them.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor
from mercer.kernels import RBF, BiasedRBF, Constant
from mercer.losses import Gaussian
from mercer.search import LogNormal

# %%
# Two ways to write it
# --------------------
# From parts: a scale around the sum of an RBF, whose length scales are sqrt(d / w), and a
# constant. As a class: ``BiasedRBF``, with the parameters of the source. Both against the
# formula:

d = 6
rng = np.random.default_rng(5)
X = rng.normal(size=(60, d))
w, v, C = rng.uniform(0.1, 2.0, size=d), 0.3, 1.7

squares = (w * (X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
formula = C * (np.exp(-squares / (2 * d)) + v)
parts = C * (RBF(length_scale=np.sqrt(d / w)) + Constant(v))
one_class = BiasedRBF(weight=w, bias=v, variance=C)
print("largest difference:", np.abs(parts(X) - formula).max(), np.abs(one_class(X) - formula).max())

# %%
# The hyperprior
# --------------
# A log-normal prior is N(mu, sigma^2) in the logarithm of the parameter, in which the search
# moves. For the composition the same belief reads differently: log l = (log d - log w) / 2, so
# log w ~ N(-3, 9) is log l ~ N((log d + 3) / 2, 9/4). Paths name the parameters inside.

thesis = LogNormal(-3.0, 3.0)
plain = BiasedRBF(weight=np.ones(d), bias=1.0, variance=1.0)
with_prior = plain.prior(weight=thesis, bias=thesis, variance=thesis)
composed = (1.0 * (RBF(length_scale=np.full(d, np.sqrt(d))) + Constant(1.0))).prior(
    variance=thesis,
    kernel__0__length_scale=LogNormal((np.log(d) + 3) / 2, 1.5),
    kernel__1__value=thesis,
)

# %%
# Two of six columns matter
# -------------------------
# Without a prior the evidence pushes the weight of some useless columns to nothing; the prior
# keeps all of them finite. The two ways of writing the model with prior find the same optimum.

y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=60)
fits = {
    name: GPRegressor(kernel, loss=Gaussian(noise=0.01), random_state=0).fit(X, y)
    for name, kernel in {"evidence": plain, "with prior": with_prior, "parts": composed}.items()
}
weights = {
    "evidence": fits["evidence"].kernel_.weight,
    "with prior": fits["with prior"].kernel_.weight,
    "parts": d / fits["parts"].kernel_.kernel.parts[0].length_scale ** 2,
}
for name, model in fits.items():
    shown = np.array2string(weights[name], formatter={"float": "{:.1e}".format})
    print(f"{name:10s} log evidence {model.log_evidence_:.3f}, w = {shown}")

fig, ax = plt.subplots(figsize=(6, 3))
for offset, name in enumerate(["evidence", "with prior"]):
    ax.bar(np.arange(d) + 0.4 * offset, weights[name], width=0.4, label=name)
ax.set(yscale="log", xlabel="column", ylabel="learned w")
ax.legend()
fig.tight_layout()
plt.show()
