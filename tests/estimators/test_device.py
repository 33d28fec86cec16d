"""Estimators with ``device``: the same model, files without Torch, refusals before any work."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor
from mercer.core.device import panels
from mercer.core.device.accelerator import Accelerator
from mercer.core.device.array import DeviceArray
from mercer.kernels import RBF, Linear, Matern


def table(rng: np.random.Generator, n: int = 90) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    X[5] = X[6]  # a repeated row
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("basis", [None, 1])
def test_regressor(basis, device, rng) -> None:
    X, y = table(rng)
    kernel = 2.0 * Matern(nu=2.5, length_scale=np.array([1.0, 2.0, 5.0]))
    kernel = kernel if basis is None else (0.3 * Linear() + kernel) ** 2
    given = {"kernel": kernel, "loss": mercer.losses.Gaussian(0.02), "search": None, "basis": basis}
    here, there = (GPRegressor(**given, device=on).fit(X, y) for on in ("cpu", device))
    assert isinstance(there.posteriors_[0].operator.cholesky, DeviceArray)
    assert there.report_["device"].startswith("cpu" if device == "torch" else "cuda")
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, rel=1e-8)
    for model in (there, pickle.loads(pickle.dumps(there))):
        for options in ({"return_std": True}, {"return_cov": True}):
            pairs = zip(
                model.predict(X[:9], **options), here.predict(X[:9], **options), strict=True
            )
            for value, expected in pairs:
                np.testing.assert_allclose(value, expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(there.left_out_.variance, here.left_out_.variance, rtol=1e-8)
    assert isinstance(model.posteriors_[0].operator.cholesky, np.ndarray)


def test_search_and_file(device, rng, tmp_path) -> None:
    """Hyperparameters of the same evidence; a file that is read and used without Torch."""
    X, y = table(rng)
    here, there = (GPRegressor(device=on).fit(X, y) for on in ("cpu", device))
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, abs=1e-6)
    mercer.save(there, tmp_path / "m.mercer")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "std.npy", there.predict(X, return_std=True)[1])
    code = (
        "import sys, numpy as np\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *rest):\n"
        "        assert name.split('.')[0] != 'torch', 'somebody imports torch'\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import mercer; X = np.load('x.npy'); m = mercer.load('m.mercer')\n"
        "np.testing.assert_allclose(m.predict(X, return_std=True)[1], np.load('std.npy'), 1e-7)\n"
        "mercer.GPRegressor().fit(X[:20], X[:20, 0])\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_classifier(inference, device, rng) -> None:
    X, y = table(rng)
    given = {"kernel": 3.0 * RBF(1.5), "inference": inference, "search": None}
    labels = np.where(y > 0, "high", "low")
    here, there = (GPClassifier(**given, device=on).fit(X, labels) for on in ("cpu", device))
    assert there.log_evidence_ == pytest.approx(here.log_evidence_, rel=1e-8)
    np.testing.assert_allclose(there.predict_proba(X), here.predict_proba(X), rtol=1e-8)
    np.testing.assert_allclose(there.left_out_.proba, here.left_out_.proba, rtol=1e-7)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kernel": Matern(nu=1.2), "search": None}, "no form on a device.*kve"),
        ({"kernel": "anova12"}, "no form on a device"),
        ({"gram": "inducing"}, "gram='auto' or 'dense'"),
        ({"search": "loo"}, "'loo' is not written for it"),
        ({"search": mercer.search.HMC()}, "n x n arrays each"),
        ({"loss": "student_t"}, "convex losses"),
        ({"kernel": RBF() + mercer.kernels.White(0.1)}, "without noise parts"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_what_is_not_written_for_a_device(given, told, device, rng) -> None:
    X, y = table(rng, 30)
    with pytest.raises(ValueError, match=told) as refused:
        GPRegressor(**given, device=device).fit(X, y)
    assert "device='cpu'" in str(refused.value)


def test_several_classes_are_refused(device, rng) -> None:
    X, y = table(rng, 30)
    with pytest.raises(ValueError, match="Softmax is not written"):
        GPClassifier(device=device).fit(X, np.digitize(y, [-0.5, 0.5]))
    with pytest.raises(ValueError, match="OneVsRestClassifier"):
        GPClassifier(loss="probit", device=device).fit(X, np.digitize(y, [-0.5, 0.5]))


def test_names_of_devices(rng, monkeypatch) -> None:
    X, y = table(rng, 30)
    with pytest.raises(ValueError, match="unknown device 'gpu'; known are 'cpu'"):
        GPRegressor(device="gpu").fit(X, y)
    model = GPRegressor(device="auto", search=None).fit(X, y)  # too few rows to ask for a GPU
    assert model.report_["device"] == "cpu"
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install 'mercer\\[gpu\\]'"):
        GPRegressor(device="cuda").fit(X, y)


def test_cuda_without_a_gpu(rng, monkeypatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an extra: pip install 'mercer[gpu]'")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    X, y = table(rng, 30)
    with pytest.raises(ValueError, match="a GPU is needed, and PyTorch finds none"):
        GPRegressor(device="cuda").fit(X, y)


def test_memory_is_asked_for_before_it_is_taken(device, rng, monkeypatch) -> None:
    X, y = table(rng, 40)
    model = GPRegressor(RBF(), search=None, device=device).fit(X, y)
    before = dict(vars(model))
    monkeypatch.setattr(Accelerator, "available", lambda on: 1 << 20)
    monkeypatch.setattr(Accelerator, "empty", lambda on, n, m: pytest.fail("nothing was asked"))
    with pytest.raises(MemoryError, match="a random sample of at most 0 rows, or use device='cpu'"):
        model.fit(X, 2 * y)
    assert vars(model) == before


def test_an_error_of_the_device_leaves_the_estimator_as_it_was(device, rng, monkeypatch) -> None:
    import torch

    X, y = table(rng, 40)
    model = GPRegressor(RBF(), search=None, device=device).fit(X, y)
    before = dict(vars(model))

    def full(A: object) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 50 GiB")

    monkeypatch.setattr(panels, "cholesky", full)
    with pytest.raises(MemoryError, match=r"ended during the fit .*fewer rows"):
        model.fit(X, 2 * y)
    assert vars(model) == before
