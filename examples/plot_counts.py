"""
Counting accidents: a rate that changes with time
=================================================

The number of accidents per year in the coal mines of Great Britain fell in the nineteenth century,
and one asks when, and how fast. The counts here are made up after that pattern, so that the true
rate is known. A smoothing spline with a Poisson loss has the logarithm of the rate as its curve:
the rate is positive, and a year with few accidents says as much as its count can say.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import SmoothingSpline

rng = np.random.default_rng(1851)
year = np.arange(1851, 1963)
rate = 0.9 + 2.3 / (1 + np.exp((year - 1890) / 4))
count = rng.poisson(rate)
print(f"{count.sum()} accidents in {len(year)} years, {np.sum(count == 0)} years without one")

# %%
# The curve
# ---------
# The smoothing parameter is the one of largest evidence. ``predict`` is the expected count,
# ``predict_latent`` the curve itself, with its standard deviation.

model = SmoothingSpline(loss="poisson").fit(year[:, None], count)
print(model.summary())

log_rate, std = model.predict_latent(year[:, None])
inside = np.abs(log_rate - np.log(rate)) < 2 * std
print(f"{inside.mean():.0%} of the true rates lie within two standard deviations")
low, high = model.predict_interval(year[:, None], 0.9)
print(f"{np.mean((low <= count) & (count <= high)):.0%} of the counts lie in their 90 % intervals")

# %%
# When did it fall?
# -----------------
# The derivative of the curve is the relative change of the rate per year, and it has a standard
# deviation as well.

slope, slope_std = model.derivative(year[:, None], return_std=True)
steepest = np.argmin(slope)
print(
    f"steepest in {year[steepest]}: {100 * slope[steepest]:.1f} +- "
    f"{100 * slope_std[steepest]:.1f} % a year"
)

fig, axes = plt.subplots(1, 2, figsize=(9, 3.4))
axes[0].bar(year, count, color="0.85", width=1.0)
axes[0].fill_between(year, np.exp(log_rate - 2 * std), np.exp(log_rate + 2 * std), alpha=0.3)
axes[0].plot(year, np.exp(log_rate), label="spline")
axes[0].plot(year, rate, "k--", lw=1, label="true rate")
axes[0].set(xlabel="year", ylabel="accidents a year")
axes[0].legend()
axes[1].fill_between(year, slope - 2 * slope_std, slope + 2 * slope_std, alpha=0.3)
axes[1].plot(year, slope)
axes[1].axhline(0.0, color="k", lw=0.5)
axes[1].set(xlabel="year", ylabel="change of the log rate per year")
fig.tight_layout()
plt.show()

# %%
# Monday to Sunday
# ----------------
# A curve that repeats, from Gaussian counts of a day: ``period`` joins its ends.

day = rng.uniform(0, 70, 200)
calls = 100 + 20 * np.sin(2 * np.pi * day / 7) + rng.normal(0, 8, 200)
week = SmoothingSpline(period=7.0).fit(day[:, None], calls)
print(
    f"Sunday night {week.predict([[6.999]])[0]:.1f}, Monday morning {week.predict([[7.0]])[0]:.1f}"
)
