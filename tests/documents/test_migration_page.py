"""The figures of the migration page are those that its example prints."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from sklearn.metrics import brier_score_loss, log_loss

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = ("breast cancer", "diabetes above median", "digits above four")
ROWS = {
    'log loss, `SVC(probability="loo")`': ("SVC loo", log_loss),
    "log loss, `CalibratedClassifierCV(SVC())`": ("scikit-learn", log_loss),
    "log loss, `KernelClassifier`": ("logistic", log_loss),
    'Brier score, `SVC(probability="loo")`': ("SVC loo", brier_score_loss),
    "Brier score, `CalibratedClassifierCV(SVC())`": ("scikit-learn", brier_score_loss),
    "Brier score, `KernelClassifier`": ("logistic", brier_score_loss),
}


def table() -> dict[str, list[float]]:
    """Return the figures of the page by the name of their row."""
    page = (ROOT / "docs/guide/from-sklearn-svc.md").read_text(encoding="utf-8")
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in page.splitlines()]
    return {row[0]: [float(c) for c in row[1:]] for row in cells if row[0] in ROWS}


@pytest.mark.slow
def test_the_table_is_the_examples() -> None:
    pytest.importorskip("matplotlib").use("Agg")
    stored = table()
    assert stored.keys() == ROWS.keys()
    names = runpy.run_path(str(ROOT / "examples/plot_svc_probabilities.py"))
    for row, (machine, score) in ROWS.items():
        for column, figure in zip(COLUMNS, stored[row], strict=True):
            y = names["tables"][column][1]
            found = score(y, names["found"][column, machine])
            assert found == pytest.approx(figure, abs=1.5e-4), (row, column)
