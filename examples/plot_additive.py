"""
A generalised additive model, term by term
==========================================

The load of a network depends on the hour of the day, on the temperature and on a slow trend; the
humidity is in the table, too, and does nothing. A sum of kernels, each on its own column, is an
additive model: a periodic spline for the hour, smoothing splines for the rest. The posterior of
every term can be read separately, with its own error bars.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import GPClassifier, GPRegressor
from mercer.kernels import RBF, Linear, PeriodicSpline, Spline

rng = np.random.default_rng(8)
n = 300
table = pd.DataFrame(
    {
        "hour": rng.uniform(0, 24, n),
        "temperature": rng.uniform(-8, 30, n),
        "day": np.sort(rng.uniform(0, 365, n)),
        "humidity": rng.uniform(20, 95, n),
    }
)
truth = {
    "hour": 6 * np.exp(-0.5 * ((table["hour"] - 8) / 1.5) ** 2)
    + 9 * np.exp(-0.5 * ((table["hour"] - 19) / 2.5) ** 2),
    "temperature": 0.5 * np.maximum(16 - table["temperature"], 0),
    "day": 4 * table["day"] / 365,
    "humidity": 0 * table["humidity"],
}
load = 40 + sum(truth.values()) + rng.normal(0, 1.5, n)

# %%
# The model
# ---------
# Each spline measures from the smallest value of its column, and a straight line goes with it. The
# level is a basis function without penalty. Amplitudes and noise are learned.

kernel = 5.0 * PeriodicSpline(24.0).fix("period").on("hour")
for column in ("temperature", "day", "humidity"):
    kernel = kernel + 0.01 * Spline(origin=table[column].min()).on(column)
    kernel = kernel + Linear(0.01, centre=table[column].mean()).on(column)
model = GPRegressor(kernel, basis="constant", random_state=0).fit(table, load)
print(model.components_)
print(f"noise: {np.sqrt(model.loss_.noise):.2f}, true 1.50")

# %%
# Term by term
# ------------
# A column names all terms that look at it alone. Any of them could take a constant from another:
# ``center=True`` takes off each term's average over the data, and the error bars become those of
# the shape. The dots are what remains of the data when the other terms are taken off.

fig, axes = plt.subplots(1, 4, figsize=(12, 3), sharey=True)
for ax, column in zip(axes, table.columns, strict=True):
    order = np.argsort(table[column].to_numpy())
    mean, std = model.predict_component(table, column, return_std=True, center=True)
    rest = load - model.predict(table)
    x = table[column].to_numpy()[order]
    ax.plot(x, (mean + rest)[order], ".", color="0.7", ms=3)
    ax.fill_between(x, (mean - 2 * std)[order], (mean + 2 * std)[order], alpha=0.3)
    ax.plot(x, mean[order])
    ax.plot(x, (truth[column] - truth[column].mean()).to_numpy()[order], "k--", lw=1)
    ax.set(xlabel=column)
    inside = np.abs(mean - (truth[column] - truth[column].mean())) < 2 * std
    print(f"{column}: {inside.mean():.0%} of the truth within two standard deviations")
axes[0].set_ylabel("effect")
fig.tight_layout()

# %%
# The means of all components are the prediction:

total = sum(model.predict_component(table, name) for name in model.components_)
print(f"largest difference: {np.abs(total - model.predict(table)).max():.1e}")

# %%
# The same of a classifier
# ------------------------
# The terms of a classifier add up on the latent scale. Here: which hours are above 55?

above = GPClassifier(
    4.0 * PeriodicSpline(24.0).fix("period").on("hour") + 4.0 * RBF(20.0).on("temperature"),
    inference="laplace",
    random_state=0,
).fit(table, load > 55)
day = table.iloc[:97].copy()
day["hour"] = np.linspace(0, 24, 97)
mean, std = above.predict_component(day, "hour", return_std=True, center=True)
fig, ax = plt.subplots(figsize=(5, 3))
ax.fill_between(day["hour"], mean - 2 * std, mean + 2 * std, alpha=0.3)
ax.plot(day["hour"], mean)
ax.set(xlabel="hour", ylabel="latent effect on load > 55")
fig.tight_layout()
plt.show()
