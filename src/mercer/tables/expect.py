"""Expect: how long a fit will take, said before it begins.

A candidate takes some time for each evaluation whatever the table is, and then what its kernel
values and matrices take; about as long again go into honest figures of rows left out. The constants
are of the fits of ``benchmarks/run.py tables``, on one core that does 4.5e10 operations of matrix
products a second; another computer is as much faster as its products are. A search is as long as
it is: half or twice the time is no surprise, the time budget is what holds.
"""

from __future__ import annotations

from dataclasses import dataclass

from mercer.core.memory import spoken
from mercer.tables.choose.afford import growth
from mercer.tables.choose.refit import MOST, RESUMED
from mercer.tables.choose.sample import ROWS
from mercer.tables.choose.screen import LAST

BEGUN = 0.45  # seconds of a candidate on hardly any rows
VALUE, COLUMN = 5e-6, 5e-7  # more for each pair of rows; and for each pair and column
SEARCHED = 100.0  # evaluations in all of these: of the search, and of those without some rows
RATE = 4.5e10  # operations a second at which it was measured
LONG = 5.0  # seconds, from which one wants to know


@dataclass(frozen=True)
class Duration:
    """The seconds that a fit will take, never more than its ``budget``, and what takes them."""

    seconds: float
    budget: float
    machines: int
    rows: int
    columns: int
    classes: int = 0

    @property
    def long(self) -> bool:
        """Whether it is worth a word."""
        return self.seconds >= LONG

    def words(self) -> str:
        """Return it as a sentence.

        Examples
        --------
        >>> Duration(24.6, 60.0, 9, 455, 13).words()
        'this takes about 25 s, at most the time budget of 60 s: 9 machines, 455 rows, 13 columns'
        >>> Duration(60.0, 60.0, 10, 2000, 60, 3).words()
        'this takes the whole time budget of 60 s: 10 machines, 2000 rows, 60 columns, 3 classes'
        """
        budget = f"time budget of {spoken(self.budget)}"
        told = f"about {spoken(self.seconds)}, at most the {budget}"
        if self.seconds >= self.budget:
            told = f"the whole {budget}"
        counts = {"machine": self.machines, "row": self.rows, "column": self.columns}
        each = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items())
        classes = f", {self.classes} classes" if self.classes else ""
        return f"this takes {told}: {each}{classes}"


def expect(
    machines: int, rows: int, columns: int, classes: int, budget: float, rate: float = RATE
) -> Duration:
    """Return what a fit of so many candidates to a table will take.

    ``columns`` are those that the machines see, ``classes`` is 0 for a quantity, ``rate`` the
    operations of matrix products that one core does in a second.

    Examples
    --------
    >>> round(expect(9, 455, 13, 0, 60.0).seconds), expect(9, 100_000, 13, 0, 60.0).seconds
    (25, 60.0)
    """
    some = min(rows, ROWS)
    each = BEGUN + some**2 * (VALUE + COLUMN * columns)
    each *= 2.0 * classes if classes > 2 else 1.0  # one against the others, and all at once
    total = machines * each
    if rows > some:  # the best of them on all rows
        again = (RESUMED + LAST) / SEARCHED * each
        total += min(machines, MOST) * again * float(growth(rows / some))
    seconds = min(total * RATE / rate, budget)
    return Duration(seconds, budget, machines, rows, columns, classes)
