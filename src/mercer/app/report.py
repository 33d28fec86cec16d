"""The report: one HTML file without scripts, every text from the table escaped."""

from __future__ import annotations

import base64
import hashlib
import warnings
from importlib.metadata import version
from importlib.resources import files
from typing import Any

import numpy as np

from mercer.app import pictures
from mercer.app.console import shape
from mercer.app.errors import require, shown
from mercer.app.fit import Fitted, quality_cells
from mercer.app.remarks import remarks
from mercer.arrays import Array
from mercer.persist import replacing

ROWS = 500  # rows used for the effect of an input: enough for a bar chart


def write_report(
    path: str, fitted: Fitted, held_out: dict[str, dict[str, float]] | None = None
) -> None:
    """Write the report of a fit to ``path``, completely or not at all."""
    text = render(fitted, held_out)
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8") as file:
        file.write(text)


def render(fitted: Fitted, held_out: dict[str, dict[str, float]] | None = None) -> str:
    """Return the report as HTML; ``held_out`` holds figures of several methods by name."""
    jinja2 = require("jinja2", "the report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder = files("mercer.app")
    style = folder.joinpath("report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    template = environment.from_string(folder.joinpath("report.html.j2").read_text("utf-8"))
    figures = fitted.loo_quality()
    sections: dict[str, list[tuple[str, str]]] = {}
    for section, label, value in fitted.model.summary().rows():
        sections.setdefault(shown(section, 80), []).append((shown(label, 80), _words(value)))
    return str(
        template.render(
            style=style,
            style_digest=f"'sha256-{digest}'",
            target=shown(fitted.target, 80),
            source=shown(fitted.source, 120),
            rows=len(fitted.y),
            inputs=len(fitted.names),
            figures=figures,
            remarks=[shown(r, 600) for r in remarks(fitted)],
            pictures=_pictures(fitted),
            held_out={k: quality_cells(v) for k, v in (held_out or {}).items()},
            sections=sections,
            units=_units(fitted),
            version=version("mercer"),
        )
    )


def _words(value: Any) -> str:
    return shown(shape(value), 400)


def _pictures(fitted: Fitted) -> list[dict[str, str]]:
    loo = fitted.model.loo_
    counted = loo.weights > 0
    y, mean, std = (np.asarray(a)[counted] for a in (fitted.y, loo.mean, loo.std))
    effects = effects_of_inputs(fitted)
    main = [int(j) for j in np.argsort(effects)[::-1][:3]]
    curves = [(fitted.names[j], *slice_along(fitted, j)) for j in main]
    share = fitted.loo_quality()["coverage90"]
    first = shown(fitted.names[main[0]], 40)
    others = "" if len(fitted.names) == 1 else " The other inputs stay at their medians."
    return [
        {
            "title": "Predictions with 90 % bands",
            "source": pictures.observed_against_predicted(y, mean, std, fitted.target),
            "alt": f"Observed against predicted values of {len(y)} rows with 90 % intervals; "
            f"{100 * share:.1f} % of the rows lie inside theirs.",
            "caption": "Every row is predicted from all the others (leave-one-out). The closer to "
            "the diagonal the better; the bands should contain nine rows out of ten.",
        },
        {
            "title": "Calibration of the intervals",
            "source": pictures.calibration(y, mean, std),
            "alt": "Share of left-out rows inside their interval against its probability; "
            f"at 90 % it is {100 * share:.1f} %.",
            "caption": "Honest intervals follow the diagonal within the shaded band. Below it the "
            "intervals are too narrow, above it too wide.",
        },
        {
            "title": "Residuals",
            "source": pictures.residuals(y, mean, std),
            "alt": "Residuals of the left-out rows in units of their predicted deviation, against "
            "the prediction, and their histogram beside the normal density.",
            "caption": "Nine residuals out of ten belong into the shaded band. A bend or a funnel "
            "says that the model misses a structure.",
        },
        {
            "title": "Relevance of the inputs",
            "source": pictures.relevance(effects, fitted.names),
            "alt": f"Bar chart of the effect of each input; the greatest is that of {first}.",
            "caption": "How far the predictions move when the values of one column are shuffled "
            "among the rows: root mean square, in standard deviations of the target.",
        },
        {
            "title": "Along the most relevant inputs",
            "source": pictures.slices(curves, fitted.target),
            "alt": f"Prediction with 90 % band along {len(curves)} inputs, the first is {first}.",
            "caption": "The prediction for a new observation and its 90 % band." + others,
        },
    ]


def effects_of_inputs(fitted: Fitted, seed: int = 0) -> Array:
    """Return by how much predictions change when one column is shuffled, (d,).

    Root mean square over at most 500 rows, in standard deviations of the target.
    """
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(fitted.X))[:ROWS]
    X, scale = fitted.X[rows], float(fitted.y.std()) or 1.0
    base, effects = _predict(fitted, X)[0], np.empty(X.shape[1])
    for j in range(X.shape[1]):
        moved = X.copy()
        moved[:, j] = rng.permutation(moved[:, j])
        effects[j] = np.sqrt(np.mean((_predict(fitted, moved)[0] - base) ** 2)) / scale
    return effects


def slice_along(fitted: Fitted, j: int) -> tuple[Array, Array, Array]:
    """Return (grid, mean, std), (k,) each, along input j with the others at their medians."""
    grid = np.linspace(fitted.X[:, j].min(), fitted.X[:, j].max(), 120)
    X = np.tile(np.median(fitted.X, axis=0), (len(grid), 1))
    X[:, j] = grid
    mean, std = _predict(fitted, X, True)
    return grid, mean, std


def _predict(fitted: Fitted, X: Array, std: bool = False) -> tuple[Array, ...]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        found = fitted.model.predict(X, return_std=std)
    return found if std else (found,)


def _units(fitted: Fitted) -> list[tuple[str, str, str]]:
    """Return (column, subtracted, divided by) of what was standardised; empty if nothing was."""
    units = fitted.model.report_.get("standardize") or {}
    if not units.get("on"):
        return []
    columns = zip(fitted.names, units["x_shift"], units["x_scale"], strict=True)
    target = (fitted.target, units["y_shift"][0], units["y_scale"][0])
    return [(shown(name, 60), shape(a), shape(b)) for name, a, b in [*columns, target]]
