"""
Probabilities from a support vector machine
===========================================

``SVC(probability="loo")`` fits Platt's sigmoid to the leave-one-out margins, which follow from one
training pass. Here it stands beside scikit-learn's ``CalibratedClassifierCV(SVC())``, which trains
five more machines, and beside kernel logistic regression, which is probabilistic by construction
(its C by inner folds). Three tables that come with scikit-learn; every figure is of rows that were
held out (five folds).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn import svm
from sklearn.calibration import CalibratedClassifierCV, calibration_curve
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import SVC, KernelClassifier
from mercer.kernels import RBF

X, y = load_diabetes(return_X_y=True)
D, digit = load_digits(return_X_y=True)
rows = np.random.default_rng(0).permutation(len(D))[:600]
tables = {
    "breast cancer": load_breast_cancer(return_X_y=True),
    "diabetes above median": (X, (y > np.median(y)).astype(int)),
    "digits above four": (D[rows], (digit[rows] > 4).astype(int)),
}


def machines(d):
    """Return the classifiers for d standardised columns, all with the same kernel."""
    gamma = 1.0 / d
    logistic = KernelClassifier(RBF(length_scale=np.sqrt(0.5 * d)))  # gamma = 1 / (2 length^2)
    return {
        "SVC loo": SVC(gamma=gamma, probability="loo"),
        "SVC cv": SVC(gamma=gamma, probability="cv", random_state=0),
        "scikit-learn": CalibratedClassifierCV(svm.SVC(gamma=gamma), ensemble=False),
        "logistic": GridSearchCV(logistic, {"C": [1.0, 10.0, 100.0]}, scoring="neg_log_loss"),
    }


# %%
# Log loss and Brier score
# ------------------------
# Smaller is better; a coin has 0.6931 and 0.2500.

folds = StratifiedKFold(5, shuffle=True, random_state=0)
found = {}
print(f"{'':22s}{'':14s}log loss   Brier  accuracy")
for table, (X, y) in tables.items():
    for name, machine in machines(X.shape[1]).items():
        model = make_pipeline(StandardScaler(), machine)
        p = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
        found[table, name] = p
        print(
            f"{table:22s}{name:14s}{log_loss(y, p):8.4f}{brier_score_loss(y, p):8.4f}"
            f"{accuracy_score(y, p > 0.5):8.4f}"
        )

# %%
# Calibration
# -----------
# Of the rows that were given the probability p, a share p should be positive.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.8), sharey=True)
for ax, (table, (_, y)) in zip(axes, tables.items(), strict=True):
    ax.plot([0, 1], [0, 1], color="0.7")
    for name, marker in {"SVC loo": "o", "scikit-learn": "s", "logistic": "^"}.items():
        share, mean = calibration_curve(y, found[table, name], n_bins=8, strategy="quantile")
        ax.plot(mean, share, marker=marker, label=name)
    ax.set(title=table, xlabel="predicted")
axes[0].set(ylabel="observed")
axes[0].legend()
fig.tight_layout()
plt.show()
