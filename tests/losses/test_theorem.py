"""Theorem 1 of Jaakkola and Haussler: the table of conjugates of the theory page, row by row.

F(alpha) = min_f [alpha f + g(y, f)] = -g*(-alpha): the formula of the page, the method
``conjugate`` and a minimum that is searched for are the same number.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, ndtr, xlogy

from mercer import losses

PAGE = Path(__file__).parents[2] / "docs" / "theory" / "kernel-classifiers.md"


def H(p):
    """Binary entropy."""
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def gaussian(y, a, s2=0.3):
    return a * y - s2 * a**2 / 2 + np.log(2 * np.pi * s2) / 2


def huber(y, a, s2=0.5, d=0.8):
    inner = np.sqrt(2 * np.pi * s2) * (2 * ndtr(d / np.sqrt(s2)) - 1)
    normaliser = inner + 2 * s2 / d * np.exp(-(d**2) / (2 * s2))
    return a * y - s2 * a**2 / 2 + np.log(normaliser)


def negative_binomial(y, a, r=2.5):
    chosen = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
    return (y + r) * H((y - a) / (y + r)) + a * np.log(r) - chosen


def gamma(y, a, s=2.0):
    u = a + s
    return (
        u - u * np.log(u) + u * np.log(s * y) - (s * np.log(s) + (s - 1) * np.log(y) - gammaln(s))
    )


def laplace_probit(y, a, C=1.5):
    q = y * a / C
    return (1 + q) * np.log(1 + q) - q * np.log(2 * q)


# loss, y, alphas inside the domain, one outside (None: there is none), the formula of the page
ROWS = [
    (losses.Gaussian(0.3), 0.7, (-2.0, 0.4, 3.0), None, gaussian),
    (losses.LaplaceNoise(0.5), 0.7, (-1.5, 0.4), 2.1, lambda y, a: a * y + np.log(2 * 0.5)),
    (losses.Huber(0.5, 0.8), 0.7, (-1.2, 0.9), 1.7, huber),
    (
        losses.EpsilonInsensitive(2.0, 0.3),
        0.7,
        (-1.5, 0.4),
        2.1,
        lambda y, a: a * y - 0.3 * abs(a) + np.log(2 * (0.3 + 1 / 2.0)),
    ),
    (
        losses.Pinball(0.8, 0.5),
        0.7,
        (-0.3, 1.2),
        -0.5,
        lambda y, a: a * y + np.log(0.5 / (0.8 * 0.2)),
    ),
    (losses.Logistic(), -1.0, (-0.2, -0.7), 0.1, lambda y, a: H(y * a)),
    (losses.LaplaceProbit(1.5), -1.0, (-0.3, -1.2), 0.1, laplace_probit),
    (losses.Hinge(2.0), 1.0, (0.3, 1.9), 2.1, lambda y, a: y * a),
    (losses.SquaredHinge(2.0), 1.0, (0.3, 5.0), -0.1, lambda y, a: y * a - a**2 / 4.0),
    (losses.Margin(2.0), 1.0, (0.3, 1.9), 2.0, lambda y, a: y * a + np.log(1 - y * a / 2.0)),
    (losses.Exponential(), -1.0, (-0.3, -4.0), 0.1, lambda y, a: y * a - xlogy(y * a, y * a)),
    (
        losses.Poisson(),
        3.0,
        (-2.0, 2.5),
        3.1,
        lambda y, a: (y - a) - xlogy(y - a, y - a) + gammaln(y + 1),
    ),
    (losses.NegativeBinomial(2.5), 3.0, (-2.0, 2.5), 3.1, negative_binomial),
    (losses.Gamma(2.0), 1.3, (-1.5, 2.0), -2.1, gamma),
    (
        losses.LogGaussian(0.3),
        1.3,
        (-1.5, 2.0),
        None,
        lambda y, a: gaussian(np.log(y), a) + np.log(y),
    ),
]
NUMERIC = (losses.Probit(), losses.Ordinal([-1.0, 0.5]))  # no formula: a search


def smallest(loss, y, alpha):
    """min over f of alpha f + g(y, f), by golden sections from a grid."""
    grid = np.linspace(-40.0, 40.0, 8001)
    found = alpha * grid + loss.value(np.full_like(grid, y), grid)
    at = grid[np.argmin(found)]

    def value(f):
        return float(alpha * f + loss.value(np.array([y]), np.array([f]))[0])

    best = minimize_scalar(
        value, bounds=(at - 0.02, at + 0.02), method="bounded", options={"xatol": 1e-11}
    )
    return min(best.fun, float(found.min()))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row[0]).__name__)
def test_the_formula_is_the_conjugate_and_the_minimum(row):
    loss, y, inside, outside, formula = row
    for alpha in inside:
        stated = -float(loss.conjugate(np.array([y]), np.array([-alpha]))[0])
        assert stated == pytest.approx(formula(y, alpha), abs=1e-9)
        assert stated == pytest.approx(smallest(loss, y, alpha), abs=1e-7)
    if outside is not None:
        assert np.isposinf(loss.conjugate(np.array([y]), np.array([-outside]))[0])


@pytest.mark.parametrize("loss", NUMERIC, ids=lambda loss: type(loss).__name__)
def test_where_there_is_no_formula_a_search_has_the_value(loss):
    y, alpha = (-1.0, -0.8) if type(loss).__name__ == "Probit" else (1.0, 0.3)
    stated = -float(loss.conjugate(np.array([y]), np.array([-alpha]))[0])
    assert stated == pytest.approx(smallest(loss, y, alpha), abs=1e-7)


def test_softmax_has_the_entropy_of_its_row():
    loss, y = losses.Softmax(), np.array([1.0])
    p = np.array([[0.2, 0.5, 0.3]])
    alpha = np.eye(3)[[1]] - p  # theorem 1: e_y - softmax(f)
    stated = -float(loss.conjugate(y, -alpha)[0])
    assert stated == pytest.approx(-float(np.sum(p * np.log(p))))
    f = np.log(p)
    assert stated == pytest.approx(float((alpha * f).sum() + loss.value(y, f)[0]))
    rng = np.random.default_rng(0)
    for other in f + rng.normal(size=(200, 3)):
        assert (alpha[0] * other).sum() + loss.value(y, other[None])[0] >= stated - 1e-12


def test_the_page_has_these_rows():
    listed = set(re.findall(r"^\| `(\w+)`", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    checked = {type(loss).__name__ for loss in (*(row[0] for row in ROWS), *NUMERIC)} | {"Softmax"}
    assert checked <= listed
