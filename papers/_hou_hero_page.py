"""The three figures as a page: pictures, tables beside the listed accuracies, and the bars."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _picture
import numpy as np
from _hou_hero_methods import COLUMNS, FIGURES
from _hou_hero_numbers import listed

Store = dict[tuple[str, str, int], list[float | None]]  # figure, method, seed: accuracy by batch
TITLES = {
    "1": "Figure 1: 200 categorical variables, all labelled",
    "2": "Figure 2: unit ball, 10 % labelled, heat 0.05",
    "2h": "Figure 2 with the paper's heat, 0.01",
    "3": "Figure 3: Isolet, one speaker in five labelled",
}
INTRO = """\
# Sequential maximum margin classifiers

Figures 1, 2 and 3 of E. Hou and A. Hero, Sequential maximum margin classifiers for partially
labeled data (2018), by `papers/hou_hero.py`, which wrote this page:

    MERCER_DATA=<folder> python papers/hou_hero.py --store papers/hou_hero.jsonl --page <this page>

Accuracy on a test set after each batch. The paper shows curves without numbers and leaves open the
generators of its simulations, its TF-IDF kernel and its heat kernel. The rows *listed* are those of
an independent implementation on the same ten streams of each simulation. Isolet is one stream,
without randomness. A machine has the same parameters for a whole stream: for
the simulations those that were best on three other streams, for Isolet those usual for it. Where C
is chosen for each t it was chosen with hindsight, as a bound on what retraining can reach. The
pictures have the curves of all streams that were run, bands are one standard error of the mean, and
dots are machines trained at a few t only.

- **Figure 1**: batches of 97 to 103 rows, 200 variables of four categories, of which 50 depend on
  the label. Kernel: `TFIDF()`, its frequencies from the first batch.
- **Figure 2**: points of the unit ball in three dimensions, +1 near the centre and -1 near the
  sphere; a threshold on the radius reaches 0.975. `RBF(1.0)`, 20 neighbours, edge weights
  exp(-d^2/(4 h)).
- **Figure 3**: letters A to M against N to Z, 24 groups of five speakers, the first of each group
  labelled, tested on the 1559 utterances of isolet5. `RBF(10.0)`, 10 neighbours, edge weights 0 and
  1, C = 100.

The rows of section 3.2 are the paper's own approximation in bounded memory, in three readings
(`papers/_hou_hero_averaged.py`): averaged singular vectors of the batches with the smallest or the
largest eigenvalues of their graphs, and the eigenvectors of the mean moments. The library offers
landmarks instead.
"""


def means(store: Store, figure: str, method: str) -> tuple[np.ndarray, np.ndarray, int] | None:
    """Mean and deviation over seeds for each batch, and how many seeds; None without any."""
    rows = [row for (f, m, _), row in store.items() if (f, m) == (figure, method)]
    if not rows:
        return None
    return averaged(rows)


Curve = tuple[np.ndarray, np.ndarray, int]  # mean and deviation for each batch, streams


def averaged(rows: list[list[float | None]]) -> Curve:
    """Mean and deviation over streams for each batch, NaN where a machine was not trained."""
    table = np.array([[np.nan if v is None else v for v in row] for row in rows])
    spread = table.std(axis=0, ddof=1) if len(table) > 1 else np.zeros(table.shape[1])
    return table.mean(axis=0), spread, len(table)


def plain(curves: dict[tuple[str, str], Curve]) -> dict[str, Any]:
    """The curves as JSON has them: by figure and method, four digits, None for NaN."""

    def numbers(values: np.ndarray) -> list[float | None]:
        return [None if np.isnan(v) else round(float(v), 4) for v in values]

    found: dict[str, Any] = {}
    for (figure, method), (mean, spread, count) in curves.items():
        row = {"streams": count, "mean": numbers(mean), "deviation": numbers(spread)}
        found.setdefault(figure, {})[method] = row
    return found


def trials(path: Path) -> dict[tuple[str, str], Curve]:
    """The stored means of many streams, by figure and method; none without the file."""
    if not path.exists():
        return {}

    def numbers(values: list[float | None]) -> np.ndarray:
        return np.array([np.nan if v is None else v for v in values])

    return {
        (figure, method): (numbers(row["mean"]), numbers(row["deviation"]), row["streams"])
        for figure, rows in json.loads(path.read_text(encoding="utf-8")).items()
        for method, row in rows.items()
    }


def _at(store: Store, figure: str, method: str, t: int) -> float:
    found = means(store, figure, method)
    return np.nan if found is None or t > len(found[0]) else float(found[0][t - 1])


def bars(store: Store) -> list[tuple[str, str, bool]]:
    """What must hold, what was found and whether it does; only what was run."""
    found: list[tuple[str, str, bool]] = []

    def add(sentence: str, value: float, holds: Callable[[float], bool]) -> None:
        if np.isfinite(value):
            found.append((sentence, f"{value:.4f}", holds(value)))

    med = _at(store, "1", "med", 20)
    add("figure 1: SeqMED at t = 20, at least 0.85", med, lambda v: v >= 0.85)
    full = _at(store, "1", "full-soft", 20)
    add("figure 1: full retraining less SeqMED, at most 0.015", full - med, lambda v: v <= 0.015)
    for method in ("exact", "landmarks-20"):
        curve = means(store, "2", method)
        if curve is not None and len(curve[0]) >= 15:
            words = f"figure 2: SeqLapMED ({method}), least from t = 5 on, at least 0.955"
            add(words, float(curve[0][4:].min()), lambda v: v >= 0.955)
    add(
        "figure 3: SeqLapMED exact at t = 24, 0.914",
        _at(store, "3", "exact", 24),
        lambda v: abs(v - 0.914) <= 0.0015,
    )
    add(
        "figure 3: 480 landmarks with residual at t = 24, at least 0.905",
        _at(store, "3", "landmarks-480", 24),
        lambda v: v >= 0.905,
    )
    add(
        "figure 3: full LapSVM at t = 24, 0.926",
        _at(store, "3", "full", 24),
        lambda v: abs(v - 0.926) <= 0.0015,
    )
    return found


def table(store: Store, figure: str) -> list[str]:
    """One table in Markdown: ours above the listed figures."""
    columns = COLUMNS[figure[0]]
    head = ["method", "figures of", "streams", *(f"t = {t}" for t in columns)]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, method in FIGURES[figure]().items():
        found, other = means(store, figure, name), listed(figure, name)
        if found is not None:
            values = [_at(store, figure, name, t) for t in columns]
            cells = [f"{v:.3f}" if np.isfinite(v) else "." for v in values]
            lines.append(f"| {method.title} | mercer | {found[2]} | " + " | ".join(cells) + " |")
        if other:
            title = "" if found is not None else method.title
            texts = [f"{other[t]:.3f}" if t in other else "." for t in columns]
            lines.append(f"| {title} | listed | | " + " | ".join(texts) + " |")
    return lines


def many(wide: dict[tuple[str, str], Curve], figure: str) -> list[str]:
    """The means over many streams with their standard errors in thousandths, in Markdown."""
    columns = COLUMNS[figure[0]]
    found = {m: wide[figure, m] for m in FIGURES[figure]() if (figure, m) in wide}
    if not found:
        return []
    count = min(curve[2] for curve in found.values())
    head = ["method", *(f"t = {t}" for t in columns)]
    lines = [
        f"{count} streams, as in the paper; in brackets the standard error in thousandths:",
        "",
    ]
    lines += ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, (mean, spread, n) in found.items():
        cells = [
            f"{mean[t - 1]:.3f} ({1000 * spread[t - 1] / np.sqrt(n):.0f})"
            if np.isfinite(mean[t - 1])
            else "."
            for t in columns
        ]
        lines.append(f"| {FIGURES[figure]()[name].title} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def page(
    store: Store, pictures: dict[str, str], wide: dict[tuple[str, str], Curve] | None = None
) -> str:
    """The whole page; ``pictures`` are file names by figure, ``wide`` means of many streams."""
    lines = [INTRO]
    held = bars(store)
    if held:
        lines += ["## Bars", "", "| | found | |", "|---|---|---|"]
        lines += [
            f"| {what} | {value} | {'holds' if fine else 'MISSED'} |" for what, value, fine in held
        ]
        lines.append("")
    for figure, title in TITLES.items():
        if not any(key[0] == figure for key in store):
            continue
        lines += [f"## {title}", ""]
        if figure in pictures:
            lines += [f"![{title}]({pictures[figure]})", ""]
        lines += [*table(store, figure), "", *many(wide or {}, figure)]
    return "\n".join(lines)


def draw(
    store: Store, folder: Path, wide: dict[tuple[str, str], Curve] | None = None
) -> dict[str, str]:
    """Write a picture of each figure that has rows, of ``wide`` where it has them; file names."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    written: dict[str, str] = {}
    for figure, title in TITLES.items():
        curves: dict[str, Any] = {
            method.title: (wide or {}).get((figure, name)) or means(store, figure, name)
            for name, method in FIGURES[figure]().items()
        }
        curves = {name: curve for name, curve in curves.items() if curve is not None}
        if not curves:
            continue
        fig, axis = plt.subplots(figsize=(8.0, 5.8), dpi=90)
        for i, (name, (mean, spread, count)) in enumerate(curves.items()):
            color = plt.get_cmap("tab20")((2 * i) % 20 + i // 10)
            t = np.flatnonzero(np.isfinite(mean))
            sparse = len(t) < len(mean)
            axis.plot(t + 1, mean[t], "o--" if sparse else "-", ms=3, color=color, label=name)
            if count > 1 and not sparse:
                error = spread[t] / np.sqrt(count)
                low, high = mean[t] - error, mean[t] + error
                axis.fill_between(t + 1, low, high, color=color, alpha=0.15, lw=0)
        axis.set(xlabel="batch", ylabel="test accuracy", title=title)
        axis.legend(
            fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.12), ncol=2, frameon=False
        )
        axis.grid(alpha=0.3)
        fig.tight_layout()
        written[figure] = f"hou_hero_{figure}.png"
        _picture.save(fig, folder / written[figure], 90)
    return written
