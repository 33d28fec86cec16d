"""Figures 1, 2 and 3 of Hou & Hero (2018): sequential and semi-supervised discrimination.

Accuracy after each batch of two simulations and of Isolet, as pictures and as tables beside the
accuracies of another implementation, with the bars that must hold.

    MERCER_DATA=<folder> python papers/hou_hero.py --quick
    MERCER_DATA=<folder> python papers/hou_hero.py --store papers/hou_hero.jsonl --jobs 2
    python papers/hou_hero.py --store papers/hou_hero.jsonl --no-run --page docs/papers/hou_hero.md

Every finished curve is a line of the store; a run with the same store goes on where the last ended.
``--trials 100`` takes as many streams of the simulations as the paper, and keeps their means and
deviations in ``papers/hou_hero_trials.json``, from which the pictures of the page are drawn.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import _hou_hero_page
import _store
from _hou_hero_data import STREAMS
from _hou_hero_methods import FIGURES
from _hou_hero_page import Store
from joblib import delayed
from threadpoolctl import threadpool_limits

SEEDS = {"1": 10, "2": 10, "2h": 10, "3": 1}
QUICK = {"1": 5, "2": 5, "2h": 5, "3": 3}  # batches; one stream, half a minute in all
TRIALS = Path(__file__).parent / "hou_hero_trials.json"
FIELDS = ("figure", "method", "seed")
Cell = tuple[str, str, int]


def cells(figures: list[str], seeds: int | None, methods: list[str] | None) -> list[Cell]:
    """The curves that were asked for: figure, method, seed."""
    found = []
    for figure in figures:
        names = [name for name in FIGURES[figure]() if methods is None or name in methods]
        count = SEEDS[figure] if seeds is None else min(seeds, SEEDS[figure])
        found += [(figure, name, seed) for name in names for seed in range(count)]
    return found


def work(cell: Cell, quick: bool) -> tuple[Cell, dict[str, list[float | None]], float]:
    """One curve: the accuracy after each batch, None where a machine was not trained."""
    figure, name, seed = cell
    began = time.perf_counter()
    with threadpool_limits(limits=1):
        make = STREAMS[figure[0]]
        stream = make(seed, QUICK[figure]) if quick else make(seed)
        found = FIGURES[figure]()[name].accuracies(stream)
    rounded = [None if value is None else round(value, 6) for value in found]
    return cell, {"accuracy": rounded}, time.perf_counter() - began


def load(path: str | None) -> Store:
    """The finished curves of a store."""
    return {key: row["accuracy"] for key, row in _store.load(path, FIELDS).items()}


def run(todo: list[Cell], path: str | None, jobs: int, quick: bool) -> Store:
    """Do the curves, appending each to the store as it ends."""
    done: Store = {}
    tasks = (delayed(work)(cell, quick) for cell in todo)
    for (figure, method, seed), row, seconds in _store.extend(path, FIELDS, tasks, jobs):
        done[figure, method, seed] = row["accuracy"]
        last = next(value for value in reversed(row["accuracy"]) if value is not None)
        print(f"figure {figure}, {method}, seed {seed}: {last:.3f} at the end ({seconds:.1f} s)")
    return done


def trials(
    count: int, figures: list[str], methods: list[str] | None, store: Store, path: Path
) -> None:
    """Run the simulations on ``count`` streams; means and deviations go to a file, one by one."""
    done = _hou_hero_page.trials(path)
    for figure in figures:
        for name in (n for n in FIGURES[figure]() if methods is None or n in methods):
            if SEEDS[figure] == 1 or ((figure, name) in done and done[figure, name][2] >= count):
                continue
            began = time.process_time()
            curves = [
                store.get((figure, name, seed)) or work((figure, name, seed), False)[1]["accuracy"]
                for seed in range(count)
            ]
            done[figure, name] = _hou_hero_page.averaged(curves)
            _store.write(path, _hou_hero_page.plain(done))
            seconds = time.process_time() - began
            print(f"figure {figure}, {name}, {count} streams ({seconds:.0f} s)", flush=True)


def main(given: list[str] | None = None) -> int:
    """Run, print the tables, write page and pictures; return the number of bars missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--figures", nargs="+", choices=list(FIGURES), default=list(FIGURES))
    parser.add_argument("--methods", nargs="+", help="only machines of these names")
    parser.add_argument("--seeds", type=int, help="at most this many streams")
    parser.add_argument("--quick", action="store_true", help="one stream of few batches of each")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--store", help="JSON-lines file of finished curves, continued if there")
    parser.add_argument("--no-run", action="store_true", help="only what the store holds")
    parser.add_argument("--trials", type=int, help="streams of the simulations, for their means")
    parser.add_argument("--page", help="write tables to this Markdown file, pictures beside it")
    options = parser.parse_args(given)
    if options.quick and options.store:
        parser.error("--quick gives other curves than a whole run: it takes no --store")
    began = time.perf_counter()
    store = load(options.store)
    if not options.no_run:
        wanted = cells(options.figures, 1 if options.quick else options.seeds, options.methods)
        todo = [cell for cell in wanted if cell not in store]
        store |= run(todo, options.store, options.jobs, options.quick)
    if options.trials:
        trials(options.trials, options.figures, options.methods, store, TRIALS)
    wide = _hou_hero_page.trials(TRIALS)
    pictures: dict[str, str] = {}
    if options.page:
        folder = Path(options.page).parent
        folder.mkdir(parents=True, exist_ok=True)
        pictures = _hou_hero_page.draw(store, folder, wide)
    page = _hou_hero_page.page(store, pictures, wide)
    print("\n" + page)
    print(f"{time.perf_counter() - began:.0f} s")
    if options.page:
        Path(options.page).write_text(page)
    return sum(not fine for _, _, fine in _hou_hero_page.bars(store))


if __name__ == "__main__":
    main()
