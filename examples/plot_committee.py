"""
A committee instead of one best guess
=====================================

The evidence of a few dozen labels does not single out one set of hyperparameters. A committee
averages the predictions of many, drawn from their posterior by Hamiltonian Monte Carlo, and its
probabilities know that the length scale is not known.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import GPClassifier
from mercer.kernels import RBF
from mercer.search import HMC, LogNormal

rng = np.random.default_rng(4)
X = np.sort(rng.uniform(-3, 3, (25, 1)), axis=0)
truth = 1.0 / (1.0 + np.exp(-4.0 * np.sin(1.5 * X[:, 0])))
y = rng.random(25) < truth

# %%
# A sampler needs proper priors.

kernel = (4.0 * RBF(1.0)).prior(
    variance=LogNormal(np.log(4.0), 1.0), kernel__length_scale=LogNormal(0.0, 1.0)
)
best = GPClassifier(kernel, random_state=0).fit(X, y)
search = HMC(samples=100, warmup=60, chains=2)
committee = GPClassifier(kernel, search=search, random_state=0).fit(X, y)
report = committee.report_["search"]
print("members:", len(committee.posteriors_))
for name, figures in report["parameters"].items():
    print(f"{name:32s} R-hat {figures['rhat']:.3f}, effective draws {figures['ess_bulk']:.0f}")

# %%
# The member with the highest posterior density, and all of them.

grid = np.linspace(-6, 6, 300)[:, None]
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8))
lengths = [p.parent.kernel.get_params()["kernel__length_scale"] for p in committee.posteriors_]
amplitudes = [p.parent.kernel.get_params()["variance"] for p in committee.posteriors_]
left.loglog(lengths, amplitudes, "o", alpha=0.6, label="members")
found = best.kernel_.get_params()
left.loglog(found["kernel__length_scale"], found["variance"], "k*", ms=14, label="best guess")
left.set(xlabel="length scale", ylabel="variance", title="hyperparameters")
left.legend()
right.plot(grid, committee.predict_proba(grid)[:, 1], "tab:blue", lw=2, label="committee")
right.plot(grid, best.predict_proba(grid)[:, 1], "k--", label="best guess")
right.plot(X, y, "o", color="tab:orange", ms=5, label="labels")
right.set(xlabel="x", ylabel="probability", title="predictions")
right.legend()
fig.tight_layout()
