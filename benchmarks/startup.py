"""What it costs to start: ``import mercer`` and ``mercer --help``, CPU time of fresh processes."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

from measure import Row, children_cpu

BARS = {"import mercer": "<= 250", "mercer --help": "<= 150"}
COMMANDS = {
    "import mercer": [sys.executable, "-c", "import mercer"],
    "mercer --help": [str(Path(sys.executable).with_name("mercer")), "--help"],
    "import GPRegressor": [sys.executable, "-c", "from mercer import GPRegressor"],
    "python alone": [sys.executable, "-c", "pass"],
}


def startup_rows(repeats: int) -> list[Row]:
    """Measure each command; the bare interpreter is shown beside, and is part of the others."""
    rows = []
    for what, command in COMMANDS.items():
        note = ""
        try:
            spent = children_cpu(command, repeats)
        except (OSError, subprocess.CalledProcessError) as error:
            spent, note = [float("inf")], f"could not be run: {error}"
        figure = 1000.0 * statistics.median(spent)
        rows.append(Row("start", what, figure, "ms of CPU", BARS.get(what, ""), note=note))
    return rows
