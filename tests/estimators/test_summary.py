"""The summary: complete, in words, and harmless as HTML."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from mercer import GPRegressor
from mercer.kernels import RBF
from mercer.losses import Gaussian


def table(rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    X = rng.normal(size=(40, 2))
    frame = pd.DataFrame(X, columns=["age", "<script>alert('x')</script>&"])
    return frame, 5 * np.sin(2 * X[:, 0]) + 0.5 * rng.normal(size=40)


@pytest.fixture
def model(rng: np.random.Generator) -> GPRegressor:
    return GPRegressor().fit(*table(rng))


def value(model: GPRegressor, label: str) -> str:
    rows = model.summary().rows()
    found = [v for _, name, v in rows if label == name] or [v for _, n, v in rows if label in n]
    assert len(found) == 1, f"{label} appears {len(found)} times"
    return found[0]


def test_what_it_says(model: GPRegressor) -> None:
    assert value(model, "rows") == "40 (40 distinct inputs)"
    assert value(model, "columns") == "2"
    assert value(model, "log evidence") == f"{model.log_evidence_:.4f}"
    assert f"{model.loo_.total:.4f}" in value(model, "leave-one-out log density")
    assert f"{model.loo_.total / 40:.4f} per obs" in value(model, "leave-one-out log density")
    assert f"{model.loss_.noise:.4g}" in value(model, "noise variance")
    assert f"{np.sqrt(model.loss_.noise):.4g}" in value(model, "noise variance")
    assert value(model, "degrees of freedom") == f"{model.report_['degrees_of_freedom']:.2f}"
    assert value(model, "convergence").startswith("converged after")
    assert "yes" in value(model, "standardised")
    assert "age: " in value(model, "length scale: ")
    assert value(model, "one length scale per column").startswith("kept: log evidence gains")


def test_text_is_aligned_and_complete(model: GPRegressor) -> None:
    text = str(model.summary())
    assert text == repr(model.summary())
    for section, label, content in model.summary().rows():
        assert section in text
        assert f"{label}" in text
        assert content in text
    assert text.startswith("GPRegressor\n===========\n")
    assert all(isinstance(cell, str) for row in model.summary().rows() for cell in row)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_escaped_and_well_formed(model: GPRegressor) -> None:
    html = model.summary()._repr_html_()
    assert "<script" not in html
    parser = Tags()
    parser.feed(html)
    assert parser.open == []
    assert parser.seen <= {"table", "caption", "tr", "th", "td"}
    for row in model.summary().rows():
        assert row[1] in parser.text
        assert row[2] in parser.text


def test_fixed_and_weighted(rng: np.random.Generator) -> None:
    X, y = table(rng)
    kernel = (2.0 * RBF(1.0)).fix("variance")
    model = GPRegressor(kernel, loss=Gaussian(0.3)).fit(X, y, np.full(40, 2.5))
    assert value(model, "total weight") == "100"
    assert value(model, "variance of the function") == "2"
    assert any(", fixed" in label for _, label, _ in model.summary().rows())
    per = model.loo_.total / 100
    assert f"{per:.4f} per observation" in value(model, "leave-one-out log density")


def test_small_units_are_not_shown_as_zero(rng: np.random.Generator) -> None:
    X, y = table(rng)
    model = GPRegressor().fit(X, y * 1e-12)
    assert "variance=0.0" not in value(model, "kernel")
    assert "noise=0.0" not in value(model, "loss")


def test_every_kind_of_noise_has_a_summary(rng: np.random.Generator) -> None:
    X, y = table(rng)
    for noise in (0.0, np.linspace(0.1, 1.0, 40)):
        text = str(GPRegressor(RBF(0.3), loss=Gaussian(noise), search=None).fit(X, y).summary())
        assert "no search" in text
        assert max(len(line) for line in text.splitlines()) < 600


@pytest.mark.parametrize(("n", "search", "said"), [(12, "evidence", True), (30, "evidence", False),
                                                   (12, None, False)])  # fmt: skip
def test_few_rows_are_said(n, search, said):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    machine = GPRegressor("rbf", search=search).fit(X, X[:, 0] + 0.1 * rng.normal(size=n))
    text = " ".join(str(machine.summary()).split())
    assert ("12 rows do not determine the hyperparameters well" in text) == said
    assert ('GPRegressor(search="hmc") averages over them' in text) == said
