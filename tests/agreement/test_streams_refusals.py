"""Bad batches: refused with a sentence that names the remedy, or handled; the learner stays."""

import dataclasses
import itertools

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from mercer import LapMEDClassifier, MEDClassifier, OnlineLogisticClassifier, RiverClassifier
from mercer.kernels import RBF, TFIDF, Linear

LEARNERS = {
    "online": OnlineLogisticClassifier,
    "online in a budget": lambda: OnlineLogisticClassifier(budget=20),
    "online that forgets": lambda: OnlineLogisticClassifier(budget=30, rho=0.9, drift="auto"),
    "med": MEDClassifier,
    "med with a map": lambda: MEDClassifier(kernel="linear", calibration="sigmoid"),
    "lap": LapMEDClassifier,
    "lap on landmarks": lambda: LapMEDClassifier(budget=0, landmarks=5),
}
ALL = pytest.mark.parametrize("name", LEARNERS)
X = np.random.default_rng(0).normal(size=(60, 3))
Y = np.where(X[:, 0] + 0.3 * X[:, 1] > 0.0, "up", "down")
NEW = np.random.default_rng(1).normal(size=(8, 3))


def begun(name):
    return LEARNERS[name]().partial_fit(X[:40], Y[:40])


def snapshot(value):
    """Everything an object holds, by value: arrays as bytes, parts by their fields."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return (value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.ndarray):
        return (value.shape, snapshot(value.tolist()))
    if isinstance(value, dict):
        return {key: snapshot(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(snapshot, value)]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: snapshot(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if hasattr(value, "__dict__") and not callable(getattr(value, "__get__", None)):
        return [type(value).__name__, snapshot(vars(value))]
    return repr(value)


def test_the_snapshot_sees_a_change():
    model = begun("online")
    before = snapshot(vars(model))
    model.partial_fit(X[40:41], Y[40:41])
    assert snapshot(vars(model)) != before
    other = begun("lap")
    before = snapshot(vars(other))
    other.memory_.weights[0, 0] += 1e-15
    assert snapshot(vars(other)) != before


def with_hole(value):
    Z = X[:5].copy()
    Z[2, 1] = value
    return Z


BAD = {
    "nothing": (X[:0], Y[:0], {}, "0 sample"),
    "no rows, no columns": ([], [], {}, "2D array"),
    "fewer columns": (X[:5, :2], Y[:5], {}, "2 features"),
    "more columns": (np.hstack([X, X])[:5], Y[:5], {}, "6 features"),
    "NaN": (with_hole(np.nan), Y[:5], {}, r"NaN in column 1, row 2"),
    "infinity": (with_hole(np.inf), Y[:5], {}, r"inf.* in column 1, row 2"),
    "a new class": (X[:2], ["up", "sideways"], {}, r"'sideways'.*classes=\[...\] at the first"),
    "other classes": (X[:2], Y[:2], {"classes": ["a", "b"]}, "differ from those of the first"),
    "numbers for texts": (X[:2], [0, 1], {}, "not one of the classes"),
    "too few labels": (X[:5], Y[:4], {}, r"inconsistent|one for each"),
    "two columns of labels": (X[:2], np.array([["up", "up"], ["down", "up"]]), {}, "1d array"),
    "a row as a vector": (X[0], Y[:1], {}, "2D array"),
    "negative weights": (X[:2], Y[:2], {"sample_weight": [-1.0, 1.0]}, "not negative"),
    "weights that are no number": (X[:2], Y[:2], {"sample_weight": [np.nan, 1.0]}, "finite"),
    "too few weights": (X[:2], Y[:2], {"sample_weight": [1.0]}, "sample_weight has shape"),
    "no weight at all": (
        X[:2],
        Y[:2],
        {"sample_weight": [0.0, 0.0]},
        "all sample weights are zero",
    ),
    "texts for numbers": (X[:2].astype(str).astype(object) + "x", Y[:2], {}, "."),
}


@ALL
@pytest.mark.parametrize("case", BAD)
def test_a_bad_batch_is_refused_and_leaves_no_trace(name, case):
    rows, labels, more, words = BAD[case]
    model = begun(name)
    before = snapshot(vars(model))
    with pytest.raises((ValueError, TypeError), match=words):
        model.partial_fit(rows, labels, **more)
    assert snapshot(vars(model)) == before
    other = begun(name).partial_fit(X[40:], Y[40:])  # and it goes on as if nothing had been
    model.partial_fit(X[40:], Y[40:])
    np.testing.assert_array_equal(model.decision_function(NEW), other.decision_function(NEW))


@ALL
@pytest.mark.parametrize("case", ["nothing", "NaN", "no weight at all", "two columns of labels"])
def test_a_bad_first_batch_leaves_nothing_fitted(name, case):
    rows, labels, more, words = BAD[case]
    model = LEARNERS[name]()
    before = snapshot(vars(model))
    with pytest.raises((ValueError, TypeError), match=words):
        model.partial_fit(rows, labels, classes=["up", "down"], **more)
    assert snapshot(vars(model)) == before
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)


@ALL
def test_missing_labels_where_all_must_have_one(name):
    model = begun(name)
    before = snapshot(vars(model))
    if name.startswith("lap"):  # there they are what the machine is for
        assert model.partial_fit(X[:2], None).report_["waiting"] == 2
        return
    for labels in (None, ["up", None], ["up", np.nan]):
        with pytest.raises((ValueError, TypeError)):
            model.partial_fit(X[:2], labels)
    assert snapshot(vars(model)) == before


@ALL
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("after", [0, 1, 3, 7])
def test_an_error_at_any_moment_leaves_the_learner(name, error, after, monkeypatch):
    """The kernel fails at its n-th evaluation within the batch."""
    model = begun(name)
    expected = begun(name).partial_fit(X[40:], Y[40:]).decision_function(NEW)
    before, scores = snapshot(vars(model)), model.decision_function(NEW)
    kind, calls = type(model.kernel_), itertools.count()
    methods = [m for m in ("__call__", "diag", "features") if hasattr(kind, m)]
    with monkeypatch.context() as patch:
        for method in methods:
            true = getattr(kind, method)

            def failing(self, *args, true=true, **kwargs):
                if next(calls) >= after:
                    raise error("now")
                return true(self, *args, **kwargs)

            patch.setattr(kind, method, failing)
        try:
            model.partial_fit(X[40:], Y[40:])
        except error:
            assert visible(snapshot(vars(model))) == visible(before)
        else:
            assert next(calls) <= after  # fewer evaluations than that: it was learned
            return
    np.testing.assert_array_equal(model.decision_function(NEW), scores)
    model.partial_fit(X[40:], Y[40:])
    np.testing.assert_array_equal(model.decision_function(NEW), expected)


def visible(state):
    """Without the spare rows of a growing factor, which belong to whoever writes them first."""
    if isinstance(state, dict):
        return {k: visible(v) for k, v in state.items() if k not in ("panels", "taken")}
    return [visible(v) for v in state] if isinstance(state, list) else state


@ALL
def test_labels_as_objects(name):
    """Texts in an object array: a label of another kind is a new class, and said so."""
    model = LEARNERS[name]().partial_fit(X[:40], Y[:40].astype(object))
    before = snapshot(vars(model))
    with pytest.raises(ValueError, match=r"label 3, which is not one of the classes"):
        model.partial_fit(X[:2], np.array(["up", 3], dtype=object))
    assert snapshot(vars(model)) == before
    with pytest.raises(TypeError, match="strings and others are numbers"):
        LEARNERS[name]().partial_fit(X[:2], np.array(["up", 3], dtype=object))
    for gap in (None, np.nan):
        with pytest.raises(ValueError, match="is not a label"):
            LEARNERS[name]().partial_fit(X[:2], [0.0, 1.0], classes=[0.0, 1.0, gap])


# ---------------------------------------------------------------------- allowed
@ALL
def test_one_class_is_allowed_in_a_stream_and_not_in_a_fit(name):
    model = begun(name).partial_fit(X[40:45], ["up"] * 5)
    assert np.isfinite(model.decision_function(NEW)).all()
    first = LEARNERS[name]().partial_fit(X[:5], ["up"] * 5, classes=["up", "down"])
    assert first.classes_.tolist() == ["down", "up"]
    assert np.isfinite(first.decision_function(NEW)).all()
    with pytest.raises(ValueError, match=r"classes=\[...\] at the first call"):
        LEARNERS[name]().partial_fit(X[:5], ["up"] * 5)
    with pytest.raises(ValueError, match="one class"):
        LEARNERS[name]().fit(X[:5], ["up"] * 5)


@ALL
def test_a_class_named_at_first_may_come_late(name):
    labels = np.where(X[:, 2] > 1.0, "far", Y)
    model = LEARNERS[name]()
    early = labels[:40] != "far"
    model.partial_fit(X[:40][early], labels[:40][early], classes=["up", "down", "far"])
    model.partial_fit(X[40:], labels[40:], classes=["far", "down", "up"])
    assert model.classes_.tolist() == ["down", "far", "up"]
    assert model.decision_function(NEW).shape == (8, 3)


@ALL
def test_single_rows_and_repeated_rows(name):
    model = begun(name)
    for i in range(40, 44):
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    for _ in range(3):
        model.partial_fit(np.repeat(X[50:51], 15, axis=0), np.repeat(Y[50], 15))
    model.partial_fit(np.repeat(X[51:52], 6, axis=0), ["up", "down"] * 3)  # they contradict
    assert np.isfinite(model.decision_function(NEW)).all()
    assert model.score(X[:40], Y[:40]) > 0.6


@ALL
def test_a_first_batch_of_one_row(name):
    model = LEARNERS[name]().partial_fit(X[:1], Y[:1], classes=["up", "down"])
    model.partial_fit(X[1:], Y[1:])
    assert model.score(X, Y) > 0.8


@ALL
def test_the_arrays_of_the_user_stay_his(name):
    A, labels, w = X[:40].copy(), Y[:40].copy(), np.ones(40)
    model = LEARNERS[name]().partial_fit(A, labels, sample_weight=w)
    np.testing.assert_array_equal(A, X[:40])
    scores = model.decision_function(NEW)
    A[:], w[:] = 0.0, 7.0
    labels[:] = "up"
    np.testing.assert_array_equal(model.decision_function(NEW), scores)
    model.partial_fit(X[40:], Y[40:])
    other = begun(name).partial_fit(X[40:], Y[40:])
    np.testing.assert_array_equal(model.decision_function(NEW), other.decision_function(NEW))


@ALL
def test_the_same_stream_twice_is_the_same_machine(name):
    one, two = (begun(name).partial_fit(X[40:], Y[40:]) for _ in range(2))
    assert snapshot(vars(one)) == snapshot(vars(two))


# ---------------------------------------------------------------------- values beyond the doubles
@pytest.mark.parametrize("scale", [1e12, 1e60, 1e200])
@pytest.mark.parametrize("call", ["fit", "partial_fit"])
def test_a_kernel_that_overflows_is_refused(scale, call):
    for make in (OnlineLogisticClassifier, MEDClassifier, LapMEDClassifier):
        model = make(kernel=Linear())
        try:
            getattr(model, call)(scale * X, Y)
        except (ValueError, np.linalg.LinAlgError) as error:
            assert "scale" in str(error)  # noqa: PT017 - either it is said, or it works
            assert not hasattr(model, "classes_")
        except ConvergenceWarning as warning:  # an error here; where it ends is rounding
            assert "scale the columns" in str(warning)  # noqa: PT017 - as above
        else:
            assert np.isfinite(model.decision_function(scale * X)).all()


def test_rows_on_which_the_kernel_is_zero():
    """f is zero there: nothing is learned, nothing is NaN, with a budget or without."""
    model = OnlineLogisticClassifier(Linear(), budget=5).partial_fit(np.zeros((20, 2)), [0, 1] * 10)
    np.testing.assert_array_equal(model.predict_proba(np.ones((1, 2))), [[0.5, 0.5]])
    assert model.report_["budget"]["divergence_lost"] == 0.0
    model.partial_fit(np.array([[1.0, 0.0], [-1.0, 0.0]]), [1, 0])
    assert model.predict_proba([[1.0, 0.0]])[0, 1] > 0.5


def test_a_class_without_weight():
    model = MEDClassifier(class_weight={"up": 0.0}).partial_fit(X[:40], Y[:40])
    before = snapshot(vars(model))
    with pytest.raises(ValueError, match="no row of this batch any weight"):
        model.partial_fit(X[40:45], ["up"] * 5)
    assert snapshot(vars(model)) == before


def test_counts_that_are_negative():
    model = MEDClassifier(kernel=TFIDF()).partial_fit(np.abs(X[:40]).round(), Y[:40])
    before = snapshot(vars(model))
    with pytest.raises(ValueError, match="for counts"):
        model.partial_fit(X[40:], Y[40:])
    assert snapshot(vars(model)) == before


def test_memory_is_asked_for_before_a_large_batch(monkeypatch):
    """On landmarks the features of the batch are what is large, not the landmarks."""
    model = begun("lap on landmarks")
    before = snapshot(vars(model))
    big = np.random.default_rng(2).normal(size=(3000, 3))
    monkeypatch.setattr("mercer.core.memory.available_bytes", lambda: 1_000_000)
    with pytest.raises(MemoryError, match=r"batch of 3000 rows on \d+ landmarks"):
        model.partial_fit(big)
    assert snapshot(vars(model)) == before
    whole = LapMEDClassifier(kernel=RBF(1.0), budget=None).partial_fit(X, Y)
    with pytest.raises(MemoryError, match="budget"):
        whole.partial_fit(big)


def test_an_adapter_for_single_examples_stays_as_well():
    model = RiverClassifier(classes=["up", "down"], first=10)
    for x, label in zip(X[:30], Y[:30], strict=True):
        model.learn_one(dict(zip("abc", x, strict=True)), label)
    before = snapshot(vars(model))
    bad = [
        ({"a": 1.0, "b": 2.0}, "up"),
        ({"a": 1.0, "b": 2.0, "c": np.nan}, "up"),
        ({"a": 1.0, "b": 2.0, "c": 3.0}, "sideways"),
        ({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, "up"),
    ]
    for x, label in bad:
        with pytest.raises(ValueError, match=r"."):
            model.learn_one(x, label)
    assert snapshot(vars(model)) == before
    assert set(model.predict_proba_one({"a": 1.0, "b": 0.0, "c": 0.0})) == {"up", "down"}
