"""Whether a polynomial can lower the loss for ever: against linear programming."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog

from mercer import SmoothingSpline
from mercer.estimators.spline.likelihood import check_exists, fewest_roots
from mercer.losses import Gamma, Logistic, Poisson, StudentT


def unbounded(x, rise, fall, m):
    """Whether some polynomial of degree < m, not zero at all x, has allowed signs only."""
    H = np.vander(x / np.abs(x).max(), m, increasing=True)
    sign = [H[~rise], -H[~fall]]  # p <= 0 where it must not rise, -p <= 0 where it must not fall
    A = np.vstack(sign)
    for row in H:  # p as far from zero as it can be at any of the points
        for c in (row, -row):
            found = linprog(c, A, np.zeros(len(A)), bounds=(-1.0, 1.0))
            if found.fun < -1e-7:
                return True
    return False


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("seed", range(25))
def test_fewest_roots_against_linear_programming(m, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(m, 8))
    x = np.arange(1.0, n + 1.0)
    rise, fall = rng.random(n) < 0.5, rng.random(n) < 0.5
    assert (fewest_roots(rise, fall) < m) == unbounded(x, rise, fall, m)


def test_runs_of_any_length_count_once():
    labels = np.repeat([1.0, -1.0, 1.0, -1.0], 1000)
    assert fewest_roots(labels > 0.0, labels < 0.0) == 3
    assert fewest_roots(np.zeros(9, dtype=bool), np.zeros(9, dtype=bool)) == 9


def test_losses_say_where_they_are_flat():
    x = np.arange(6.0)
    labels = np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0])
    check_exists(Logistic(), x, labels, 2)  # two roots: no straight line separates
    with pytest.raises(ValueError, match="polynomial of degree 2 separates the labels"):
        check_exists(Logistic(), x, labels, 3)
    counts = np.array([0.0, 0.0, 3.0, 0.0, 0.0, 0.0])
    check_exists(Poisson(), x, counts, 2)  # a line through the one place rises on one side
    with pytest.raises(ValueError, match="counts above zero"):
        check_exists(Poisson(), x, counts, 3)
    check_exists(Gamma(), x, counts + 1.0, 3)
    check_exists(StudentT(), x, counts, 3)


@pytest.mark.parametrize(
    ("loss", "y", "message"),
    [
        ("poisson", np.zeros(20), "counts above zero"),
        ("logistic", np.ones(20), "separates the labels"),
        ("probit", np.arange(20) > 9, "separates the labels"),
    ],
)
def test_the_machine_refuses_and_names_the_remedy(loss, y, message):
    x = np.linspace(0.0, 1.0, 20)[:, None]
    with pytest.raises(ValueError, match=message) as caught:
        SmoothingSpline(loss=loss).fit(x, y)
    assert "choose a smaller order" in str(caught.value)
    assert "Spline() + Constant() + Linear()" in str(caught.value)


def test_a_label_on_both_sides_of_one_place_is_no_separation():
    x = np.array([0.0, 1.0, 2.0, 2.0, 3.0, 4.0])
    y = np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(ValueError, match="separates"):  # a root at the place with both labels
        SmoothingSpline(loss="logistic").fit(x[:, None], y)
    x, y = np.append(x, [1.0, 3.0]), np.append(y, [1, 0])
    curve = SmoothingSpline(loss="logistic", lam=1.0).fit(x[:, None], y)
    assert np.all(np.isfinite(curve.predict(x[:, None])))
