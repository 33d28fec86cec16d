"""Files that were written by this version, or an older one, are read, or refused in a sentence."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

import mercer
from mercer.persist import ModelFileError
from mercer.persist.pipelines import HOMES, KNOWN, carried, version
from tests.persist.common import parse, with_manifest
from tests.persist.stored import BY_VERSION, FOLDER, answers, models, said

FILES = sorted(FOLDER.glob("*.safetensors"))


def test_there_are_files():
    assert {path.name.partition("-")[0] for path in FILES} == set(models())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_stored_file(path):
    rows = models()[path.name.partition("-")[0]][1]
    wanted = json.loads(answers(path).read_text())
    text = parse(path)[0]["__metadata__"]["mercer"]
    written = [part.split('"')[0] for part in text.split('"version":"')[1:]]
    if len({*written, version()}) > 1 and not {*written, version()} <= set(KNOWN):
        with pytest.raises(ModelFileError, match="was written with scikit-learn"):
            mercer.load(path)
        return
    # another processor rounds the last digits otherwise; on the same one they are the same
    np.testing.assert_allclose(said(mercer.load(path), rows), wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("each", KNOWN)
@pytest.mark.parametrize("name", BY_VERSION)
def test_there_is_a_file_of_every_known_scikit_learn(name, each):
    path = FOLDER / f"{name}-{mercer.__version__}-scikit-learn-{each}.safetensors"
    assert f'"version":"{each}"' in parse(path)[0]["__metadata__"]["mercer"]


def test_the_files_hold_every_preprocessor():
    text = "".join(
        parse(path)[0]["__metadata__"]["mercer"]
        for path in FILES
        if path.name.partition("-")[0] in BY_VERSION
    )
    assert [name for name in HOMES if f'"sklearn":"{name}"' not in text] == []


@pytest.mark.parametrize("name", BY_VERSION)
def test_an_unknown_scikit_learn_is_refused(name, tmp_path):
    path = tmp_path / "model.mercer"
    shutil.copy(FOLDER / f"{name}-{mercer.__version__}-scikit-learn-{KNOWN[0]}.safetensors", path)

    def change(manifest):
        text = json.dumps(manifest).replace(f'"version": "{KNOWN[0]}"', '"version": "1.99"')
        manifest.update(json.loads(text))

    with pytest.raises(ModelFileError, match=r"with scikit-learn 1\.99, and .*or fit again"):
        mercer.load(with_manifest(path, change))


def test_what_another_scikit_learn_cannot_do_is_refused():
    given = {"copy": True, "clip": False}
    assert carried("MaxAbsScaler", "1.8", "1.7", ["copy"], given, {})[0] == {"copy": True}
    assert carried("MaxAbsScaler", "1.7", "1.8", list(given), {"copy": True}, {})[0] == given
    with pytest.raises(ModelFileError, match=r"install scikit-learn 1\.8.*clip is set"):
        carried("MaxAbsScaler", "1.8", "1.7", ["copy"], given | {"clip": True}, {})
    with pytest.raises(ModelFileError, match=r"scikit-learn 2\.0 is installed|2\.0 is installed"):
        carried("StandardScaler", "1.9", "2.0", [], {}, {})


@pytest.mark.parametrize("number", [0, 3, 99])
def test_other_formats_are_refused(number, tmp_path):
    path = shutil.copy(FILES[0], tmp_path / "model.mercer")

    def change(manifest):
        manifest["format"] = number

    with pytest.raises(ModelFileError, match=f"has format {number}.*use the version that wrote it"):
        mercer.load(with_manifest(tmp_path / "model.mercer", change))
    assert path.exists()


def test_the_version_of_mercer_is_told_and_does_not_matter(tmp_path):
    path = tmp_path / "model.mercer"
    shutil.copy(FOLDER / f"GPRegressor-{mercer.__version__}.safetensors", path)

    def change(manifest):
        manifest["mercer"] = "0.0.1"

    with_manifest(path, change)
    assert mercer.persist.describe(path)["mercer"] == "0.0.1"
    rows = models()["GPRegressor"][1]
    assert np.isfinite(mercer.load(path).predict(rows)).all()


def test_a_parameter_that_was_added_since_has_its_default(tmp_path):
    path = tmp_path / "model.mercer"
    shutil.copy(FOLDER / f"GPRegressor-{mercer.__version__}.safetensors", path)
    again = mercer.load(with_manifest(path, lambda m: m["state"]["params"].pop("gram") and None))
    assert again.gram == mercer.GPRegressor().gram
    rows = models()["GPRegressor"][1]
    assert np.isfinite(again.predict(rows)).all()


def test_a_parameter_of_a_later_version_is_refused(tmp_path):
    path = tmp_path / "model.mercer"
    shutil.copy(FOLDER / f"GPRegressor-{mercer.__version__}.safetensors", path)
    later = with_manifest(path, lambda m: m["state"]["params"].update(later=1))
    with pytest.raises(ModelFileError, match="parameters are not those of this estimator"):
        mercer.load(later)
