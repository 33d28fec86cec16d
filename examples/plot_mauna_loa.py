"""
Carbon dioxide at Mauna Loa: a kernel made of parts
===================================================

Monthly means of atmospheric CO2 rise smoothly, swing with the seasons, and wander a little in between. Each of
these is a kernel; their sum is the model (after GPML, section 5.4.3). We learn all of its hyperparameters by
the evidence from the data up to 1991 and forecast ten years, with the true values laid over the bands.
"""

import matplotlib.pyplot as plt
import numpy as np
from statsmodels.datasets import co2

from mercer import GPRegressor
from mercer.kernels import RBF, Periodic, RationalQuadratic
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
# Numbers are starting values in years and ppm; the period alone is known and stays fixed. A kernel object
# is taken literally: nothing is standardised behind it.

trend = 50.0**2 * RBF(length_scale=50.0)
season = 2.0**2 * RBF(length_scale=100.0) * Periodic(period=1.0, length_scale=1.0).fix("period")
wander = 0.5**2 * RationalQuadratic(length_scale=1.0, alpha=1.0)
kernel = trend + season + wander

model = GPRegressor(
    kernel,
    loss=Gaussian(noise=0.04),
    basis="constant",
    search=Optimize(restarts=0),
    random_state=0,
)
model.fit(year[past], ppm[past])
print(model.summary())

# %%
# Ten years ahead
# ---------------
# The band is for a new observation, so it is the held-out months that should fall into it.

grid = np.arange(1986, 2006, 1 / 12)[:, None]
mean = model.predict(grid)
low, high = model.predict_interval(grid, coverage=0.95)

fig, ax = plt.subplots(figsize=(8, 4))
ax.fill_between(grid[:, 0], low, high, color="C0", alpha=0.25, label="95 % for an observation")
ax.plot(grid[:, 0], mean, color="C0", lw=1, label="mean")
ax.plot(year[past], ppm[past], "k.", ms=3, label="learned from")
ax.plot(year[~past], ppm[~past], "C3.", ms=3, label="held out")
ax.set(xlim=(1986, 2006), ylim=(340, 390), xlabel="year", ylabel="CO2 (ppm)")
ax.legend(loc="upper left")

low, high = model.predict_interval(year[~past], coverage=0.95)
inside = np.mean((low <= ppm[~past]) & (ppm[~past] <= high))
error = np.sqrt(np.mean((model.predict(year[~past]) - ppm[~past]) ** 2))
print(f"held-out months inside the 95 % band: {inside:.0%}; root mean square error {error:.2f} ppm")

# %%
# One year of the season
# ----------------------
# The part of the posterior mean that a part of the kernel contributes is that part's cross-covariance times
# the weights alpha of the posterior (formula 1).

posterior = model.posteriors_[0]
learned = model.kernel_
months = 1990 + np.arange(0, 1.001, 1 / 48)[:, None]
seasonal = learned.parts[1](months, posterior.points) @ posterior.alpha

fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(12 * (months[:, 0] - 1990), seasonal)
ax.set(xlabel="month of 1990", ylabel="seasonal part (ppm)", xlim=(0, 12))
plt.show()
