"""
The minimum of an expensive function: Bayesian optimisation
===========================================================

Each value of the function is expensive, so that every place to try is chosen with care: where the
improvement on the best value so far is expected to be largest under a Gaussian process of what is
known. ``propose`` picks the place, ``condition`` takes the value in O(n^2) without a new search,
and a fit now and then learns the hyperparameters anew.

Two standard functions, Branin in two and Hartmann in six dimensions, against random search.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPRegressor


def branin(x):
    a, b = 15.0 * x[0] - 5.0, 15.0 * x[1]
    bend = b - 5.1 / (4.0 * np.pi**2) * a**2 + 5.0 / np.pi * a - 6.0
    return bend**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(a) + 10.0


A = np.array(
    [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
)
P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def hartmann(x):
    return -np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-(A * (x - P) ** 2).sum(axis=1))


# %%
# The loop
# --------
# Candidates are rows: a thousand at random, and some about the best place so far. The best of them
# is then looked at more closely, four times: a few milliseconds each.


def near(x, width, rng):
    return np.clip(x + width * rng.normal(size=(200, len(x))), 0.0, 1.0)


def next_row(model, best, rng):
    pool = np.vstack([rng.random((1000, len(best))), near(best, 0.1, rng)])
    for width in (0.1, 0.03, 0.01, 0.003):
        x = pool[model.propose(pool, 1, by="improvement").indices[0]]
        pool = np.vstack([x, near(x, width, rng)])
    return pool[model.propose(pool, 1, by="improvement").indices[0]]


def minimised(f, d, rows, seed, first=10, refit=4):
    rng = np.random.default_rng(seed)
    X = rng.random((first, d))
    y = np.array([f(x) for x in X])
    model = GPRegressor("matern52").fit(X, y)
    while len(y) < rows:
        x = next_row(model, X[y.argmin()], rng)
        X, y = np.vstack([X, x]), np.append(y, f(x))
        if (len(y) - first) % refit == 0:
            model = GPRegressor("matern52").fit(X, y)
        else:
            model = model.condition(X[-1:], y[-1:])
    return X, y


def by_chance(f, d, rows, seed):
    return np.array([f(x) for x in np.random.default_rng(seed).random((rows, d))])


tasks = {"Branin": (branin, 2, 30, 0.397887), "Hartmann": (hartmann, 6, 40, -3.322368)}
seeds = range(3)
regrets = {}
for name, (f, d, rows, lowest) in tasks.items():
    found = [minimised(f, d, rows, seed)[1] for seed in seeds]
    chance = [by_chance(f, d, rows, seed) for seed in seeds]
    regrets[name] = [np.minimum.accumulate(np.array(y), axis=1) - lowest for y in (found, chance)]
    ours, theirs = (np.median(regret[:, -1]) for regret in regrets[name])
    print(f"{name}: median regret after {rows} rows {ours:.2g}, at random {theirs:.2g}")

# %%
# How far the best value found is above the minimum, for each seed:

figure, axes = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
for axis, (name, (ours, theirs)) in zip(axes, regrets.items(), strict=True):
    lines = (("C0", "expected improvement", ours), ("0.6", "at random", theirs))
    for color, label, each in lines:
        for j, line in enumerate(each):
            axis.semilogy(
                np.arange(1, len(line) + 1), line, color=color, lw=1, label=None if j else label
            )
    axis.axvline(10, color="0.8", lw=0.8)
    axis.set(title=name, xlabel="values of the function", ylabel="regret")
axes[0].legend()

# %%
# Where the values were taken, on Branin: a few about each of its three minima, few elsewhere.

X, y = minimised(branin, 2, 30, seed=0)
grid = np.linspace(0, 1, 80)
values = np.array([[branin(np.array([a, b])) for a in grid] for b in grid])
figure, axis = plt.subplots(figsize=(4.6, 4), layout="constrained")
axis.contourf(grid, grid, np.log(values), 20, cmap="Blues")
axis.scatter(*X[:10].T, c="0.3", s=18, label="first ten")
axis.scatter(*X[10:].T, c="C1", s=18, label="proposed")
axis.legend(loc="upper right")
axis.set(title="Branin", xlabel="first column", ylabel="second column")

# %%
# Several values at once
# ----------------------
# If four values can be computed side by side, a batch is proposed: each row adds to the improvement
# that is expected of those before it.

model = GPRegressor("matern52").fit(X[:14], y[:14])
print(model.propose(np.random.default_rng(1).random((1000, 2)), 4, by="improvement"))
plt.show()
