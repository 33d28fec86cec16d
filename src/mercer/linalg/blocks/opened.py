"""Which source and which engine somebody means: paths, arrays, and tables of Dask."""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Sequence
from typing import Any

from mercer.linalg.blocks.arrays import ArraySource, NpySource
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.blocks.lazy import LazyArrays, LazyFrame, is_lazy
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.blocks.parquet import ParquetSource
from mercer.linalg.blocks.sources import ROWS, Source
from mercer.linalg.blocks.text import CsvSource

SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".npy")


def source_of(
    X: Any,
    y: Any = None,
    w: Any = None,
    *,
    features: Sequence[str] | None = None,
    size: int = ROWS,
) -> Source:
    """Return the blocks of a table.

    Parameters
    ----------
    X : a path, a pattern of paths (``"part-*.parquet"``), a folder of parquet files or a list of
        paths, by their suffix parquet, CSV or npy; an array or a data frame of Dask; an array.
    y : for files and data frames the name of the target column, or the names of several; for
        arrays an array; for npy a path. None: there are no targets.
    w : weights of the rows, given as the targets are.
    features : the columns of a file or data frame that are inputs; None: all others.
    size : how many rows a block has, at most; those of a data frame are its partitions.

    Examples
    --------
    >>> import numpy as np
    >>> len(source_of(np.zeros((10, 2)), size=4))
    3
    """
    if is_lazy(X):
        if hasattr(X, "dtypes"):
            return LazyFrame(X, features, y, w)
        return LazyArrays(X, y, w, size)
    if not is_path(X):
        return ArraySource(X, y, w, size)
    paths = paths_of(X)
    suffix = os.path.splitext(paths[0].lower())[1]
    if suffix == ".npy":
        if len(paths) > 1:
            raise ValueError("several npy files are no table: give one for X and one for y")
        return NpySource(paths[0], y, w, size)
    if suffix in (".csv", ".tsv"):
        return CsvSource(paths, features, y, w, size)
    return ParquetSource(paths, features, y, w, size)


def is_path(X: Any) -> bool:
    """Say whether X is a path or a list of paths."""
    several = isinstance(X, (list, tuple)) and len(X) > 0 and all(map(is_path, X))
    return isinstance(X, (str, os.PathLike)) or several


def paths_of(X: Any) -> list[str]:
    """Return the files that a path, a pattern, a folder or a list of paths means, in order."""
    if isinstance(X, (list, tuple)):
        return [path for each in X for path in paths_of(each)]
    path = os.fspath(X)
    found = [path]
    if os.path.isdir(path):
        found = glob.glob(os.path.join(glob.escape(path), "**", "*.parquet"), recursive=True)
    elif not os.path.exists(path) and glob.has_magic(path):
        found = glob.glob(path, recursive=True)
    if not found:
        raise FileNotFoundError(f"no file fits {path!r}")
    for each in found:
        if not each.lower().endswith(SUFFIXES):
            raise ValueError(f"{each} is read in blocks if its name ends in {', '.join(SUFFIXES)}")
        if not os.path.isfile(each):
            raise FileNotFoundError(f"there is no file {each!r}")
    return sorted(os.path.abspath(each) for each in found)


def engine_of(source: Source, where: Any = None, workers: int = 1) -> Engine:
    """Return who computes on the blocks of a source.

    Parameters
    ----------
    where : ``"local"``: this process, ``workers`` threads; ``"dask"``: the current client of Dask;
        a client; the address of a scheduler. None: the current client for a table of Dask, if
        there is one, else this process.

    Examples
    --------
    >>> import numpy as np
    >>> type(engine_of(source_of(np.zeros((10, 2))))).__name__
    'LocalEngine'
    """
    if where is None and isinstance(source, (LazyArrays, LazyFrame)) and has_client():
        where = "dask"
    if where is None or (isinstance(where, str) and where == "local"):
        return LocalEngine(source, workers)
    from mercer.linalg.blocks.cluster import DaskEngine

    if isinstance(where, str) and where == "dask":
        return DaskEngine(source)
    return DaskEngine(source, where)


def has_client() -> bool:
    """Say whether there is a current client of Dask."""
    distributed = sys.modules.get("distributed")  # without it nobody has made one
    if distributed is None:
        return False
    try:
        distributed.default_client()
    except ValueError:
        return False
    return True
