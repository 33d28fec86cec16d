"""The page of each estimator describes every parameter of it, not only where to look for it."""

from __future__ import annotations

import inspect

import pytest
from sklearn.base import BaseEstimator

import mercer
from tests.documents.test_documents import script

ESTIMATORS = [
    name
    for name in mercer.__all__
    if inspect.isclass(cls := getattr(mercer, name))
    and issubclass(cls, BaseEstimator)
    and name != "TableModel"  # what the two estimators of tables share; they take the parameters
]


@pytest.fixture(scope="module")
def parameters():
    return script("parameters")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_parameter_is_described_on_the_page(name, parameters):
    cls = getattr(mercer, name)
    lines = (inspect.getdoc(cls) or "").split("\n")
    before = list(lines)
    parameters.process(None, "class", name, cls, {}, lines)
    found = parameters.entries(lines)
    full = {each for entry in found if entry.cited is None for each in entry.names}
    partly = {each for entry in found for each in entry.names}
    assert set(inspect.signature(cls).parameters) <= partly
    cited = {each for entry in found if entry.cited is not None for each in entry.names}
    assert cited <= full, f"{cited - full} are cited, but not described where they are said to be"
    start, end = parameters.section(before)
    assert lines[:start] == before[:start]
    assert lines[len(lines) - len(before) + end :] == before[end:]


def test_a_citation_is_followed_by_what_it_means(parameters):
    lines = "\n".join(
        line for entry in parameters.described(mercer.GPRegressor) for line in entry.lines
    )
    assert "See :class:`KernelRegressor`. The loss must be normalised" in lines
    assert "Unpenalised functions beside the kernel, with a flat prior" in lines
