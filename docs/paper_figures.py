"""The figures that the scripts in ``papers/`` have stored, by script and name.

``papers/index.json`` names them in braces, and ``stored.py`` puts the numbers in their place. Rows
of one search or of one stream are averaged here, over splits and seeds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
WHOLE = {  # scripts whose figures are stored as they are named
    "usps": "papers/usps_3v5.json",
    "gpml": "papers/gpml_usps.json",
    "spline": "papers/gpml_fig_6_1.json",
    "bound": "papers/loo_bound.json",
    "skilling": "papers/skilling_bounds.json",
    "uci": "papers/uci_regression.json",
    "rvm": "docs/papers/rvm_vs_svm.json",
    "thesis_figures": "papers/thesis_figures.json",
    "gpml_figures": "papers/gpml_figures.json",
}


def figures() -> dict[str, Any]:
    """Everything that is stored; a script that has stored nothing is left out."""
    there = {name: path for name, path in WHOLE.items() if (ROOT / path).exists()}
    found = {name: json.loads(_text(path)) for name, path in there.items()}
    cells = {"thesis": thesis(), "support": support(), "kept": kept(), "contours": contours()}
    return found | cells | {"hou": hou_hero(), "trials": trials(), "sequential": sequential()}


def thesis() -> dict[str, Any]:
    """Means over splits by data, method and variant, and how many ``splits``."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in _lines("papers/thesis_tables.jsonl"):
        groups[row["data"], row["method"], row["variant"]].append(row)
    found: dict[str, Any] = {}
    for (data, method, variant), own in groups.items():
        cell = {"splits": len(own), "err": mean(row["err"] for row in own)}
        modes = [row["err_mode"] for row in own if "err_mode" in row]
        if modes:
            cell["err_mode"] = mean(modes)
        found.setdefault(data, {}).setdefault(method, {})[variant] = cell
    return found


def support() -> dict[str, Any]:
    """Support vectors "at the bound, between" of table 4.3 by data, method and variant, means."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in _lines("papers/thesis_support.jsonl"):
        groups[row["data"], row["method"], row["variant"]].append(row)
    found: dict[str, Any] = {}
    for (data, method, variant), own in groups.items():
        pair = ", ".join(f"{mean(row[key] for row in own):.0f}" for key in ("bound", "essential"))
        found.setdefault(data, {}).setdefault(method, {})[variant] = pair
    return found


def kept() -> dict[str, str]:
    """Inputs, from 1, with a hundredth of the largest w or more in three quarters of searches."""
    groups: dict[str, list[list[bool]]] = defaultdict(list)
    for row in _lines("papers/thesis_tables.jsonl"):
        if row["variant"] == "no" and row["method"] in ("lap", "vbgp", "vbsvm", "ep"):
            groups[row["data"]].append([w >= 0.01 * max(row["w"]) for w in row["w"]])
    return {
        data: ", ".join(str(j) for j, w in enumerate(zip(*own, strict=True), 1) if mean(w) >= 0.75)
        for data, own in groups.items()
    }


def contours() -> dict[str, Any]:
    """Largest evidence of each method on its grid, the bits there, and the most bits."""
    both, ten = (json.loads(_text(f"papers/usps_{name}.json")) for name in ("contours", "ten"))
    found: dict[str, Any] = {"rows": ten["rows"], "tests": ten["tests"]}
    for name, grid in {"laplace": both["laplace"], "ep": both["ep"], "ten": ten["laplace"]}.items():
        pairs = [
            pair
            for rows in zip(grid["log evidence"], grid["bits"], strict=True)
            for pair in zip(*rows, strict=True)
        ]
        evidence, bits = max(pairs)
        found[name] = {"evidence": evidence, "bits": bits, "most": max(b for _, b in pairs)}
    return found


def trials() -> dict[str, Any]:
    """Means over many streams of the simulations by figure and method: ``t1``, ``t2``, .."""
    return {
        f"figure {figure}": {
            method: {"streams": row["streams"]}
            | {f"t{t}": value for t, value in enumerate(row["mean"], 1) if value is not None}
            for method, row in rows.items()
        }
        for figure, rows in json.loads(_text("papers/hou_hero_trials.json")).items()
    }


def hou_hero() -> dict[str, Any]:
    """Mean accuracy over streams by figure and method: ``t1``, ``t2``, ..; ``worst`` from t5 on."""
    groups: dict[tuple[str, str], list[list[float | None]]] = defaultdict(list)
    for row in _lines("papers/hou_hero.jsonl"):
        groups[f"figure {row['figure']}", row["method"]].append(row["accuracy"])
    found: dict[str, Any] = {}
    for (figure, method), curves in groups.items():
        batches = enumerate(zip(*curves, strict=True), 1)
        curve = {f"t{t}": mean(v) for t, v in batches if None not in v}
        late = [value for t, value in curve.items() if int(t[1:]) >= 5]
        found.setdefault(figure, {})[method] = curve | {"worst": min(late)}
    return found


def sequential() -> dict[str, Any]:
    """Mean figures over orders by data, number of examples (``n200``) and method."""
    found: dict[str, Any] = {}
    for row in json.loads(_text("papers/jaakkola_haussler_sequential.json")):
        figure = {key: value[0] for key, value in row.items() if isinstance(value, list)}
        by_size = found.setdefault(row["data"], {})
        by_size.setdefault(f"n{row['n']}", {})[row["method"]] = figure
    return found


def _lines(path: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _text(path).splitlines()]


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")
