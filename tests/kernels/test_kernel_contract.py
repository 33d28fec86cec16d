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
from mercer.testing import check_kernel


def every(base):
    found = set()
    for child in base.__subclasses__():
        if child.__module__.startswith("mercer."):
            found |= {child} | every(child)
    return found


CLASSES = sorted((c for c in every(Kernel) if not c.abstract), key=lambda c: c.__name__)
by_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda c: c.__name__)


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
def test_contract(cls):
    check_kernel(cls.example())


@by_class
def test_only_functions_cannot_be_stored(cls):
    """The contract lets a part say that it cannot be written: these three, and no other."""
    if cls in (Function, kernels.Fisher, kernels.FromSklearn):
        with pytest.raises(TypeError, match="cannot be written to a model file"):
            cls.example().to_dict()
        return
    names = {f"kernels.{name}": getattr(kernels, name) for name in kernels.__all__}
    assert Component.from_dict(cls.example().to_dict(), names.__getitem__) == cls.example()


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
def test_width_of_the_inputs_must_agree(cls, rng):
    kernel = cls.example()
    X = kernel.example_inputs(rng, 5)
    if kernel.noise_free() is None or cls in (Precomputed, kernels.Constant, kernels.Columns):
        return
    with pytest.raises(ValueError, match="columns"):
        kernel(X, np.hstack([X, X]))


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
        if tied is None or np.ndim(tied):
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
