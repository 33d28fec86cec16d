"""What a reader of a fit should know, in sentences; the influence of each training row."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.estimators.shared.summary import few_rows, represented
from mercer.tables.choose.decide import Final
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row
from mercer.tables.choose.resume import parameters_of
from mercer.tables.choose.screen import Screening
from mercer.tables.data.columns import Column
from mercer.tables.data.target import Target
from mercer.tables.quality import surprise
from mercer.tables.stack.machine import Combination, members_of

CLOSE = 0.005  # nats per row
MANY = 5  # columns that are left out for the same reason
FEW = 10  # rows, of which figures say next to nothing


def notes_of(
    target: Target, columns: list[Column], found: Screening, final: Final, ranking: list[Row]
) -> list[str]:
    """Return the sentences: of the target, the columns, the search, the ranking."""
    notes = list(target.notes)
    notes += _of_columns(columns)
    if found.interrupted:
        notes.append("interrupted: the best machine so far was kept, the others were not tried")
    notes += final.notes
    scored = [(row, row.score) for row in ranking if row.score is not None]
    best = max(score for row, score in scored if row.chosen)
    base = max(score for row, score in scored if row.name == "constant")
    if len(found.rows) < FEW:
        notes.append(
            f"{len(found.rows)} rows are very few: the figures of rows left out keep the units and "
            "hyperparameters that all rows chose, and may be far too good"
        )
    if best <= base + CLOSE + _kept(found, ranking) / len(found.rows):
        notes.append(
            "no machine predicts rows left out better than a constant does: the inputs say nothing "
            "about the target, as far as these rows show"
        )
    for machine in [m for _, m in members_of(final.machine)]:
        own = getattr(machine, "report_", None) or {}
        notes += of_search(own) + of_numbers(own)
        notes += few_rows(machine) if own else []
    notes += of_intervals(final.left)
    others = [(row, score) for row, score in scored if not row.chosen and row.name != "constant"]
    notes += [f"{row.name}: {row.doubts}" for row in ranking if row.chosen and row.doubts]
    close = [row.name for row, score in others if score > best - CLOSE]
    if close:
        notes.append(f"nearly as good: {', '.join(close)}")
    return list(dict.fromkeys(notes))


def _of_columns(columns: list[Column]) -> list[str]:
    """Say which columns were left out, many for the same reason in one sentence."""
    by_rule: dict[str, list[str]] = {}
    for column in columns:
        if not column.used:
            by_rule.setdefault(column.rule, []).append(f"'{shown(column.name)}'")
    notes = []
    for rule, names in by_rule.items():
        if len(names) <= MANY:
            notes += [f"column {name} {rule}" for name in names]
        else:
            rest = f"{', '.join(names[:MANY])} and {len(names) - MANY} more"
            notes.append(f"columns {rest}: {rule}")
    return notes


def of_search(report: dict[str, Any]) -> list[str]:
    """What a search for hyperparameters left open, from an estimator's ``report_``."""
    search = report.get("search")
    if not isinstance(search, dict):
        return []
    notes = []
    if not search.get("converged", True) and not search.get("interrupted"):
        reason = search.get("message", "no reason given")
        notes.append(f"the search for hyperparameters did not converge ({reason})")
    if search.get("at_bounds"):
        names = ", ".join(search["at_bounds"])
        notes.append(f"the search ended at the bound of {names}: the data do not determine it")
    return notes


def of_numbers(report: dict[str, Any]) -> list[str]:
    """What was done to the numbers, from an estimator's ``report_``."""
    notes = [report["variance"]] if "variance" in report else []
    jitter = (report.get("inference") or {}).get("jitter")
    if jitter:
        notes.append(f"a jitter of {jitter:.1g} of each variance was added to the kernel matrix")
    rows = report.get("rows") or {}
    if rows.get("distinct", np.inf) < rows.get("used", 0):
        notes.append(
            f"{rows['used']} rows have {rows['distinct']} different inputs; rows with the same "
            "inputs count as one point of that much more weight"
        )
    return notes


def of_intervals(left: LeftOutTable) -> list[str]:
    """Whether the 90 % intervals of rows left out hold what they promise, of a quantity."""
    share, n = left.quality.get("coverage90", 0.9), int(left.quality.get("rows", 0))
    if n < 20 or surprise(share, 0.9, n) > 0.001:
        return []
    side = "too narrow" if share < 0.9 else "too wide"
    return [
        f"the 90 % intervals cover {100 * share:.1f} % of the left-out rows, further from 90 % "
        f"than chance explains: they are {side}, and the noise is probably not Gaussian"
    ]


def representation(machine: Any, rows: int, given: int) -> dict[str, Any]:
    """Return how a fitted machine knows its rows, of those given: plain values, and "words".

    Of a combination "form" is that of the members, or "mixed", and "members" has each of theirs.

    ``form`` is "exact", "inducing" (few points stand for the rows) or "iterative"; ``bounds`` are
    those of the log evidence of the exact model, ``explained`` the share of the prior variance
    that the points explain, ``gap`` the duality gap of a machine on landmarks.
    """
    if isinstance(machine, Combination):
        return _of_members(machine, rows, given)
    report = getattr(machine, "report_", None) or {}
    few, ended = report.get("inducing"), report.get("inference") or {}
    form = "iterative" if report.get("gram") == "iterative" else "inducing" if few else "exact"
    count = f"all {rows} rows" if rows == given else f"{rows} of {given} rows"
    bounds, gap = report.get("evidence_bounds"), ended.get("gap") if few else None
    words = [f"it was fitted to {count}, exactly"]
    if few is not None:
        words = [
            f"it was fitted to {count}, which it knows through {few['points']} points "
            f"({few['chosen']}); they explain {100.0 * few['explained']:.2f} % of the prior "
            "variance: the less, the smoother the function is than an exact fit would be"
        ]
    elif form == "iterative":
        words = [f"it was fitted to {count} by {represented(report)}"]
    if bounds is not None and bounds[1] is None:
        words.append(f"the log evidence of the exact model is at least {bounds[0]:.6g}")
    elif bounds is not None:
        words.append(
            f"the log evidence of the exact model is between {bounds[0]:.6g} and {bounds[1]:.6g}"
        )
    if gap is not None and ended.get("objective"):
        share = gap / abs(ended["objective"])
        words.append(
            f"its objective is within {share:.1g} of the least that these points allow (the "
            "duality gap)"
        )
    return {
        "form": form,
        "rows": rows,
        "rows_given": given,
        "points": None if few is None else few["points"],
        "explained": None if few is None else few["explained"],
        "bounds": bounds,
        "gap": gap,
        "words": "; ".join(words),
    }


def _of_members(machine: Combination, rows: int, given: int) -> dict[str, Any]:
    each = []
    for member in machine.members_:
        own = (getattr(member, "report_", None) or {}).get("rows") or {}
        each.append(representation(member, int(own.get("used", rows)), given))
    first = each[0]
    shared = {key: first[key] for key in first if all(e[key] == first[key] for e in each)}
    words = "; ".join(f"{n}: {e['words']}" for n, e in zip(machine.names_, each, strict=True))
    none = dict.fromkeys(each[0]) | {"form": "mixed"}
    named = [{"name": n, **e} for n, e in zip(machine.names_, each, strict=True)]
    return none | shared | {"words": shared.get("words", words), "members": named}


def _kept(found: Screening, ranking: list[Row]) -> float:
    """Return what is gained, in nats in all, since hyperparameters are kept for rows left out."""
    chosen = next(row.name for row in ranking if row.chosen)
    tried = next((t for t in found.tried if t.candidate.name == chosen), None)
    if tried is None or tried.candidate.criterion != "plsc":
        return 2.0  # about, where they maximise the evidence
    # about one for each of them, where they maximise the log probability of rows left out itself
    return float(sum(np.size(value) for value in parameters_of(tried.machine).values()))


def influence_of(final: Final, X: Array, target: Target) -> Array:
    """Return the share of each of its rows in what was fitted; of a combination by its weights."""
    size = np.zeros(len(final.rows))
    for weight, part in final.members or [(1.0, final)]:
        place = np.searchsorted(final.rows, part.rows) if final.members else slice(None)
        counts = target.counts(part.rows)
        size[place] += weight * influence(part.machine, X[part.rows], counts)
    return size


def influence(machine: Any, X: Array, weights: Array | None = None) -> Array:
    """Return the share of each row of X (n, d), the training rows, in the sum of |alpha|, (n,).

    f(x) = sum_i alpha_i k(x, x_i) + ...: a large coefficient is a row that the others do not
    explain (for a likelihood alpha_i is the slope of its log density at the fit). Rows with equal
    inputs share theirs as their ``weights`` (n,) say; all are zero where a machine has no
    coefficients for rows.
    """
    machine = getattr(machine, "machine_", machine)
    size, posteriors = np.zeros(len(X)), getattr(machine, "posteriors_", None)
    if "inducing" in (getattr(machine, "report_", None) or {}):
        return size  # the coefficients are those of points
    named = (("support_", "dual_coef_"), ("relevance_rows_", "weights_"))
    pairs = [[getattr(machine, name, None) for name in names] for names in named]
    known = [(rows, c) for rows, c in pairs if rows is not None and c is not None]
    own = [(rows, c) for rows, c in known if np.shape(c)[-1] == len(rows)]
    if own:
        rows, coefficients = own[0]
        size[np.asarray(rows, dtype=np.intp)] = np.abs(coefficients).sum(axis=0)
    elif posteriors and hasattr(posteriors[0], "alpha") and hasattr(machine, "units_"):
        points, alpha = np.asarray(posteriors[0].points), np.abs(posteriors[0].alpha).sum(axis=1)
        inside = np.ascontiguousarray(machine.units_.standardised(X))
        if np.array_equal(points, inside):
            size = alpha
        else:
            place: dict[bytes, list[int]] = {}
            for i, row in enumerate(inside):
                place.setdefault(row.tobytes(), []).append(i)
            for row, value in zip(np.ascontiguousarray(points), alpha, strict=True):
                same = place.get(row.tobytes(), [])
                w = np.ones(len(same)) if weights is None else weights[same]
                size[same] += value * w / w.sum()
    total = float(size.sum())
    return size / total if total > 0.0 else size
