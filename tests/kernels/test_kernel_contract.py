"""What holds for every kernel: classes are found, not listed."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.reference.kernels import assert_pullback

from mercer import kernels
from mercer.core.component import Component
from mercer.kernels import RBF, Function, Kernel, Precomputed, base


def every(base):
    found = set()
    for child in base.__subclasses__():
        if child.__module__.startswith("mercer."):
            found |= {child} | every(child)
    return found


CLASSES = sorted((c for c in every(Kernel) if not c.abstract), key=lambda c: c.__name__)
by_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)


def test_classes_are_found():
    assert len(CLASSES) >= 24


@by_class
def test_is_exported_and_documented(cls):
    assert cls.__name__ in kernels.__all__
    assert getattr(kernels, cls.__name__) is cls
    for word in ("References\n", "Examples\n", ">>>"):
        assert word in cls.__doc__
    if cls.parameter_names():
        assert "Parameters\n" in cls.__doc__


def test_exports_are_sorted_and_there():
    assert all(hasattr(kernels, name) for name in kernels.__all__)
    assert len(set(kernels.__all__)) == len(kernels.__all__)


@by_class
def test_matrix(cls, rng):
    kernel = cls.example()
    assert type(kernel) is cls
    X = kernel.example_inputs(rng, 30)
    K = kernel(X)
    assert K.dtype == np.float64
    assert K.flags.c_contiguous
    assert K.flags.writeable
    assert np.array_equal(K, K.T)
    lowest, *_, highest = np.linalg.eigvalsh(K)
    assert lowest >= -1e-10 * highest
    np.testing.assert_allclose(kernel.diag(X), K.diagonal(), rtol=1e-12, atol=1e-300)
    before = K.copy()
    K *= 2.0
    np.testing.assert_array_equal(kernel(X), before)
    X_fortran = np.asfortranarray(X)
    np.testing.assert_array_equal(kernel(X_fortran), before)


@by_class
def test_rectangle_is_part_of_the_square(cls, rng):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 20)
    signal = kernel.noise_free()
    whole = np.zeros((20, 20)) if signal is None else signal(X)
    scale = np.abs(whole).max()
    np.testing.assert_allclose(kernel(X[:8], X[8:]), whole[:8, 8:], rtol=1e-11, atol=1e-13 * scale)
    if signal is kernel:
        np.testing.assert_allclose(kernel(X, X), kernel(X), rtol=1e-11, atol=1e-13 * scale)


@by_class
def test_product_without_the_matrix(cls, rng, monkeypatch):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 30)
    A, Z = (X, X) if kernel.pairwise else (X[:19], X[11:])
    K, size = kernel(A, Z), np.abs(kernel.diag(X)).max()
    for columns in (0, 1, 5, 40):
        V = rng.normal(size=(len(Z), columns))
        for precision, tol in (("double", 1e-12), ("single", 2e-5)):
            for batch in (base.BATCH_BYTES, 8 * 7 * len(Z)):  # at once, and by seven rows
                monkeypatch.setattr(base, "BATCH_BYTES", batch)
                found = kernel.matmul(A, Z, V, precision=precision)
                assert found.dtype == np.float64
                assert found.shape == (len(A), columns)
                np.testing.assert_allclose(found, K @ V, rtol=0.0, atol=tol * size * len(Z))
    if not kernel.pairwise:
        assert not kernel.matmul(A, Z[:0], np.zeros((0, 2))).any()
    if kernel.takes_sparse:
        V = rng.normal(size=(len(Z), 3))
        found = kernel.matmul(csr_array(A), csr_array(Z), V)
        np.testing.assert_allclose(found, K @ V, rtol=0.0, atol=1e-11 * size * len(Z))


def test_product_refuses():
    X = np.zeros((3, 2))
    with pytest.raises(ValueError, match="precision must be 'single' or 'double'"):
        RBF().matmul(X, X, np.ones((3, 1)), precision="half")
    with pytest.raises(ValueError, match=r"V has shape \(2, 1\), expected \(3, r\)"):
        RBF().matmul(X, X, np.ones((2, 1)))


def test_a_child_with_values_of_its_own_has_a_product_of_its_own(rng):
    class Doubled(RBF):
        """Twice an RBF, whose compiled product it must not inherit."""

        def __call__(self, X, Z=None):
            return 2.0 * super().__call__(X, Z)

    X, V = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    np.testing.assert_allclose(Doubled().matmul(X, X, V), Doubled()(X) @ V, rtol=1e-12)


@by_class
def test_pullback(cls, rng):
    kernel = cls.example()
    X, Z = kernel.example_inputs(rng, 14), kernel.example_inputs(rng, 9)
    Q = rng.standard_normal((14, 14))
    assert_pullback(kernel, X, None, Q + Q.T)
    assert_pullback(kernel, X, Z, rng.standard_normal((14, 9)))


@by_class
def test_pullback_of_vectors(cls, rng):
    """Parameters that may be one per column, as vectors."""
    kernel = cls.example()
    X, Z = kernel.example_inputs(rng, 14), kernel.example_inputs(rng, 9)
    for name in cls.domains if isinstance(cls.domains, dict) else ():
        tied = getattr(kernel, name)
        if np.ndim(tied):
            continue
        vector = tied * np.linspace(0.8, 1.3, X.shape[1])
        try:
            copy.deepcopy(kernel).set_params(**{name: vector})(X)
        except ValueError as error:
            assert "single number" in str(error)  # noqa: PT017  # either outcome is fine
            continue
        kernel.set_params(**{name: vector})
    Q = rng.standard_normal((14, 14))
    assert_pullback(kernel, X, None, Q + Q.T)
    assert_pullback(kernel, X, Z, rng.standard_normal((14, 9)))


@by_class
def test_dictionary_round_trip(cls):
    kernel = cls.example()
    paths = [path for path, _, _ in kernel.differentiable()]
    if paths:
        kernel = kernel.fix(paths[0])
        kernel = kernel.bound(**{paths[-1]: (1e-3, 1e3)})
    if cls in (Function, kernels.Fisher, kernels.FromSklearn):
        with pytest.raises(TypeError, match="cannot be written to a model file"):
            kernel.to_dict()
        return
    names = {f"kernels.{name}": getattr(kernels, name) for name in kernels.__all__}
    again = Component.from_dict(kernel.to_dict(), names.__getitem__)
    assert again == kernel
    assert again.free == kernel.free
    assert repr(again) == repr(kernel)


@by_class
def test_parameters(cls, rng):
    kernel = cls.example()
    clone = copy.deepcopy(kernel)
    assert clone == kernel
    assert clone.set_params(**kernel.get_params(deep=False)) == kernel
    assert kernel.fix().free == {}
    for path, domain in kernel.free.items():
        value = np.asarray(kernel.get_params()[path])
        assert (value > domain.lower).all()
        assert (value < domain.upper).all()
        moved = copy.deepcopy(kernel).set_params(**{path: kernel.get_params()[path] * 1.1})
        assert moved != kernel
    with pytest.raises(ValueError, match="has no parameter 'nonsense'"):
        kernel.set_params(nonsense=1)


@by_class
def test_bad_values_are_refused(cls, rng):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 4)
    for path, owner, name in kernel.differentiable():
        if owner.domains[name].lower != 0.0:
            continue
        for bad in (-1.0, 0.0, np.nan, np.inf, "three"):
            broken = copy.deepcopy(kernel)
            value = broken.get_params()[path]
            filled = bad if isinstance(bad, str) or not np.ndim(value) else np.full(len(value), bad)
            broken.set_params(**{path: filled})
            with pytest.raises((ValueError, TypeError)):
                broken(X)


@by_class
def test_in_units(cls, rng):
    """k.in_units(shift, scale) at x is k at (x - shift) / scale."""
    kernel = cls.example()
    inside = kernel.example_inputs(rng, 12)
    d = inside.shape[1]
    for scale in (np.linspace(0.5, 4.0, d), np.full(d, 4.0)):
        shift = np.zeros(d) if cls is Precomputed else np.linspace(-2.0, 3.0, d)
        outside = kernel.in_units(shift, scale)
        X = inside * scale + shift
        if cls in (Precomputed, kernels.Categorical):  # codes must survive the round trip
            X, scale = inside * 4.0, np.full(d, 4.0)
            outside = kernel.in_units(np.zeros(d), scale)
        np.testing.assert_allclose(outside(X), kernel(inside), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(outside.diag(X), kernel.diag(inside), rtol=1e-9)
        twice = outside.in_units(np.zeros(d), np.full(d, 2.0))
        np.testing.assert_allclose(twice(2.0 * X), kernel(inside), rtol=1e-9, atol=1e-12)


@by_class
def test_empty_and_single(cls, rng):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 5)
    assert kernel(X[:1]).shape == (1, 1)
    assert kernel(X, X[:0]).shape == (5, 0)
    assert kernel.diag(X[:0]).shape == (0,)


@by_class
def test_width_of_the_inputs_must_agree(cls, rng):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 5)
    if kernel.noise_free() is None or cls in (Precomputed, kernels.Constant, kernels.Columns):
        return
    with pytest.raises(ValueError, match="columns"):
        kernel(X, np.hstack([X, X]))
