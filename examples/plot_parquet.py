"""
A table that stays in its file
==============================

20 000 rows lie in a parquet file, in row groups. A Gaussian process on inducing points reads them
block by block and keeps sums alone, a number for each pair of points, so that a table of any length
is learned from in the memory of one block. Kernel and noise come from the exact evidence of a
sample, and one pass over all rows gives the posterior and the bound on its evidence: the gap that
is left tells whether there are enough points.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import BlockTable, GPRegressor
from mercer.kernels import RBF
from mercer.linalg import Inducing

rng = np.random.default_rng(0)
hour = rng.uniform(0.0, 48.0, 20_000)
load = np.sin(2 * np.pi * hour / 24.0) + 0.4 * np.sin(2 * np.pi * hour / 5.0)
table = pd.DataFrame({"hour": hour, "load": load + 0.5 * rng.normal(size=len(hour))})
folder = tempfile.TemporaryDirectory()
path = os.path.join(folder.name, "load.parquet")
table.to_parquet(path, row_group_size=4000)

# %%
# More points, until the bound gains nothing
# ------------------------------------------
# The sample is the same for every fit: the rows with the smallest of the random numbers that belong
# to their places. ``max_iter=0`` keeps its hyperparameters, and the points where they are.

sizes, bounds, models = [5, 10, 20, 30, 40, 60], [], {}
for m in sizes:
    gram = Inducing(m=m, rows=500, move=False, max_iter=0)
    blocks = BlockTable(path, "load", sample=2000, block_rows=4000)
    models[m] = GPRegressor(1.0 * RBF(3.0), gram=gram, random_state=0).fit(blocks)
    bounds.append(models[m].log_evidence_ / len(table))
    print(f"{m:3d} points: at least {bounds[-1]:.4f} nats a row")
told = models[40].report_["blocks"]
print(f"{told['rows']} rows in {told['blocks']} blocks, read {told['passes']} times")

# %%
# Few points are a smoother function
# ----------------------------------

grid = pd.DataFrame({"hour": np.linspace(0.0, 48.0, 400)})
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8))
axes[0].plot(hour[:1500], table["load"][:1500], ".", color="0.8", markersize=2)
for m, color in ((10, "C1"), (40, "C0")):
    mean, std = models[m].predict(grid, return_std=True)
    axes[0].plot(grid["hour"], mean, color, label=f"{m} points")
    axes[0].fill_between(grid["hour"], mean - 2 * std, mean + 2 * std, color=color, alpha=0.15)
axes[0].set(xlabel="hour", ylabel="load", title="20 000 rows from a file")
axes[0].legend()
axes[1].plot(sizes, bounds, "o-")
axes[1].set(xlabel="inducing points", ylabel="bound, nats a row", title="What a point is worth")
fig.tight_layout()
plt.show()
folder.cleanup()
