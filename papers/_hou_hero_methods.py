"""The machines of the three figures: each turns a stream into an accuracy for every batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _hou_hero_averaged import averaged
from _hou_hero_data import Stream

import mercer
from mercer import SVC, MEDClassifier
from mercer.kernels import RBF, TFIDF

Accuracies = list[float | None]


@dataclass(frozen=True)
class Method:
    """A machine; ``wanted`` are the batches (from 1) after which it is trained, None for all."""

    title: str
    run: Callable[[Stream, set[int]], Accuracies]
    wanted: tuple[int, ...] | None = None

    def accuracies(self, stream: Stream) -> Accuracies:
        every = range(1, len(stream.batches) + 1)
        return self.run(stream, set(every if self.wanted is None else self.wanted))


def partly(y: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Labels as floats, NaN where they are not known."""
    return np.where(known, y.astype(float), np.nan)


def sequence(make: Callable[[Stream], Any], **each: Callable[[int], Any]) -> Callable[..., Any]:
    """One machine that learns the labelled rows of batch after batch; ``each`` sets parameters."""

    def run(stream: Stream, wanted: set[int]) -> Accuracies:
        model, found = make(stream), []
        for t in range(1, len(stream.batches) + 1):
            model.set_params(**{name: value(t) for name, value in each.items()})
            model.partial_fit(*stream.labelled(t - 1), classes=[-1, 1])
            found.append(stream.accuracy(model) if t in wanted else None)
        return found

    return run


def graph_sequence(**options: Any) -> Callable[..., Any]:
    """Sequential LapMED on batches with their unlabelled rows."""

    def run(stream: Stream, wanted: set[int]) -> Accuracies:
        model, found = mercer.LapMEDClassifier(**options), []
        for t, (X, y, known) in enumerate(stream.batches, 1):
            model.partial_fit(X, partly(y, known), classes=[-1.0, 1.0])
            found.append(stream.accuracy(model) if t in wanted else None)
        return found

    return run


def each(
    make: Callable[[Stream, int], Any], *, whole: bool, graph: bool = False
) -> Callable[..., Any]:
    """A machine trained afresh after every batch, on it alone or on the ``whole`` stream so far."""

    def run(stream: Stream, wanted: set[int]) -> Accuracies:
        found: Accuracies = []
        for t in range(1, len(stream.batches) + 1):
            if t not in wanted:
                found.append(None)
                continue
            X, y, known = stream.until(t - 1) if whole else stream.batches[t - 1]
            given = (X, partly(y, known)) if graph else (X[known], y[known])
            found.append(stream.accuracy(make(stream, t).fit(*given)))
        return found

    return run


def counts(stream: Stream) -> TFIDF:
    """The kernel of the counts, its frequencies those of the first batch."""
    return TFIDF().frozen(stream.batches[0][0])


def discriminate(C: float, amplitude: float, **options: Any) -> Callable[..., Any]:
    return sequence(
        lambda s: MEDClassifier(
            C, amplitude=amplitude, kernel=TFIDF(), **{"schedule": "constant", **options}
        )
    )


SOFT = {1: 1.0, 2: 1.0, 5: 0.3, 10: 0.3, 20: 0.1, 30: 0.1}  # C of full retraining, tuned for each t
COLUMNS = {
    "1": (1, 2, 3, 5, 7, 10, 15, 20, 25, 30),
    "2": (1, 2, 3, 5, 10, 15),
    "3": (1, 2, 3, 5, 8, 12, 16, 20, 24),
}


def simulation_1() -> dict[str, Method]:
    def soft(stream: Stream, t: int) -> SVC:
        return SVC(SOFT[t], kernel=counts(stream), tol=1e-4)

    def hard(stream: Stream, t: int) -> SVC:
        return SVC(1.0, kernel=counts(stream), tol=1e-4)

    falling = sequence(
        lambda s: MEDClassifier(300.0, amplitude=0.01, kernel=TFIDF(), schedule="constant"),
        C=lambda t: max(300.0 / t, 1.1),
    )
    return {
        "svm": Method("SVM, current batch, C = 1", each(hard, whole=False)),
        "med-1": Method("SeqMED, amplitude 1, C = 1.1", discriminate(1.1, 1.0)),
        "med-1-median": Method(
            "same, the paper's bias, C = 5", discriminate(5.0, 1.0, bias_rule="median")
        ),
        "med-constant": Method("SeqMED, amplitude 0.01, C = 50", discriminate(50.0, 0.01)),
        "med": Method(
            "SeqMED, amplitude 0.01, C = 100/sqrt(t) (the default)",
            discriminate(100.0, 0.01, schedule="sqrt"),
        ),
        "med-t": Method("SeqMED, amplitude 0.01, C = 300/t", falling),
        "full": Method("Full SVM, retrained, C = 1", each(hard, whole=True), COLUMNS["1"]),
        "full-soft": Method("Full SVM, C chosen for each t", each(soft, whole=True), tuple(SOFT)),
    }


def simulation_2(heat: float) -> dict[str, Method]:
    near = heat < 0.02  # the paper's heat: there other parameters were best
    graph: dict[str, Any] = {"kernel": RBF(1.0), "n_neighbors": 20, "heat": heat}

    def lap(C: float, beta: float) -> Callable[[Stream, int], Any]:
        return lambda s, t: mercer.LapSVC(C, beta=beta, **graph)

    def landmarks(m: int, C: float, beta: float) -> Method:
        title = f"SeqLapMED, {m} landmarks, C = {C:g}, beta = {beta:g}"
        run = graph_sequence(
            C=C, beta=beta, budget=0, landmarks=m, max_landmarks=m, residual=False, **graph
        )
        return Method(title, run)

    def section_3_2(reading: str, C: float, beta: float) -> Method:
        title = f"the paper's section 3.2 ({reading}), C = {C:g}, beta = {beta:g}"
        return Method(title, averaged(reading=reading, C=C, beta=beta, **graph))

    C = 100.0 if near else 30.0
    return {
        "svm": Method(
            "SVM, labelled rows of the current batch, C = 30",
            each(lambda s, t: SVC(30.0, kernel=RBF(1.0), tol=1e-4), whole=False),
        ),
        "lap": Method(
            "LapSVM, current batch, C = 100, beta = 10",
            each(lap(100.0, 10.0), whole=False, graph=True),
        ),
        "med": Method(
            "SeqMED (beta = 0), C = 3",
            sequence(
                lambda s: MEDClassifier(3.0, amplitude=1.0, kernel=RBF(1.0), schedule="constant")
            ),
        ),
        "exact": Method(
            "SeqLapMED, exact, C = 30, beta = 10",
            graph_sequence(C=30.0, beta=10.0, budget=None, **graph),
        ),
        "landmarks-20": landmarks(20, *((10.0, 1.0) if near else (30.0, 10.0))),
        "landmarks-60": landmarks(60, 30.0, 10.0),
        "averaged-smallest": section_3_2("smallest", 30.0, 10.0),
        "averaged-largest": section_3_2("largest", *((3.0, 0.1) if near else (30.0, 10.0))),
        "averaged-moment": section_3_2("moment", *((3.0, 1.0) if near else (30.0, 10.0))),
        "full": Method(
            f"Full LapSVM, retrained, C = {C:g}, beta = 10",
            each(lap(C, 10.0), whole=True, graph=True),
            COLUMNS["2"],
        ),
    }


def isolet() -> dict[str, Method]:
    kernel = RBF(10.0)
    graph: dict[str, Any] = {"kernel": kernel, "n_neighbors": 10, "heat": np.inf, "C": 100.0}

    def svc(stream: Stream, t: int) -> SVC:
        return SVC(10.0, kernel=kernel, tol=1e-4)

    def landmarks(m: int, residual: bool) -> Method:
        title = f"SeqLapMED, {m} landmarks, {'with' if residual else 'without'} residual, beta 0.5"
        run = graph_sequence(
            beta=0.5, budget=0, landmarks=m // 24, max_landmarks=m, residual=residual, **graph
        )
        return Method(title, run)

    def section_3_2(reading: str) -> Method:
        title = f"the paper's section 3.2 ({reading}), beta 0.5"
        return Method(title, averaged(reading=reading, beta=0.5, **graph))

    return {
        "svm": Method("SVM, labelled rows of the current batch, C = 10", each(svc, whole=False)),
        "med": Method(
            "SeqMED, labelled rows only, C = 10",
            sequence(
                lambda s: MEDClassifier(10.0, amplitude=1.0, kernel=kernel, schedule="constant")
            ),
        ),
        "full-svm": Method(
            "Full SVM, labelled rows only, C = 10", each(svc, whole=True), COLUMNS["3"]
        ),
        "lap": Method(
            "LapSVM, current batch, beta 0.5",
            each(lambda s, t: mercer.LapSVC(beta=0.5, **graph), whole=False, graph=True),
        ),
        "exact": Method(
            "SeqLapMED, exact, beta 0.5", graph_sequence(beta=0.5, budget=None, **graph)
        ),
        "exact-4.5": Method(
            "SeqLapMED, exact, beta 4.5", graph_sequence(beta=4.5, budget=None, **graph)
        ),
        "landmarks-480": landmarks(480, True),
        "landmarks-1920": landmarks(1920, True),
        "landmarks-1920-plain": landmarks(1920, False),
        "averaged-smallest": section_3_2("smallest"),
        "averaged-moment": section_3_2("moment"),
        "full": Method(
            "Full LapSVM, retrained, beta 0.5",
            each(lambda s, t: mercer.LapSVC(beta=0.5, **graph), whole=True, graph=True),
            COLUMNS["3"],
        ),
        "full-4.5": Method(
            "Full LapSVM, retrained, beta 4.5",
            each(lambda s, t: mercer.LapSVC(beta=4.5, **graph), whole=True, graph=True),
            COLUMNS["3"],
        ),
    }


FIGURES: dict[str, Callable[[], dict[str, Method]]] = {
    "1": simulation_1,
    "2": lambda: simulation_2(0.05),
    "2h": lambda: simulation_2(0.01),
    "3": isolet,
}
