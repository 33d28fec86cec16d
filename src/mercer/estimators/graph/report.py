"""What machines on graphs say of themselves."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Index
from mercer.estimators.shared.summary import Summary
from mercer.kernels.base import Kernel
from mercer.linalg.graph import Graph


def told(graph: Graph, n: int) -> dict[str, Any]:
    """Return what ``report_`` says of the graph of a batch with n distinct rows."""
    return {
        "vertices": n,
        "edges": graph.edges,
        "n_neighbors": graph.n_neighbors,
        "heat": graph.heat,
    }


class GraphReport:
    """The summary of a machine that has learned from partly labelled rows."""

    classes_: NDArray[Any]
    kernel_: Kernel
    support_: Index
    report_: dict[str, Any]
    n_features_in_: int

    def summary(self) -> Summary:
        """Return what was learned, in words; readable as text and as HTML."""
        check_is_fitted(self, "support_vectors_")
        report = self.report_
        lines = [
            ("Data", "columns", str(self.n_features_in_)),
            ("Data", "classes", ", ".join(str(label) for label in self.classes_)),
        ]
        if "labelled" in report:
            graph = report["graph"]
            rows = f"{graph['vertices']} distinct, {report['labelled']} labels"
            heat = "infinite: weights of one" if graph["heat"] is None else f"{graph['heat']:.4g}"
            lines += [
                ("Data", "rows of the last batch", rows),
                ("Data", "graph", f"{graph['edges']} edges, {graph['n_neighbors']} neighbours"),
                ("Data", "heat", heat),
            ]
        if report.get("waiting"):
            lines.append(("Data", "rows that wait for a graph", str(report["waiting"])))
        lines += [
            ("Model", "kernel", repr(self.kernel_)),
            ("Model", "points kept", str(len(self.support_))),
        ]
        if "labelled" in report:
            slack = "no labels" if report["C"] is None else f"{report['C']:.6g}"
            lines += [("Model", "C", slack), ("Model", "beta", f"{report['beta']:.6g}")]
        if "memory" in report:
            lines.append(("Model", "memory", _memory(report["memory"])))
        if "slack" in report:
            lines.append(("Model", "slack", report["slack"]))
        ended = "converged" if report["converged"] else "not converged"
        lines.append(("Numerics", "last batch", f"{ended} in {report['iterations']} steps"))
        return Summary(type(self).__name__, tuple(lines))


def _memory(kept: dict[str, Any]) -> str:
    if kept["form"] == "exact":
        return f"exact, {kept['points']} rows"
    residual = f"{kept['support']} support vectors" if kept["residual"] else "no residual"
    gone = f", {kept['let go']} more let go" if kept["let go"] else ""
    return f"{kept['landmarks']} landmarks, {residual}{gone}"
