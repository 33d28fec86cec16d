"""Predictions and scores of tables in blocks, against those of arrays; files, Dask, a cluster."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from mercer import SVC, SVR, BlockTable, GPClassifier, GPRegressor, KernelClassifier
from mercer import LeastSquaresClassifier as LSC
from mercer.kernels import RBF
from mercer.linalg import Inducing
from mercer.losses import Gaussian

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
N = 200
FEW = {"gram": Inducing(m=10), "search": None}
REGRESSOR = GPRegressor(2.0 * RBF(), loss=Gaussian(0.1), **FEW)
CLASSIFIER = GPClassifier(2.0 * RBF(), **FEW)


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(1)
    found = pandas.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    found["price"] = np.sin(found.a) + 0.1 * rng.normal(size=N)
    found["other"] = found.price**2
    found["label"] = np.where(found.a * found.b > 0, "same", "different")
    found["count"] = rng.integers(0, 3, N).astype(float)
    return found


@pytest.fixture(scope="module")
def files(frame, tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for i, rows in enumerate((slice(0, 120), slice(120, N))):
        frame[rows].to_parquet(folder / f"part-{i}.parquet", row_group_size=50)
    frame.to_csv(folder / "big.csv", index=False)
    np.save(folder / "X.npy", frame[["a", "b"]].to_numpy())
    np.save(folder / "y.npy", frame.price.to_numpy())
    return folder


def of_files(files, y, w="count", **told) -> BlockTable:
    return BlockTable(str(files / "part-*.parquet"), y, w, columns=["a", "b"], **told)


@pytest.fixture(scope="module")
def models(frame, files):
    X, w = frame[["a", "b"]], frame["count"]
    return {
        "regressor": clone(REGRESSOR).fit(X, frame.price, w),
        "outputs": clone(REGRESSOR).fit(X, frame[["price", "other"]], w),
        "classifier": clone(CLASSIFIER).fit(X, frame.label, w),
        "mode": KernelClassifier(gram=Inducing(m=10)).fit(X, frame.label, w),
        "least squares": LSC(gram=Inducing(m=10)).fit(X, frame.label, w),
        "svc": SVC(gram=Inducing(m=10)).fit(X, frame.label, w),
        "svr": SVR().fit(X, frame.price, w),
    }


CALLS = [
    ("regressor", "predict", {}),
    ("regressor", "predict", {"return_std": True}),
    ("regressor", "predict_interval", {"coverage": 0.5}),
    ("regressor", "predict_latent", {}),
    ("outputs", "predict", {"return_std": True}),
    ("classifier", "predict", {}),
    ("classifier", "predict_proba", {}),
    ("classifier", "predict_log_proba", {}),
    ("mode", "predict_proba", {}),
    ("mode", "predict_latent", {}),
    ("mode", "decision_function", {}),
    ("least squares", "predict", {}),
    ("svc", "predict", {}),
    ("svc", "decision_function", {}),
    ("svr", "predict", {}),
]


def same(found, wanted) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif wanted is None:
        assert found is None
    elif wanted.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    else:
        assert np.asarray(found).tolist() == wanted.tolist()


@pytest.mark.parametrize(("name", "method", "told"), CALLS)
def test_predictions_for_files_and_mapped_arrays(name, method, told, models, frame, files) -> None:
    model, X = models[name], frame[["a", "b"]]
    wanted = getattr(model, method)(X, **told)
    for table in (files / "big.csv", [files / "part-0.parquet", files / "part-1.parquet"]):
        same(getattr(model, method)(table, **told), wanted)
    same(getattr(model, method)(BlockTable(X.to_numpy(), block_rows=33), **told), wanted)


@pytest.mark.parametrize(("name", "method", "told"), CALLS)
def test_predictions_for_dask_are_lazy(name, method, told, models, frame) -> None:
    dask, da = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    model, X = models[name], frame[["a", "b"]]
    wanted = getattr(model, method)(X, **told)
    lazy = da.from_array(X.to_numpy(), chunks=(70, 1))
    for table in (lazy, dd.from_pandas(frame, npartitions=3)):
        found = getattr(model, method)(table, **told)
        pairs = zip(found, wanted, strict=True) if isinstance(wanted, tuple) else [(found, wanted)]
        for one, other in pairs:
            if other is None:
                assert one is None
                continue
            assert isinstance(one, da.Array)
            assert one.dtype == other.dtype
            assert one.ndim == other.ndim
            assert len(one.chunks[0]) == 3
            if table is lazy:
                assert one.shape == other.shape
        same(dask.compute(found, scheduler="synchronous")[0], wanted)


def test_a_partition_without_rows_is_predicted(models, frame) -> None:
    dd = pytest.importorskip("dask.dataframe")
    table = dd.from_pandas(frame, npartitions=3)
    none = table[table.a > 100.0]
    found = models["classifier"].predict_proba(none).compute(scheduler="synchronous")
    assert found.shape == (0, 2)


@pytest.mark.parametrize("name", ["regressor", "outputs", "classifier", "svc", "svr"])
def test_scores_are_sums(name, models, frame, files) -> None:
    model = models[name]
    y = {"outputs": ["price", "other"]}.get(
        name, "label" if hasattr(model, "classes_") else "price"
    )
    wanted = model.score(frame[["a", "b"]], frame[y], frame["count"])
    assert model.score(of_files(files, y)) == pytest.approx(wanted, rel=1e-12)
    plain = model.score(frame[["a", "b"]], frame[y])
    assert model.score(str(files / "big.csv"), y) == pytest.approx(plain, rel=1e-12)


def test_columns_are_found_by_name(models, frame, files) -> None:
    turned = frame[["b", "label", "a"]]
    dd = pytest.importorskip("dask.dataframe")
    found = models["regressor"].predict(dd.from_pandas(turned, npartitions=2))
    wanted = models["regressor"].predict(frame[["a", "b"]])
    np.testing.assert_allclose(found.compute(scheduler="synchronous"), wanted)
    with pytest.raises(ValueError, match="no column 'a'"):
        models["regressor"].predict(dd.from_pandas(frame[["b"]], npartitions=2))


def test_what_has_no_meaning_in_blocks(models, frame, files) -> None:
    da = pytest.importorskip("dask.array")
    with pytest.raises(ValueError, match="return_std"):
        models["regressor"].predict(files / "big.csv", return_cov=True)
    with pytest.raises(ValueError, match="X has 3 features"):
        models["regressor"].predict(da.zeros((4, 3), chunks=2))
    with pytest.raises(ValueError, match="y is missing"):
        models["regressor"].score(files / "big.csv")


# ---------------------------------------------------------------------- fits from there
FITS = [(REGRESSOR, "price"), (CLASSIFIER, "label"), (SVC(gram=Inducing(m=10)), "label")]


@pytest.mark.parametrize(("model", "y"), FITS, ids=["numbers", "labels", "landmarks"])
def test_files_and_arrays_give_the_same_bits(model, y, frame, files) -> None:
    parquet = clone(model).fit(of_files(files, y, block_rows=50))
    assert parquet.feature_names_in_.tolist() == ["a", "b"]
    X = frame[["a", "b"]].to_numpy()
    cuts = BlockTable(X, frame[y].to_numpy(), frame["count"].to_numpy(), block_rows=50)
    text = BlockTable(files / "big.csv", y, "count", columns=["a", "b"], block_rows=50)
    wanted = parquet.predict_latent(frame[["a", "b"]])
    same(clone(model).fit(text).predict_latent(frame[["a", "b"]]), wanted)
    same(clone(model).fit(cuts).predict_latent(X), wanted)


def test_a_path_and_a_name_are_enough(frame, files) -> None:
    model = GPRegressor(gram=Inducing(m=10, move=False, max_iter=1))
    rows = frame.drop(columns=["label"])
    rows.to_parquet(files / "plain.parquet")
    model.fit(str(files / "plain.parquet"), "price", sample_weight="count")
    assert model.feature_names_in_.tolist() == ["a", "b", "other"]
    assert model.score(files / "plain.parquet", "price") > 0.9
    with pytest.raises(ValueError, match="did you mean 'price'"):
        model.fit(str(files / "plain.parquet"), "prise")


def test_npy_files(frame, files) -> None:
    model = clone(REGRESSOR).fit(files / "X.npy", files / "y.npy")
    X = frame[["a", "b"]].to_numpy()
    np.testing.assert_allclose(model.predict(files / "X.npy"), model.predict(X))
    assert model.score(X, frame.price) > 0.9


@pytest.mark.parametrize(("model", "y"), FITS, ids=["numbers", "labels", "landmarks"])
def test_a_cluster_gives_the_same_bits(model, y, frame, files, client) -> None:
    here, there = of_files(files, y, workers=1), of_files(files, y, engine=client)
    found = clone(model).fit(there)
    assert found.report_["blocks"]["engine"] == "DaskEngine"
    X = frame[["a", "b"]]
    pair = (m.predict_latent(X) for m in (found, clone(model).fit(here)))
    np.testing.assert_array_equal(*(p[0] if isinstance(p, tuple) else p for p in pair))
    np.testing.assert_array_equal(found.predict(there), found.predict(here))
    assert found.score(there) == found.score(here)


def test_collections_of_dask_on_a_cluster(frame, cluster) -> None:
    """The current client is taken, for fits and for what is computed afterwards."""
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    import distributed

    X, y = frame[["a", "b"]].to_numpy(), frame.price.to_numpy()
    with distributed.Client(cluster):
        lazy = da.from_array(X, chunks=(60, 2))
        model = clone(REGRESSOR).fit(lazy, da.from_array(y, chunks=60))
        assert model.report_["blocks"]["engine"] == "DaskEngine"
        here = clone(REGRESSOR).fit(BlockTable(X, y, engine="local"))
        np.testing.assert_array_equal(model.predict(X), here.predict(X))
        np.testing.assert_allclose(model.predict(lazy).compute(), model.predict(X), rtol=1e-12)
        table = dd.from_pandas(frame, npartitions=3)
        labels = clone(CLASSIFIER).fit(table[["a", "b"]], table["label"], table["count"])
        named = clone(CLASSIFIER).fit(BlockTable(table, "label", "count", columns=["a", "b"]))
        same(labels.predict_latent(frame[["a", "b"]]), named.predict_latent(frame[["a", "b"]]))
        assert labels.classes_.tolist() == ["different", "same"]
        assert labels.score(table, "label") > 0.8


# ---------------------------------------------------------------------- mapped arrays
def test_mapped_arrays_beyond_the_memory_are_read_in_blocks(frame, files, monkeypatch) -> None:
    from mercer.estimators.shared import predictions

    X, y = (np.load(files / name, mmap_mode="r") for name in ("X.npy", "y.npy"))
    assert "blocks" not in clone(REGRESSOR).fit(X, y).report_
    monkeypatch.setattr(predictions, "available_bytes", lambda: 1000)
    found = clone(REGRESSOR).fit(X, y)
    assert found.report_["blocks"]["rows"] == N
    np.testing.assert_allclose(found.predict(X), found.predict(np.array(X)))
    exact = GPRegressor(2.0 * RBF(), loss=Gaussian(0.1), search=None).fit(X, y)  # as ever
    assert exact.report_["gram"] == "dense"


def test_who_learns_from_arrays_alone_says_so(files) -> None:
    from mercer import KernelFeatures, MEDClassifier, OnlineLogisticClassifier

    for model in (OnlineLogisticClassifier(), KernelFeatures(), MEDClassifier()):
        with pytest.raises(TypeError, match="memory"):
            model.fit(str(files / "big.csv"), "label")
    with pytest.raises(TypeError, match="one batch"):
        MEDClassifier().partial_fit(str(files / "big.csv"), "label")
