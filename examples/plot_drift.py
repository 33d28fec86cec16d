"""
When the world changes: forgetting, drift and its detection
===========================================================

A classifier that learns for ever believes ever more firmly in what it learned first. Here the
boundary between two classes jumps once, then turns slowly. Four learners with the same kernel and
budget see every batch, and each batch is predicted before it is learned:

- one that keeps everything,
- ``rho=0.9``: before each batch the precision of the posterior is mixed with that of the prior,
- ``drift=0.1``: a tenth of the function is drawn anew from the prior before each batch, that is,
  the function is a process in time,
- ``drift="auto"``: how much is drawn anew is decided for each batch by the probability of its
  labels.
"""

import matplotlib.pyplot as plt
import numpy as np

from mercer import OnlineLogisticClassifier

BATCHES, ROWS = 120, 40
rng = np.random.default_rng(0)


def angle(t):
    """The normal of the boundary: at rest, a jump at 40, and from 80 on a slow turn."""
    return 0.0 if t < 40 else 2.4 + 0.05 * max(t - 80, 0)


def batch(t):
    X = rng.normal(size=(ROWS, 2))
    f = 4.0 * (np.cos(angle(t)) * X[:, 0] + np.sin(angle(t)) * X[:, 1])
    return X, rng.random(ROWS) < 1.0 / (1.0 + np.exp(-f))


learners = {
    "keeps all": OnlineLogisticClassifier(budget=80),
    "rho = 0.9": OnlineLogisticClassifier(budget=80, rho=0.9),
    "drift = 0.1": OnlineLogisticClassifier(budget=80, drift=0.1),
    'drift = "auto"': OnlineLogisticClassifier(budget=80, drift="auto"),
}
losses = {name: [] for name in learners}
shares = []
for t in range(BATCHES):
    X, y = batch(t)
    for name, learner in learners.items():
        before = learner.prequential_.log_loss_sum if t else 0.0
        learner.partial_fit(X, y, classes=[False, True])
        losses[name].append((learner.prequential_.log_loss_sum - before) / ROWS)
    shares.append(learners['drift = "auto"'].report_["drift"]["share"])

# %%
# ``prequential_`` keeps running sums; their differences are the log loss of each batch before it
# was learned. The learner that keeps all needs as long to change its mind as it took to make it up.

print(f"{'':16}{'log loss':>10}{'accuracy':>10}{'evidence':>10}")
for name, learner in learners.items():
    seen = learner.prequential_
    print(f"{name:16}{seen.log_loss:10.3f}{seen.accuracy:10.3f}{learner.log_evidence_:10.1f}")

# %%
# The evidence says the same without looking at the predictions: it is the sum of the lower bounds
# on each label given those before it, and of learners with equal kernels the largest is the best.
# "auto" acts at the jump and a few times in the slow turn, and not once in the eighty batches in
# which nothing moves.

figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(8, 5.5), sharex=True, height_ratios=(3, 1), layout="constrained"
)
window = np.ones(5) / 5.0
for name, values in losses.items():
    upper.plot(np.arange(2, BATCHES - 2), np.convolve(values, window, "valid"), label=name)
upper.set_ylabel("log loss of the next batch")
upper.set_yscale("log")
upper.legend(ncols=2)
lower.bar(np.arange(BATCHES), shares, color="C3")
lower.set_ylabel('share, "auto"')
lower.set_xlabel("batch")
for axis in (upper, lower):
    axis.axvline(40, color="gray", lw=0.8, ls=":")
    axis.axvspan(80, BATCHES, color="gray", alpha=0.1, lw=0)
plt.show()
