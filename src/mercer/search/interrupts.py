"""Interrupts: a search keeps its best point at one, and its caller may want to stop, too."""

from __future__ import annotations

from typing import Any


def interrupted(report: Any) -> bool:
    """Whether any search in the (nested) ``report_`` of an estimator was interrupted.

    Examples
    --------
    >>> interrupted({"search": {"interrupted": True}}), interrupted({"search": {}})
    (True, False)
    """
    if not isinstance(report, dict):
        return False
    return report.get("interrupted") is True or any(interrupted(v) for v in report.values())
