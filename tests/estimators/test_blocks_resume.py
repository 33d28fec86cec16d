"""Fits on blocks that are interrupted and begun again: the same bits as without a break."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mercer import SVC, BlockTable, GPClassifier, GPRegressor
from mercer.inference import Variational
from mercer.kernels import RBF
from mercer.linalg import Inducing
from mercer.linalg.blocks.local import LocalEngine
from mercer.losses import Gaussian

RNG = np.random.default_rng(3)
X = RNG.normal(size=(150, 2))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
Y, LABELS = F + 0.1 * RNG.normal(size=150), np.where(F > 0, "up", "down")
MOVED = Inducing(m=4, move=True, max_iter=2)
ONCE = Inducing(m=4, move=True, max_iter=1)
ROUGH = Variational(tol=1e-2)
MODELS = {
    "moved": (GPRegressor(2.0 * RBF(), loss=Gaussian(0.1), gram=MOVED), Y),
    "named": (GPRegressor(gram=Inducing(m=6, move=False, max_iter=2)), Y),
    "variational": (GPClassifier(2.0 * RBF().fix(), inference=ROUGH, gram=ONCE), LABELS),
    "landmarks": (SVC(gram=Inducing(m=6), tol=1e-6), LABELS),
}


class Broken(Exception):
    """What ends a fit in the middle."""


@pytest.fixture
def breaks(monkeypatch):
    """Let the next fits break down in a pass of their own; returns how many were made."""
    made = [0]
    plain = LocalEngine._merged

    def after(count: int | None) -> list[int]:
        made[0] = 0

        def counted(self, task, broadcast, merge):
            if count is not None and made[0] >= count:
                raise Broken
            made[0] += 1
            return plain(self, task, broadcast, merge)

        monkeypatch.setattr(LocalEngine, "_merged", counted)
        return made

    return after


def latent(model):
    found = model.predict_latent(X)
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_goes_on_where_it_broke_down(name, breaks, tmp_path) -> None:
    model, y = MODELS[name]
    table = BlockTable(X, y, block_rows=40, sample=60, checkpoint=tmp_path / "kept", workers=1)
    made = breaks(None)
    plain = clone(model).fit(BlockTable(X, y, block_rows=40, sample=60, workers=1))
    whole, total = latent(plain), made[0]
    for some in {total // 2, total - 1}:
        breaks(some)
        with pytest.raises(Broken):
            clone(model).fit(table)
        made = breaks(None)
        again = clone(model).fit(table)
        assert made[0] < total  # at least the first pass was not made again
        np.testing.assert_array_equal(latent(again), whole)
        assert again.report_["search"] == plain.report_["search"]
        made = breaks(0)  # all is known by now
        np.testing.assert_array_equal(latent(clone(model).fit(table)), whole)
        for file in (tmp_path / "kept").iterdir():
            file.unlink()


def test_a_checkpoint_of_another_fit_is_refused(tmp_path) -> None:
    model, _ = MODELS["named"]
    told = {"block_rows": 40, "checkpoint": tmp_path, "workers": 1}
    clone(model).fit(BlockTable(X, Y, **told))
    with pytest.raises(ValueError, match=r"another fit \(parameters differ\)"):
        clone(model).set_params(random_state=1).fit(BlockTable(X, Y, **told))
    with pytest.raises(ValueError, match=r"another fit \(table differ\)"):
        clone(model).fit(BlockTable(X, Y + 1.0, **told))


def test_an_error_leaves_the_checkpoint_as_it_is(tmp_path, breaks) -> None:
    model, _ = MODELS["moved"]
    table = BlockTable(X, Y, block_rows=40, sample=60, checkpoint=tmp_path, workers=1)
    breaks(4)
    with pytest.raises(Broken):
        clone(model).fit(table)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    breaks(0)
    with pytest.raises(Broken):
        clone(model).fit(table)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
