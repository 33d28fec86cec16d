"""Tables 4.1 to 4.5 of Seeger's thesis: test errors, variance parameters C, support vectors.

Crabs, pima, wdbc, twonorm, ringnorm and waveform by Laplace, EP, variational Gaussian processes and
support vector machines, the factor-analysed class and committees. Each cell stands beside the
thesis' number and beside figures per split of another implementation, to be met within tolerances
(tests/data/thesis_splits.json).

    MERCER_DATA=<folder> python papers/thesis_tables.py --quick
    MERCER_DATA=<folder> python papers/thesis_tables.py --store cells.jsonl --jobs 2
    python papers/thesis_tables.py --store cells.jsonl --no-run --page docs/papers/thesis_tables.md

Every finished cell is a line of the store; a run with the same store goes on where the last ended.
``--support`` names the store of table 4.3, which ``--count`` continues: machines at the parameters
of the cells. ``--pictures`` is a folder for figure 4.1 and the inputs that are kept.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import _store
import _thesis_data
import _thesis_numbers
import _thesis_page
import _thesis_support
from joblib import delayed
from threadpoolctl import threadpool_limits

METHODS = ("lin", "lap", "ep", "vbgp", "vbsvm", "svm", "fagp", "fasvm", "hmc")
VARIANTS = ("no", "ln", "iso")
FACTORED_SPLITS = {"twonorm": 10, "ringnorm": 10, "waveform": 3}  # others: 5
COMMITTEE_SPLITS = {"crabs": 5, "pima": 5, "twonorm": 5, "ringnorm": 5}  # as listed; others: none
QUICK = {"crabs": 2, "pima": 2, "wdbc": 2}  # splits; others: 1
SLOW = {"hmc": ("twonorm", "ringnorm"), "fagp": ("waveform",), "fasvm": ("waveform",)}  # not quick


class Cell(NamedTuple):
    """One search on one split."""

    data: str
    seed: int
    method: str
    variant: str


Store = dict[Cell, dict[str, Any]]


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """The cells that were asked for, small sets first and waveform last, method by method."""
    for group in (("crabs", "pima", "pima-ripley", "wdbc"), ("twonorm", "ringnorm"), ("waveform",)):
        for method in options.methods:
            for data in (name for name in group if name in options.data):
                for seed in range(splits(method, data, options)):
                    for variant in variants(method, data, options.variants):
                        yield Cell(data, seed, method, variant)


def splits(method: str, data: str, options: argparse.Namespace) -> int:
    """How many splits of a set a method is run on."""
    count = _thesis_data.SETS[data].splits
    if method.startswith("fa"):
        count = min(count, FACTORED_SPLITS.get(data, 5))
    if method == "hmc":
        count = COMMITTEE_SPLITS.get(data, 0)
    if options.quick:
        count = 0 if data in SLOW.get(method, ()) else min(count, QUICK.get(data, 1))
    return count if options.splits is None else min(count, options.splits)


def variants(method: str, data: str, wanted: list[str]) -> list[str]:
    """Which of the kernels and hyperpriors that are ``wanted`` a method is run with."""
    if method in ("lin", "svm"):
        return ["no"] if "no" in wanted else []
    if method == "hmc":  # it needs the hyperprior
        return ["ln"] if "ln" in wanted else []
    tied = data != "pima-ripley" and not method.startswith("fa")
    return [v for v in wanted if tied or v != "iso"]


def load(path: str | None) -> Store:
    """The finished cells of a store."""
    return {Cell(*key): row for key, row in _store.load(path, Cell._fields).items()}


def work(cell: Cell) -> tuple[Cell, dict[str, Any], float]:
    """The scores of a cell and, where there are listed parameters, F at these."""
    # here: writing the page from a store needs no mercer
    from _thesis_committee import committee
    from _thesis_fit import fit, method, value_at

    began = time.perf_counter()
    with threadpool_limits(limits=1):
        X, y, _, _ = parts = _thesis_data.split(cell.data, cell.seed)
        if cell.method == "hmc":
            row = committee(method("lap"), cell.variant, cell.seed, parts)
            return cell, row, time.perf_counter() - began
        row = fit(cell.method, cell.data, cell.variant, cell.seed, parts)
        other = _thesis_numbers.find(cell)
        if "w" in other:
            there = value_at(cell.method, cell.data, cell.variant, X, y, other)
            row["F_there"] = round(there, 5)
        return cell, row, time.perf_counter() - began


def support(store: Store, path: str | None, jobs: int, count: bool) -> Store:
    """Table 4.3: what is stored, and what can be counted for the cells of the store."""
    done = load(path)
    if count:
        cells = [cell for cell in store if _thesis_support.wanted(cell) and cell not in done]
        tasks = [delayed(_thesis_support.work)(cell, store[cell]) for cell in cells]
        for key, row, _ in _store.extend(path, Cell._fields, tasks, jobs):
            done[Cell(*key)] = row
    return done


def run(todo: list[Cell], path: str | None, jobs: int) -> Store:
    """Do the cells, appending each to the store as it ends."""
    done: Store = {}
    for key, row, _ in _store.extend(path, Cell._fields, map(delayed(work), todo), jobs):
        done[Cell(*key)] = row
        print(_thesis_page.line(Cell(*key), row), flush=True)
    return done


def main(given: list[str] | None = None) -> int:
    """Run, print the tables, write the page; the number of cells outside the tolerances."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    sets = list(_thesis_data.SETS)
    parser.add_argument("--data", nargs="+", choices=sets, default=sets)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--splits", type=int, help="at most this many splits of each set")
    parser.add_argument("--quick", action="store_true", help="one or two splits of each set")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--store", help="JSON-lines file of finished cells, continued if it exists")
    parser.add_argument("--no-run", action="store_true", help="only what the store holds")
    parser.add_argument("--page", help="write the tables to this Markdown file")
    parser.add_argument("--support", help="JSON-lines file of support vectors (table 4.3)")
    parser.add_argument("--count", action="store_true", help="count the vectors that are missing")
    parser.add_argument("--pictures", help="folder for the pictures of the page")
    options = parser.parse_args(given)
    began = time.perf_counter()
    store = load(options.store)
    if not options.no_run:
        store |= run([c for c in cells(options) if c not in store], options.store, options.jobs)
    counted = support(store, options.support, options.jobs, options.count)
    page = _thesis_page.page(store, counted)
    print("\n" + page)
    if options.pictures:
        import _thesis_pictures  # here: it needs matplotlib

        _thesis_pictures.draw(store, options.pictures)
    print(f"{time.perf_counter() - began:.0f} s")
    if options.page:
        Path(options.page).parent.mkdir(parents=True, exist_ok=True)
        Path(options.page).write_text(page)
    return len(_thesis_page.outside(store))


if __name__ == "__main__":
    main()
