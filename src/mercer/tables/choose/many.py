"""Many: the final round on more rows than an exact fit of the best candidate can take.

Hyperparameters come from the exact evidence of some rows. With these each finalist takes all rows
in the forms that it can afford, and some of them exactly; the forms are compared on rows that none
of them saw, and the best is fitted again to these as well.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array, Index
from mercer.core.deadline import OutOfTime
from mercer.core.memory import available_bytes, dgemm_rate
from mercer.estimators.support_vector.classifier import SVC
from mercer.linalg.representation import Inducing, Iterative
from mercer.search.optimize import interrupted
from mercer.tables.choose.afford import (
    MOVED,
    Offer,
    affordable,
    family_of,
    forms,
    moving,
    rank_of,
)
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.decide import Final, decide
from mercer.tables.choose.left_out import LeftOutTable, check_predictions, predicted_by
from mercer.tables.choose.refit import (
    RESUMED,
    stated,
    stopped_early,
    too_late,
)
from mercer.tables.choose.resume import Known, Resumed, found_by, parameters_of, points_of
from mercer.tables.choose.screen import FAILURES, LAST, Clock, Screening, Tried, told
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted

HELD = 2000  # rows, at most a tenth, on which the forms are compared
FAR = 0.5  # nats per row behind the best of the screening, from which a candidate has no chance
MOST = 4  # finalists
SAMPLE = 4000  # rows, at most, of which the exact evidence finds the hyperparameters
BEGUN = 0.45  # of the time: for all finalists on samples, or without a search
SOLVED = 0.75  # of what is left then, for the best of them; a last fit follows
SHARES = (0.7, 0.3)  # of that, for all rows in another form and for some of them exactly
GAINED = 0.3  # nats per row that a machine may gain by all rows
LEAST = 0.3  # of the time budget, for the final round
ROOM = 0.5  # of the memory that is available


@dataclass
class Entrant:
    """A machine that was fitted to some of the rows in some form, and how others predict it."""

    tried: Tried
    form: Offer
    machine: Any
    rows: Index
    left: LeftOutTable
    seconds: float  # of a fit with all parameters known
    notes: list[str]


def name_of(tried: Tried, form: Offer) -> str:
    """Return the candidate and its form, in words."""
    how = {
        "inducing": f"{form.points} points for {form.rows} rows",
        "iterative": f"{form.rows} rows, iteratively",
        "exact": f"{form.rows} rows exactly",
    }
    return f"{tried.candidate.name} ({how[form.name]})"


class Contest:
    """The final round of a large table: ``train`` and ``held`` rows of X (n, d)."""

    def __init__(
        self, screening: Screening, X: Array, target: Target, clock: Clock, seed: int
    ) -> None:
        self.screening, self.X, self.target, self.clock = screening, X, target, clock
        self.rng = np.random.default_rng(seed)
        known = np.flatnonzero(target.known)
        free = np.setdiff1d(known, screening.rows)  # so that every class stays
        count = min(HELD, len(known) // 10)
        held = self.rng.permutation(free)[:count]
        if target.structure is not None:
            held = target.structure.held(free, count, self.rng)
        self.held: Index = np.sort(held)
        self.train: Index = np.setdiff1d(known, self.held)
        self.entries: list[Entrant] = []
        self.searched: dict[int, Any] = {}  # machines fitted to a sample, by their candidate
        self.stopped = False

    # ------------------------------------------------------------------ fits
    def fit(self, machine: Any, rows: Index, like: Any = None) -> tuple[Any, float, list[str]]:
        """Return the machine fitted to some rows, the seconds it took, and what was warned of.

        Its points were chosen by a fit before this one if it is ``like`` another machine.
        """
        began = time.monotonic()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted(machine, self.X[rows], self.target.labels(rows), self.target.counts(rows))
        if like is not None and "inducing" in like.report_:
            machine.report_["inducing"]["chosen"] = like.report_["inducing"]["chosen"]
        if interrupted(getattr(machine, "report_", None)):
            if not self.clock.spent_out:
                self.stopped = True
            elif isinstance(machine.report_.get("search"), dict):
                machine.report_["search"]["ended"] = "the time budget ended the search"
        return machine, time.monotonic() - began, told(caught)

    def some(self, count: int) -> Index:
        """Return so many of the training rows, those of the screening among them."""
        first = self.screening.rows
        if count >= len(self.train):
            return self.train
        others = self.rng.permutation(np.setdiff1d(self.train, first))
        others = others[: max(0, count - len(first))]
        return np.sort(np.concatenate([first, others]))

    def enter(self, tried: Tried, form: Offer, machine: Any, rows: Index, like: Any = None) -> None:
        """Fit a machine, and let it predict the rows that were held out."""
        form = replace(form, rows=len(rows))
        self.clock.tell(stage=name_of(tried, form))
        machine, seconds, notes = self.fit(machine, rows, like)
        self.judge(tried, form, machine, rows, seconds, notes)

    def judge(
        self, tried: Tried, form: Offer, machine: Any, rows: Index, seconds: float, notes: list[str]
    ) -> None:
        """Add a fitted machine, if it predicts the rows that were held out."""
        X, y, k = self.X[self.held], self.target.values[self.held], self.target.k
        check_predictions(machine, X, k)
        left = predicted_by(machine, X, y, k, self.target.counts(self.held))
        if np.isfinite(left.score):
            self.entries.append(Entrant(tried, form, machine, rows, left, seconds, notes))

    # ------------------------------------------------------------------ one finalist
    def begin(self, tried: Tried, seconds: float) -> None:
        """Enter a candidate: with a search on a sample, without one in the forms it can afford."""
        family = family_of(tried.machine)
        if family not in ("line", "support", "mode"):
            machine, rows = self._searched(tried, seconds)
            if family != "other" and len(rows) < len(self.train):
                self.searched[id(tried)] = machine
            return
        if not self.take_all(tried, None, seconds):  # hardly any time: what the screening has
            rows = self.screening.rows
            self.judge(tried, Offer("exact", len(rows)), tried.machine, rows, 0.0, [])

    def go_on(self, seconds: float) -> None:
        """Let the best candidate on a sample take all rows, unless others are far better."""
        ranked = sorted(self.entries, key=lambda e: -e.left.score)
        for entry in ranked:
            found = self.searched.get(id(entry.tried))
            if found is not None:
                if entry.left.score > ranked[0].left.score - GAINED:
                    self.take_all(entry.tried, found, seconds)
                return

    def take_all(self, tried: Tried, found: Any, seconds: float) -> bool:
        """Enter a candidate in every form that it can afford within so many seconds.

        ``found`` has its hyperparameters; whether there was such a form is returned.
        """
        (n, d), machine = (len(self.train), self.X.shape[1]), tried.machine
        rate, room, rank = dgemm_rate(), ROOM * available_bytes(), rank_of(machine, d)

        def within(share: float) -> list[Offer]:
            given = (family_of(machine), n, d, share * seconds, room, rate)
            return forms(*given, held=len(self.held), rank=rank)

        offered = within(1.0)
        if len(offered) > 1:  # less for each of them
            pointed = [f for f in within(SHARES[0] / (len(offered) - 1)) if f.points]
            offered = pointed + [f for f in within(SHARES[1]) if not f.points]
        part = 0 if found is None else found.report_["rows"]["used"]
        for form in offered:
            if self.stopped or (form.name == "exact" and form.rows <= part):
                continue  # the sample has more
            try:
                self._take(tried, form, found, SHARES[0] * seconds)
            except FAILURES as error:
                self._failed(tried, form, error)
        return bool(offered)

    def _searched(self, tried: Tried, seconds: float) -> tuple[Any, Index]:
        """Return the machine of exact evidence on as many rows as its search has time for."""
        screened, candidate = len(self.screening.rows), tried.candidate
        need = (RESUMED + LAST) / (1.0 + LAST) if candidate.criterion else 1.0
        count = min(SAMPLE, affordable(tried, len(self.train), screened, seconds / need))
        rows = self.some(count)
        stage = f"{candidate.name}: hyperparameters of {len(rows)} rows"
        self.clock.tell(stage=stage)
        advance = self.clock.watch(seconds, LAST, stage=stage)
        machine = clone(tried.machine)
        if candidate.criterion is not None:
            options: Any = {"progress": advance, "balance": not candidate.repeats}
            start = parameters_of(tried.machine)
            machine.set_params(search=Resumed(start, candidate.criterion, **options))
        machine, took, notes = self.fit(machine, rows)
        form = Offer("exact", len(rows))
        self.judge(tried, form, machine, rows, took, notes)
        return machine, rows

    def _take(self, tried: Tried, form: Offer, found: Any, seconds: float) -> None:
        """Fit a candidate in one form; ``found`` has its hyperparameters."""
        machine, rows, moved = clone(tried.machine), self.some(form.rows), None
        if found is not None:
            stage = f"{tried.candidate.name}: {form.points} points"
            advance = self.clock.watch(moving(form.rows) * seconds, 1.0, stage=stage)
            kept: Any = {"progress": advance, "balance": not tried.candidate.repeats}
            machine.set_params(search=Known(found_by(found), **kept))
        if form.name == "iterative":
            machine.set_params(gram=Iterative(rank=form.points))
        elif form.name == "inducing" and family_of(tried.machine) == "process":
            # the points are moved on some of the rows, and know all of them afterwards
            self.clock.tell(stage=stage)
            part = self.some(min(MOVED, form.rows))
            moved = clone(machine).set_params(gram=Inducing(m=form.points))
            moved, took, notes = self.fit(moved, part)
            if len(part) == form.rows:
                each = took / (moved.report_["search"]["evaluations"] + LAST)
                self.judge(tried, form, moved, part, LAST * each, notes)
                return
            machine = self._known(moved)
        elif form.name == "inducing" and isinstance(machine, SVC):  # its own sigmoid needs all rows
            few = Inducing(m=form.points)
            machine = SigmoidClassifier(machine.set_params(probability=None, gram=few))
        elif form.name == "inducing":
            machine.set_params(gram=Inducing(m=form.points, max_iter=0))
        self.enter(tried, form, machine, rows, moved)

    def _known(self, machine: Any) -> Any:
        """Return an unfitted machine that keeps the hyperparameters and points of a fitted one."""
        twin = clone(machine)
        if "search" in twin.get_params(deep=False) and machine.report_.get("search"):
            balance = getattr(twin.search, "balance", True)
            twin.set_params(search=Known(found_by(machine), balance=balance))
        if isinstance(getattr(twin, "gram", None), Inducing):
            twin.set_params(gram=points_of(machine))
        return twin

    def _failed(self, tried: Tried, form: Offer, error: Exception) -> None:
        """Remember why a form of a candidate is not among the entries."""
        name = f"{tried.candidate.name}, {form.name} on {form.rows} rows"
        tried.notes.append(f"{name}, failed: {error}")

    # ------------------------------------------------------------------ the last fit
    def decided(self, alone: bool) -> tuple[Tried, Final]:
        """Return the best entry, or a combination, fitted to the rows that were held out as well.

        The weights are those of the rows held out, which had no part in any of the fits.
        """
        entries = sorted(self.entries, key=lambda e: -e.left.score)
        named = {id(e.tried): e for e in reversed(entries)}  # the best form of each candidate
        best = [e for e in entries if named[id(e.tried)] is e]
        before = [(e.tried, Final(e.machine, e.rows, e.left, self.held, e.notes)) for e in best]
        tried, final = decide(before, self.screening, self.X, alone)
        if not final.members:
            return tried, replace(self.last(named[id(tried)]), left=final.left)
        known = {id(entry.machine): entry for entry in best}
        after = [(w, self.last(known[id(f.machine)])) for w, f in final.members]
        names = [known[id(f.machine)].tried.candidate.name for _, f in final.members]
        weights = np.array([w for w, _ in after])
        machine = type(final.machine).of(names, [f.machine for _, f in after], weights)
        rows = np.unique(np.concatenate([f.rows for _, f in after]))
        notes = [final.notes[0], *dict.fromkeys(n for _, f in after for n in f.notes)]
        return tried, replace(final, machine=machine, rows=rows, notes=notes, members=after)

    def last(self, best: Entrant) -> Final:
        """Fit the best entry to the rows that were held out as well, if that has time."""
        every = np.sort(np.concatenate([self.train, self.held]))
        whole = len(best.rows) == len(self.train)
        machine, rows, notes = best.machine, best.rows, list(best.notes)
        if whole and not self.stopped and 1.2 * best.seconds <= self.clock.left:
            self.clock.tell(stage=f"{best.tried.candidate.name} on all {len(every)} rows")
            try:
                machine, _, notes = self.fit(self._known(best.machine), every, best.machine)
                rows = every
            except (KeyboardInterrupt, *FAILURES):
                machine, rows = best.machine, best.rows
        stated(best.tried, machine)
        gram = getattr(machine, "gram", None)
        if isinstance(gram, Inducing):  # how many, not which: they are in the posterior
            machine.set_params(gram=Inducing(m=best.form.points))
        return Final(machine, rows, best.left, self.held, [*self._told(best, rows), *notes])

    def _told(self, best: Entrant, rows: Index) -> list[str]:
        """Say what was compared, and of how many rows the machine knows."""
        total = len(self.train) + len(self.held)
        notes = []
        if len(rows) < len(self.train):
            notes.append(
                f"fitted to {len(rows)} of {total} rows, drawn at random: so many, exactly, "
                "predict other rows better than all of them in a form that the time budget allows"
            )
        elif len(rows) < total:
            notes.append(
                f"fitted to {len(rows)} of {total} rows: the others were held out, and the time "
                "budget was too short for a last fit to all"
            )
        ranked = sorted(self.entries, key=lambda e: -e.left.score)
        told_of = "; ".join(f"{name_of(e.tried, e.form)} {e.left.score:.4g}" for e in ranked[:6])
        notes.append(
            f"compared by the log density of {len(self.held)} rows that were held out: {told_of}"
        )
        for tried in {id(e.tried): e.tried for e in self.entries}.values():
            notes += [note for note in tried.notes if ", failed: " in note]
        return notes


def final_of_many(
    screening: Screening, X: Array, target: Target, clock: Clock, seed: int, alone: bool = False
) -> tuple[Tried, Final]:
    """Return the candidate that predicts rows held out best, in its best form, and its last fit.

    Or the combination of several, unless ``alone``.
    """
    total = int(target.known.sum())
    if screening.interrupted:
        return stopped_early(screening, total)
    contest = Contest(screening, X, target, clock, seed)
    clock.bind(f"the forms in which {total} rows are known")
    clock.allow(LEAST * clock.budget)  # whatever came before: the rows are what it is about
    order, left = list(finalists(screening)), clock.left
    try:
        for i, tried in enumerate(order):
            if contest.stopped or clock.left <= 0.0:
                break
            share = BEGUN * left - (left - clock.left)
            try:
                contest.begin(tried, max(share, 0.1) / (len(order) - i))
            except FAILURES as error:
                contest._failed(tried, Offer("exact", total), error)
        if not contest.stopped:
            contest.go_on(SOLVED * clock.left)
    except OutOfTime:  # what was entered so far is compared
        if not contest.entries:
            return too_late(screening, total, clock)
    except KeyboardInterrupt:
        contest.stopped = True
    if not contest.entries:
        best_so_far, final = stopped_early(screening, total)
        if not contest.stopped:
            note = f"no machine could be fitted to more than {len(final.rows)} of {total} rows"
            final = replace(final, notes=[note, *final.notes[1:]], stopped=False)
        return best_so_far, final
    best, final = contest.decided(alone)
    if contest.stopped:
        note = "interrupted: fewer machines were compared than planned"
        final = replace(final, notes=[note, *final.notes], stopped=True)
    return best, final


def finalists(screening: Screening) -> Iterator[Tried]:
    """Yield the best candidates of the screening, one of each family before a second one."""
    every = (t for t in screening.tried if t.left is not None and not t.candidate.unlabelled)
    scored = sorted(every, key=lambda t: -t.score)
    near = [t for t in scored if t.score > scored[0].score - FAR]
    kinds = [family_of(t.machine) for t in near]
    first = [i for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    rest = [i for i in range(len(near)) if i not in first]
    yield from (near[i] for i in sorted([*first, *rest][:MOST]))
