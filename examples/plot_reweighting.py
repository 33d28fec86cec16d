"""
A support vector machine as a reweighted logistic regression
============================================================

The hinge of a margin u = y f is the logistic loss times a weight,

.. code-block:: text

    (1 - u)_+ = w(u) log(1 + exp(-u)),    w(u) = (1 - u)_+ / log(1 + exp(-u))

(M. Seeger's thesis, 2.36 to 2.38). So the support vector classifier is a kernel logistic regression
whose rows are reweighted while it learns: rows beyond the margin count nothing, rows inside it
count most, and rows that are far on the wrong side keep the weight one. Boosting's weight exp(-u)
grows without bound there, which is why it listens to outliers.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer.losses import Exponential, Hinge, Logistic, reweight

u = np.linspace(-4, 2, 601)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5))
left.plot(u, (u < 0).astype(float), color="0.6", label="errors")
left.plot(u, Hinge().value(1.0, u), label="hinge")
left.plot(u, Logistic().value(1.0, u) / np.log(2), label="logistic / log 2")
left.plot(u, Exponential().value(1.0, u), label="exponential")
left.set(xlabel="margin y f", ylabel="loss", ylim=(0, 6), title="losses")
left.legend()
right.plot(u, reweight(u), label="hinge against logistic")
right.plot(u, np.exp(-u), label="boosting")
right.set(xlabel="margin y f", ylabel="weight", ylim=(0, 4), title="weights of a row")
right.legend()
fig.tight_layout()

# %%
# Landmarks
# ---------
# The largest weight is 1.5422, at a margin of -0.6121.

best = u[np.argmax(reweight(u))]
print(f"largest weight {reweight(best):.4f} at u = {best:.2f}")
print("w(-1000), w(0), w(1) =", reweight(np.array([-1000.0, 0.0, 1.0])).round(4))

# %%
# On data
# -------
# Margins of a fit on two overlapping classes, and what each row counts in the logistic picture.

from sklearn.datasets import make_moons

from mercer import SVC

X, y = make_moons(200, noise=0.3, random_state=0)
sign = 2.0 * y - 1.0
margin = sign * SVC(C=1.0, gamma=1.0).fit(X, y).decision_function(X)
weight = reweight(margin)
hinges, logistic = Hinge().value(1.0, margin), Logistic().value(1.0, margin)
print(f"sum of hinges {hinges.sum():.6f}, of weighted logistic losses {weight @ logistic:.6f}")
print(f"{np.mean(weight == 0):.0%} of the rows count nothing")

fig, ax = plt.subplots(figsize=(5, 4))
ax.scatter(*X.T, c=sign, s=8 + 40 * weight, cmap="coolwarm", edgecolors="0.4", linewidths=0.4)
ax.set(title="size: weight in the equivalent logistic regression")
fig.tight_layout()
plt.show()
