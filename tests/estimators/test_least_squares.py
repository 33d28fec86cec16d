"""Least-squares classification: formulas, leave-one-out by refitting, Fisher, labels, state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import load_iris

import mercer
from mercer import LeastSquaresClassifier, ProbabilisticLeastSquaresClassifier
from mercer.kernels import RBF, Linear, White
from mercer.losses import SquaredProbit
from mercer.search import Optimize

KERNEL = 1.3 * RBF(1.1)
BOTH = [LeastSquaresClassifier, ProbabilisticLeastSquaresClassifier]
QUICK = Optimize(criterion="plsc", restarts=0, max_iter=15)


def data(rng, n=30, k=2):
    X = rng.normal(size=(n, 2))
    angle = np.arctan2(X[:, 1], X[:, 0]) + np.pi
    y = np.floor(k * (angle + 0.3 * rng.normal(size=n)) / (2 * np.pi)).astype(int) % k
    y[:k] = np.arange(k)
    return X, y


def refit_without(model, X, y, weights=None):
    """Decision values of each row from a machine fitted without it."""
    n, values = len(X), []
    for i in range(n):
        rest = np.arange(n) != i
        w = None if weights is None else weights[rest]
        values.append(model.fit(X[rest], y[rest], w).decision_function(X[i : i + 1])[0])
    return np.array(values)


# ---------------------------------------------------------------------- LSC
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("basis", [None, "constant"])
def test_formula(rng, k, basis):
    X, y = data(rng, k=k)
    model = LeastSquaresClassifier(KERNEL, lam=0.4, basis=basis).fit(X, y)
    Y = np.where(y[:, None] == np.arange(k), 1.0, -1.0)[:, 1:] if k == 2 else None
    Y = np.where(y[:, None] == np.arange(k), 1.0, -1.0) if Y is None else Y
    n, H = len(X), np.ones((len(X), 1))
    new = rng.normal(size=(7, 2))
    M = KERNEL(X) + 0.4 * np.eye(n)
    if basis is None:
        f = KERNEL(new, X) @ np.linalg.solve(M, Y)
    else:
        both = np.block([[M, H], [H.T, np.zeros((1, 1))]])
        solved = np.linalg.solve(both, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
        f = KERNEL(new, X) @ solved[:n] + solved[n]
    values = model.decision_function(new)
    np.testing.assert_allclose(values, f[:, 0] if k == 2 else f, atol=1e-10)
    best = (f[:, 0] > 0).astype(int) if k == 2 else f.argmax(axis=1)
    np.testing.assert_array_equal(model.predict(new), best)
    assert model.lam_ == 0.4


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("basis", [None, "constant"])
@pytest.mark.parametrize("weighted", [False, True])
def test_leave_one_out_path_by_refitting(rng, k, basis, weighted):
    """Every lam of the grid from one eigendecomposition, with class weights, to 1e-9."""
    X, y = data(rng, k=k)
    w = np.array([1.0, 2.5, 0.7, 1.4])[y] if weighted else None
    given = dict(enumerate([1.0, 2.5, 0.7, 1.4][:k])) if weighted else None
    lams = [0.01, 0.3, 10.0]
    options = {"basis": basis}
    model = LeastSquaresClassifier(KERNEL, lams=lams, class_weight=given, **options).fit(X, y)
    path = model.report_["lam"]
    assert path["lams"] == sorted(lams, reverse=True)
    weights = np.ones(len(X)) if w is None else w
    Y = np.where(y[:, None] == np.arange(k), 1.0, -1.0)
    for lam, error, squared in zip(*(path[p] for p in list(path)[:3]), strict=True):
        out = refit_without(LeastSquaresClassifier(KERNEL, lam=lam, **options), X, y, w)
        mistakes = ((out > 0) if k == 2 else out.argmax(axis=1)) != y
        assert error == pytest.approx(weights @ mistakes / weights.sum(), abs=1e-12)
        out = out[:, None] if k == 2 else out
        squares = ((out - (Y[:, 1:] if k == 2 else Y)) ** 2).mean(axis=1)
        assert squared == pytest.approx(weights @ squares / weights.sum(), rel=1e-9)
        if lam == model.lam_:
            np.testing.assert_allclose(np.reshape(model.loo_.mean, out.shape), out, atol=1e-9)
            assert model.report_["loo"]["squared_error"] == pytest.approx(squared, rel=1e-9)
            assert model.report_["loo"]["error"] == pytest.approx(error)
    assert path["loo_squared_error"][path["lams"].index(model.lam_)] == min(
        path["loo_squared_error"]
    )


def test_criterion_error_takes_the_fewest_mistakes(rng):
    X, y = data(rng, n=60)
    path = LeastSquaresClassifier(KERNEL, criterion="error").fit(X, y).report_["lam"]
    ties = [
        (e, s, lam)
        for e, s, lam in zip(
            path["loo_error"], path["loo_squared_error"], path["lams"], strict=True
        )
    ]
    assert path["chosen"] == min(ties)[2]


def test_merged_rows_and_weights_are_copies(rng):
    X, y = data(rng, n=20)
    w = rng.integers(1, 4, 20)
    one = LeastSquaresClassifier(KERNEL).fit(X, y, w)
    two = LeastSquaresClassifier(KERNEL).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert one.lam_ == two.lam_
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-12)
    np.testing.assert_allclose(np.repeat(one.loo_.mean, w), two.loo_.mean, atol=1e-12)


def test_contradicting_labels_at_one_point(rng):
    X = np.repeat(rng.normal(size=(5, 2)), 4, axis=0)
    y = np.tile([0, 1, 1, 1], 5)
    model = LeastSquaresClassifier(KERNEL, lam=1e-8, basis=None).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 0.5, atol=1e-6)  # 2 * 3/4 - 1


@pytest.mark.parametrize("lam", [1e-2, 3.0])
def test_fisher(rng, lam):
    """Targets n/n+, -n/n-: the regularised Fisher direction, and f = 0 at the mean of all x."""
    X, y = data(rng, n=40)
    X = X + np.outer(y, [2.0, -1.0])
    model = LeastSquaresClassifier(Linear(), lam=lam, targets="fisher").fit(X, y)
    plain = LeastSquaresClassifier(Linear(), lam=lam).fit(X, y)
    assert model.decision_function([X.mean(axis=0)])[0] == pytest.approx(0.0, abs=1e-12)
    within = sum(np.cov(X[y == c].T) * ((y == c).sum() - 1) for c in (0, 1)) + lam * np.eye(2)
    direction = np.linalg.solve(within, X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
    for fitted in (model, plain):
        f = fitted.decision_function(np.vstack([np.zeros(2), np.eye(2)]))
        slope = f[1:] - f[0]
        cross = slope[0] * direction[1] - slope[1] * direction[0]
        assert abs(cross) < 1e-12 * np.linalg.norm(slope) * np.linalg.norm(direction) * 10
        assert slope @ direction > 0


def test_targets_move_the_numbers_not_the_decision(rng):
    X, y = data(rng)
    one = LeastSquaresClassifier(KERNEL, lam=0.2).fit(X, y)
    two = LeastSquaresClassifier(KERNEL, lam=0.2, targets=(1.0, 0.0)).fit(X, y)
    np.testing.assert_allclose(one.decision_function(X), 2 * two.decision_function(X), atol=1e-10)
    np.testing.assert_allclose(two.predict_latent(X)[0], 0.5 + two.decision_function(X))


def test_default_is_good_and_edge_is_said():
    X, y = load_iris(return_X_y=True)
    model = LeastSquaresClassifier().fit(X, y)
    assert model.report_["loo"]["error"] < 0.05
    assert not model.report_["lam"]["at_edge"]
    edge = LeastSquaresClassifier(lams=[1e5, 1e6]).fit(X, y)
    assert edge.report_["lam"]["at_edge"]


def test_search_learns_the_kernel(rng):
    X, y = data(rng, n=50)
    model = LeastSquaresClassifier(1.0 * RBF(30.0), search="loo").fit(X, y)
    assert model.kernel_.kernel.length_scale < 10.0
    assert model.report_["search"]["converged"]
    assert not hasattr(model, "predict_proba")


# ---------------------------------------------------------------------- PLSC
@pytest.mark.parametrize("latent", [False, True])
def test_probabilities_are_the_formula(rng, latent):
    X, y = data(rng)
    model = ProbabilisticLeastSquaresClassifier(
        KERNEL, search=None, noise=0.2, tau=0.5, offset=0.1, latent=latent
    ).fit(X, y)
    new = rng.normal(size=(9, 2))
    Ki = np.linalg.inv(KERNEL(X) + 0.2 * np.eye(len(X)))
    Ks = KERNEL(new, X)
    mean = Ks @ Ki @ np.where(y == 1, 1.0, -1.0)
    variance = 1.3 - np.einsum("ij,jk,ik->i", Ks, Ki, Ks) + (0.0 if latent else 0.2)
    r = (mean + 0.1) / np.sqrt(0.25 + variance)
    p = model.predict_proba(new)
    np.testing.assert_allclose(p[:, 1], norm.cdf(r), atol=1e-10)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(new), r, atol=1e-10)
    np.testing.assert_allclose(model.predict_log_proba(new)[:, 0], norm.logcdf(-r), atol=1e-9)
    latent_mean, latent_std = model.predict_latent(new)
    np.testing.assert_allclose(latent_mean, mean, atol=1e-10)
    np.testing.assert_allclose(latent_std**2 + (0.0 if latent else 0.2), variance, atol=1e-10)


@pytest.mark.parametrize("latent", [False, True])
def test_left_out_probabilities_by_refitting(rng, latent):
    X, y = data(rng, n=14)
    options = {"search": None, "noise": 0.2, "tau": 0.5, "offset": 0.1, "latent": latent}
    model = ProbabilisticLeastSquaresClassifier(KERNEL, basis="constant", **options).fit(X, y)
    again = ProbabilisticLeastSquaresClassifier(KERNEL, basis="constant", **options)
    r = refit_without(again, X, y)
    np.testing.assert_allclose(
        model.loo_.log_density, norm.logcdf(np.where(y == 1, r, -r)), atol=1e-9
    )
    assert model.loo_log_probability_ == pytest.approx(model.loo_.log_density.sum())
    assert model.report_["loo"]["error"] == pytest.approx(np.mean((r > 0) != y))


def test_search_raises_the_left_out_probability(rng):
    X, y = data(rng, n=60)
    before = ProbabilisticLeastSquaresClassifier(KERNEL, search=None).fit(X, y)
    after = ProbabilisticLeastSquaresClassifier(KERNEL, smooth=False).fit(X, y)
    assert after.loo_log_probability_ > before.loo_log_probability_
    assert isinstance(after.loss_, SquaredProbit)
    report = after.report_["search"]
    assert report["criterion"] == "plsc"
    assert report["start_values"][0] == pytest.approx(after.loo_log_probability_, rel=1e-9)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_predict_never_contradicts_the_probabilities(rng, k):
    X, y = data(rng, n=60, k=k)
    model = ProbabilisticLeastSquaresClassifier(search=QUICK).fit(X, y)
    new = np.vstack([3 * rng.normal(size=(400, 2)), np.zeros((1, 2)), np.full((1, 2), 1e9)])
    p = model.predict_proba(new)
    assert p.shape == (402, k)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert np.all((p >= 0) & (p <= 1))
    np.testing.assert_array_equal(model.predict(new), model.classes_[p.argmax(axis=1)])
    scores = model.decision_function(new)
    best = (scores > 0).astype(int) if k == 2 else scores.argmax(axis=1)
    np.testing.assert_array_equal(best, p.argmax(axis=1))
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)), p, atol=1e-12)
    if k > 2:
        assert model.loss_.tau.shape == model.loss_.offset.shape == (k,)


def test_no_contradiction_within_rounding_of_the_boundary():
    X, y = np.array([[-1.0], [1.0]]), np.array([0, 1])
    model = ProbabilisticLeastSquaresClassifier(RBF(), search=None).fit(X, y)
    at = np.linspace(-3e-16, 3e-16, 61)[:, None]
    p = model.predict_proba(at)
    assert np.any(p[:, 0] == p[:, 1])  # ties do occur
    np.testing.assert_array_equal(model.predict(at), p.argmax(axis=1))
    np.testing.assert_array_equal(model.decision_function(at) > 0, p.argmax(axis=1) == 1)


def test_probabilities_are_calibrated(rng):
    """Labels drawn with p = Phi(2 sin 2x): the learned p is near, and better than the rate."""
    X = rng.uniform(-3, 3, (400, 1))
    truth = norm.cdf(2 * np.sin(2 * X[:, 0]))
    y = rng.random(400) < truth
    model = ProbabilisticLeastSquaresClassifier(search=Optimize("plsc", restarts=0)).fit(X, y)
    assert np.abs(model.predict_proba(X)[:, 1] - truth).mean() < 0.08


def test_separable_classes_do_not_make_it_certain():
    X = np.r_[np.linspace(-3, -2, 15), np.linspace(2, 3, 15)][:, None]
    y = np.repeat([0, 1], 15)
    p = ProbabilisticLeastSquaresClassifier().fit(X, y).predict_proba(X)[:, 1]
    np.testing.assert_allclose(p, np.repeat([1 / 17, 16 / 17], 15), atol=0.05)
    literal = ProbabilisticLeastSquaresClassifier(smooth=False).fit(X, y)
    assert literal.loo_log_probability_ > -1e-3


def test_probabilities_do_not_depend_on_the_order_or_on_how_copies_are_listed(rng):
    X, y = data(rng, n=40)
    X[30:36], y[30:36] = X[0], [0, 1, 1, 0, 1, 1]  # one point with both labels
    w = rng.integers(1, 4, 40)
    one = ProbabilisticLeastSquaresClassifier().fit(X, y, w)
    order = rng.permutation(w.sum())
    rows, labels = np.repeat(X, w, axis=0)[order], np.repeat(y, w)[order]
    two = ProbabilisticLeastSquaresClassifier().fit(rows, labels)
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-9)


def test_noise_part_of_the_kernel_counts(rng):
    X, y = data(rng)
    split = ProbabilisticLeastSquaresClassifier(KERNEL + White(0.1), search=None, noise=0.2)
    whole = ProbabilisticLeastSquaresClassifier(KERNEL, search=None, noise=0.3)
    new = rng.normal(size=(5, 2))
    np.testing.assert_allclose(
        split.fit(X, y).predict_proba(new), whole.fit(X, y).predict_proba(new), atol=1e-10
    )


# ---------------------------------------------------------------------- both
@pytest.mark.parametrize("cls", BOTH)
@pytest.mark.parametrize(
    "names",
    [
        np.array(["no", "yes"]),
        np.array(["b", "a"], dtype=object),
        np.array([False, True]),
        np.array([-3, 7]),
        np.array([0.0, 1.0]),
        np.array(["x", "y", "z"]),
    ],
)
def test_labels_of_every_kind_and_files(rng, tmp_path, cls, names):
    X, y = data(rng, k=len(names))
    options = {"search": QUICK} if cls is not LeastSquaresClassifier else {}
    model = cls(class_weight={names[0]: 2.0}, **options).fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, np.unique(names))
    assert np.isin(model.predict(X), names).all()
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.classes_.dtype == model.classes_.dtype
    assert again.predict(X).tolist() == model.predict(X).tolist()
    assert again.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    assert again.report_["loo"] == model.report_["loo"]
    assert again.class_weight == model.class_weight
    assert type(next(iter(again.class_weight))) is type(model.classes_.tolist()[0])
    assert str(again.summary()) == str(model.summary())


@pytest.mark.parametrize("cls", BOTH)
def test_class_weights_are_sample_weights(rng, cls):
    X, y = data(rng)
    options = {"kernel": KERNEL}
    options |= {"lam": 0.3} if cls is LeastSquaresClassifier else {"search": None}
    one = cls(class_weight={0: 3.0}, **options).fit(X, y)
    two = cls(**options).fit(X, y, np.where(y == 0, 3.0, 1.0))
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-12)
    assert (one.predict(X) == 0).sum() >= (cls(**options).fit(X, y).predict(X) == 0).sum()


@pytest.mark.parametrize("cls", BOTH)
def test_rows_of_weight_zero_do_not_count(rng, cls):
    X, y = data(rng)
    options = {"search": QUICK} if cls is not LeastSquaresClassifier else {}
    w = np.ones(30)
    w[20:] = 0.0
    one, two = cls(**options).fit(X, y, w), cls(**options).fit(X[:20], y[:20])
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-8)
    assert one.loo_.mean.shape == (30,)
    assert np.all(np.isfinite(one.loo_.log_density))


@pytest.mark.parametrize("cls", BOTH)
def test_bad_input(rng, cls):
    X, y = data(rng)
    for labels, message in [
        (np.zeros(30), "only one class"),
        (rng.normal(size=30), "continuous|Unknown label type"),
        (np.where(y == 0, np.nan, 1.0), "NaN"),
    ]:
        with pytest.raises(ValueError, match=message):
            cls().fit(X, labels)
    with pytest.raises(ValueError, match="one class"):
        cls().fit(X, y, (y == 0).astype(float))
    with pytest.raises(ValueError, match="does not occur"):
        cls(class_weight={5: 1.0}).fit(X, y)
    with pytest.raises(ValueError, match="not negative"):
        cls().fit(X, y, -np.ones(30))
    with pytest.raises(ValueError, match="noise part"):
        cls(RBF() + White(0.1)).fit(X, y, np.full(30, 2.0))


@pytest.mark.parametrize("cls", BOTH)
def test_constant_features_and_one_row_per_class(rng, cls):
    X, y = data(rng)
    flat = cls().fit(np.c_[X, np.full(30, 5.0)], y)
    np.testing.assert_allclose(
        flat.decision_function(np.c_[X, np.full(30, 5.0)]),
        cls().fit(X, y).decision_function(X),
        rtol=1e-6,
        atol=1e-6,
    )
    two = cls().fit(np.array([[0.0], [1.0]]), ["a", "b"])
    assert two.predict([[0.0], [1.0]]).shape == (2,)


def test_one_distinct_input():
    X, y = np.ones((6, 2)), np.array([0, 0, 0, 0, 1, 1])
    with pytest.raises(ValueError, match="need more than 1 distinct inputs"):
        LeastSquaresClassifier().fit(X, y)
    for model in (LeastSquaresClassifier(basis=None), ProbabilisticLeastSquaresClassifier()):
        assert np.all(model.fit(X, y).predict(X) == 0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LeastSquaresClassifier(lam=0.0), "lam must be"),
        (LeastSquaresClassifier(lam="cv"), "lam must be"),
        (LeastSquaresClassifier(lams=[1.0, -1.0]), "lams must be"),
        (LeastSquaresClassifier(lams=[]), "lams must be"),
        (LeastSquaresClassifier(criterion="auc"), "criterion must be"),
        (LeastSquaresClassifier(targets=(0.0, 1.0)), "targets must be"),
        (LeastSquaresClassifier(targets="fishy"), "targets must be"),
        (LeastSquaresClassifier(basis="linear", kernel="nonsense"), "nonsense"),
        (ProbabilisticLeastSquaresClassifier(search="evidence"), "search must be"),
        (ProbabilisticLeastSquaresClassifier(search=Optimize()), "does not train a sigmoid"),
        (ProbabilisticLeastSquaresClassifier(noise=-1.0), "positive noise"),
        (ProbabilisticLeastSquaresClassifier(tau=0.0), "positive tau"),
    ],
)
def test_senseless_parameters_are_refused(rng, model, message):
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*data(rng))
