"""Every compiled function: right against NumPy for random sizes, refused where shapes do not fit.

One table (``native_calls``) says how each function is called and what it must answer; the driver
changes one array at a time. Whatever is accepted must not read or write beyond an array, which
``make test-sanitize`` (AddressSanitizer, UndefinedBehaviorSanitizer) sees and the plain suite does
not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mercer._native import (
    averages,
    blocked,
    core,
    markov,
    rational,
    relevance,
    sequential,
    strings,
    waves,
)
from tests.attacks.line_calls import conditional, logdet, others, smooth
from tests.attacks.native_calls import (
    HAVE_BLOCKED,
    NUMBERS,
    TABLE,
    rbf_expand,
    rbf_rows,
    row_squares,
    stationary_same,
)
from tests.attacks.native_draws import RIGHT, Arguments


def call(case: Callable[..., Any], given: Arguments) -> Any:
    return TABLE[case][0](*given.values())


def every(case: Callable[..., Any]) -> None:
    if (
        TABLE[case][0].__module__.endswith("blocked")
        and not HAVE_BLOCKED
        and case is not row_squares
    ):
        pytest.skip("the blocked factor is not for this processor")


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.__name__)
def test_right_for_random_sizes(case: Callable[..., Any]) -> None:
    every(case)
    rng = np.random.default_rng(1)
    near = {"rtol": 1e-5, "atol": 1e-5} if case in (rbf_rows, rbf_expand, smooth, others) else RIGHT
    for _ in range(25):
        given, expected = case(rng)
        answer = call(case, given)
        for name, value in expected.items():
            got = answer if name == "return" else given[name]
            if isinstance(value, tuple) and name != "return":
                value, which = value
                if which == 0:
                    got = got[:, 0]
                elif which == "factor":  # R R' = cov + a diagonal that is positive
                    got, value = np.tril(got @ got.T, -1), np.tril(value, -1)
                elif which == "variances":
                    got = got[1].sum()
                else:
                    got = got[which]
            np.testing.assert_allclose(got, value, **near, err_msg=name)


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.__name__)
def test_shapes_that_do_not_fit_are_refused(case: Callable[..., Any]) -> None:
    every(case)
    rng = np.random.default_rng(2)
    _, _, free = TABLE[case]
    for _ in range(25):
        given, _ = case(rng)
        arrays = [name for name, value in given.items() if isinstance(value, np.ndarray)]
        name = str(rng.choice(arrays))
        array = given[name]
        axis, by = int(rng.integers(array.ndim)), int(rng.choice([-1, 1, 128]))
        shape = list(array.shape)
        shape[axis] = max(0, shape[axis] + by)
        if shape[axis] == array.shape[axis]:
            continue
        wrong = np.resize(array, shape) if array.size else np.zeros(shape, dtype=array.dtype)
        if array.dtype.kind == "i":  # places stay where there are rows
            wrong = wrong.astype(array.dtype)
        changed = given | {name: np.ascontiguousarray(wrong)}
        if case is stationary_same and name in "XZ" and array.shape[1] == 0 and axis == 1:
            continue
        try:
            call(case, changed)
        except (ValueError, TypeError):
            continue
        fits = f"{name}{axis}" in free.split()
        # a flat axis of length zero, or a gradient that is not asked for, says nothing
        nothing = case is logdet and name == "gradient" and shape[1] == 0
        # there is a share for each column, or none
        nothing |= name == "shares" and shape[0] in (0, given["X"].shape[1])
        assert fits or nothing, f"{name} of shape {shape} instead of {array.shape}"


@pytest.mark.parametrize("case", TABLE, ids=lambda case: case.__name__)
def test_other_layouts_give_the_same_or_a_type_error(case: Callable[..., Any]) -> None:
    """Strided and transposed inputs are copied; what is written to is taken as it is or refused."""
    every(case)
    rng = np.random.default_rng(3)
    _, written, _ = TABLE[case]
    for _ in range(12):
        given, _ = case(rng)
        arrays = [n for n, v in given.items() if isinstance(v, np.ndarray)]
        name = str(rng.choice(arrays))
        array = given[name]
        plain_given = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in given.items()}
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), dtype=array.dtype)
        wide[..., ::2] = array
        strided = given | {name: wide[..., ::2]}
        contiguous = strided[name].flags.c_contiguous
        for other in ("more axes", "text", "complex"):
            bad: Any = (
                array[None]
                if other == "more axes"
                else array.astype("S1" if other == "text" else complex)
            )
            with pytest.raises((TypeError, ValueError)):
                call(case, plain_given | {name: bad})
        if name in written.split() and not contiguous:
            with pytest.raises(TypeError):
                call(case, strided)
            continue
        if not written and case is not conditional:
            continue  # positional binding of arrays in place: see the functions' own callers
        first, second = call(case, plain_given), call(case, strided)
        if first is not None:
            np.testing.assert_allclose(second, first)
        for n in written.split():
            if isinstance(plain_given[n], np.ndarray):
                np.testing.assert_allclose(strided[n], plain_given[n])


def test_every_function_is_in_the_table() -> None:
    tried = {function.__name__ for function, _, _ in TABLE.values()} | NUMBERS
    for module in (
        averages,
        blocked,
        core,
        markov,
        rational,
        relevance,
        sequential,
        strings,
        waves,
    ):
        names = {n for n in dir(module) if not n.startswith("_") and callable(getattr(module, n))}
        assert names <= tried, module.__name__


@pytest.mark.parametrize("order", [-1, 0, 7, 10**9, 2**40])
def test_orders_out_of_range(order: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        markov.room(order)


@pytest.mark.parametrize("profile", [-2, 4, 99])
def test_profiles_that_are_not_there(profile: int) -> None:
    X, out = np.zeros((3, 1)), np.empty((3, 3))
    if profile > 0:
        with pytest.raises(ValueError, match="no such profile"):
            core.stationary(profile, X, X, False, out)
    with pytest.raises(ValueError, match="no such profile"):
        core.stationary_matmul(profile, X, X, out, out)
    with pytest.raises(ValueError, match="no such profile"):
        core.stationary_pullback(profile, X, X, False, out, np.empty(1))


def test_places_out_of_range() -> None:
    one, three = np.ones(3), np.ones((1, 3))
    held = relevance.Candidates(np.eye(3), None, one, one, one, three, three, one, 0.0, None)
    for place in (-1, 3, 2**62):
        at_, right = np.array([place]), np.empty(2)
        with pytest.raises(ValueError, match="out of range"):
            held.functions(at_, np.empty((1, 3)))
        with pytest.raises(ValueError, match="out of range"):
            held.products(at_, np.empty((2, 3)))
        with pytest.raises(ValueError, match="out of range"):
            held.given(at_, np.empty((2, 2)), right)
        with pytest.raises(ValueError, match="out of range"):
            held.evaluate(at_, np.ones(1), 1.0, 0.0, np.empty((2, 2)), right, one)
        with pytest.raises(ValueError, match="out of range"):
            held.seen(at_, np.eye(2), right, 1.0, np.empty((2, 3)), one, one)
