"""Tables in blocks: every source has the same rows, and refuses by its place what is no number."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mercer.linalg.blocks.engine import RowBlock
from mercer.linalg.blocks.lazy import LazyFrame, even
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.blocks.opened import source_of
from mercer.linalg.blocks.sources import Source
from mercer.linalg.blocks.text import CsvSource

N, D = 103, 3


@pytest.fixture
def table(rng: np.random.Generator) -> pd.DataFrame:
    frame = pd.DataFrame(rng.normal(size=(N, D)), columns=["a", "b", "c"])
    frame["y"] = rng.integers(0, 3, size=N)
    frame["w"] = rng.uniform(0.5, 2.0, size=N)
    return frame


def whole(source: Source) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows of a source; every reader survives pickling."""
    blocks = [pickle.loads(pickle.dumps(read))() for read in source]
    assert [block.number for block in blocks] == list(range(len(source)))
    assert all(type(block) is RowBlock and block.X.dtype == np.float64 for block in blocks)
    X, y, w = (np.concatenate([block[i] for block in blocks]) for i in (1, 2, 3))
    if source.rows is not None:
        assert len(X) == source.rows
    return X, y, w


def check(source: Source, table: pd.DataFrame) -> None:
    assert source.width == D
    X, y, w = whole(source)
    np.testing.assert_array_equal(X, table[["a", "b", "c"]].to_numpy())
    np.testing.assert_array_equal(y, table["y"].to_numpy())
    np.testing.assert_array_equal(w, table["w"].to_numpy())


def test_arrays(table: pd.DataFrame) -> None:
    X, y, w = table[["a", "b", "c"]].to_numpy(), table["y"].to_numpy(), table["w"].to_numpy()
    source = source_of(X, y, w, size=10)
    assert len(source) == 11
    check(source, table)
    small, large = (len(pickle.dumps(s[0])) for s in (source, source_of(X, y, w)))
    assert small < large / 4  # a reader takes along its own rows only
    assert source.identity() == source_of(X.copy(), y, w, size=10).identity()
    assert source.identity() != source_of(X + 1e-9, y, w, size=10).identity()


@pytest.mark.parametrize("groups", [1, 7, 10, 25, 200])
def test_parquet_by_row_groups(table: pd.DataFrame, tmp_path: Path, groups: int) -> None:
    """Large groups are cut evenly, small ones joined; no block is larger than it may be."""
    path = tmp_path / "big.parquet"
    table.to_parquet(path, row_group_size=groups)
    source = source_of(path, "y", "w", size=20)
    check(source, table)
    sizes = [len(read().X) for read in source]
    assert max(sizes) <= 20
    assert min(sizes[:-1]) > 8
    assert source.names == ("a", "b", "c")


def test_several_parquet_files(table: pd.DataFrame, tmp_path: Path) -> None:
    for i, start in enumerate(range(0, N, 30)):
        table[start : start + 30].to_parquet(tmp_path / f"part-{i}.parquet")
    for given in (
        str(tmp_path / "part-*.parquet"),
        tmp_path,
        [tmp_path / f"part-{i}.parquet" for i in range(4)],
    ):
        check(source_of(given, "y", "w", size=40), table)
    # columns by name, whatever their order in a file
    table[["w", "c", "y", "a", "b"]][30:60].to_parquet(tmp_path / "part-1.parquet")
    check(source_of(tmp_path, "y", "w"), table)
    table[["a", "b", "y", "w"]][30:60].to_parquet(tmp_path / "part-1.parquet")
    with pytest.raises(ValueError, match=r"part-1.parquet has no column 'c'"):
        source_of(tmp_path, "y", "w")


def test_the_row_index_of_pandas_is_no_column(table: pd.DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    table.index = pd.Index(np.arange(N)[::-1] ** 2)
    for name in (None, "id"):
        table.rename_axis(name).to_parquet(path)
        assert pq.read_schema(path).names[-1] == (name or "__index_level_0__")
        check(source_of(path, "y", "w"), table)


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    pq.write_table(pa.Table.from_arrays([pa.array([1.0])] * 3, ["a", "b", "a"]), path)
    with pytest.raises(ValueError, match="two columns 'a': give each a name of its own"):
        source_of(path, "b")


@pytest.mark.parametrize("size", [1, 10, 20, 103, 1000])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_csv_in_parts(
    table: pd.DataFrame, tmp_path: Path, size: int, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercer.linalg.blocks.text.CHUNK", 257)
    path = tmp_path / "big.csv"
    table.to_csv(path, index=False, lineterminator=ends, float_format="%.17g")
    source = source_of(path, "y", "w", size=size)
    assert len(source) == -(-N // size)
    check(source, table)
    # quotes that hold ends of lines, empty lines, no end of the last line, a row index
    table["note"] = [f'say "{i}",\n{ends}and go' if i % 7 == 0 else "x" for i in range(N)]
    text = table.to_csv(lineterminator=ends, float_format="%.17g", quoting=1)
    lines = text.replace(f'{ends}"5"', f'{ends}{ends}"5"')
    path.write_bytes(("\ufeff" + lines).rstrip().encode())
    source = source_of(path, "y", "w", features=["a", "b", "c"], size=size)
    assert len(source) == -(-N // size)
    check(source, table)


def test_csv_with_decimal_commas_and_text(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_text("a;b;kind\n1,5; 2 ;yes\n-3e1;4;no\n")
    with pytest.raises(ValueError, match="separated by ';'"):
        source_of(path)
    source = CsvSource([str(path)], None, "kind", delimiter=";", decimal=",")
    X, y, _ = whole(source)
    np.testing.assert_array_equal(X, [[1.5, 2.0], [-30.0, 4.0]])
    assert y.tolist() == ["yes", "no"]


def test_text_targets_are_text_in_every_block(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    path.write_text("a,y\n1,x\n2,7\n3,8\n")
    assert whole(source_of(path, "y", size=1))[1].tolist() == ["x", "7", "8"]
    path.write_text("a,y\n1,7\n2,8\n3,x\n")
    with pytest.raises(ValueError, match=r"'y' .*'x' in row 2"):
        whole(source_of(path, "y", size=1))
    path.write_text("a,y\n1,7\n2,8.5\n")  # whole numbers and others are numbers
    assert [r().y[0] for r in source_of(path, "y", size=1)] == [7, 8.5]


def test_npy(table: pd.DataFrame, tmp_path: Path) -> None:
    for name, columns in (("X", ["a", "b", "c"]), ("y", "y"), ("w", "w")):
        np.save(tmp_path / f"{name}.npy", table[columns].to_numpy())
    paths = [tmp_path / f"{name}.npy" for name in "Xyw"]
    check(source_of(*paths, size=10), table)
    np.save(paths[1], np.zeros(7))
    with pytest.raises(ValueError, match="different numbers of rows"):
        source_of(*paths)
    np.save(paths[1], np.array([{}, {}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"y.npy is no file of numpy.save with numbers"):
        source_of(*paths)


def test_dask_arrays(table: pd.DataFrame) -> None:
    da = pytest.importorskip("dask.array")
    X, y, w = table[["a", "b", "c"]].to_numpy(), table["y"].to_numpy(), table["w"].to_numpy()
    lazy = da.from_array(X, chunks=((50, 50, 3), (2, 1)))
    source = source_of(lazy, da.from_array(y, chunks=20), w, size=30)
    check(source, table)
    assert [len(read().X) for read in source] == [25, 25, 25, 28]
    known = lazy[da.from_array(np.ones(N, bool), chunks=40)]  # of unknown sizes
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        source_of(known, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        source_of(lazy, da.zeros(7))
    X, _, _ = whole(source_of(known, known[:, 0], known[:, 1] ** 2))
    np.testing.assert_array_equal(X, table[["a", "b", "c"]].to_numpy())


def test_dask_frames(table: pd.DataFrame) -> None:
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(table, npartitions=4)
    check(source_of(frame, "y", "w"), table)
    check(source_of(frame[frame["a"] > -np.inf], "y", "w"), table)
    inputs = frame[["a", "b", "c"]]
    check(source_of(inputs, frame["y"], frame["w"].to_dask_array()), table)
    for other in (table["y"], dd.from_pandas(table[:60], npartitions=4)["y"]):
        with pytest.raises(ValueError, match="partitions of X are not those of y"):
            source_of(inputs, other)
    with pytest.raises(ValueError, match="X has 4 partitions and y has 2"):
        source_of(inputs, frame["y"].to_dask_array(lengths=True).rechunk(60))
    _, y, _ = whole(source_of(frame, ["y", "b"], features=["a"]))
    np.testing.assert_array_equal(y, table[["y", "b"]])
    _, y, _ = whole(source_of(inputs, frame[["y", "b"]]))
    np.testing.assert_array_equal(y, table[["y", "b"]])
    table["kind"] = np.where(table["y"] > 0, "up", "down")
    frame = dd.from_pandas(table, npartitions=3)
    with pytest.raises(ValueError, match="column 'kind' of X holds text, not numbers"):
        source_of(frame, "y", "w")
    _, y, _ = whole(source_of(frame, "kind", "w", features=["a", "b"]))
    np.testing.assert_array_equal(y, table["kind"])
    with pytest.raises(ValueError, match="no column 'knd'; did you mean 'kind'"):
        LazyFrame(frame, target="knd")


def test_blocks_of_lazy_chunks_cover_all_rows() -> None:
    for counts in ([0, 0, 5], [100], [1] * 30, [7, 20, 3, 3, 90]):
        blocks = even(counts, 8)
        assert sum(blocks) == sum(counts)
        assert max(blocks) <= 8


def written(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        frame.to_parquet(path, row_group_size=20)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize("name", ["big.parquet", "big.csv"])
def test_what_is_no_number_is_refused_by_its_place(
    table: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    broken = table.copy()
    broken.loc[57, "b"] = np.nan
    path = written(broken, tmp_path / name)
    with pytest.raises(ValueError, match=r"X contains NaN in column 'b', row 57 \(block 2\)"):
        whole(source_of(path, "y", "w", size=20))
    broken.loc[57, "b"] = -np.inf
    path = written(broken, tmp_path / name)
    with pytest.raises(ValueError, match=r"X contains infinity .* column 'b', row 57 \(block 2\)"):
        whole(source_of(path, "y", "w", size=20))
    with pytest.raises(ValueError, match=r"y contains infinity \(inf\) in row 57 \(block 2\)"):
        whole(source_of(path, "b", features=["a"], size=20))
    broken["b"] = broken["b"].abs() * np.where(broken.index == 57, -1, 1)
    path = written(broken, tmp_path / name)
    with pytest.raises(ValueError, match=r"must be finite .* -inf in row 57 \(block 2\)"):
        whole(source_of(path, "y", "b", size=20))
    broken["b"] = table["b"].abs()
    broken["kind"] = "red"
    path = written(broken, tmp_path / name)
    with pytest.raises(ValueError, match=r"column 'kind' of X holds text.*'red' in row 0.*without"):
        whole(source_of(path, "y", "w"))
    with pytest.raises(ValueError, match="has no column 'kin'; did you mean 'kind'"):
        source_of(path, "kin")
    with pytest.raises(ValueError, match="'a' is named twice"):
        source_of(path, "a", features=["a", "b"])


def test_kinds_of_parquet_columns(tmp_path: Path) -> None:
    path = tmp_path / "kinds.parquet"
    columns: dict[str, Any] = {
        "whole": pa.array([1, 2, 3], pa.int32()),
        "truth": pa.array([True, False, True]),
        "money": pa.array([1.5, 2.5, 3.5]).cast(pa.decimal128(5, 2)),
        "single": pa.array([0.5, 1.5, 2.5], pa.float32()),
        "word": pa.array(["u", "v", "u"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    X, y, _ = whole(source_of(path, "word"))
    np.testing.assert_array_equal(X, [[1, 1, 1.5, 0.5], [2, 0, 2.5, 1.5], [3, 1, 3.5, 2.5]])
    assert y.tolist() == ["u", "v", "u"]
    views = pa.array(["u", "v", "w"], pa.string_view())
    pq.write_table(pa.table(columns | {"word": views}), path)
    assert whole(source_of(path, "word"))[1].tolist() == ["u", "v", "w"]
    with pytest.raises(ValueError, match=r"column 'word' of X holds text.*'u' in row 0"):
        source_of(path)
    pq.write_table(pa.table(columns | {"word": pa.array(["u", None, "v"])}), path)
    with pytest.raises(ValueError, match=r"y contains NaN in row 1 \(block 0\)"):
        whole(source_of(path, "word"))
    days = pa.array([1, 2, 3], pa.date32())
    pq.write_table(pa.table(columns | {"day": days}), path)
    with pytest.raises(TypeError, match="column 'day' of X holds dates"):
        source_of(path, "word")
    pq.write_table(pa.table({"id": pa.array([2**60, 2**60 + 1])}), path)
    with pytest.raises(ValueError, match="integers beyond 2"):
        whole(source_of(path))


@pytest.mark.parametrize("name", ["big.parquet", "big.csv", "X.npy"])
def test_files_that_change_are_refused(table: pd.DataFrame, tmp_path: Path, name: str) -> None:
    path = tmp_path / name

    def write(frame: pd.DataFrame) -> None:
        if name == "X.npy":
            np.save(path, frame.to_numpy())
        else:
            written(frame, path)

    write(table)
    source = source_of(path, size=20)
    whole_rows = sum(len(read().X) for read in source)
    assert whole_rows == N
    os.utime(path, ns=(0, 0))
    with pytest.raises(ValueError, match=r"was written to since the fit began: fit again once"):
        source[1]()
    write(table[:50])
    with pytest.raises(ValueError, match=r"had \d+ bytes and has \d+: fit again once nobody"):
        source.check()
    engine = LocalEngine(source_of(path, size=20))
    engine.map_sum(count, {})
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is not found now; put it back"):
        engine.map_sum(count, {})


def count(block: RowBlock, _: Any) -> dict[str, Any]:
    return {"rows": len(block.X)}


def test_files_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "odd.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="is not a parquet file"):
        source_of(path)
    with pytest.raises(FileNotFoundError, match="no file fits"):
        source_of(str(tmp_path / "none-*.csv"))
    with pytest.raises(FileNotFoundError, match="there is no file"):
        source_of(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="if its name ends in"):
        source_of(tmp_path / "book.xlsx")
    path = tmp_path / "odd.csv"
    for text, match in (
        ("", "is empty"),
        ("a,a\n1,2\n", "names the column 'a' twice"),
        ("a,\n1,2\n", "a column without a name"),
    ):
        path.write_text(text)
        with pytest.raises(ValueError, match=match):
            source_of(path)
    path.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(ValueError, match=r"odd.csv, block 0: .*Expected 2 columns"):
        whole(source_of(path, "b"))
    path.write_text("a,b\n")
    with pytest.raises(ValueError, match="the table has no rows"):
        LocalEngine(source_of(path, "b")).map_sum(count, {})
