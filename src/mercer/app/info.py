"""``mercer info``: what is in a model file."""

from __future__ import annotations

from typing import Any

from mercer.app import terminal as console
from mercer.app.results import plain_of, show_model
from mercer.app.terminal import require, shown
from mercer.persist import describe, load
from mercer.tables import TableModel


def run(*, model: str, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    about = describe(model)
    fitted = load(model)
    if isinstance(fitted, TableModel):
        _show_table_model(model, about, fitted, as_json)
        return
    names = [str(name) for name in getattr(fitted, "feature_names_in_", [])]
    machine = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted  # a pipeline's last
    target = machine.report_.get("table", {}).get("target")
    if as_json:
        summary = [list(row) for row in machine.summary().rows()]
        more = {"target": target, "features": names, "summary": summary}
        console.print_json(about | more)
        return
    console.print_pairs("Model file", _rows(model, about, fitted, names, target))
    console.print_summary(machine.summary().rows())


def _show_table_model(path: str, about: dict[str, Any], fitted: TableModel, as_json: bool) -> None:
    if as_json:
        console.print_json(about | plain_of(fitted))
        return
    rows = [
        ("file", f"{path} ({about['bytes']} bytes, format {about['format']})"),
        ("written by", f"mercer {about['mercer']}"),
        ("SHA-256", about["sha256"]),
    ]
    console.print_pairs("Model file", rows)
    show_model(fitted)


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
