"""Classifiers with a posterior: noise parts, given matrices, weights and labels of every kind.

The same mathematics reached on two ways must give the same numbers, and input that makes no sense a
sentence that says what to do.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer import SVC, GPClassifier, KernelClassifier, compare
from mercer.inference import Newton
from mercer.kernels import RBF, Precomputed, White
from mercer.losses import Flip, Logistic, Probit
from mercer.search import HMC

RNG = np.random.default_rng(11)
X = RNG.normal(size=(24, 2))
Y = (X[:, 0] + 0.4 * RNG.normal(size=24) > 0).astype(int)
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
NEW = RNG.normal(size=(7, 2))
INFERENCES = ["ep", "laplace", "variational", "bound"]


# ---------------------------------------------------------------------- noise parts of the kernel
def test_white_noise_in_the_kernel_is_a_wider_probit():
    """Phi((f + e)/1) averaged over e ~ N(0, 1/2) is Phi(f / sqrt(3/2)): new rows have it too."""
    inside = GPClassifier(2.0 * RBF() + White(0.5), search=None).fit(X, Y)
    outside = GPClassifier(2.0 * RBF(), loss=Probit(scale=np.sqrt(1.5)), search=None).fit(X, Y)
    assert inside.log_evidence_ == pytest.approx(outside.log_evidence_, abs=1e-8)
    for a, b in (
        (inside.predict_proba(NEW), outside.predict_proba(NEW)),
        (inside.loo_.proba, outside.loo_.proba),
        (np.array(inside.predict_latent(NEW)), np.array(outside.predict_latent(NEW))),
    ):
        np.testing.assert_allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_noise_parts_make_probabilities_less_sure(y):
    """Far from the data only the prior is left, noise included; f itself is without it."""
    plain, noisy = (
        GPClassifier(kernel, inference="laplace", search=None).fit(X, y)
        for kernel in (2.0 * RBF(), 2.0 * RBF() + White(1.5))
    )
    far = np.array([[40.0, 0.0]])
    for model in (plain, noisy):
        np.testing.assert_allclose(np.square(model.predict_latent(far)[1]), 2.0, rtol=1e-9)
    if len(noisy.classes_) == 2:
        m, s = noisy.predict_latent(NEW)
        want = Logistic().predict(m, np.square(s) + 1.5)
        np.testing.assert_allclose(noisy.predict_proba(NEW)[:, 1], want, rtol=1e-9)
    else:  # a row's own noise does not carry over to a new row at the same place
        new = noisy.predict_proba(X)
        assert np.all(new.max(axis=1) < 1.0)
        assert not np.allclose(new, GPClassifier(
            2.0 * RBF() + White(1e-9), inference="laplace", search=None
        ).fit(X, y).predict_proba(X), atol=1e-2)  # fmt: skip


# ---------------------------------------------------------------------- kernel values as input
def test_a_given_matrix_of_all_points_is_the_kernel():
    K = RBF()(np.vstack([X, NEW]))
    rows = np.arange(31.0)[:, None]
    given = GPClassifier(Precomputed(K), search=None).fit(rows[:24], Y)
    same = GPClassifier(RBF(), search=None).fit(X, Y)
    np.testing.assert_allclose(given.predict_proba(rows[24:]), same.predict_proba(NEW), atol=1e-9)


@pytest.mark.parametrize("kernel", ["precomputed", Precomputed(), 1.0 * Precomputed()])
def test_new_rows_of_kernel_values_have_no_variance(kernel):
    model = GPClassifier(kernel, search=None).fit(RBF()(X), Y)
    assert model.predict_proba(RBF()(X)).shape == (24, 2)
    assert model.predict(RBF()(NEW, X)).shape == (7,)  # the sign of the mean says which
    for ask in (model.predict_proba, model.decision_function, model.predict_latent):
        with pytest.raises(ValueError, match=r"Precomputed\(matrix\).*discriminant='mode'"):
            ask(RBF()(NEW, X))
    mode = GPClassifier(kernel, search=None, discriminant="mode").fit(RBF()(X), Y)
    assert mode.predict_proba(RBF()(NEW, X)).shape == (7, 2)


# ---------------------------------------------------------------------- weights and labels
@pytest.mark.parametrize("inference", INFERENCES)
@pytest.mark.parametrize("weight", [1e-6, 1e6, 1e14])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_extreme_weights_give_probabilities(inference, weight):
    """Whether or not the inference converges (it says so), nothing is NaN or out of range."""
    model = GPClassifier(100.0 * RBF(), loss="logistic", inference=inference, search=None)
    p = model.fit(X, Y, np.full(24, weight)).predict_proba(np.vstack([X, NEW]))
    assert np.all((p >= 0.0) & (p <= 1.0))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    mean, std = model.predict_latent(X)
    assert np.all(np.isfinite(mean) & (std >= 0.0))
    assert np.isfinite(model.log_evidence_)


@pytest.mark.parametrize("machine", [GPClassifier, KernelClassifier])
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_a_class_without_weight_is_refused(machine, y):
    with pytest.raises(ValueError, match=rf"class {y.max()} have weight zero"):
        machine(RBF(), search=None).fit(X, y, (y < y.max()).astype(float))


@pytest.mark.parametrize("machine", [GPClassifier(), SVC(inference="ep"), SVC()], ids=repr)
def test_labels_without_an_order_are_refused(machine):
    mixed = np.array([1 if one else "b" for one in Y], dtype=object)
    with pytest.raises(TypeError, match=r"int, str.*all strings"):
        machine.fit(X, mixed)


def test_one_class_is_named_as_it_was_given():
    with pytest.raises(ValueError, match=r"only one class, 0\.0:"):
        GPClassifier().fit(X, np.zeros(24))


# ---------------------------------------------------------------------- predict and predict_proba
@pytest.mark.parametrize(
    "model",
    [
        *(GPClassifier(5.0 * RBF(), inference=i, search=None) for i in INFERENCES),
        GPClassifier(5.0 * RBF(), search=None, discriminant="mode"),
        GPClassifier(1.0 * RBF(), search=HMC(samples=4, warmup=6, chains=2, keep=4)),
        SVC(kernel=5.0 * RBF(), inference="ep", search=None),
        SVC(kernel=5.0 * RBF(), inference="variational", search=None),
        SVC(kernel=5.0 * RBF(), inference="variational", search=None, discriminant="mode"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_predict_never_contradicts_predict_proba(model, classes):
    """On a symmetric table, where the origin is a tie; far away, where only the prior is left."""
    half = np.abs(X)
    if classes == 2:
        table, y = np.vstack([half, -half]), np.repeat([1, 0], 24)
    else:
        table, y = X, THREE
    near, far = RNG.normal(size=(30, 2)), 10.0 ** np.arange(1, 8)[:, None] * [[1.0, -0.5]]
    Z = np.vstack([near, far, -far, np.zeros((1, 2))])
    model.fit(table, y)
    p, d = model.predict_proba(Z), model.decision_function(Z)
    assert np.all(np.isfinite(p) & (p >= 0.0) & (p <= 1.0))
    np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])
    if classes == 2:
        np.testing.assert_allclose(p[-1], 0.5, atol=1e-2)  # a support vector machine ends at tol
        clear = np.abs(d) > 1e-12  # f of a mode may be below the rounding of a probability
        np.testing.assert_array_equal(d[clear] > 0.0, p[clear, 1] > p[clear, 0])
        np.testing.assert_allclose(p[36:37], 0.5, atol=1e-9)
    else:
        chosen = np.take_along_axis(p, d.argmax(axis=1)[:, None], axis=1)[:, 0]
        np.testing.assert_allclose(chosen, p.max(axis=1), rtol=1e-12)


# ---------------------------------------------------------------------- the mode, and what is said
def test_a_mode_that_nothing_finds_is_refused_before_the_search(monkeypatch):
    def searched(*given):
        raise AssertionError("the search had begun")

    monkeypatch.setattr("mercer.estimators.shared.machine.find_parameters", searched)
    with pytest.raises(ValueError, match="neither smooth nor convex"):
        GPClassifier(loss=Flip(None, eps=0.1), discriminant="mode").fit(X, Y)


def test_a_mode_that_was_not_reached_is_said(monkeypatch):
    monkeypatch.setattr("mercer.inference.for_loss", lambda loss: Newton(max_iter=1))
    model = GPClassifier(1e3 * RBF(), loss="logistic", search=None, discriminant="mode")
    with pytest.warns(ConvergenceWarning, match="Newton inference stopped"):
        model.fit(X, Y)
    assert model.report_["mode"]["converged"] is False
    assert model.report_["inference"]["converged"]


def test_the_summary_names_the_inference():
    model = GPClassifier(RBF(), search=None).fit(X, Y)
    steps = {label: text for _, label, text in model.summary().rows()}["EP"]
    assert steps.startswith("converged after")


def table_error(model, y):
    """The share of rows whose own class does not lead when they are left out."""
    signed, codes = model.left_out_.margin, np.searchsorted(model.classes_, y)
    if signed.shape[1] == 1:
        return np.mean(signed[:, 0] <= 0.0)
    f = np.where(np.arange(signed.shape[1]) == codes[:, None], signed, -signed)
    return np.mean([f[i, c] <= np.delete(f[i], c).max() for i, c in enumerate(codes)])


@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_support_vector_machines_can_be_compared(y):
    """By margins of rows left out, and by the probabilities of a posterior."""
    kernel = 5.0 * RBF()
    bayes = SVC(kernel=kernel, inference="ep", search=None).fit(X, y)
    table = compare({"bayes": bayes, "plain": SVC(kernel=kernel).fit(X, y)})
    by_name = {entry.name: entry for entry in table.entries}
    assert by_name["bayes"].log_evidence == bayes.log_evidence_
    assert by_name["bayes"].loo == bayes.bayes_.loo_.total
    assert isinstance(by_name["bayes"].loo_error, float)
    assert by_name["plain"].log_evidence is None
    assert by_name["plain"].loo_error == table_error(SVC(kernel=kernel).fit(X, y), y)
    str(table)
    with pytest.raises(ValueError, match="same data"):
        compare([bayes, SVC(kernel=kernel).fit(X[:20], y[:20])])
