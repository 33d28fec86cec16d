"""What ``mercer.fit`` returns, in model files: every candidate, every kind of column."""

from __future__ import annotations

import contextlib
import datetime

import numpy as np
import pytest

import mercer
from mercer.persist import ModelFileError, describe
from mercer.tables.choose.candidates import candidates_for
from tests.persist.common import with_manifest

N = 60
RNG = np.random.default_rng(4)
WORDS = ["red", "green", "blue", "round", "flat", "old"]
BASE = {
    "size": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
    "town": [None if i == 5 else str(t) for i, t in enumerate(RNG.choice(["Ulm", "Bonn"], N))],
    "when": [datetime.date(2020, 1, 1) + datetime.timedelta(days=17 * i) for i in range(N)],
    "note": [" ".join(RNG.choice(WORDS, 5)) for _ in range(N)],
    "age": RNG.uniform(20.0, 60.0, N),
}
SIGNAL = np.nan_to_num(BASE["size"]) + BASE["age"] / 30.0
TARGETS = {
    "regression": SIGNAL + 0.1 * RNG.normal(size=N),
    "binary": np.where(np.median(SIGNAL) < SIGNAL, "high", "low").tolist(),
    "multiclass": np.digitize(SIGNAL, np.quantile(SIGNAL, [0.33, 0.66])).astype(str).tolist(),
    "partly": [t if i % 3 else None for i, t in enumerate(np.where(SIGNAL > 1.3, "a", "b"))],
}
CASES = [
    (kind, candidate.name)
    for kind in ("regression", "binary", "partly")
    for candidate in candidates_for(kind, np.arange(8.0 * N).reshape(N, 8), False, 2)
]


def fitted(kind, names=None):
    table = BASE | {"target": TARGETS[kind]}
    return mercer.fit(table, target="target", time_budget=1.0, candidates=names)


def said(model):
    """Return everything that a model says of its table, as bytes and text."""
    found = [np.asarray(model.predict(BASE)).tolist(), str(model.compare()), repr(model)]
    if model.classes_ is None:
        for pair in (model.predict(BASE, return_std=True), model.predict_interval(BASE)):
            found += [np.asarray(each).tobytes() for each in pair]
    else:
        found.append(model.predict_proba(BASE).tobytes())
    return found


@pytest.mark.usefixtures("unjudged")
@pytest.mark.parametrize(("kind", "name"), CASES, ids=lambda value: str(value))
def test_every_candidate(kind, name, tmp_path):
    model = fitted(kind, [name])
    path = tmp_path / "model.mercer"
    model.save(path)
    again = mercer.load(path)
    assert said(again) == said(model)
    assert again.kind_ == model.kind_ == kind
    assert again.notes_ == model.notes_
    assert [c.rule for c in again.columns_] == [c.rule for c in model.columns_]
    assert describe(path)["estimator"] == type(again).__name__ == type(model).__name__
    mercer.save(again, tmp_path / "twice.mercer")
    assert (tmp_path / "twice.mercer").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kind", ["multiclass"])
def test_several_classes(kind, tmp_path):
    model = fitted(kind, ["least squares", "relevance vectors"])
    model.save(tmp_path / "model.mercer")
    assert said(mercer.load(tmp_path / "model.mercer")) == said(model)


@pytest.fixture(scope="module")
def model():
    return fitted("binary", ["kernel logistic"])


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.update(kind_="other"),
        lambda state: state.pop("target_"),
        lambda state: state.update(columns_=[{"name": "size"}]),
        lambda state: state.update(ranking_=[{}]),
        lambda state: state["pipeline_"].update(sklearn="FeatureUnion"),
        lambda state: state["pipeline_"]["params"].update(memory="cache"),
        lambda state: state.update(classes_={"dtype": "O", "values": [[]]}),
        lambda state: state.update(pipeline_={"word": "drop"}),
    ],
)
def test_forged_files_are_refused(model, change, tmp_path):
    path = tmp_path / "model.mercer"
    model.save(path)

    def changed(manifest):
        change(manifest["state"])

    with pytest.raises(ModelFileError, match="cannot be loaded"):
        mercer.load(with_manifest(path, changed))


def test_a_failed_save_leaves_the_file(model, tmp_path):
    path = tmp_path / "model.mercer"
    path.write_text("as it was")
    machine = model.pipeline_.steps[-1]
    model.pipeline_.steps[-1] = ("machine", object())
    try:
        with contextlib.suppress(TypeError):
            model.save(path)
    finally:
        model.pipeline_.steps[-1] = machine
    assert path.read_text() == "as it was"
