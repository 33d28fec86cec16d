"""Mutated model files of every estimator: refused in a sentence, or a model that answers.

A mutation whose digest does not fit is refused. One with a fitting digest is refused with
ModelFileError, or leaves every answer as it was to the last bit, or makes another model: one that
answers in finite numbers, or refuses rows with ValueError.
"""

from __future__ import annotations

import contextlib
import signal
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.persist import ModelFileError
from tests.attacks.mutate import MUTATIONS, damaged
from tests.persist.stored import models as stored_models
from tests.persist.test_records import CASES, LINE, T, X, Y

SECONDS, BYTES = 2.0, 300 << 20  # of processor time, and of memory, for each file
RNG = np.random.default_rng(1)
ROWS = np.concatenate([X[:4], RNG.normal(size=(4, 2)), 10.0 * RNG.normal(size=(2, 2)), [[0, 0]]])


def _on_rows(made):
    model = made()
    if isinstance(model, mercer.TableModel):
        return model, {"a": ROWS[:, 0], "b": ROWS[:, 1]}
    return model, ROWS[:, : model.n_features_in_]


@cache
def _stored_models():
    return stored_models()


def _stored(name):
    return _stored_models()[name]


MORE = {
    "regressor": lambda: mercer.KernelRegressor(search=None).fit(X, T),
    "probabilistic": lambda: mercer.ProbabilisticLeastSquaresClassifier(search=None).fit(X, Y),
    "student": lambda: mercer.GPRegressor(loss="student_t", search=None).fit(X, T),
    "spline robust": lambda: mercer.SmoothingSpline(loss="student_t").fit(LINE, T),
    "quantiles": lambda: mercer.QuantileRegressor(search=None).fit(X, T),
    "polynomial": lambda: mercer.SVC(kernel="poly").fit(X, Y),
    "related outputs": lambda: mercer.MultiOutputGPRegressor(search=None).fit(
        X, np.column_stack([T, np.where(T > 0.5, np.nan, -T)])
    ),
    "changing noise": lambda: mercer.GPRegressor(loss="heteroscedastic", search=None).fit(X, T),
    "weights": lambda: mercer.GPRegressor("linear", search=None, gram="weights").fit(X, T),
    "grades": lambda: mercer.GPClassifier(loss="ordinal", search=None).fit(X, np.digitize(T, [0])),
    "labels and a basis": lambda: mercer.GPClassifier(search=None, basis="constant").fit(X, Y),
}
MORE["a table of a quantity"] = lambda: mercer.fit(
    {"a": X[:, 0], "b": X[:, 1], "y": T}, "y", candidates=["linear"]
)
SMALL = {name: partial(_on_rows, made) for name, made in {**CASES, **MORE}.items()}
PIPELINES = {name: partial(_stored, name) for name in ("Pipeline", "Steps", "TableModel")}
EVERY = {name: cache(made) for name, made in (SMALL | PIPELINES).items()}  # fitted once
METHODS = (
    *("predict", "predict_proba", "predict_log_proba", "decision_function", "predict_latent"),
    *("predict_interval", "score_samples", "transform"),
)


def known(model, rows):
    """Return the methods that the good model has, with their options."""
    found = []
    for method, options in [*((m, {}) for m in METHODS), ("predict", {"return_std": True})]:
        with contextlib.suppress(AttributeError, TypeError):
            _answer(getattr(model, method), rows, **options)
            found.append((method, options))
    return found


def said(model, rows, methods):
    """Return what a model says by each method: arrays, or the words of a refusal."""
    str(model.summary()) if hasattr(model, "summary") else repr(model)
    return {(m, *options): _answer(getattr(model, m), rows, **options) for m, options in methods}


def _answer(method, rows, **options):
    try:
        answer = method(rows, **options)
    except (ValueError, NotImplementedError) as error:
        return str(error)
    each = answer if isinstance(answer, tuple) else (answer,)
    return [np.asarray(a) for a in each if a is not None]


class TooSlow(BaseException):
    """Not an Exception, which the library may turn into one of its own."""


@contextlib.contextmanager
def bounded():
    """Bound processor time and the growth of memory at once."""

    def stop(*_):
        raise TooSlow(f"more than {SECONDS} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    start = _resident(reset=True)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # another model may overflow on its way to a refusal
            yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    grown = _resident() - start
    assert grown < BYTES, f"{grown >> 20} MB"


def _resident(*, reset=False):
    """Return the highest resident memory since the last reset, where the system counts it."""
    status = Path("/proc/self/status")
    with contextlib.suppress(OSError):
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return int(line.split()[1]) << 10
    return 0


def outcome(path, rows, methods, truth):
    """Load a file and ask the model; return "refused", "same" or "another"."""
    try:
        model = mercer.load(path)
    except ModelFileError:
        return "refused"
    found = said(model, rows, methods)
    if _text(found) == _text(truth):
        return "same"
    for method, answer in found.items():
        if isinstance(answer, str):
            continue
        for array in answer:
            if array.dtype.kind == "f":
                low = method[0] == "predict_log_proba"  # the logarithm of 0 is -inf
                fine = ~np.isnan(array) if low else np.isfinite(array)
                assert fine.all(), f"{method[0]} says {array[~fine][:3]}"
    return "another"


def _text(found):
    """Return answers in a form that is equal if they are so to the last bit."""

    def plain(array):
        return array.dtype.str, array.shape, array.tolist() if array.dtype == "O" else bytes(array)

    return {m: a if isinstance(a, str) else [plain(one) for one in a] for m, a in found.items()}


def attack(made, folder, count, seed=0):
    """Mutate the file of a model ``count`` times; yield what went wrong, in words."""
    model, rows = made()
    path, spoilt = folder / "good.mercer", folder / "spoilt.mercer"
    mercer.save(model, path)
    good, again = path.read_bytes(), mercer.load(path)
    methods = known(again, rows)
    assert methods
    truth = said(again, rows, methods)
    for i in range(count):
        mutation = MUTATIONS[i % len(MUTATIONS)]
        what = mutation(np.random.default_rng([seed, i]), good, spoilt)
        try:
            with bounded():
                ended = outcome(spoilt, rows, methods, truth)
        except (Exception, TooSlow) as error:  # noqa: BLE001  # any other error is the finding
            yield f"{mutation.__name__} {i}: {what}: {type(error).__name__}: {error}", error
            continue
        if mutation is damaged and ended != "refused" and spoilt.read_bytes() != good:
            yield f"{mutation.__name__} {i}: {what}: not noticed", None


def _wrong(name, folder, count, seed):
    return [what for what, _ in attack(EVERY[name], folder, count, seed)]


@pytest.mark.parametrize("name", EVERY)
def test_mutated_files(name, tmp_path):
    assert _wrong(name, tmp_path, -(-500 // len(EVERY)), seed=0) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY)
def test_many_mutated_files(name, tmp_path):
    assert _wrong(name, tmp_path, -(-20_000 // len(EVERY)), seed=1) == []


def test_every_estimator_is_attacked():
    fitted = {n for n in mercer.__all__ if hasattr(getattr(mercer, n), "_from_state")}
    fitted -= {"TableModel"}  # the base of the estimators of tables, which is in no file by itself
    assert fitted <= {type(made()[0]).__name__ for made in EVERY.values()}
