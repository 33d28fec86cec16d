"""
Displays: bands, calibration, regions, evidence, relevance
==========================================================

Pictures of fitted machines in scikit-learn's style. Every display is made by ``from_estimator`` or
from predictions that are already there, keeps what it drew, and leaves ``ax_`` and ``figure_`` to
be changed. ``from_loo`` draws the training rows as they are predicted from all the others, so that
nothing has to be held out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, make_moons

from mercer import GPClassifier, GPRegressor, KernelClassifier, plots

# %%
# A regression along one input
# ----------------------------
# Two bands, and the log evidence as a function of the length scale: the top is sharp, so these data
# determine it.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, size=(60, 1)), axis=0)
y = np.sin(x[:, 0]) + 0.2 * rng.normal(size=60)
curve = GPRegressor().fit(x, y)
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
plots.BandDisplay.from_estimator(curve, x, y, levels=(0.5, 0.95), target="y", ax=axes[0])
plots.EvidenceDisplay.from_estimator(curve, x, y, "kernel__kernel__length_scale", ax=axes[1])
plt.show()

# %%
# Is the prior right?
# -------------------
# The evidence asks how probable the data are under the prior, leave-one-out how well each row is
# predicted whether the prior holds or not: tops at the same place speak for the prior. The evidence
# is also a sum of predictions, each row from those before it.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
name = "kernel__kernel__length_scale"
both = plots.CriteriaDisplay.from_estimator(curve, x, y, name, ax=axes[0])
print("best by evidence {:.2f}, by rows left out {:.2f}".format(*both.best))
order = rng.permutation(60)
terms = plots.PrequentialDisplay.from_estimator(curve, x[order], y[order], ax=axes[1])
print(f"sum of predictions {terms.total:.3f}, log evidence {curve.log_evidence_:.3f}")
plt.show()

# %%
# Ten inputs
# ----------
# Disease progression of 442 patients: observed against predicted values, residuals and the honesty
# of the intervals, every patient predicted from all the others; and how far predictions move when
# one measurement is shuffled among the patients.

table = load_diabetes(scaled=False)
model = GPRegressor(random_state=0).fit(table.data, table.target)
fig, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
plots.ObservedDisplay.from_loo(model, table.target, target="progression", ax=axes[0, 0])
plots.CoverageDisplay.from_loo(model, table.target, ax=axes[0, 1])
plots.ResidualDisplay.from_loo(model, table.target, ax=axes[1, 0])
plots.RelevanceDisplay.from_estimator(model, table.data, names=table.feature_names, ax=axes[1, 1])
plt.show()

# %%
# Regions of a classifier
# -----------------------
# The surer the model, the stronger the colour: it fades beyond the data, where neither machine
# knows much. The length scales of the Gaussian process were learned, those of the other were not.

X, label = make_moons(120, noise=0.25, random_state=0)
names = np.array(["lower", "upper"])[label]
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, machine in zip(axes, (GPClassifier(), KernelClassifier(C=100.0)), strict=True):
    machine.fit(X, names)
    plots.DecisionRegionDisplay.from_estimator(machine, X, names, margin=1.0, ax=ax)
    ax.set_title(type(machine).__name__)
plt.show()

# %%
# Probabilities
# -------------
# Calibration, ROC, and precision against recall, again from rows left out. The last picture says
# what more rows would bring.

X, label = load_breast_cancer(return_X_y=True)
X = np.log1p(X[:, :6])
names = np.array(["malignant", "benign"])[label]
classifier = GPClassifier(random_state=0).fit(X[:300], names[:300])
fig, axes = plt.subplots(2, 2, figsize=(10, 8), layout="constrained")
reliable = plots.ReliabilityDisplay.from_loo(classifier, names[:300], ax=axes[0, 0])
print(f"calibration error {reliable.bins.error:.3f}")
for ax, kind in ((axes[0, 1], "roc"), (axes[1, 0], "pr")):
    plots.DiscriminationDisplay.from_loo(classifier, names[:300], kind=kind, ax=ax)
plots.LearningDisplay.from_estimator(KernelClassifier(), X, names, ax=axes[1, 1])
plt.show()

# %%
# How sure
# --------
# Errors as the least sure rows are turned down, the margins of a support vector machine when each
# row is left out, and which inputs the length scales keep.

from mercer import SVC
from mercer.kernels import RBF

fig, axes = plt.subplots(1, 3, figsize=(14, 4), layout="constrained")
reject = plots.ErrorRejectDisplay.from_loo(classifier, names[:300], ax=axes[0])
scaled = (X[:300] - X[:300].mean(axis=0)) / X[:300].std(axis=0)
margin = plots.MarginDisplay.from_loo(SVC(C=1.0).fit(scaled, names[:300]), ax=axes[1])
print(f"errors {reject.error[0]:.3f}, left out by the margins {margin.error:.3f}")
own = GPClassifier(10.0 * RBF(np.ones(6)), random_state=0).fit(X[:150], names[:150])
columns = ("radius", "texture", "perimeter", "area", "smoothness", "compactness")
kept = plots.LengthScaleDisplay.from_estimator(own, names=columns, ax=axes[2]).kept
print("kept:", ", ".join(kept))
plt.show()
