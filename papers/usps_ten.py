"""GPML figure 3.10: evidence and test information over length scale and amplitude, ten USPS digits.

All ten digits by one machine: a softmax of ten latent functions, which are a priori independent and
share one isotropic squared exponential kernel, by Laplace's method (section 3.5). At every point of
a coarse grid over log length scale and log amplitude: log evidence, information in bits on test
cases, and test errors. Training and test cases are the first rows of the book's two parts: ten
classes take eleven factorisations at each Newton step, and a test case an average over ten
functions.

    MERCER_DATA=<folder> python papers/usps_ten.py --json papers/usps_ten.json
    python papers/usps_ten.py --no-run --out docs/papers/usps_ten.png --page docs/papers/usps_ten.md

The grid takes a quarter of an hour of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import _picture
import numpy as np
import usps_3v5
import usps_contours
from threadpoolctl import threadpool_limits

STORED = Path(__file__).parent / "usps_ten.json"
ROWS, TESTS = 500, 1000
SCALES = np.linspace(1.5, 4.0, 5)  # log length scale
AMPLITUDES = np.linspace(0.0, 4.0, 5)  # log amplitude, half the log variance
PAGE = """\
# USPS digits, all ten

GPML figure 3.10: one machine for ten classes, a softmax of ten latent functions
that share one isotropic squared exponential kernel, by Laplace's method.

    MERCER_DATA=<folder> python papers/usps_ten.py --json papers/usps_ten.json
    python papers/usps_ten.py --no-run --out docs/papers/usps_ten.png --page <this page>

The file has 4649 training and 4649 test cases; here they are the first {rows} of the former and the
first {tests} of the latter. Bits are the mean of log2 p(label) on these plus the entropy of the
training labels, {entropy:.3f}: that much is perfect, and 0 is knowing the class frequencies alone.

![evidence, information and errors over length scale and amplitude](usps_ten.png)

{count} points of each panel; the dot is the largest evidence on the grid.

| | log evidence | log length scale | log amplitude | bits there | most | errors there | fewest |
|---|---|---|---|---|---|---|---|
{tops}

The evidence is a ridge: the longer the length scale, the larger the amplitude that goes with it, up
to its maximum at a log amplitude of {amplitude:.0f}. The information has a ridge of the same shape
at smaller amplitudes: at the maximum of the evidence it is {there:.2f} bits, and {lower:.2f} bits
at the same length scale with a log amplitude of {below:.0f}. As with [3 against 5](gpml_usps.md),
Laplace's probabilities are too modest where the amplitude is large. With ten classes there is more
to it: far beyond the ridge (short length scales, the largest amplitude) the latent functions are so
uncertain that the widest of them is the likeliest to be the largest, and the averaged probabilities
err on {worst:.0f} of {tests} cases.
"""


def page(stored: dict[str, Any]) -> str:
    """The page of the documentation."""
    evidence, bits, errors = (np.array(stored["laplace"][key]) for key in usps_contours.KEYS)
    i, j = np.unravel_index(evidence.argmax(), evidence.shape)
    best = int(bits[:, j].argmax())
    found = {
        "count": evidence.size,
        "tops": "\n".join(usps_contours.tops(stored)),
        "amplitude": stored["amplitudes"][i],
        "there": bits[i, j],
        "lower": bits[best, j],
        "below": stored["amplitudes"][best],
        "worst": errors[-1].max(),
    }
    return PAGE.format_map(stored | found)


def draw(stored: dict[str, Any], path: str) -> None:
    """Save the contours, a panel for each quantity."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x, y = stored["scales"], stored["amplitudes"]
    evidence = np.array(stored["laplace"]["log evidence"])
    i, j = np.unravel_index(evidence.argmax(), evidence.shape)
    fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharey=True)
    for ax, (key, title) in zip(axes, usps_contours.KEYS.items(), strict=True):
        values = np.array(stored["laplace"][key])
        # levels by rank, closer together about the best
        at = np.quantile(values, np.linspace(0.1, 0.98, 9))
        lines = ax.contour(x, y, values, np.unique(at.round(2)), cmap="viridis", linewidths=1)
        ax.clabel(lines, fontsize=6, fmt="%g")
        ax.plot(x[j], y[i], "ko", ms=4)
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("log length scale")
    axes[0].set_ylabel("log amplitude")
    _picture.save(fig, path)


def main(arguments: list[str] | None = None) -> int:
    """Compute the grid or take the stored one; store, draw, write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="first rows of the training part")
    parser.add_argument("--tests", type=int, default=TESTS, help="first rows of the test part")
    parser.add_argument("--points", type=int, default=5, help="of the grid, each way")
    given = usps_contours.finished(parser, arguments)
    if given.no_run:
        stored = json.loads(STORED.read_text(encoding="utf-8"))
    else:
        stored = run(given.rows, given.tests, given.points)
    return usps_contours.publish(stored, given, draw, page)


def run(rows: int, tests: int, points: int) -> dict[str, Any]:
    """Return the three quantities over the grid, and what they were computed on."""
    X, y, X_test, y_test = usps_3v5.read("usps_resampled")
    table = (X[:rows], y[:rows], X_test[:tests], y_test[:tests])
    scales, amplitudes = (np.linspace(v[0], v[-1], points) for v in (SCALES, AMPLITUDES))
    with threadpool_limits(limits=1):
        found = usps_contours.figures("laplace", table, "softmax", scales, amplitudes)
    shares = np.unique(table[1], return_counts=True)[1] / len(table[1])
    return {
        "laplace": found,
        "scales": scales.tolist(),
        "amplitudes": amplitudes.tolist(),
        "rows": len(table[1]),
        "tests": len(table[3]),
        "entropy": -float(shares @ np.log2(shares)),
    }


if __name__ == "__main__":
    sys.exit(main())
