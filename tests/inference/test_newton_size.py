"""Kernel logistic regression of some thousand points: few steps, each about one factorisation."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mercer import losses
from mercer.core.arrays import cholesky
from mercer.inference import Newton
from mercer.kernels import RBF
from mercer.linalg import DenseGram


@pytest.mark.slow
def test_a_step_costs_about_one_factorisation():
    rng = np.random.default_rng(0)
    n = 5000
    X = rng.normal(size=(n, 20))
    f = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.5 * X[:, 3]
    y = np.where(f + 0.5 * rng.logistic(size=n) > 0, 1.0, -1.0)[:, None]
    gram = DenseGram(10.0 * RBF(np.sqrt(20.0)), X, keep=True)
    A = gram.matrix + np.eye(n)
    start = time.process_time()
    cholesky(A)
    one = time.process_time() - start
    start = time.process_time()
    report = Newton().solve(gram, y, losses.Logistic(), basis=np.ones((n, 1))).report
    spent = time.process_time() - start
    assert report.converged
    assert report.iterations <= 15
    assert spent <= 3.0 * one * report.iterations
