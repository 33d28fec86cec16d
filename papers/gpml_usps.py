"""Gaussian process classification of USPS digits, 3 against 5: Laplace and EP beside PLSC.

The task of Rasmussen & Williams, Gaussian Processes for Machine Learning, section 3.7.3: 767
training and 773 test cases, isotropic squared exponential kernel, its variance and length scale by
the log evidence. Errors and information in bits, beside least-squares classification with a sigmoid
(PLSC, section 6.5.1: 12 errors and 0.77 bits in the book).

    MERCER_DATA=<folder> python papers/gpml_usps.py [--restarts 3]

The variance of EP has no maximum: with the length scale fixed only the sign of f matters once it is
large, and the search ends at its bound e^9 (log evidence -90.15; -90.12 at 1e9).

Bits are mean log2 p(label) on the test set plus the entropy of the training labels: 1 is perfect,
0 is knowing the class frequencies alone.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import _store
import numpy as np
import usps_3v5
from threadpoolctl import threadpool_limits

from mercer import GPClassifier
from mercer.kernels import RBF
from mercer.search import Optimize

START = 10.0  # length scale; the pixels are between -1 and 1, 256 of them
METHODS = {  # inference and loss
    "Laplace, logistic": ("laplace", "logistic"),
    "Laplace, probit": ("laplace", "probit"),
    "EP, probit": ("ep", "probit"),
    "variational, logistic": ("variational", "logistic"),
    "variational, normalised hinge": ("variational", "normalized_hinge"),
}


def gpc(inference: str, loss: str, restarts: int, table: tuple[np.ndarray, ...]) -> dict[str, Any]:
    """Fit on the training part, score on the test part."""
    X, y, X_test, y_test = table
    model = GPClassifier(
        10.0 * RBF(length_scale=START),
        loss=loss,
        inference=inference,
        search=Optimize(restarts=restarts),
        standardize=False,
        random_state=0,
    ).fit(X, y)
    found = usps_3v5.scores(model.predict_log_proba(X_test), y_test, model.classes_, y)
    found["log evidence"] = model.log_evidence_
    found["log length scale"] = float(np.log(model.kernel_.kernel.length_scale))
    found["log amplitude"] = 0.5 * float(np.log(model.kernel_.variance))
    search = model.report_["search"]
    if search["at_bounds"]:
        print("at a bound, beyond which the evidence is all but flat:", *search["at_bounds"])
    return found | {"evaluations": search["evaluations"]}


def main(given: list[str] | None = None) -> dict[str, Any]:
    """Run the experiment and print it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--restarts", type=int, default=3, help="random starts besides the first")
    parser.add_argument("--rows", type=int, help="use only the first rows of the training set")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args(given)
    found = {}
    X, y, X_test, y_test = usps_3v5.read("usps_3v5")
    table = (X[: options.rows], y[: options.rows], X_test, y_test)
    with threadpool_limits(limits=1):
        for title, (inference, loss) in METHODS.items():
            start = time.process_time()
            figures = gpc(inference, loss, options.restarts, table)
            took = time.process_time() - start
            found[title] = usps_3v5.show(f"mercer, {title}", figures, len(y_test), took)
        start = time.process_time()
        figures = usps_3v5.plsc(False, options.restarts, table)
        took = time.process_time() - start
        found["PLSC"] = usps_3v5.show("mercer, PLSC", figures, len(y_test), took)
    book = usps_3v5.BOOK
    print(f"book, PLSC: {book['errors']}/773 errors (1.55 %), bits {book['bits']}")
    if options.json:
        _store.write(options.json, found)
    return found


if __name__ == "__main__":
    main()
