"""
Why a support vector machine has no probabilities
=================================================

A loss that is a negative log likelihood gives the two labels a total mass of one at every latent
value f. The hinge does not: up to a factor that makes its largest value one,

.. code-block:: text

    nu(f; C) = kappa [exp(-C (1 - f)_+) + exp(-C (1 + f)_+)],  kappa = 1 / (1 + exp(-2 C))

(Rasmussen and Williams 2006, equation 6.39 and exercise 2 of chapter 6) is one at f = +-1 and
smaller everywhere else. The missing mass would have to belong to a third answer, "do not know",
and the data say nothing about how often it was given.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.losses import Hinge, Logistic, NormalizedHinge, Probit, hinge_normaliser

f = np.linspace(-3, 3, 601)
widths = {0.25: "C0", 1.0: "C1", 4.0: "C2"}
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
for C, color in widths.items():
    left.plot(f, hinge_normaliser(f, C), color=color, label=f"C = {C:g}")
    right.plot(f, np.exp(-NormalizedHinge(C).value(1.0, f)), color=color, label=f"C = {C:g}")
left.set(xlabel="f", ylabel="nu(f; C)", ylim=(0, 1.05), title="mass of both labels")
right.set(xlabel="f", ylabel="P(y = +1)", title="after dividing by it")
left.legend()
fig.tight_layout()

# %%
# How far from constant
# ---------------------
# The mass at f = 0 is sech C, far out it is kappa. For C below log 2 the smallest value is kappa,
# above it is the one in the middle; it is constant for no C > 0.

for C in (0.25, np.log(2), 1.0, 4.0):
    middle, far = hinge_normaliser(np.array([0.0, 1e6]), C)
    print(f"C = {C:.4f}: mass at 0 {middle:.4f}, at the margin 1, far out {far:.4f}")

# %%
# Dividing by the mass gives a likelihood, ``NormalizedHinge``, at the price of convexity: its slope
# jumps down at a margin of -1. For probabilities there are better ways: the logistic loss, which is
# a likelihood by construction (``KernelClassifier``), or a sigmoid fitted to leave-one-out margins
# (``SVC(probability="loo")``). The book's figure 6.3 (a) compares the hinge with the logistic and
# the probit loss: only the hinge is flat, and only flat losses leave rows without a coefficient.

u = np.linspace(-3, 4, 701)
fig, ax = plt.subplots(figsize=(5, 3.5))
ax.plot(u, Hinge(1.0).value(1.0, u), label="hinge, C = 1")
ax.plot(u, NormalizedHinge(1.0).value(1.0, u), "--", label="normalised hinge")
ax.plot(u, Logistic().value(1.0, u), label="logistic")
ax.plot(u, Probit().value(1.0, u), label="probit")
ax.set(xlabel="margin y f", ylabel="loss")
ax.legend()
fig.tight_layout()
plt.show()
