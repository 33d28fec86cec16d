"""GPML figures 3.7 and 3.8: evidence and test information over length scale and amplitude, USPS.

Gaussian process classification of the digits 3 and 5 (section 3.7.3) with a cumulative normal, by
Laplace's method and by expectation propagation, at every point of a coarse grid over log length
scale and log amplitude: log evidence, information in bits on the test part, and test errors.

    MERCER_DATA=<folder> python papers/usps_contours.py --json papers/usps_contours.json
    python papers/usps_contours.py --no-run --out docs/papers/gpml_usps.png --page <page>

The page also has the figures of gpml_usps.py (section 3.7.3) and usps_3v5.py (section 6.5.1), as
these have stored them. The grid takes some minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import _picture
import _store
import numpy as np
import usps_3v5
from threadpoolctl import threadpool_limits

from mercer import GPClassifier
from mercer.kernels import RBF

HERE = Path(__file__).parent
STORED = HERE / "usps_contours.json"
SCALES = np.linspace(2.0, 5.0, 9)  # log length scale
AMPLITUDES = np.linspace(-1.0, 5.0, 9)  # log amplitude, half the log variance
METHODS = ("laplace", "ep")
KEYS = {"log evidence": "log evidence", "bits": "test information, bits", "errors": "test errors"}
PAGE = """\
# USPS digits, 3 against 5

GPML sections 3.7.3 (Gaussian process classification) and 6.5.1 (probabilistic least squares): 767
training and {tests} test cases of the book's split, isotropic squared exponential kernel.

    MERCER_DATA=<folder> python papers/gpml_usps.py --json papers/gpml_usps.json
    MERCER_DATA=<folder> python papers/usps_3v5.py --all-digits --json papers/usps_3v5.json
    MERCER_DATA=<folder> python papers/usps_contours.py --json papers/usps_contours.json
    python papers/usps_contours.py --no-run --out docs/papers/gpml_usps.png --page <this page>

Bits are the mean of log2 p(label) on the test part plus the entropy of the training labels: 1 is
perfect, 0 is knowing the class frequencies alone.

## Contours (figures 3.7 and 3.8)

![evidence, information and errors over length scale and amplitude](gpml_usps.png)

Cumulative normal, {count} points of each panel; dots are the largest evidence on the grid.

| | log evidence | log length scale | log amplitude | bits there | most | errors there | fewest |
|---|---|---|---|---|---|---|---|
{tops}

As in the book's figures, the evidence of expectation propagation rises with the amplitude to a
plateau, where only the sign of the latent function matters, and its information is largest there,
too. Laplace's evidence has a maximum at a smaller amplitude; the information that goes with it is
less: its probabilities are too modest. The two agree where the amplitude is small.

## Hyperparameters by the evidence (section 3.7.3)

| | test errors | bits | log evidence | log length scale | log amplitude |
|---|---|---|---|---|---|
{machines}

## Least squares (section 6.5.1)

| | test errors | bits | log probability left out |
|---|---|---|---|
| the book | {book[errors]} | {book[bits]} | |
| variance with noise, (6.42) as it is cited | {noise[errors]} | {noise[bits]:.3f} | \
{noise[LOO log probability]:.2f} |
| latent variance | {latent[errors]} | {latent[bits]:.3f} | {latent[LOO log probability]:.2f} |
| Platt's targets, the default | {platt[errors]} | {platt[bits]:.3f} | \
{platt[LOO log probability]:.2f} |
| plain least squares | {least[errors]} | | |

The errors are the book's; its bits are not those of the optimum of (6.42). One test case (index
{noise[worst]}, log10 p = {noise[its log10 p]:.1f}) costs much: without it the bits are
{noise[bits without the worst]:.3f}. All ten digits, one against the rest, plain least squares:
{ten[errors]} errors of {ten[tests]}.
"""


def figures(
    inference: str,
    table: tuple[np.ndarray, ...],
    loss: str = "probit",
    scales: np.ndarray = SCALES,
    amplitudes: np.ndarray = AMPLITUDES,
) -> dict[str, list[list[float]]]:
    """Return the three quantities over the grid, rows by amplitude."""
    X, y, X_test, y_test = table
    found: dict[str, list[list[float]]] = {key: [] for key in KEYS}
    for amplitude in amplitudes:
        lines: dict[str, list[float]] = {key: [] for key in KEYS}
        for scale in scales:
            kernel = float(np.exp(2.0 * amplitude)) * RBF(length_scale=float(np.exp(scale)))
            model = GPClassifier(
                kernel, loss=loss, inference=inference, search=None, standardize=False
            ).fit(X, y)
            one = usps_3v5.scores(model.predict_log_proba(X_test), y_test, model.classes_, y)
            one["log evidence"] = model.log_evidence_
            for key in KEYS:
                lines[key].append(round(float(one[key]), 5))
        for key in KEYS:
            found[key].append(lines[key])
        print(inference, f"{amplitude:.2f}", lines["log evidence"], flush=True)
    return found


def tops(stored: dict[str, Any]) -> list[str]:
    """Lines of the table: where each evidence is largest, and what holds there."""
    lines = []
    for method in (one for one in METHODS if one in stored):
        evidence, bits, errors = (np.array(stored[method][key]) for key in KEYS)
        i, j = np.unravel_index(evidence.argmax(), evidence.shape)
        name = {"laplace": "Laplace", "ep": "expectation propagation"}[method]
        lines.append(
            f"| {name} | {evidence[i, j]:.2f} | {stored['scales'][j]:.2f} "
            f"| {stored['amplitudes'][i]:.2f} | {bits[i, j]:.3f} | {bits.max():.3f} "
            f"| {errors[i, j]:.0f} | {errors.min():.0f} |"
        )
    return lines


def draw(stored: dict[str, Any], path: str) -> None:
    """Save the contours: a row for each method, a column for each quantity."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    levels = {
        "log evidence": [-200, -170, -150, -130, -115, -105, -100, -97, -95, -93, -91],
        "bits": [0.2, 0.4, 0.6, 0.7, 0.75, 0.8, 0.84, 0.86, 0.88, 0.9],
        "errors": [16, 18, 20, 22, 25, 30, 40, 60, 100],
    }
    x, y = stored["scales"], stored["amplitudes"]
    fig, axes = plt.subplots(2, 3, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
    for row, method in zip(axes, METHODS, strict=True):
        evidence = np.array(stored[method]["log evidence"])
        i, j = np.unravel_index(evidence.argmax(), evidence.shape)
        for ax, (key, title) in zip(row, KEYS.items(), strict=True):
            lines = ax.contour(x, y, stored[method][key], levels[key], cmap="viridis", linewidths=1)
            ax.clabel(lines, fontsize=6, fmt="%g")
            ax.plot(x[j], y[i], "ko", ms=4)
            ax.set_title(f"{'Laplace' if method == 'laplace' else 'EP'}: {title}", fontsize=9)
        row[0].set_ylabel("log amplitude")
    for ax in axes[-1]:
        ax.set_xlabel("log length scale")
    _picture.save(fig, path)


def page(stored: dict[str, Any]) -> str:
    """The page of the documentation, with what the other two scripts have stored."""
    gpc, plsc = (
        json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("gpml_usps", "usps_3v5")
    )
    machines = [
        f"| {name} | {one['errors']} | {one['bits']:.3f} | {one['log evidence']:.2f} "
        f"| {one['log length scale']:.3f} | {one['log amplitude']:.3f} |"
        for name, one in gpc.items()
        if "log evidence" in one
    ]
    known = {
        "tests": plsc["noise"]["tests"],
        "count": len(stored["scales"]) * len(stored["amplitudes"]),
        "tops": "\n".join(tops(stored)),
        "machines": "\n".join(machines),
        "least": plsc["least squares"],
        "ten": plsc["ten digits"],
    }
    return PAGE.format_map(known | plsc)


def finished(parser: argparse.ArgumentParser, arguments: list[str] | None) -> argparse.Namespace:
    """Return what is asked of a script of contours, its own options and those of all."""
    parser.add_argument("--json", help="where to store the grid")
    parser.add_argument("--no-run", action="store_true", help="take the stored grid")
    parser.add_argument("--out", help="where to save the picture")
    parser.add_argument("--page", help="write the page of the documentation")
    return parser.parse_args(arguments)


def publish(
    stored: dict[str, Any],
    given: argparse.Namespace,
    draw: Callable[[dict[str, Any], str], None],
    page: Callable[[dict[str, Any]], str],
) -> int:
    """Print the tops of a grid; store it, draw it and write its page where that is asked for."""
    print("\n".join(tops(stored)))
    if given.json:
        _store.write(given.json, stored)
    if given.out:
        draw(stored, given.out)
    if given.page:
        Path(given.page).write_text(page(stored), encoding="utf-8")
    return 0


def main(arguments: list[str] | None = None) -> int:
    """Compute the grid or take the stored one; store, draw, write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, help="use only the first rows of the training set")
    given = finished(parser, arguments)
    if given.no_run:
        stored = json.loads(STORED.read_text(encoding="utf-8"))
    else:
        X, y, X_test, y_test = usps_3v5.read("usps_3v5")
        table = (X[: given.rows], y[: given.rows], X_test, y_test)
        with threadpool_limits(limits=1):
            stored = {method: figures(method, table) for method in METHODS}
        stored |= {"scales": SCALES.tolist(), "amplitudes": AMPLITUDES.tolist()}
    return publish(stored, given, draw, page)


if __name__ == "__main__":
    sys.exit(main())
