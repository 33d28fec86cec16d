"""Do weights of classes help where one is rare? Logistic regression on imbalanced tables.

    MERCER_DATA=<folder> python benchmarks/class_weights.py

Of a table's second class one row in ten is kept. Rows weighted by the inverse frequency of their
class give probabilities that are far off; with the odds moved back by the same weights they are
compared with those of plain rows: log loss and area under the ROC curve, means of ten splits.
"""

from __future__ import annotations

import os
import sys

import numpy as np
from measure import ONE_THREAD
from table_data import TABLES
from table_peers import standardised

NAMES, SPLITS, SHARE = ("pima", "wdbc", "banana", "diabetis", "splice"), 10, 0.1


def measured(name: str, split: int) -> np.ndarray:
    """(loss, weighted, corrected, area, weighted area) of one split."""
    from scipy.special import expit
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss, roc_auc_score
    from table_data import Task

    X, y = TABLES[name][0]()
    rng = np.random.default_rng(split)
    rare = y == np.unique(y)[1]
    rows = rng.permutation(np.flatnonzero(~rare | (rng.uniform(size=len(y)) < SHARE)))
    half = len(rows) // 2
    train, test = standardised(Task(name, X, y, rows[:half], rows[half:]))
    a, b = rare[rows[:half]], rare[rows[half:]]
    plain = LogisticRegression(max_iter=1000).fit(train, a).predict_proba(test)[:, 1]
    weighted = LogisticRegression(max_iter=1000, class_weight="balanced").fit(train, a)
    f = weighted.decision_function(test)
    p, back = expit(f), expit(f + np.log(a.mean() / (1.0 - a.mean())))
    losses = [log_loss(b, q) for q in (plain, p, back)]
    return np.array([*losses, roc_auc_score(b, plain), roc_auc_score(b, p)])


def main() -> int:
    """Print a line for each table."""
    print("table        log loss: plain  weighted  corrected   area: plain  weighted")
    for name in NAMES:
        mean = np.mean([measured(name, split) for split in range(SPLITS)], axis=0)
        print(
            f"{name:14}{mean[0]:14.4f}{mean[1]:10.4f}{mean[2]:11.4f}{mean[3]:14.4f}{mean[4]:10.4f}"
        )
    return 0


if __name__ == "__main__":
    os.environ.update(ONE_THREAD)
    sys.exit(main())
