"""GPClassifier: probabilities, agreement of inferences, leave-one-out, several classes, files."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, KernelClassifier, losses
from mercer.inference import Laplace
from mercer.kernels import RBF, Constant
from mercer.losses import Logistic, NormalizedHinge, Probit, Softmax
from mercer.search import HMC, Optimize

KERNEL = 4.0 * RBF(length_scale=1.3) + Constant(0.5)
BINARY = ["ep", "laplace", "variational", "bound"]


def two_classes(rng, n=60, d=2):
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] * X[:, 1] + 0.4 * rng.normal(size=n) > 0, "yes", "no")
    return X, y


def three_classes(rng, n=45):
    X = rng.normal(size=(n, 2))
    y = np.array(["a", "b", "c"])[np.argmax(X @ rng.normal(size=(2, 3)), axis=1)]
    y[:3] = ["a", "b", "c"]
    return X, y


@pytest.mark.parametrize("inference", BINARY)
def test_probabilities_and_labels_agree(inference, rng):
    X, y = two_classes(rng)
    model = GPClassifier(KERNEL, inference=inference, search=None).fit(X, y)
    Z = 3.0 * rng.normal(size=(200, 2))
    p = model.predict_proba(Z)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert np.all((p >= 0.0) & (p <= 1.0))
    np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])
    np.testing.assert_array_equal(model.decision_function(Z) > 0, p[:, 1] > p[:, 0])
    mean, std = model.predict_latent(Z)
    assert np.all(std > 0)
    assert np.all(std < np.sqrt(4.5) + 1e-9)
    want = model.loss_.predict(mean, std**2)
    np.testing.assert_allclose(p[:, 1], want, rtol=1e-9)
    np.testing.assert_array_equal(mean > 0, p[:, 1] > 0.5)


def test_defaults(rng):
    X, y = two_classes(rng, 30)
    fits = {
        method: GPClassifier(KERNEL, inference=method, search=None).fit(X, y)
        for method in ("auto", "ep", "laplace", "variational")
    }
    assert fits["auto"].report_["inference"]["name"] == "EP"
    assert isinstance(fits["ep"].loss_, Probit)
    assert isinstance(fits["laplace"].loss_, Logistic)
    assert isinstance(fits["variational"].loss_, Logistic)
    X, y = three_classes(rng)
    model = GPClassifier(KERNEL, search=None).fit(X, y)
    assert isinstance(model.loss_, Softmax)
    assert model.report_["inference"]["name"] == "Laplace"


@pytest.mark.parametrize("inference", ["ep", "laplace", "variational"])
def test_evidence_orders_hyperparameters_as_refitting_says(inference, rng):
    """The search ends where the evidence, evaluated by single fits, has its maximum."""
    X, y = two_classes(rng)
    search = Optimize(restarts=0)
    model = GPClassifier(2.0 * RBF(), inference=inference, search=search).fit(X, y)
    best = model.log_evidence_
    variance = model.kernel_.get_params()["variance"]
    scale = model.kernel_.get_params()["kernel__length_scale"]
    for a, b in ((1.1, 1.0), (0.9, 1.0), (1.0, 1.05), (1.0, 0.95)):
        other = GPClassifier(a * variance * RBF(b * scale), inference=inference, search=None)
        assert other.fit(X, y).log_evidence_ < best + 1e-7


@pytest.mark.parametrize(("inference", "gap"), [("ep", 0.02), ("laplace", 0.04)])
def test_leave_one_out_against_refitting(inference, gap, rng):
    X, y = two_classes(rng, 40)
    model = GPClassifier(KERNEL, inference=inference, search=None).fit(X, y)
    want = np.empty((40, 2))
    for i in range(40):
        rest = np.arange(40) != i
        again = GPClassifier(KERNEL, inference=inference, search=None).fit(X[rest], y[rest])
        want[i] = again.predict_proba(X[i : i + 1])[0]
    assert np.abs(model.loo_.proba - want).max() < gap
    assert model.loo_.proba.shape == (40, 2)
    chosen = np.log(model.loo_.proba[np.arange(40), (y == "yes").astype(int)])
    np.testing.assert_allclose(model.loo_.total, chosen.sum(), rtol=1e-10)


def test_softmax_leave_one_out_against_refitting(rng):
    X, y = three_classes(rng, 30)
    kernel = 2.0 * RBF(1.5)
    model = GPClassifier(kernel, search=None).fit(X, y)
    for i in range(0, 30, 3):
        rest = np.arange(30) != i
        again = GPClassifier(kernel, search=None).fit(X[rest], y[rest])
        if len(again.classes_) == 3:
            want = again.predict_proba(X[i : i + 1])[0]
            assert np.abs(model.loo_.proba[i] - want).max() < 0.05


@pytest.mark.parametrize("inference", BINARY)
def test_weights_count_as_rows(inference, rng):
    X, y = two_classes(rng, 30)
    w = rng.integers(0, 4, size=30).astype(float)
    many = np.repeat(np.arange(30), w.astype(int))
    one = GPClassifier(KERNEL, inference=inference, search=None).fit(X, y, sample_weight=w)
    other = GPClassifier(KERNEL, inference=inference, search=None).fit(X[many], y[many])
    np.testing.assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-7)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-6)


def test_mode_discriminant_is_kernel_logistic_regression(rng):
    X, y = two_classes(rng)
    ours = GPClassifier(KERNEL, inference="laplace", search=None, discriminant="mode").fit(X, y)
    other = KernelClassifier(KERNEL, basis=None).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-7)
    assert ours.predict_latent(X)[1] is None
    assert ours.log_evidence_ is not None


def test_mode_of_the_normalised_hinge_is_the_support_vector_machine(rng):
    X, y = two_classes(rng)
    loss = NormalizedHinge().fix()
    options = {"loss": loss, "inference": "variational", "search": None}
    ours = GPClassifier(KERNEL, discriminant="mode", **options).fit(X, y)
    other = KernelClassifier(KERNEL, loss="hinge", basis=None).fit(X, y)
    f = ours.predict_latent(X)[0]
    np.testing.assert_allclose(f, other.decision_function(X), atol=1e-5)
    assert (ours.posteriors_[0].alpha == 0).sum() > 5, "sparse"
    np.testing.assert_array_equal(ours.predict(X), ours.classes_[(f > 0).astype(int)])


def test_a_committee_of_support_vector_machines_stays_sparse(rng, tmp_path):
    # Seeger's thesis 5.2: each member has its own support; the union would be nearly all rows
    X, y = two_classes(rng)
    search = HMC(samples=4, warmup=4, chains=1, keep=2, max_depth=2)
    model = GPClassifier(
        1.0 * RBF(), loss="normalized_hinge", inference="variational", search=search,
        discriminant="mode", random_state=0,
    ).fit(X, y)  # fmt: skip
    sizes = model.report_["mode"]["support"]
    assert [len(p.points) for p in model.posteriors_] == sizes
    assert max(sizes) < len(X)
    means = []
    for posterior in model.posteriors_:  # each is the machine of its kernel, on all rows
        alone = KernelClassifier(posterior.parent.kernel, loss="hinge", basis=None, search=None)
        inside = model.units_.standardised(X)
        means.append(alone.fit(inside, y).decision_function(inside))
        np.testing.assert_allclose(posterior.mean(inside)[:, 0], means[-1], atol=1e-4)
    mercer.save(model, tmp_path / "committee.mercer")
    again = mercer.load(tmp_path / "committee.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ValueError, match="fit all rows together"):
        model.condition(X[:2], y[:2])


def test_a_hinge_by_name_keeps_its_weight(rng):
    # C and the variance of f are nearly one parameter: losses.NormalizedHinge says what C learns
    X, y = two_classes(rng)
    model = GPClassifier(1.0 * RBF(), loss="normalized_hinge", inference="variational").fit(X, y)
    assert model.loss_.C == 1.0
    assert model.kernel_.variance != 1.0


def test_one_against_the_rest_shares_the_kernel(rng):
    X, y = three_classes(rng)
    model = GPClassifier(KERNEL, loss="logistic", inference="laplace", search=None).fit(X, y)
    total = 0.0
    for j, label in enumerate(model.classes_):
        single = GPClassifier(KERNEL, inference="laplace", search=None).fit(X, y == label)
        total += single.log_evidence_
        mean, std = single.predict_latent(X)
        np.testing.assert_allclose(model.predict_latent(X)[0][:, j], mean, atol=1e-7)
        np.testing.assert_allclose(model.predict_latent(X)[1][:, j], std, atol=1e-7)
    np.testing.assert_allclose(model.log_evidence_, total, rtol=1e-9)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)


def test_softmax_of_two_classes_is_logistic_with_twice_the_variance(rng):
    X, y = two_classes(rng, 40)
    one = GPClassifier(2.0 * RBF(1.1), loss=Softmax(), search=None).fit(X, y)
    other = GPClassifier(4.0 * RBF(1.1), loss=Logistic(), inference="laplace", search=None)
    other.fit(X, y)
    np.testing.assert_allclose(one.log_evidence_, other.log_evidence_, rtol=1e-8)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-7)


@pytest.mark.parametrize(
    "model",
    [
        GPClassifier(KERNEL, search=None),
        GPClassifier(KERNEL, inference="laplace", search=None, discriminant="mode"),
        GPClassifier(KERNEL, loss=NormalizedHinge(), inference="variational", search=None),
        GPClassifier(KERNEL, loss="softmax", search=None),
        GPClassifier(KERNEL, loss="probit", inference="ep", search=None),
    ],
    ids=["ep", "mode", "hinge", "softmax", "rest"],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_files(model, classes, rng, tmp_path):
    X, y = two_classes(rng, 40) if classes == 2 else three_classes(rng)
    mercer.save(model.fit(X, y), tmp_path / "m.mercer")
    fitted = mercer.load(tmp_path / "m.mercer")
    np.testing.assert_array_equal(fitted.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(fitted.loo_.proba, model.loo_.proba)
    assert fitted.log_evidence_ == model.log_evidence_
    assert str(fitted.summary()) == str(model.summary())


def test_separable_data_end_at_a_bound_and_say_so(rng):
    X = np.r_[rng.normal(size=(20, 2)), 8.0 + rng.normal(size=(20, 2))]
    y = np.repeat([0, 1], 20)
    model = GPClassifier(random_state=0).fit(X, y)
    assert np.isfinite(model.log_evidence_)
    assert np.all(np.isfinite(model.predict_proba(10.0 * X)))
    assert model.score(X, y) == 1.0


def test_relevance_is_found_and_irrelevance_not_paid_for(rng):
    X = rng.normal(size=(80, 4))
    y = X[:, 0] + 0.1 * rng.normal(size=80) > 0
    model = GPClassifier(inference="laplace").fit(X, y)
    assert model.report_["ard"]["kept"] in (True, False)
    if model.report_["ard"]["kept"]:
        assert model.relevance_[0] > 3 * model.relevance_[1:].max()
    noise = GPClassifier(inference="laplace").fit(X, rng.integers(0, 2, 80))
    assert not noise.report_["ard"]["kept"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loss": "hinge"}, "is not a likelihood"),
        ({"loss": "gaussian"}, "is a loss for real targets, not for classes"),
        ({"loss": "hinge", "inference": "newton"}, "finds a mode only"),
        ({"inference": "exact"}, "needs quadratic"),
        ({"loss": "normalized_hinge", "inference": "laplace"}, "Variational"),
        ({"loss": "softmax", "inference": "ep"}, "one latent function per target|needs tilted"),
        ({"discriminant": "median"}, "discriminant must be"),
        ({"search": "loo"}, "search by 'evidence'"),
        ({"inference": "gibbs"}, "there is no inference"),
        ({"loss": 3}, "must be None, a Loss"),
    ],
)
def test_refusals(options, words, rng):
    X, y = two_classes(rng, 20)
    with pytest.raises((ValueError, TypeError), match=words):
        GPClassifier(**options).fit(X, y)


def test_one_class_and_unseen_labels(rng):
    X, y = two_classes(rng, 20)
    with pytest.raises(ValueError, match="only one class"):
        GPClassifier().fit(X, np.zeros(20))
    model = GPClassifier(KERNEL, search=None).fit(X, y)
    assert 0.0 <= model.score(X, np.where(y == "yes", "never seen", y)) <= 1.0


def test_not_converged_is_said(rng):
    X, y = two_classes(rng, 40)
    with pytest.warns(Warning, match="Laplace|converge"):
        model = GPClassifier(1e3 * RBF(0.3), inference=Laplace(max_iter=1), search=None).fit(X, y)
    assert model.report_["inference"]["converged"] is False
    assert "not converged" in str(model.summary())


def test_compare_ranks_by_evidence(rng):
    X, y = two_classes(rng, 40)
    good = GPClassifier(KERNEL, search=None).fit(X, y)
    bad = GPClassifier(4.0 * RBF(50.0), search=None).fit(X, y)
    ranking = mercer.compare([bad, good])
    assert ranking.order == (1, 0)
    assert [e.name for e in ranking.entries] == ["GPClassifier 2", "GPClassifier 1"]
    assert "ranked by log evidence" in str(ranking)
    assert mercer.compare({"b": bad, "g": good}, by="loo_error").entries[0].loo_error is not None
    with pytest.raises(ValueError, match="same data"):
        mercer.compare([good, GPClassifier(KERNEL, search=None).fit(X[:30], y[:30])])
    with pytest.raises(ValueError, match="cannot rank by"):
        mercer.compare([good], by="aic")
    assert losses.Probit().fix() == good.loss_
