"""Bad input by category, for every public estimator: a clear error, nothing changed; or numbers.

One table of cases; each is tried on every estimator through its learning and predicting methods.
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, is_classifier
from sklearn.exceptions import DataConversionWarning, NotFittedError
from threadpoolctl import threadpool_limits

import mercer
from mercer.kernels import RBF
from mercer.linalg import Inducing, Iterative

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

# Without searches: what is tested is what comes in.
SETTINGS: dict[str, dict[str, Any]] = {
    "GPRegressor": {"kernel": 1.0 * RBF(), "search": None},
    "GPClassifier": {"kernel": 1.0 * RBF(), "search": None},
    "ProbabilisticLeastSquaresClassifier": {"kernel": 1.0 * RBF(), "search": None},
    "RVRegressor": {"kernel": RBF(), "search": None},
    "RVClassifier": {"kernel": RBF(), "search": None},
    "AdditiveRegressor": {"search": None},
    "KernelRegressor": {"kernel": 1.0 * RBF(), "search": None},
    "MultiOutputGPRegressor": {"kernel": 1.0 * RBF(), "search": None},
    "QuantileRegressor": {"search": None},
    "NuSVC": {"nu": 0.2},
    "MEDClassifier": {"C": 4.0, "calibration": "sigmoid"},
    "SVC": {"probability": "loo"},
    "TableRegressor": {"candidates": ["linear"]},
    "TableClassifier": {"candidates": ["linear"]},
}
# What a table may hold: gaps, dates, text and categories are columns of a table like others.
TABLES = ("TableRegressor", "TableClassifier")
IN_TABLES = {
    "NaN", "dates", "text of numbers", "objects that are gaps", "a frame with dates",
    "a frame with zoned dates", "a frame with text", "a frame with categories",
}  # fmt: skip
# To predict, a column is of the kind that it was in training; far values are no other values.
PREDICTING_TABLES = {"truth values", "integers that collapse"} | IN_TABLES
# Others of the same class: K is held in another way.
FEW: dict[str, Any] = {"kernel": 1.0 * RBF(), "search": None, "gram": Inducing(m=4)}
VARIANTS: dict[str, dict[str, Any]] = {
    "GPRegressor, inducing": FEW,
    "GPRegressor, iterative": FEW | {"gram": Iterative(rank=4)},
    "GPClassifier, inducing": FEW,
    "AdditiveRegressor, iterative": {"gram": "iterative", "search": None},
    "SVC, landmarks": {"gram": Inducing(m=4)},
    "SVR, landmarks": {"gram": Inducing(m=4)},
    "KernelRegressor, landmarks": FEW | {"loss": "huber"},
}
ESTIMATORS = sorted(
    name
    for name in mercer.__all__
    if isinstance(getattr(mercer, name), type) and issubclass(getattr(mercer, name), BaseEstimator)
)
EVERY = [*ESTIMATORS, *VARIANTS]
N = 16
ONE_COLUMN = "SmoothingSpline"
METHODS = ("predict", "predict_proba", "decision_function", "transform")
INTERNALS = re.compile(
    r"numpy\.|ufunc|DType|_ArrayMemoryError|broadcast|setting an array|object has no attribute|"
    r"unsupported operand|Traceback|index \d+ is out of bounds|float\(\) argument|cannot unpack"
)


def make(name: str) -> Any:
    settings = (SETTINGS | VARIANTS).get(name, {})
    return getattr(mercer, name.partition(",")[0])(**settings)


def rows(name: str) -> tuple[np.ndarray, np.ndarray]:
    """A table on which the estimator learns."""
    X = np.random.default_rng(1).normal(size=(N, 1 if name == ONE_COLUMN else 2))
    f = np.sin(2.0 * X[:, 0]) + 0.1 * X[:, -1]
    return X, (f > np.median(f)).astype(int) if is_classifier(make(name)) else f


def put(A: Any, value: Any, dtype: Any = None) -> np.ndarray:
    B = np.array(A, dtype=dtype if dtype is not None else np.float64)
    B.flat[B.size // 2] = value
    return B


def frame(X: np.ndarray, **more: Any) -> pd.DataFrame:
    """The table with names; the last column is another one."""
    names = [f"x{j}" for j in range(X.shape[1])]
    data = pd.DataFrame(X, columns=names)
    for value in more.values():
        data[names[-1]] = value
    return data


DAYS = np.datetime64("2024-01-01") + np.arange(N)
Change = Callable[[np.ndarray], Any]
# What X becomes, and what must happen: an error, a result, or one of both ("either").
INPUTS: dict[str, tuple[Change, str]] = {
    "NaN": (lambda X: put(X, np.nan), "error"),
    "infinity": (lambda X: put(X, -np.inf), "error"),
    "a vector": (lambda X: X[:, 0], "error"),
    "three axes": (lambda X: X[None], "error"),
    "a number": (lambda X: 3.0, "error"),
    "None": (lambda X: None, "error"),
    "no rows": (lambda X: X[:0], "error"),
    "no columns": (lambda X: X[:, :0], "error"),
    "sparse": (lambda X: csr_array(X), "error"),
    "complex": (lambda X: X + 1j, "error"),
    "complex objects": (lambda X: (X + 1j).astype(object), "error"),
    "dates": (lambda X: np.column_stack([DAYS] * X.shape[1]), "error"),
    "time spans": (lambda X: np.column_stack([DAYS - DAYS[0]] * X.shape[1]), "error"),
    "bytes": (lambda X: X.astype("S20"), "error"),
    "text": (lambda X: put(X, "high", object), "error"),
    "text as an array": (lambda X: put(X.astype("U30"), "high", "U30"), "error"),
    "text of numbers": (lambda X: X.astype("U30"), "result"),
    "objects": (lambda X: put(X, {"a": 1}, object), "error"),
    "objects that are dates": (lambda X: put(X, pd.Timestamp("2024-01-01"), object), "error"),
    "objects that are spans": (lambda X: put(X, np.timedelta64(3, "D"), object), "error"),
    "objects that are bytes": (lambda X: put(X, b"1.5", object), "error"),
    "objects that are gaps": (lambda X: put(X, None, object), "error"),
    "objects that are numbers": (lambda X: X.astype(object), "result"),
    "a frame with dates": (lambda X: frame(X, last=DAYS[: len(X)]), "error"),
    "a frame with zoned dates": (
        lambda X: frame(X, last=pd.date_range("2024", periods=len(X), tz="UTC")), "error",
    ),
    "a frame with periods": (
        lambda X: frame(X, last=pd.period_range("2024", periods=len(X), freq="D")), "error",
    ),
    "a frame with text": (lambda X: frame(X, last="high"), "error"),
    "a frame with categories": (
        lambda X: frame(X, last=pd.Categorical(["a", "b"] * (len(X) // 2))), "error",
    ),
    "integers that collapse": (
        lambda X: np.int64(2**60) + np.arange(X.size).reshape(X.shape), "error",
    ),
    "integers that stay different": (
        lambda X: np.int64(2**60) + 1001 * np.arange(X.size).reshape(X.shape), "either",
    ),
    "rows of different lengths": (lambda X: [[1.0], *X.tolist()[1:], [1.0] * 5], "error"),
    "huge": (lambda X: 1e300 * X, "either"),
    "tiny": (lambda X: 1e-300 * X, "either"),
    "constant columns": (lambda X: np.full_like(X, 2.0), "either"),
    "equal rows": (lambda X: np.tile(X[:1], (len(X), 1)), "either"),
    "every row twice": (lambda X: np.repeat(X[: len(X) // 2], 2, axis=0), "result"),
    "one row": (lambda X: X[:1], "either"),
    "read-only": (lambda X: readonly(X), "result"),
    "Fortran order": (lambda X: np.asfortranarray(X), "result"),
    "every other row of a larger table": (lambda X: np.repeat(X, 2, axis=0)[::2], "result"),
    "single precision": (lambda X: X.astype(np.float32), "result"),
    "a list": (lambda X: X.tolist(), "result"),
    "truth values": (lambda X: X > 0.0, "either"),
}  # fmt: skip


def readonly(X: np.ndarray) -> np.ndarray:
    Y = X.copy()
    Y.setflags(write=False)
    return Y


# What y becomes, for classifiers and regressors.
TARGETS: dict[str, tuple[Change, str, str]] = {
    "NaN": (lambda y: put(y, np.nan), "either", "error"),
    "infinity": (lambda y: put(y, np.inf), "error", "error"),
    "None": (lambda y: None, "error", "error"),
    "a value too few": (lambda y: y[:-1], "error", "error"),
    "one value": (lambda y: np.full_like(y, 1), "error", "either"),
    "text": (lambda y: np.where(y > 0, "yes", "no"), "result", "error"),
    "text as objects": (lambda y: np.where(y > 0, "yes", "no").astype(object), "result", "error"),
    "bytes": (lambda y: np.where(y > 0, b"yes", b"no"), "either", "error"),
    "dates": (lambda y: DAYS[0] + (y > 0).astype(int), "either", "error"),
    "time spans": (lambda y: DAYS[(y > 0).astype(int)] - DAYS[0], "either", "error"),
    "complex": (lambda y: y + 1j, "error", "error"),
    "a column": (lambda y: y[:, None], "result", "either"),
    "two columns": (lambda y: np.column_stack([y, y]), "error", "either"),
    "three axes": (lambda y: np.zeros((N, 2, 2)), "error", "error"),
    "objects": (lambda y: put(y, {"a": 1}, object), "error", "error"),
    "texts and numbers": (lambda y: put(y, "no", object), "error", "error"),
    "a number": (lambda y: 1.0, "error", "error"),
    "huge": (lambda y: 1e300 * (y - 0.5), "either", "either"),
    "tiny": (lambda y: 1e-300 * (y - 0.5), "either", "either"),
    "truth values": (lambda y: y > 0.0, "result", "either"),
    "read-only": (readonly, "result", "result"),
    "a list": (lambda y: y.tolist(), "result", "result"),
}
WEIGHTS: dict[str, tuple[Any, str]] = {
    "negative": (put(np.ones(N), -1.0), "error"),
    "NaN": (put(np.ones(N), np.nan), "error"),
    "infinity": (put(np.ones(N), np.inf), "error"),
    "all zero": (np.zeros(N), "error"),
    "one too few": (np.ones(N - 1), "error"),
    "two columns": (np.ones((N, 2)), "error"),
    "text": (np.full(N, "a"), "error"),
    "dates": (DAYS, "error"),
    "complex": (np.ones(N) + 1j, "error"),
    "one zero": (put(np.ones(N), 0.0), "result"),
    "huge": (np.full(N, 1e300), "either"),
    "tiny": (np.full(N, 1e-300), "either"),
    "a list": ([1.0] * N, "result"),
}


def attempt(action: Callable[[], Any], expected: str, label: str) -> Any:
    """Run the action; return what it returned, or None after an error that is a clear one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found, error = action(), None
        except Exception as raised:  # noqa: BLE001  # its type is what is tested
            found, error = None, raised
    for w in caught:
        home = w.category.__module__.partition(".")[0]
        if w.category is UserWarning and "feature names" in str(w.message):
            continue  # by scikit-learn, which has no class of its own for it
        assert home in ("sklearn", "mercer"), f"{label}: warned {w.category.__name__}: {w.message}"
    if error is None:
        assert expected != "error", f"{label}: accepted"
        return found
    text = f"{label}: {type(error).__name__}: {error}"
    assert isinstance(error, (ValueError, TypeError)), text
    assert expected != "result", text
    assert len(str(error).split()) >= 5, text
    assert not INTERNALS.search(str(error)), text
    assert type(error).__name__ not in ("DTypePromotionError", "UFuncTypeError"), text
    return None


def answers(model: Any, X: Any) -> dict[str, np.ndarray]:
    found = {}
    for name in METHODS:
        if hasattr(model, name):
            found[name] = np.asarray(getattr(model, name)(X))
    return found


def check_finite(found: dict[str, np.ndarray], label: str) -> None:
    for name, values in found.items():
        if values.dtype.kind == "f":
            assert np.isfinite(values).all(), f"{label}: {name} is not finite"


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with threadpool_limits(1):
        yield


class Fitted(dict[str, Any]):
    """Every estimator on its table, and what it says of that; fitted when it is asked for."""

    def __missing__(self, name: str) -> Any:
        X, y = rows(name)
        model = make(name).fit(X, y)
        self[name] = (model, X, y, answers(model, X))
        return self[name]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    return Fitted()


def learn(case: tuple, X: Any, y: Any, expected: str, label: str, weights: Any = None) -> None:
    """Fit, and go on with a stream where there is one; a failure leaves the machine as it was."""
    model, X0, _, said = case
    for way in ("fit", "partial_fit"):
        if not hasattr(model, way):
            continue
        machine = copy.copy(model) if way == "fit" else copy.deepcopy(model)
        state, what = dict(vars(machine)), f"{label}, {way}"
        more = {} if weights is None else {"sample_weight": weights}
        wanted = expected
        if way == "partial_fit":  # which knows its classes, and needs neither two nor any label
            fine = expected != "error" or label.endswith(("y: one value", "y: None"))
            wanted = "either" if fine else "error"
        if attempt(partial(getattr(machine, way), X, y, **more), wanted, what) is None:
            assert all(vars(machine).get(k) is v for k, v in state.items()), f"{what}: changed"
            assert len(vars(machine)) == len(state), f"{what}: changed"
            for name, before in said.items():
                np.testing.assert_array_equal(getattr(machine, name)(X0), before, err_msg=what)
        elif np.shape(X)[:1] == (N,):
            check_finite(attempt(partial(answers, machine, X), "result", what), what)


def all_of(checks: Iterable[Callable[[], None]]) -> None:
    """Run the checks; tell all that failed, not only the first."""
    failed = []
    for check in checks:
        try:
            check()
        except AssertionError as error:
            failed.append(str(error).strip())
    assert not failed, "\n" + "\n".join(failed)


@pytest.mark.parametrize("name", EVERY)
def test_learning_from_bad_inputs(name: str, fitted: dict[str, Any]) -> None:
    case = fitted[name]
    _, X, y, _ = case

    def check(label: str) -> None:
        change, expected = INPUTS[label]
        A = change(X)
        few = label in ("one row", "no rows")
        if name == "NuSVC" and label == "every row twice":
            expected = "either"  # equal rows of two classes have no margin
        if name in TABLES and label in IN_TABLES:
            expected = "either"
        learn(case, A, y[: len(A)] if few else y, expected, f"{name}, X: {label}")

    all_of(partial(check, label) for label in INPUTS)


@pytest.mark.parametrize("name", EVERY)
def test_learning_from_bad_targets(name: str, fitted: dict[str, Any]) -> None:
    case = fitted[name]
    model, X, y, _ = case
    if name in ("KernelFeatures", "KernelPCA", "OneClassSVM"):
        pytest.skip("it takes no targets")

    def check(label: str) -> None:
        change, classes, numbers = TARGETS[label]
        expected = classes if is_classifier(model) else numbers
        learn(case, X, change(y), expected, f"{name}, y: {label}")

    all_of(partial(check, label) for label in TARGETS)


@pytest.mark.parametrize("name", EVERY)
def test_learning_with_bad_weights(name: str, fitted: dict[str, Any]) -> None:
    if name == "MultiOutputGPRegressor":
        pytest.skip("it takes no weights")
    case = fitted[name]

    def check(label: str) -> None:
        w, expected = WEIGHTS[label]
        learn(case, case[1], case[2], expected, f"{name}, weights: {label}", w)

    all_of(partial(check, label) for label in WEIGHTS)


def other_columns(X: np.ndarray) -> dict[str, tuple[Any, str]]:
    """Tables whose columns are not those of the fit."""
    return {
        "a column more": (np.column_stack([X, X[:, 0]]), "error"),
        "a column less": (X[:, 1:], "error"),
        "names where there were none": (frame(X), "result"),
    }


@pytest.mark.parametrize("name", EVERY)
def test_predicting_bad_inputs(name: str, fitted: dict[str, Any]) -> None:
    model, X, y, said = fitted[name]
    certain = {"one row", "constant columns", "equal rows", "tiny", "truth values"}
    cases = {k: (f(X), "result" if k in certain else e) for k, (f, e) in INPUTS.items()}
    for label in PREDICTING_TABLES if name in TABLES else ():
        cases[label] = (cases[label][0], "either")

    def check(label: str) -> None:
        A, expected = (cases | other_columns(X))[label]
        for method in [*said, *(["score"] if y is not None and hasattr(model, "score") else [])]:
            if (method, label) == ("score", "huge"):
                continue  # scikit-learn squares what a spline extrapolates
            what = f"{name}, {method}: {label}"
            given = (
                (A, y[: A.shape[0] if hasattr(A, "shape") else N]) if method == "score" else (A,)
            )
            found = attempt(lambda m=method, g=given: getattr(model, m)(*g), expected, what)
            if found is not None and not (method == "score" and len(given[1]) < 2):
                check_finite({method: np.asarray(found)}, what)
        for method, before in said.items():
            np.testing.assert_array_equal(getattr(model, method)(X), before, err_msg=label)

    all_of(partial(check, label) for label in [*cases, *other_columns(X)])


@pytest.mark.parametrize("name", ESTIMATORS)
def test_names_and_a_machine_without_a_fit(name: str) -> None:
    X, y = rows(name)
    model = make(name)
    for method in [*METHODS, "score", "summary", "left_out_", "posteriors_"]:
        if method.endswith("_"):
            with pytest.raises((NotFittedError, AttributeError)):
                getattr(model, method)
        elif hasattr(type(model), method):
            with pytest.raises((NotFittedError, AttributeError)):
                getattr(model, method)(*{"score": (X, y), "summary": ()}.get(method, (X,)))
    model.fit(frame(X), y)
    names = frame(X).rename(columns={"x0": "other"})
    said = model.predict if hasattr(model, "predict") else model.transform
    attempt(lambda: said(names), "error", f"{name}: another name")
    if X.shape[1] > 1:
        attempt(lambda: said(frame(X).iloc[:, ::-1]), "error", f"{name}: another order")
    attempt(lambda: said(X), "result", f"{name}: no names")  # scikit-learn warns


def test_the_sentences_name_the_column_and_the_remedy() -> None:
    X, y = rows("SVR")
    model = mercer.SVR().fit(X, y)
    for ask in (lambda A: mercer.SVR().fit(A, y), model.predict):
        with pytest.raises(TypeError, match=r"column 'x1' of X holds dates.*mercer\.fit"):
            ask(frame(X, last=DAYS))
        with pytest.raises(TypeError, match=r"column 0 of X holds time spans.*seconds"):
            ask(np.column_stack([DAYS - DAYS[0]] * 2))
        with pytest.raises(ValueError, match=r"column 1 of X holds text.*'high' in row 8.*encode"):
            ask(put(X, "high", object)[:, ::-1])
        with pytest.raises(ValueError, match=r"column 0 of X has integers beyond 2\^53.*equal"):
            ask(np.int64(2**60) + np.arange(X.size).reshape(X.shape))
        with pytest.warns(DataConversionWarning, match=r"column [01] of X .* stay different"):
            ask(np.int64(2**60) + 1001 * np.arange(X.size).reshape(X.shape))


class Foreign:
    """An array of another library, which NumPy can read unless it lies elsewhere."""

    def __init__(self, values: Any, *, elsewhere: bool = False) -> None:
        self.values, self.elsewhere, self.dtype = np.asarray(values), elsewhere, object()
        self.shape, self.ndim = self.values.shape, self.values.ndim

    def __dlpack__(self) -> None:
        raise AssertionError("np.asarray does not need it")

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.elsewhere:
            raise RuntimeError("it lies on device 0")
        return self.values if dtype is None else self.values.astype(dtype)


@pytest.mark.parametrize("name", ["GPRegressor", "GPClassifier", "SVC", "RVRegressor"])
def test_arrays_of_other_libraries(name: str, fitted: dict[str, Any]) -> None:
    _, X, y, said = fitted[name]
    again = make(name).fit(Foreign(X), Foreign(y))
    for method, before in said.items():
        np.testing.assert_array_equal(getattr(again, method)(Foreign(X)), before)
    for given in ((Foreign(X, elsewhere=True), y), (X, Foreign(y, elsewhere=True))):
        with pytest.raises(TypeError, match=r"device 0.*give it as a NumPy array"):
            make(name).fit(*given)
