"""``mercer info``: what is in a model file."""

from __future__ import annotations

from typing import Any

from mercer.app import console
from mercer.app.errors import require, shown
from mercer.persist import describe, load


def run(*, model: str, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    about = describe(model)
    fitted = load(model)
    names = [str(name) for name in getattr(fitted, "feature_names_in_", [])]
    target = fitted.report_.get("table", {}).get("target")
    if as_json:
        summary = [list(row) for row in fitted.summary().rows()]
        more = {"target": target, "features": names, "summary": summary}
        console.print_json(about | more)
        return
    console.print_pairs("Model file", _rows(model, about, fitted, names, target))
    console.print_summary(fitted.summary().rows())


def _rows(
    path: str, about: dict[str, Any], fitted: Any, names: list[str], target: str | None
) -> list[tuple[str, str]]:
    inputs = (
        ", ".join(shown(n, 40) for n in names)
        if names
        else f"{fitted.n_features_in_} columns without names"
    )
    return [
        ("file", f"{path} ({about['bytes']} bytes, format {about['format']})"),
        ("written by", f"mercer {about['mercer']}"),
        ("estimator", about["estimator"]),
        ("target", "not recorded" if target is None else target),
        ("inputs", inputs),
        ("SHA-256", about["sha256"]),
    ]
