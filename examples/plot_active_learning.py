"""
Which labels to ask for: active learning
========================================

Labels are expensive, rows are not. A classifier that has seen a few labels says which rows to ask
for next: those whose label says most about the function (BALD), where the function is least known
(variance), or rows at random. Five at a time, each given those asked for before, on two real
tables: breast cancer (569 women, 30 measurements) and handwritten digits (3 against 5).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.preprocessing import StandardScaler

from mercer import GPClassifier
from mercer.kernels import RBF, Constant

cancer = load_breast_cancer(return_X_y=True)
pixels, digit = load_digits(return_X_y=True)
two = np.isin(digit, (3, 5))
tables = {
    "breast cancer": (StandardScaler().fit_transform(cancer[0]), cancer[1]),
    "3 or 5": (pixels[two] / 16.0, digit[two]),
}
kernels = {
    "breast cancer": 10.0 * RBF(8.0) + Constant(1.0),
    "3 or 5": 10.0 * RBF(3.0) + Constant(1.0),
}
rules, seeds, first, batch, rounds = ("information", "variance", "random"), range(4), 10, 5, 8

# %%
# Half of the rows may be asked for, the other half tests. The first ten labels are random, five of
# each class. Between the batches ``condition`` adds the labels: hyperparameters stay, and the
# posterior is solved for again from the old one.


def errors(X, y, kernel, rule, seed):
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(X))
    pool, test = order[: len(X) // 2], order[len(X) // 2 :]
    known = np.concatenate([pool[y[pool] == c][: first // 2] for c in np.unique(y)])
    model = GPClassifier(kernel, search=None, inference="laplace").fit(X[known], y[known])
    found = [np.mean(model.predict(X[test]) != y[test])]
    for _ in range(rounds):
        rest = np.setdiff1d(pool, known)
        if rule == "random":
            rows = rng.choice(rest, batch, replace=False)
        else:
            rows = rest[model.propose(X[rest], batch, by=rule).indices]
        known = np.append(known, rows)
        model = model.condition(X[rows], y[rows])
        found.append(np.mean(model.predict(X[test]) != y[test]))
    return found


figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
labels = first + batch * np.arange(rounds + 1)
for axis, (name, (X, y)) in zip(axes, tables.items(), strict=True):
    for rule in rules:
        found = np.array([errors(X, y, kernels[name], rule, seed) for seed in seeds])
        mean = found.mean(axis=0)
        axis.plot(labels, mean, marker="o", ms=3, label=rule)
        print(f"{name:14} {rule:12} error {mean[0]:.3f} -> {mean[-1]:.3f} at {labels[-1]} labels")
    axis.set(title=name, xlabel="labels", ylabel="error on the other half", ylim=(0, None))
axes[0].legend()

# %%
# What is proposed, and why: the score is given the rows before, "alone" is without them.

X, y = tables["breast cancer"]
model = GPClassifier(kernels["breast cancer"], search=None, inference="laplace")
model.fit(X[:20], y[:20])
print(model.propose(X[20:], 5, by="information"))
plt.show()
