"""EP from sums over blocks, its sites computed anew in every pass: EP of rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer import GPClassifier
from mercer.core.basis import PolynomialBasis
from mercer.inference import EP
from mercer.inference.blocks.sweeps import ep
from mercer.kernels import RBF, Kernel, White
from mercer.linalg import Inducing
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses import LaplaceNoise, Logistic, Poisson, Probit, StudentT
from mercer.process.process import Posterior, Prior
from tests.inference.test_block_sites import KERNEL, counts, labels, plain, same, table

CASES: list[tuple[Any, Any, Kernel]] = [
    (labels, Logistic(), KERNEL),
    (labels, Probit(), KERNEL),
    (labels, Probit(), KERNEL + White(0.2)),
    (labels, Probit(), 300.0 * RBF(0.7)),
    (counts, Poisson(), KERNEL),
    (same, LaplaceNoise(0.2), KERNEL),
]


@pytest.mark.parametrize(("targets", "loss", "kernel"), CASES)
def test_blocks_are_the_rows_in_memory(targets: Any, loss: Any, kernel: Kernel) -> None:
    X, y, w = table(40)
    y, Z = targets(y), X[:12] + 0.01
    w = w if targets is counts else np.ones(40)  # other powers of a loss are integrals
    gram = ReducedGram(kernel, X, Z, corrected=True)
    found = EP(tol=1e-8).solve(gram, y, loss, weights=w)
    value = EP().evidence(gram, y, loss, found).value
    blocks = ep(LocalEngine.of_arrays(X, y, w, size=17), plain(), kernel, loss, Z, tol=1e-7)
    assert blocks.report.converged, blocks.report
    assert blocks.value == pytest.approx(value, rel=1e-10)
    free = float(found.W @ found.factor.cov_diag())
    assert blocks.report.details["degrees_of_freedom"] == pytest.approx(free, rel=1e-6)
    assert blocks.alpha == pytest.approx(gram.carry(found.alpha), rel=1e-6, abs=1e-6)
    assert blocks.operator.root == pytest.approx(found.factor.R, rel=1e-6, abs=1e-6)


def test_one_against_the_rest_is_the_classifier() -> None:
    X, y, _ = table(90)
    y = np.array(["a", "b", "c"])[np.digitize(y[:, 0], [0.0, 0.8])]
    Z, kernel = X[:15], 3.0 * RBF(0.9)
    given: Any = {"gram": Inducing(Z), "search": None, "standardize": False}
    machine = GPClassifier(kernel, loss="probit", inference="ep", **given).fit(X, y)
    prepared = plain(classes=np.array(["a", "b", "c"]), coding="rest")
    engines = [LocalEngine.of_arrays(X, y, None, size=40, workers=k) for k in (1, 3)]
    found, again = (ep(e, prepared, kernel, Probit(), Z) for e in engines)
    assert (found.value, found.alpha.tobytes()) == (again.value, again.alpha.tobytes())
    assert found.value == pytest.approx(machine.log_evidence_, rel=1e-8)
    own = Posterior(Prior(kernel, 3), found.support, found.alpha, found.operator)
    T = np.random.default_rng(1).normal(size=(30, 2))
    assert own.mean(T) == pytest.approx(machine.posteriors_[0].mean(T), abs=1e-5)
    assert own.blocks(T) == pytest.approx(machine.posteriors_[0].blocks(T), abs=1e-5)


def test_limits_and_refusals() -> None:
    X, y, _ = table()
    w = np.where(np.arange(120) < 40, 0.0, 1.0)
    engine = LocalEngine.of_arrays(X, labels(y), w, size=40)  # the first block has no rows
    whole = ep(engine, plain(), KERNEL, Probit(), X[-9:])
    short = ep(engine, plain(), KERNEL, Probit(), X[-9:], max_iter=3)
    assert whole.report.converged
    assert not short.report.converged
    assert "max_iter" in short.report.message
    assert short.value == pytest.approx(whole.value, rel=0.1)
    with pytest.raises(ValueError, match="inference='variational'"):
        ep(engine, plain(), KERNEL, StudentT(), X[:9])
    with pytest.raises(ValueError, match="inference='variational'"):
        ep(engine, plain(PolynomialBasis(0)), KERNEL, Probit(), X[:9])
