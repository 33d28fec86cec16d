"""``mercer info``: what is in a model file."""

from __future__ import annotations

from mercer.app import terminal as console
from mercer.app.results import plain_of, show_model
from mercer.app.terminal import LINES, require, shown
from mercer.persist import describe, load
from mercer.tables import TableModel


def run(*, model: str, as_json: bool) -> None:
    """Do the command; the parameters are its options."""
    require("rich", "printing")
    about = describe(model)
    fitted = load(model)
    file = [
        ("file", f"{model} ({about['bytes']} bytes, format {about['format']})"),
        ("written by", f"mercer {about['mercer']}"),
    ]
    digest = ("SHA-256", about["sha256"])
    if isinstance(fitted, TableModel):
        if as_json:
            console.print_json(about | plain_of(fitted))
        else:
            console.print_pairs("Model file", [*file, digest])
            show_model(fitted)
        return
    names = [str(name) for name in getattr(fitted, "feature_names_in_", [])]
    machine = fitted.steps[-1][1] if hasattr(fitted, "steps") else fitted  # a pipeline's last
    target = machine.report_.get("table", {}).get("target")
    summary = machine.summary().rows()
    if as_json:
        more = {"target": target, "features": names, "summary": [list(row) for row in summary]}
        console.print_json(about | more)
        return
    inputs = ", ".join(shown(n, 40) for n in names[:LINES])
    inputs += f" and {len(names) - LINES} more" if len(names) > LINES else ""
    rows = [
        ("estimator", about["estimator"]),
        ("target", "not recorded" if target is None else target),
        ("inputs", inputs or f"{fitted.n_features_in_} columns without names"),
    ]
    console.print_pairs("Model file", [*file, *rows, digest])
    console.print_summary(summary)
