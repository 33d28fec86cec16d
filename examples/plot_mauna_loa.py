"""
Carbon dioxide at Mauna Loa: a kernel made of parts
===================================================

Monthly means of atmospheric CO2 rise, swing with the seasons, and wander a little in between.
Each of these is a kernel; their sum is the model (after GPML, section 5.4.3). Its hyperparameters
are learned by the evidence from the data before 1992; then it has to forecast ten years, with the
true values laid over the bands.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import co2

from mercer import GPRegressor
from mercer.kernels import RBF, Matern, Noise, Periodic
from mercer.losses import Gaussian
from mercer.search import Optimize

weekly = co2.load_pandas().data["co2"]
monthly = weekly.resample("MS").mean().dropna()
year = (monthly.index.year + (monthly.index.month - 0.5) / 12).to_numpy(dtype=float)[:, None]
ppm = monthly.to_numpy()
past = year[:, 0] < 1992
print(f"{past.sum()} months to learn from, {(~past).sum()} to forecast")

# %%
# The parts
# ---------
# Numbers are starting values in years and ppm; a kernel object is taken literally, nothing is
# standardised behind it. The period alone is known and stays fixed. The last part is noise that
# is correlated from month to month: it is learned with the rest, but it does not belong to the
# curve.

season = 2.4**2 * RBF(length_scale=90.0) * Periodic(period=1.0, length_scale=1.3).fix("period")
wander = 0.7**2 * RBF(length_scale=1.2)
weather = Noise(0.2**2 * RBF(length_scale=0.13))

# %%
# Which trend? A squared exponential believes in very smooth curves; a Matern kernel of low order
# lets the growth rate itself drift. A straight line without penalty carries the bulk of the rise
# in both.

trends = {
    "RBF": 66.0**2 * RBF(length_scale=67.0),
    "Matern 3/2": 66.0**2 * Matern(nu=1.5, length_scale=67.0),
}
models = {}
for name, trend in trends.items():
    model = GPRegressor(
        trend + season + wander + weather,
        loss=Gaussian(noise=0.04),
        basis="linear",
        search=Optimize(restarts=0),
    )
    models[name] = model.fit(year[past], ppm[past])
print(models["RBF"].summary())

# %%
# Ten years ahead
# ---------------
# The bands are for a new observation, so it is the held-out months that should fall into them.
# The evidence of the past prefers the smoother trend by little. The future prefers the rougher
# one: growth slowed down for some years after 1991, and the band of the smooth trend is too
# narrow for that. Extrapolation is decided by the prior, and the evidence of the past can only
# say so much about it.

print("trend       log evidence   held out inside 95 %   root mean square error")
grid = np.arange(1986, 2004, 1 / 12)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True)
for ax, (name, model) in zip(axes, models.items(), strict=True):
    low, high = model.predict_interval(year[~past], coverage=0.95)
    inside = np.mean((low <= ppm[~past]) & (ppm[~past] <= high))
    error = np.sqrt(np.mean((model.predict(year[~past]) - ppm[~past]) ** 2))
    print(f"{name:10s}  {model.log_evidence_:12.2f}   {inside:20.0%}   {error:18.2f} ppm")

    low, high = model.predict_interval(grid, coverage=0.95)
    ax.fill_between(grid[:, 0], low, high, color="C0", alpha=0.25, label="95 % band")
    ax.plot(grid[:, 0], model.predict(grid), color="C0", lw=1)
    ax.plot(year[past], ppm[past], "k.", ms=3, label="learned from")
    ax.plot(year[~past], ppm[~past], "C3.", ms=3, label="held out")
    ax.set(xlim=(1986, 2004), ylim=(340, 385), xlabel="year", title=f"trend: {name}")
    ax.set_xticks(np.arange(1986, 2003, 4))
axes[0].set_ylabel("CO2 (ppm)")
axes[0].legend(loc="upper left")
fig.tight_layout()

# %%
# One part alone
# --------------
# What a part of the kernel contributes to the posterior mean is its cross-covariance with the
# points, times alpha (formula 1 of the notation).

posterior = models["RBF"].posteriors_[0]
learned = models["RBF"].kernel_.parts[1]
months = 1990 + np.arange(0, 1.001, 1 / 48)[:, None]
seasonal = learned(months, posterior.points) @ posterior.alpha

fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(12 * (months[:, 0] - 1990), seasonal)
ax.set(xlabel="months since January 1990", ylabel="seasonal part (ppm)", xlim=(0, 12))
fig.tight_layout()
plt.show()
