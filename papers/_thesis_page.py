"""The tables as a page: mercer's cells beside the listed and the thesis' figures."""

from __future__ import annotations

from typing import Any

import numpy as np
from _thesis_data import SETS
from _thesis_numbers import (
    BAYESIAN,
    FACTORED,
    Pair,
    Store,
    differences,
    find,
    held,
    listed,
    thesis,
    verdict,
)
from _thesis_relevance import lists
from _thesis_remarks import committees, factored
from _thesis_support import table as vectors

TITLES = {
    "lin": "linear",
    "svm": "SVM 10-CV",
    "lap": "Laplace",
    "vbgp": "VB-GP",
    "vbsvm": "VB-SVM",
    "ep": "EP probit",
    "fagp": "FA-GP",
    "fasvm": "FA-SVM",
    "hmc": "committee",
}
VARIANTS = {
    "no": "ARD, no hyperprior",
    "ln": "ARD, lognormal hyperprior",
    "iso": "one length scale, no hyperprior",
}
MODELS = (*BAYESIAN, *FACTORED)
COMMITTEE = (*MODELS, "hmc")
# title, key, variant, columns
TABLES = (
    ("Test errors without hyperprior (table 4.1)", "err", "no", ("lin", "svm", *MODELS)),
    ("Variance parameter C without hyperprior, median (table 4.2)", "C", "no", ("svm", *MODELS)),
    ("Test errors, lognormal hyperprior (table 4.4)", "err", "ln", COMMITTEE),
    ("Variance parameter C, lognormal hyperprior, median (table 4.5)", "C", "ln", COMMITTEE),
    ("Test errors, one length scale, no hyperprior", "err", "iso", BAYESIAN),
    ("Mean F, no hyperprior", "F", "no", MODELS),
    ("Mean F, lognormal hyperprior", "F", "ln", MODELS),
    ("Mean F, one length scale", "F", "iso", BAYESIAN),
    ("Negative log predictive density, no hyperprior", "nlpd", "no", MODELS),
    ("Negative log predictive density, lognormal hyperprior", "nlpd", "ln", COMMITTEE),
    ("Negative log predictive density, one length scale", "nlpd", "iso", BAYESIAN),
)
INTRO = """\
# The tables of Seeger's thesis

Tables 4.1 to 4.5 and figure 4.1 of M. Seeger, Bayesian methods for support vector machines and
Gaussian processes (1999), by `papers/thesis_tables.py`, which wrote this page:

    MERCER_DATA=<folder> python papers/thesis_tables.py --store cells.jsonl \\
        --support vectors.jsonl --count --pictures docs/papers --page <this page>

The cells are in `papers/thesis_tables.jsonl`, one search on one split in a line; the support
vectors in `papers/thesis_support.jsonl`.

Inputs are standardised over the whole set. Splits are random, training rows first in
`numpy.random.default_rng(1000 + split).permutation(n)`; pima-ripley is Ripley's own division, the
thesis' sizes. Kernel (4.22), `C (exp(-1/(2d) sum_k w_k (x_k - z_k)^2) + v)`, with 1e-6 C on the
diagonal; L-BFGS-B on the logarithms of w, v and C within [-12, 9] from w = 1, v = 0.1, C = 10, at
most 100 iterations, ftol 1e-8, gtol 1e-4. Laplace and VB-GP have Bernoulli noise, VB-SVM the
normalised hinge with slope 1, EP probit noise of scale 1. The lognormal hyperprior is N(-3, 9) for
each logarithm. FA is the factor-analysed variational class of the thesis with 3 factors; it depends
on what stands on the diagonal, which is 1e-3 C for it (1e-6 C on twonorm and ringnorm), as in the
listed figures. Linear is the discriminant of least squared error; the SVM has a bias and one w,
chosen with C by ten-fold cross-validation. The committee averages the probabilities of 60 Laplace
machines whose parameters were drawn by Hamiltonian Monte Carlo under the lognormal hyperprior.

Three rows for each set: *mercer*; *listed*, the figures of another implementation on the same
splits (`tests/data/thesis_splits.json`); *thesis*, its single run on a split that is not known.
Means with standard deviations over the splits; "a / b" are the errors of the mean and of the mode
discriminant. A figure with [k] rests on k splits, every other one on as many as the row says. A dot
says that there is no figure: a cell that was not run, or not listed.
"""


def line(cell: Any, row: dict[str, Any]) -> str:
    """One finished cell, with its distance from the listed figures."""
    other = find(cell)
    text = f"{cell.data} {cell.seed} {cell.method} {cell.variant}: errors {row['err']}"
    text += f" / {row['err_mode']}" if "err_mode" in row else ""
    for key, gap in differences(row, other).items():
        text += f", {key} {gap:+.3f}" if key == "F" else f", {key} {gap:+d}"
    if row.get("unconverged"):
        text += f", {row['unconverged']} inner iterations not converged"
    return text + f" ({row.get('seconds', 0.0):.1f} s)"


def outside(store: Store, kind: str = "outside") -> list[tuple[Any, str]]:
    """Cells of the verdict ``kind``, and their figures."""
    found = []
    for cell, row, other in held(store):
        if verdict(cell, row, SETS[cell.data].tests) == kind:
            gaps = differences(row, other)
            texts = [f"{k} {row[k]:.6g}, listed {other[k]:.6g}" for k in gaps]
            there = f"F at the listed parameters {row.get('F_there', np.nan):.6g}"
            found.append((cell, ", ".join([*texts, there])))
    return found


def figure(rows: list[dict[str, Any]], key: str, most: int) -> str:
    """Mean and deviation over splits, or the median of C; the splits, if fewer than ``most``."""
    values = [row[key] for row in rows if key in row]
    if not values:
        return "."
    whole = 0 if np.mean(values) >= 100.0 else 1
    digits = {"nlpd": 3, "F": 2, "C": 1}.get(key, whole)
    middle = np.median(values) if key == "C" else np.mean(values)
    text = f"{middle:.{digits}f}"
    if key == "err" and len(values) > 1:
        text += f" ± {np.std(values, ddof=1):.{digits}f}"
    modes = [row["err_mode"] for row in rows if "err_mode" in row]
    if key == "err" and modes:
        text += f" / {np.mean(modes):.{digits}f}"
    return text if len(values) == most else f"{text} [{len(values)}]"


def table(store: Store, title: str, key: str, variant: str, columns: tuple[str, ...]) -> list[str]:
    """One table in Markdown."""
    known = listed()
    head = ["set", "train/test", "figures of", "splits", *(TITLES[m] for m in columns)]
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for data, given in SETS.items():
        if variant == "iso" and data == "pima-ripley":
            continue
        ours = {
            m: {c.seed: r for c, r in store.items() if c[::2] == (data, m) and c.variant == variant}
            for m in columns
        }
        other = {m: known.get((data, m, variant), {}) for m in columns}
        # listed figures of the splits that were run here, of all where none was
        other = {
            m: {s: r for s, r in rows.items() if s in ours[m] or not ours[m]}
            for m, rows in other.items()
        }
        for name, found in (("mercer", ours), ("listed", other)):
            most = max(len(rows) for rows in found.values())
            cells = [figure(list(found[m].values()), key, most) for m in columns]
            first = f"{data} | {given.train}/{given.tests}" if name == "mercer" else " | "
            lines.append(f"| {first} | {name} | {most or '.'} | " + " | ".join(cells) + " |")
        numbers = [thesis(key, variant, data, m) for m in columns]
        if any(numbers):
            lines.append("| | | thesis | 1 | " + " | ".join(n or "." for n in numbers) + " |")
    return [*lines, ""]


def by_split(store: Store) -> list[str]:
    """F of every split with its distance from the listed value."""
    lines = ["## F split by split", ""]
    lines += [
        "F = -log evidence (a bound on it for VB), the log density of the hyperprior included; in",
        "brackets ours less the listed value in thousandths, then the same for the errors.",
        "",
    ]
    cells = {cell: (row, other) for cell, row, other in held(store, MODELS)}
    for data, given in SETS.items():
        if not any(cell.data == data for cell in cells):
            continue
        head = ["", *(str(seed) for seed in range(given.splits))]
        lines += [f"### {data}", "", "| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
        for variant in VARIANTS:
            for method in MODELS:
                texts = []
                for seed in range(given.splits):
                    pair = cells.get((data, seed, method, variant))
                    texts.append("." if pair is None else _gap(*pair))
                if any(t != "." for t in texts):
                    name = f"{TITLES[method]}, {variant}"
                    lines.append(f"| {name} | " + " | ".join(texts) + " |")
        lines.append("")
    return lines


def _gap(row: dict[str, Any], other: dict[str, Any]) -> str:
    gaps = differences(row, other)
    errors = ", ".join(f"{gaps[k]:+d}" for k in ("err", "err_mode") if k in gaps)
    return f"{row['F']:.2f} ({1000 * gaps['F']:+.0f}; {errors})"


def summary(store: Store) -> list[str]:
    """How many cells were run, and which are outside."""
    cells, lower, bad = held(store), outside(store, "lower"), outside(store)
    wanted = sum(len(rows) for (_, m, _), rows in listed().items() if m in BAYESIAN)
    lines = ["## Agreement", ""]
    lines += [
        f"{len(cells)} of the {wanted} listed searches of Laplace, EP, VB-GP and VB-SVM were run;",
        f"{len(cells) - len(bad) - len(lower)} are within the tolerances: F within 0.1 (0.5 on",
        "crabs and wdbc without hyperprior, where there are flat directions and local optima),",
        "errors within 0.5 per cent of the test set, or 2. No tolerance applies to other columns.",
        "",
    ]
    if cells:
        gaps = np.abs([differences(row, other)["F"] for _, row, other in cells])
        there = [abs(row["F_there"] - other["F"]) for _, row, other in cells if "F_there" in row]
        late = sum(row["unconverged"] > 0 for _, row, _ in cells)
        lines += [
            f"Distance of F: median {np.median(gaps):.4f}, 99 % within "
            f"{np.quantile(gaps, 0.99):.3f}, largest {gaps.max():.3f}; at the listed parameters, "
            f"where both have the same thing to compute, largest {max(there, default=np.nan):.4f}.",
            f"Searches in which an inner iteration did not converge: {late}; modes that did not: "
            f"{sum(not row.get('mode_converged', True) for _, row, _ in cells)}.",
            f"Medians over the searches: {_medians(cells)}.",
            "",
        ]
    for method in FACTORED:
        lines += factored(TITLES[method], store, method)
    lines += committees(store)
    if lower:
        lines += ["Lower F than listed, at the listed parameters the same:", "", *_items(lower), ""]
    if bad:
        lines += ["Outside:", "", *_items(bad), ""]
    return lines


def _items(found: list[tuple[Any, str]]) -> list[str]:
    return [
        f"- {c.data}, split {c.seed}, {TITLES[c.method]}, {VARIANTS[c.variant]}: {text}"
        for c, text in found
    ]


def _medians(cells: list[Pair]) -> str:
    texts = []
    for method in BAYESIAN:
        rows = [row for cell, row, _ in cells if cell.method == method]
        if rows:
            steps, count = (np.median([row[k] for row in rows]) for k in ("factorisations", "nev"))
            text = f"{TITLES[method]} {steps:.0f} factorisations per evaluation"
            texts.append(f"{text}, {count:.0f} evaluations")
    return "; ".join(texts)


BOXES = """\
## Box plots of the test errors (figure 4.1)

Over the splits, in per cent; crosses are the thesis' single runs. ŷ is the discriminant of the
mode, μ that of the mean, LN the lognormal hyperprior; the linear discriminant of ringnorm lies
above.

![box plots of test errors](thesis_boxes.png)
"""
RELEVANCE = """\
![share of the searches in which an input is kept](thesis_relevance.png)
"""


def page(store: Store, support: Store | None = None) -> str:
    """The page in Markdown; ``support`` has the counts of table 4.3."""
    lines = [INTRO, *summary(store)]
    for title, key, variant, columns in TABLES:
        lines += table(store, title, key, variant, columns)
    lines += [*vectors(support or {}), BOXES, *lists(store), RELEVANCE]
    return "\n".join([*lines, *by_split(store)]).rstrip() + "\n"
