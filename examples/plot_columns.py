"""
Kernels on chosen columns: an additive model
============================================

A kernel can be restricted to columns by name. A sum of such kernels is an additive model, whose
terms can be looked at one by one; a product is an interaction. Here the truth is known: a smooth
effect of age, a straight line in dose, and a column that does nothing.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from mercer import GPRegressor
from mercer.kernels import RBF, Linear

rng = np.random.default_rng(3)
n = 120
table = pd.DataFrame(
    {
        "age": rng.uniform(20, 80, n),
        "dose": rng.uniform(0, 5, n),
        "shoe_size": rng.normal(42, 2, n),
    }
)
effect_of_age = 4 * np.sin(table["age"] / 5)
y = 10 + effect_of_age + 1.5 * table["dose"] + rng.normal(0, 1, n)

# %%
# The model
# ---------
# Length scales are in the units of their column. The offset is a basis function without penalty.

kernel = 10.0 * RBF(10.0).on("age") + Linear().on("dose") + 1.0 * RBF(2.0).on("shoe_size")
model = GPRegressor(kernel, basis="constant", random_state=0).fit(table, y)
print(model.summary())

# %%
# The learned variance of the third term says whether shoe size matters:

for term in model.kernel_.parts:
    print(term)

# %%
# Term by term
# ------------
# In an additive model, moving one column and holding the others at their median shows that
# column's term, up to a constant.

typical = table.median()
fig, axes = plt.subplots(1, 3, figsize=(9, 3), sharey=True)
for ax, column in zip(axes, table.columns, strict=True):
    grid = pd.DataFrame([typical] * 100, columns=table.columns)
    grid[column] = np.linspace(table[column].min(), table[column].max(), 100)
    mean, std = model.predict_latent(grid)
    ax.fill_between(grid[column], mean - 2 * std, mean + 2 * std, alpha=0.25)
    ax.plot(grid[column], mean)
    ax.set(xlabel=column)
axes[0].set_ylabel("prediction")
fig.tight_layout()

# %%
# Against one kernel on all columns
# ---------------------------------
# One kernel on all columns leaves room for interactions that do not exist, and pays for it. The
# log evidence may be compared here, because the basis is the same.

joint = GPRegressor(basis="constant", random_state=0).fit(table, y)
print(f"log evidence: additive {model.log_evidence_:.1f}, one RBF {joint.log_evidence_:.1f}")
plt.show()
