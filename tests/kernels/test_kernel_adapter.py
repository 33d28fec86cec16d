"""scikit-learn's kernels as ours, and everything that is accepted as a kernel."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from tests.reference.kernels import assert_pullback

from mercer.kernels import RBF, FromSklearn, Function, Kernel, Matern, as_kernel

OBJECTS = [
    sk.RBF([0.5, 1.0, 2.0]),
    2.0 * sk.Matern(0.7, nu=1.5) + sk.WhiteKernel(0.3),
    sk.ConstantKernel(1.5) * sk.RationalQuadratic(1.0, 0.5) + sk.DotProduct(0.7) ** 2,
    sk.RBF(1.0, length_scale_bounds="fixed") * sk.ConstantKernel(3.0),
    sk.RBF(1.0) * (sk.DotProduct() + sk.WhiteKernel(0.2)),
    (sk.RBF(1.0) + sk.WhiteKernel(0.2)) ** 2,
]


@pytest.mark.parametrize("theirs", OBJECTS, ids=str)
def test_equals_sklearn(theirs, rng):
    X, Z, Q = (rng.standard_normal(s) for s in ((11, 3), (6, 3), (11, 11)))
    kernel = FromSklearn(theirs)
    np.testing.assert_allclose(kernel(X), theirs(X), rtol=1e-14)
    np.testing.assert_allclose(kernel(X, Z), theirs(X, Z), rtol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), theirs.diag(X), rtol=1e-14)
    _, tensor = theirs(X, eval_gradient=True)
    stated = kernel.pullback(X, None, Q + Q.T)["theta"]
    np.testing.assert_allclose(stated, np.einsum("ij,ijp->p", Q + Q.T, tensor), rtol=1e-12)
    assert_pullback(kernel, X, None, Q + Q.T)
    assert_pullback(kernel, X, Z, Q[:, :6])
    signal = kernel.noise_free()
    np.testing.assert_allclose(signal(X), kernel(X, X), rtol=1e-12)
    assert signal.positional is False
    assert kernel.positional is ("White" in str(theirs))


def test_moves_with_theta_and_leaves_the_object_alone(rng):
    X = rng.standard_normal((5, 2))
    theirs = 2.0 * sk.RBF(1.5)
    kernel = FromSklearn(theirs)
    moved = kernel.__sklearn_clone__().set_params(theta=np.log([3.0, 0.5]))
    np.testing.assert_allclose(moved(X), (3.0 * RBF(0.5))(X), rtol=1e-12)
    np.testing.assert_allclose(kernel(X), (2.0 * RBF(1.5))(X), rtol=1e-12)
    assert theirs == 2.0 * sk.RBF(1.5)


def test_nothing_free_and_nothing_but_noise(rng):
    X = rng.standard_normal((5, 2))
    fixed = FromSklearn(sk.RBF(1.0, length_scale_bounds="fixed"))
    assert fixed.free == {}
    assert fixed.pullback(X, None, np.ones((5, 5))) == {}
    assert FromSklearn(sk.WhiteKernel()).noise_free() is None
    assert FromSklearn(sk.WhiteKernel() * sk.RBF()).noise_free() is None


def test_composes(rng):
    X, Q = rng.standard_normal((8, 3)), rng.standard_normal((8, 8))
    kernel = 2.0 * FromSklearn(sk.RBF(0.7)).on([0, 1]) + RBF()
    assert_pullback(kernel, X, None, Q + Q.T)


def test_as_kernel():
    own = RBF()
    assert as_kernel(own) is own
    assert as_kernel("rbf") == RBF()
    assert as_kernel("matern12") == Matern(0.5)
    assert isinstance(as_kernel(sk.RBF()), FromSklearn)
    assert isinstance(as_kernel(lambda X, Z: X @ Z.T), Function)


@pytest.mark.parametrize(
    "name",
    [
        *("arcsine", "linear", "matern12", "matern32", "matern52", "periodic", "polynomial"),
        *("precomputed", "rational_quadratic", "rbf", "categorical", "constant", "cosine"),
        "matern52_nugget",
    ],
)
def test_names(name):
    assert isinstance(as_kernel(name), Kernel)


def test_as_kernel_refuses():
    with pytest.raises(
        ValueError, match=r"no kernel 'rbff'; did you mean 'rbf'\? Known are: anova"
    ):
        as_kernel("rbff")
    with pytest.raises(ValueError, match=r"no kernel 'xyzzy'\. Known are: .*rbf"):
        as_kernel("xyzzy")
    with pytest.raises(TypeError, match=r"write RBF\(\)"):
        as_kernel(RBF)
    with pytest.raises(TypeError, match=r"the names are: .*rbf"):
        as_kernel(3.0)


def test_sklearn_is_not_imported_to_look_at_an_object():
    program = (
        "import sys, numpy as np\n"
        "from mercer.kernels import as_kernel\n"
        "as_kernel(lambda X, Z: X @ Z.T), as_kernel('rbf')(np.zeros((2, 1)))\n"
        "assert not any(name.startswith('sklearn') for name in sys.modules), 'sklearn'\n"
        "assert 'scipy.special' not in sys.modules, 'scipy.special'\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
