"""The script on relevance and support vectors: its figures by another way, and a quick run."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from mercer import SVC, RVClassifier
from mercer.kernels import RBF

PAPERS = Path(__file__).resolve().parents[2] / "papers"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(PAPERS))
    return importlib.import_module("rvm_vs_svm")


def test_figures_are_what_they_say(script, rng) -> None:
    X, Z = rng.normal(size=(80, 2)), rng.normal(size=(60, 2))
    y, t = (np.where(A[:, 0] + 0.3 * A[:, 1] ** 2 > 0, 1.0, -1.0) for A in (X, Z))
    got = script.figures((X, y, Z, t), {"rvm": 1.5, "svm": 1.0, "C": 2.0})
    rvm, svm = RVClassifier(RBF(1.5)).fit(X, y), SVC(kernel=RBF(1.0), C=2.0).fit(X, y)
    assert got["rvm_error"] == pytest.approx(100.0 * (1.0 - rvm.score(Z, t)))
    assert got["svm_error"] == pytest.approx(100.0 * (1.0 - svm.score(Z, t)))
    assert got["rvm_vectors"] == len(rvm.relevance_rows_) < got["svm_vectors"] == len(svm.support_)
    p = rvm.predict_proba(Z)[np.arange(60), (t > 0).astype(int)]
    rate = np.mean(y > 0)
    entropy = -(rate * np.log2(rate) + (1 - rate) * np.log2(1 - rate))
    assert got["rvm_bits"] == pytest.approx(np.mean(np.log2(p)) + entropy)


@pytest.mark.slow
@pytest.mark.skipif("MERCER_DATA" not in os.environ, reason="MERCER_DATA names no folder of data")
def test_quick_run(script, tmp_path, capsys) -> None:
    given = ["--quick", "--data", "pima", "titanic"]
    found = script.main([*given, "--json", str(tmp_path / "f.json"), "--page", str(tmp_path / "p")])
    assert json.loads((tmp_path / "f.json").read_text()) == found
    page = (tmp_path / "p").read_text()
    assert "| pima | 200 | 1 |" in page
    assert "Tipping" in capsys.readouterr().out
    pima = found["pima"]["mean"]
    assert pima["rvm_error"] < 24.0
    assert pima["rvm_vectors"] < 10.0 < pima["svm_vectors"]
    assert found["titanic"]["mean"]["rvm_error"] < 25.0
