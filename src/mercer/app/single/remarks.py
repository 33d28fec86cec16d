"""What a reader of a fit should know: sentences from its report and its leave-one-out figures."""

from __future__ import annotations

from typing import Any

from mercer.app.single.fitted import Fitted
from mercer.app.single.quality import surprise


def remarks(fitted: Fitted) -> list[str]:
    """Return the sentences, the ones from the table and the library's warnings first."""
    report = fitted.model.report_
    return [*fitted.notes, *_search(report.get("search")), *_numbers(report), *_honesty(fitted)]


def _search(search: Any) -> list[str]:
    if not isinstance(search, dict):
        return []
    found = []
    if not search.get("converged", True):
        reason = search.get("message", "no reason given")
        found.append(f"the search for hyperparameters did not converge ({reason})")
    if search.get("at_bounds"):
        names = ", ".join(search["at_bounds"])
        found.append(f"the search ended at the bound of {names}: the data do not determine it")
    return found


def _numbers(report: Any) -> list[str]:
    found = []
    jitter = (report.get("inference") or {}).get("jitter")
    if jitter:
        found.append(f"a jitter of {jitter:.1g} of each variance was added to the kernel matrix")
    rows = report.get("rows") or {}
    if rows.get("distinct", 0) < rows.get("used", 0):
        found.append(
            f"{rows['used']} rows have {rows['distinct']} different inputs; rows with the same "
            "inputs count as one point of that much more weight"
        )
    return found


def _honesty(fitted: Fitted) -> list[str]:
    figures = fitted.loo_quality()
    share, n = figures["coverage90"], int(figures["rows"])
    if n < 20 or surprise(share, 0.9, n) > 0.001:
        return []
    side = "too narrow" if share < 0.9 else "too wide"
    return [
        f"the 90 % intervals cover {100 * share:.1f} % of the left-out rows, further from 90 % "
        f"than chance explains: they are {side}, and the noise is probably not Gaussian"
    ]
