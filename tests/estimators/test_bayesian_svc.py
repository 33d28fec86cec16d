"""SVC with an inference: evidence, probabilities, the sparse mode, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import SVC, GPClassifier, KernelClassifier
from mercer.kernels import RBF, Constant
from mercer.losses import NormalizedHinge
from mercer.search import HMC, LogNormal, Optimize

KERNEL = 3.0 * RBF(1.2) + Constant(0.5)


def data(rng, n=50):
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, "yes", "no")
    return X, y


@pytest.mark.parametrize("inference", ["variational", "ep"])
def test_it_is_the_gaussian_process_of_the_normalised_hinge(inference, rng):
    X, y = data(rng)
    ours = SVC(kernel=KERNEL, inference=inference, search=None).fit(X, y)
    loss = NormalizedHinge().fix()
    other = GPClassifier(KERNEL, loss=loss, inference=inference, search=None).fit(X, y)
    assert ours.log_evidence_ == other.log_evidence_
    np.testing.assert_array_equal(ours.predict_proba(X), other.predict_proba(X))
    mean, std = ours.predict_latent(X, return_std=True)
    assert np.all(std > 0)
    np.testing.assert_array_equal(mean, other.predict_latent(X)[0])
    p = ours.predict_proba(X)
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[p.argmax(axis=1)])


def test_the_mode_is_sparse_and_solved_to_the_gap(rng):
    X, y = data(rng)
    sparse = SVC(
        kernel=KERNEL, inference="variational", search=None, discriminant="mode", tol=1e-6
    ).fit(X, y)
    plain = KernelClassifier(KERNEL, loss="hinge", basis=None).fit(X, y)
    f = sparse.predict_latent(X)
    np.testing.assert_allclose(f, plain.decision_function(X), atol=1e-4)
    assert len(sparse.support_) < len(X)
    assert sparse.intercept_ == pytest.approx(0.0)
    p = sparse.predict_proba(X)
    np.testing.assert_array_equal(sparse.predict(X), sparse.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(p[:, 1] > 0.5, f > 0)


def test_amplitude_and_length_scale_are_learned(rng):
    X, y = data(rng)
    search = Optimize(restarts=0)
    model = SVC(kernel=1.0 * RBF(1.0), inference="variational", search=search).fit(X, y)
    found = model.kernel_.get_params()
    for a, b in ((1.15, 1.0), (0.85, 1.0), (1.0, 1.1), (1.0, 0.9)):
        kernel = a * found["variance"] * RBF(b * found["kernel__length_scale"])
        other = SVC(kernel=kernel, inference="variational", search=None).fit(X, y)
        assert other.log_evidence_ < model.log_evidence_
    assert model.report_["posterior"]["search"]["converged"]


def test_irrelevant_columns_are_switched_off(rng):
    X = rng.normal(size=(90, 3))
    y = np.sign(X[:, 0] + 0.1 * rng.normal(size=90))
    kernel = 5.0 * RBF(np.ones(3))
    model = SVC(kernel=kernel, inference="variational", search=Optimize(restarts=0)).fit(X, y)
    scales = model.kernel_.get_params()["kernel__length_scale"]
    assert scales[0] < 0.4 * scales[1:].min()


def test_several_classes(rng):
    X = rng.normal(size=(45, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)), axis=1)
    y[:3] = [0, 1, 2]
    for discriminant in ("mean", "mode"):
        model = SVC(
            kernel=KERNEL, inference="variational", search=None, discriminant=discriminant
        ).fit(X, y)
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])


def test_a_committee_of_support_vector_machines(rng):
    X, y = data(rng, 25)
    kernel = (3.0 * RBF(1.2)).prior(
        variance=LogNormal(1.0, 0.5), kernel__length_scale=LogNormal(0.2, 0.3)
    )
    search = HMC(samples=8, warmup=8, chains=1, keep=4)
    model = SVC(kernel=kernel, inference="variational", search=search, random_state=0).fit(X, y)
    assert len(model.bayes_.posteriors_) == 4
    each = [
        GPClassifier(
            p.parent.kernel, loss=NormalizedHinge(), inference="variational", search=None
        ).fit(X, y)
        for p in model.bayes_.posteriors_
    ]
    want = np.mean([m.predict_proba(X) for m in each], axis=0)
    np.testing.assert_allclose(model.predict_proba(X), want, atol=1e-5)


@pytest.mark.parametrize("discriminant", ["mean", "mode"])
def test_files(discriminant, rng, tmp_path):
    X, y = data(rng)
    model = SVC(kernel=KERNEL, inference="variational", search=None, discriminant=discriminant).fit(
        X, y
    )
    mercer.save(model, tmp_path / "svc.mercer")
    again = mercer.load(tmp_path / "svc.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.log_evidence_ == model.log_evidence_
    assert clone(again).get_params()["inference"] == "variational"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"probability": "loo"}, "leave probability=None"),
        ({"C": 10.0}, "learned by their evidence"),
        ({"gamma": 0.5}, "learned by their evidence"),
        ({"C": 10.0, "search": None}, "learned by their evidence"),  # it would be passed over
        ({"gamma": 0.5, "search": None}, "learned by their evidence"),
        ({"kernel": "poly", "coef0": 2.0}, "learned by their evidence"),
        ({"bias": False}, "no free bias"),
        ({"kernel": "precomputed"}, "no parameters that an evidence could choose"),
        ({"discriminant": "median"}, "discriminant must be"),
    ],
)
def test_refusals(options, words, rng):
    X, y = data(rng, 20)
    with pytest.raises(ValueError, match=words):
        SVC(inference="variational", **options).fit(X, y)


def test_without_an_inference_there_is_no_evidence(rng):
    X, y = data(rng, 20)
    model = SVC().fit(X, y)
    assert not hasattr(model, "log_evidence_")
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="needs inference"):
        model.predict_latent(X, return_std=True)
