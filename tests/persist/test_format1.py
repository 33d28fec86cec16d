"""Files of format 1, written by version 0.1.0: each is read, and its answers are the same.

Answers are compared bit for bit where NumPy, SciPy, scikit-learn, the BLAS and the processor's
instructions are those that computed them ("rounding" in predictions.json). Elsewhere the last
digits are rounded otherwise, and a test is skipped to say so.
"""

from __future__ import annotations

import datetime
import json
import platform
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.linalg  # with its BLAS, before the libraries are listed
import sklearn
from threadpoolctl import threadpool_info

import mercer
from mercer.basis import Basis
from mercer.kernels import RBF
from mercer.losses import Huber
from mercer.persist import ModelFileError

FOLDER = Path(__file__).parents[1] / "data" / "format1"
STORED = json.loads((FOLDER / "predictions.json").read_text())
CASES = STORED["cases"]
NEWER = {
    "AdditiveRegressor",
    "KernelFeatures",
    "KernelPCA",
    "MultiOutputGPRegressor",
    "OnlineRegressor",
    "QuantileRegressor",
    "TableClassifier",
    "TableRegressor",
}  # estimators that came with format 2
STREAMS = [name for name, case in CASES.items() if "next" in case]


class OwnKernel(RBF):
    """A kernel of one's own."""


class OwnScore(Basis):
    """The score function of a Fisher kernel."""

    def __call__(self, X):
        return np.hstack([X, 0.5 * (X**2 - 1.0)])


class OwnFunction(Basis):
    """A kernel function of one's own."""

    def __init__(self, width=1.0):
        self.width = width

    def __call__(self, X, Z):
        return np.exp(-np.abs(X[:, :1] - Z[:, :1].T) / self.width)


class OwnWave(Basis):
    """Functions of one's own, for a basis."""

    def __call__(self, X):
        return np.sin(X)


class OwnBasis(Basis):
    """A basis of one's own."""

    def __init__(self, rate=1.0):
        self.rate = rate

    def __call__(self, X):
        return np.column_stack([np.cos(self.rate * X), np.sin(self.rate * X)])


class OwnLoss(Huber):
    """A loss of one's own that is not a likelihood: it has no leave-one-out figures."""

    normalised = False


class OwnProcess(mercer.GPRegressor):
    """An estimator of one's own."""


PARTS = (OwnKernel, OwnScore, OwnFunction, OwnWave, OwnBasis, OwnLoss, OwnProcess)
OWN = {part.__name__: part for part in PARTS}


def rounding():
    """Return what decides how the last digit is rounded."""
    blas = [each for each in threadpool_info() if each["user_api"] == "blas"]
    names = {f"{b['internal_api']} {b['version']} {b.get('architecture')}" for b in blas}
    return {
        "machine": platform.machine(),
        "system": platform.system(),
        "blas": sorted(names),
        "simd": sorted(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }


HERE = rounding()
THEN = STORED["rounding"]
# other libraries may have brought a BLAS of their own, which computes nothing here
SAME = HERE | {"blas": THEN["blas"]} == THEN and set(THEN["blas"]) <= set(HERE["blas"])


def dated(texts):
    return [None if text is None else datetime.date.fromisoformat(text) for text in texts]


def inputs(name):
    """Return the rows or the table that a case was asked about."""
    query = STORED["queries"][name]
    if "table" in query:
        return {n: dated(v) if n in query["dates"] else v for n, v in query["table"].items()}
    if "columns" in query:
        return pd.DataFrame(np.array(query["rows"]), columns=query["columns"])
    rows = [[np.nan if v is None else v for v in row] for row in query["rows"]]
    return np.array(rows, dtype=query["dtype"])


def said(model, call, rows):
    """Return the answer to one call as a list of arrays."""
    method, _, option = call.partition(" ")
    if method == "predict_component":
        found = model.predict_component(rows, model.components_[0])
    else:
        found = getattr(model, method)(rows, **({option: True} if option else {}))
    return list(found) if isinstance(found, tuple) else [found]


def compare(model, rows, answers, exact):
    assert answers
    for call, wanted in answers.items():
        found = said(model, call, rows)
        assert len(found) == len(wanted), call
        for mine, stored in zip(found, wanted, strict=True):
            if stored is None:
                assert mine is None, call
                continue
            values = np.array(stored["values"], dtype=stored["dtype"])
            assert np.asarray(mine).dtype == values.dtype, call
            assert np.shape(mine) == values.shape, call
            if exact or values.dtype.kind != "f":
                assert np.array_equal(mine, values), call
            else:
                np.testing.assert_allclose(mine, values, rtol=1e-7, atol=1e-10, err_msg=call)


def loaded(name):
    own = [OWN[part] for part in CASES[name].get("parts", [])]
    try:
        return mercer.load(FOLDER / f"{name}.mercer", parts=own)
    except ModelFileError as error:
        if "was written with scikit-learn" not in str(error):
            raise
        pytest.skip(f"preprocessors are read by the versions that are known: {error}")


def test_every_file_has_a_case():
    assert {path.stem for path in FOLDER.glob("*.mercer")} == set(CASES)


def test_every_estimator_has_a_file():
    classes = {case["class"] for case in CASES.values()}
    fitted = {name for name in mercer.__all__ if hasattr(getattr(mercer, name), "_from_state")}
    assert fitted - NEWER <= classes


def test_the_rounding_is_that_of_the_files():
    if not SAME:
        pytest.skip(f"answers are compared to seven digits: they were computed on another {HERE}")


@pytest.mark.parametrize("name", CASES)
def test_answers(name):
    model = loaded(name)
    case = CASES[name]
    assert case["class"] in [cls.__name__ for cls in type(model).__mro__]  # a TableModel's child
    assert mercer.persist.describe(FOLDER / f"{name}.mercer")["format"] == STORED["format"]
    compare(model, inputs(case["query"]), case["answers"], exact=SAME)


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_goes_on(name):
    """What predictions do not need is read, too; learning may be rounded otherwise later on."""
    batch = CASES[name]["next"]
    model = loaded(name).partial_fit(np.array(batch["rows"]), batch["labels"])
    compare(model, inputs(CASES[name]["query"]), batch["answers"], exact=False)
