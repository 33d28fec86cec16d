"""The page and the picture of jaakkola_haussler_sequential.py."""

from __future__ import annotations

import io
from pathlib import Path

HEAD = """# Jaakkola & Haussler: learning in one pass

Section 3 of T. Jaakkola and D. Haussler, Probabilistic kernel regression models (1999), by
`papers/jaakkola_haussler_sequential.py`, which wrote this page:

    MERCER_DATA=<folder> python papers/jaakkola_haussler_sequential.py \\
        --json figures.json --page <this page> --out <its picture>

The paper states the sequential method without figures. Here it meets what all examples seen so far
give together: the batch version of the same bound, Laplace's method and expectation propagation.
Kernel 4 exp(-|x - z|^2 / (2 d)) + 1 on inputs standardised by the training part; nothing is
searched. pima is Ripley's division, banana and twonorm the first of the distributed splits, the
first 1000 test examples of each. Means and standard deviations over {orders} orders of the
examples; at the last line of each set every batch method has the same examples in all orders, and
what is left of the spread is the order itself.

*Evidence* is the log evidence: lower bounds for the two of the bound, approximations for the
others. *Divergence* is KL(q | q of EP) of the latent marginals at the test inputs, in nats, mean.
"""
FIGURES = {
    "error": ("Test error, per cent", 100.0, 1),
    "log_loss": ("Test log loss", 1.0, 3),
    "evidence": ("Evidence", 1.0, 2),
    "divergence": ("Divergence from EP", 1.0, 3),
}


def page(rows: list[dict], image: str | None) -> str:
    """Return the page as Markdown: one table for each figure."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    lines = [HEAD.format(orders=max(row["orders"] for row in rows))]
    if image:
        lines.append(f"![Log loss and divergence as examples arrive]({image})\n")
    for figure, (title, factor, digits) in FIGURES.items():
        lines += [f"## {title}", "", "| set | n | " + " | ".join(methods) + " |"]
        lines.append("|---" * (len(methods) + 2) + "|")
        for name, n in dict.fromkeys((row["data"], row["n"]) for row in rows):
            own = {r["method"]: r[figure] for r in rows if (r["data"], r["n"]) == (name, n)}
            cells = [
                f"{factor * mean:.{digits}f} ± {factor * std:.{digits}f}"
                for mean, std in own.values()
            ]
            lines.append(f"| {name} | {n} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join([*lines, *conclusions(rows)]) + "\n"


def conclusions(rows: list[dict]) -> list[str]:
    """Return what the last time of each set shows, in sentences made from the figures."""
    lines = ["## What it shows", ""]
    for name in dict.fromkeys(row["data"] for row in rows):
        last = max(row["n"] for row in rows if row["data"] == name)
        own = {r["method"]: r for r in rows if (r["data"], r["n"]) == (name, last)}
        one, whole = own["sequential"], own["bound"]
        gap = whole["evidence"][0] - one["evidence"][0]
        worse = one["log_loss"][0] - whole["log_loss"][0]
        lines.append(
            f"- {name}, n = {last}: one pass loses {gap:.2f} nats of the bound "
            f"({gap / last:.4f} for each example) and {worse:+.4f} in log loss; the order moves "
            f"the bound by {one['evidence'][1]:.2f} nats, the log loss "
            f"by {one['log_loss'][1]:.4f} and the error by {100 * one['error'][1]:.2f} per cent "
            "(standard deviations)."
        )
    return lines


def picture(rows: list[dict], path: Path) -> None:
    """Draw log loss and divergence against the number of examples, a column for each set."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from PIL import Image  # matplotlib brings it

    names = list(dict.fromkeys(row["data"] for row in rows))
    shown = {"log_loss": "test log loss", "divergence": "divergence from EP"}
    figure, axes = plt.subplots(
        2, len(names), figsize=(3.6 * len(names), 5.4), sharex="col", squeeze=False
    )
    for j, name in enumerate(names):
        for i, (key, label) in enumerate(shown.items()):
            axis = axes[i, j]
            for k, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
                own = [r for r in rows if r["data"] == name and r["method"] == method]
                if key == "divergence" and method == "EP":
                    continue
                x, mean = [r["n"] for r in own], [r[key][0] for r in own]
                low, high = ([r[key][0] + s * r[key][1] for r in own] for s in (-1, 1))
                axis.plot(x, mean, "-o", ms=3, color=f"C{k}", label=method)
                axis.fill_between(x, low, high, color=f"C{k}", alpha=0.15, lw=0)
            axis.set_xscale("log")
            axis.set_xticks(x, [str(n) for n in x])
            axis.minorticks_off()
            axis.grid(alpha=0.3)
            if i == 0:
                axis.set_title(name)
            if j == 0:
                axis.set_ylabel(label)
        axes[1, j].set_xlabel("examples")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    with io.BytesIO() as drawn:
        figure.savefig(drawn, format="png", dpi=100)
        # 64 colours are enough for lines and bands, at a third of the size
        Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
    plt.close(figure)
