"""Contracts that catch: parts with one mistake each are refused, by the clause that is broken."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF
from mercer.testing import check_inference, check_kernel, check_loss

from .planted import inferences, kernels, losses

X = np.linspace(0.0, 6.0, 15)[:, None]
TARGETS = {"count": np.round(np.exp(1.0 + np.sin(X))), "real": np.sin(X) + 0.3 * np.cos(5.0 * X)}


def name(case):
    return type(case).__name__ if not isinstance(case, str) else case


def check(inference, loss):
    check_inference(inference, loss, X, TARGETS[loss.response], 1.5 * RBF(1.2))


def caught(clause, call):
    with pytest.raises(AssertionError) as found:
        call()
    first = str(found.value).partition(":")[0]
    assert first.startswith(clause), str(found.value)
    assert len(str(found.value)) > len(first) + 10, "the clause must say what was expected"


@pytest.mark.parametrize("kernel", kernels.PARENTS, ids=name)
def test_right_kernels_pass(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("loss", losses.PARENTS, ids=name)
def test_right_losses_pass(loss):
    check_loss(loss)


@pytest.mark.parametrize(("inference", "loss"), inferences.PARENTS, ids=name)
def test_right_inferences_pass(inference, loss):
    check(inference, loss)


@pytest.mark.parametrize(("kernel", "clause"), kernels.PLANTED, ids=name)
def test_mistakes_of_kernels(kernel, clause):
    caught(clause, lambda: check_kernel(kernel))


@pytest.mark.parametrize(("loss", "clause"), losses.PLANTED, ids=name)
def test_mistakes_of_losses(loss, clause):
    caught(clause, lambda: check_loss(loss))


@pytest.mark.parametrize(("inference", "loss", "clause"), inferences.PLANTED, ids=name)
def test_mistakes_of_inferences(inference, loss, clause):
    caught(clause, lambda: check(inference, loss))


def test_a_kernel_that_is_none_only_in_space_is_one_on_the_line():
    tent = kernels.NotPositiveInSpace(2.5)
    K = tent(np.random.default_rng(0).uniform(-2.0, 2.0, (60, 1)))
    assert np.linalg.eigvalsh(K)[0] > -1e-9
