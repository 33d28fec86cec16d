"""The ranking: which machines have an evidence, and how it is shown."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer.tables.choose.ranking import evidence_of

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

X = np.random.default_rng(0).normal(size=(40, 2))
LABELS = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "yes", "no")


@pytest.mark.parametrize(
    ("machine", "has"),
    [
        (mercer.GPClassifier(search=None), True),
        (mercer.RVClassifier(), True),
        (mercer.ProbabilisticLeastSquaresClassifier(search=None), False),
        (mercer.SVC(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_a_likelihood_has_an_evidence(machine, has):
    found = evidence_of(machine.fit(X, LABELS))
    assert (found is not None) == has
    if has:
        assert found == machine.log_evidence_


def test_none_is_a_dash():
    table = {"a": X[:, 0], "b": X[:, 1], "y": LABELS}
    model = mercer.fit(table, "y", candidates=["least squares", "linear"])
    rows = {row.name: row for row in model.ranking_}
    assert rows["least squares"].evidence is None
    assert rows["linear"].evidence is not None
    place = model.compare().head().index("evidence")
    cells = {cell[0].strip("* "): cell[place] for cell in model.compare().cells()}
    assert (cells["least squares"], cells["constant"]) == ("-", "-")
    float(cells["linear"])
