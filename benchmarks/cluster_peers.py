"""Classifiers from parquet files beside scikit-learn's SGDClassifier on Nystroem features.

Two tasks: labels whose log odds are known, so that the least log loss is known too, and the protein
table (is the deviation above its median?), 40 000 rows of it drawn again and again with noise of a
tenth of a deviation in each column; its test rows are as they were. Every machine has 500 points.

- GPClassifier(inference="variational") learns its kernel from a sample, then passes over all rows.
- SVC on landmarks, and KernelClassifier with its logistic loss, take the kernel that a GPClassifier
  has learned from 5000 rows, whose time is theirs; probabilities are a sigmoid of the margins,
  fitted to 20 000 rows that were held out.
- SGDClassifier, logistic loss, averaged, reads the same blocks, turns them into the features of
  Nystroem and goes on for as much CPU time as mercer's machine took. The best of four penalties in
  hindsight counts, each as if it were alone, with probabilities of its own or of the same sigmoid,
  whichever is better. It runs with three kernels: the width of scikit-learn's default; the best of
  seven widths on 5000 rows, a quarter of them held out, a search whose time is its own; and the
  kernel that mercer learned, a width for each column, which it is given for nothing. The first two
  are what its user has, and are raced; the third shows how much of the difference is the kernel.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from cluster import GROUP, M, drawn, logits, used, written
from measure import Row, in_fresh_process, table

TEST, HELD = 20_000, 20_000  # rows that judge, rows of the sigmoid
FEW = 5000  # rows that a kernel is learned from, for machines that do not learn theirs
ALPHAS = (1e-7, 1e-6, 1e-5, 1e-4)
GAMMAS = tuple(4.0**k for k in range(-4, 3))  # the widths of a search, as shares of the default
TURNS = 10  # epochs over the sample of that search
NOISE = 0.1  # of a deviation, of what is drawn again
MACHINES = {
    "gpc": "GPClassifier, variational",
    "svc": "SVC, landmarks, sigmoid",
    "logistic": "KernelClassifier, logistic, landmarks, sigmoid",
}


# ---------------------------------------------------------------------- the two tasks
def synthetic(folder: Path, n: int) -> dict[str, Any]:
    """Write n rows of known odds, and others; return the least log loss there is."""
    written(folder / "train.parquet", n)
    (X, _, y), (V, _, v) = drawn(TEST, 10**6), drawn(HELD, 10**6 + 1)
    np.savez(folder / "new.npz", X=X, y=y, V=V, v=v)
    p = 1.0 / (1.0 + np.exp(-logits(X.astype(np.float64))))
    return {"bayes": float(np.mean(-np.where(y == 1, np.log(p), np.log1p(-p))))}


def enlarged(folder: Path, n: int) -> dict[str, Any] | None:
    """Write n rows that are rows of the protein table with noise, or say that there is none."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = os.environ.get("MERCER_DATA")
    path = None if data is None else Path(data) / "protein" / "protein.npz"
    if path is None or not path.exists():
        return None
    with np.load(path) as held:
        X, y = np.asarray(held["X"], dtype=float), np.ravel(held["y"])
    rng = np.random.default_rng(0)
    order = rng.permutation(len(X))
    few, test = order[:40_000], order[40_000:]
    X = (X - X[few].mean(axis=0)) / X[few].std(axis=0)
    label = (y > np.median(y[few])).astype(np.int8)
    own, new = few[2500:], few[:2500]  # the sigmoid has rows of its own
    np.savez(folder / "new.npz", X=X[test], y=label[test], V=X[new], v=label[new])
    writer = None
    for start in range(0, n, GROUP):
        rows = own[rng.integers(len(own), size=min(GROUP, n - start))]
        noisy = (X[rows] + NOISE * rng.normal(size=(len(rows), X.shape[1]))).astype(np.float32)
        held = {f"x{j}": noisy[:, j] for j in range(X.shape[1])} | {"label": label[rows]}
        part = pa.table(held)
        writer = writer or pq.ParquetWriter(folder / "train.parquet", part.schema)
        writer.write_table(part, row_group_size=GROUP)
    assert writer is not None
    writer.close()
    return {}


# ---------------------------------------------------------------------- machines, each in a process
def log_loss(p: np.ndarray, y: np.ndarray) -> float:
    """Return the mean of -log p(y)."""
    return float(np.mean(-np.log(np.where(y == 1, p, 1.0 - p))))


def sigmoid(f: np.ndarray, y: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return probabilities at margins ``new`` by a sigmoid of the margins f of rows held out."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=1e6).fit(f[:, None], y).predict_proba(new[:, None])[:, 1]


def judged(f: Any, held: Any) -> float:
    """Return the log loss on test rows of margins that ``f`` returns, through the sigmoid."""
    return log_loss(sigmoid(f(held["V"]), held["v"], f(held["X"])), held["y"])


def mercers(name: str, folder: Path) -> dict[str, Any]:
    """Fit one of mercer's machines to the file; CPU seconds, log loss, the length scales."""
    import pyarrow.parquet as pq

    from mercer import SVC, BlockTable, GPClassifier, KernelClassifier
    from mercer.kernels import RBF
    from mercer.linalg import Inducing

    file, held = folder / "train.parquet", np.load(folder / "new.npz")
    columns = [c for c in pq.read_schema(file).names if c.startswith("x")]
    blocks, d = BlockTable(file, "label", columns=columns, workers=1), len(columns)
    start, gram = 1.0 * RBF(np.full(d, d**0.5)), Inducing(m=M, move=False)
    begin = used()
    if name == "gpc":
        model = GPClassifier(start, inference="variational", gram=gram, random_state=0).fit(blocks)
        spent = used() - begin
        loss = log_loss(model.predict_proba(held["X"].astype(float))[:, 1], held["y"])
        kernel = model.kernel_
    else:
        first = next(pq.ParquetFile(file).iter_batches(FEW)).to_pandas()
        rows, labels = first[columns].to_numpy(float), first["label"].to_numpy()
        few = Inducing(m=M, move=False, max_iter=0)  # the kernel alone, as for the one on blocks
        given = {"inference": "variational", "gram": few, "random_state": 0}
        kernel = GPClassifier(start, **given).fit(rows, labels).kernel_
        shape = RBF(kernel.kernel.length_scale)
        if name == "svc":
            model = SVC(C=1.0, kernel=shape, gram=Inducing(m=M))
        else:
            model = KernelClassifier(kernel, C=1.0, loss="logistic", gram=Inducing(m=M))
        model.fit(blocks)
        spent = used() - begin
        loss = judged(lambda X: np.ravel(model.decision_function(X.astype(float))), held)
    scales = np.asarray(kernel.kernel.length_scale).tolist()
    told = {"passes": model.report_["blocks"]["passes"]}
    return {"cpu": spent, "loss": loss, "scales": scales, "quality": told}


def machines_of_sgd() -> dict[float, Any]:
    """Return a fresh SGDClassifier for each penalty."""
    from sklearn.linear_model import SGDClassifier

    given = {"loss": "log_loss", "average": True, "random_state": 0}
    return {alpha: SGDClassifier(alpha=alpha, **given) for alpha in ALPHAS}


def searched(X: np.ndarray, y: np.ndarray) -> float:
    """Return the gamma of the least log loss on the last quarter of these rows."""
    from sklearn.kernel_approximation import Nystroem

    least, cut = {}, 3 * len(X) // 4
    for share in GAMMAS:
        gamma = share / X.shape[1]
        F = Nystroem(gamma=gamma, n_components=min(M, cut), random_state=0).fit(X[:cut])
        train, test = F.transform(X[:cut]), F.transform(X[cut:])
        for alpha, model in machines_of_sgd().items():
            model.set_params(max_iter=TURNS, tol=None).fit(train, y[:cut])
            p = np.clip(model.predict_proba(test)[:, 1], 1e-15, 1 - 1e-15)
            least[gamma, alpha] = log_loss(p, y[cut:])
    return min(least, key=lambda found: least[found])[0]


def descended(folder: Path, seconds: float, kernel: str | list[float]) -> dict[str, Any]:
    """Run SGD on Nystroem features for so many CPU seconds; the best of the penalties.

    ``kernel`` is "default", "searched", or the length scales of the columns.
    """
    import pyarrow.parquet as pq
    from sklearn.kernel_approximation import Nystroem

    file, held = pq.ParquetFile(folder / "train.parquet"), np.load(folder / "new.npz")
    columns = [c for c in file.schema_arrow.names if c.startswith("x")]
    classes, d = np.array([0, 1]), len(columns)
    divide = np.ones(d) if isinstance(kernel, str) else np.array(kernel)
    gamma = 1.0 / d if isinstance(kernel, str) else 0.5
    models = machines_of_sgd()
    spent, features, epochs, rows = dict.fromkeys(ALPHAS, 0.0), None, 0.0, 0
    begin, rng = used(), np.random.default_rng(0)
    while max(spent.values()) < seconds:
        for group in rng.permutation(file.num_row_groups):
            block = file.read_row_group(group, use_threads=False).to_pandas()
            X = block[columns].to_numpy(np.float64) / divide
            y = block["label"].to_numpy()
            order = rng.permutation(len(X))
            if features is None:
                if kernel == "searched":
                    gamma = searched(X[:FEW], y[:FEW])
                features = Nystroem(gamma=gamma, n_components=M, random_state=0).fit(X[:FEW])
            F = features.transform(X[order])
            shared, rows = used() - begin, rows + len(X)
            for alpha, model in models.items():
                begin = used()
                model.partial_fit(F, y[order], classes=classes)
                spent[alpha] += shared + used() - begin
            begin = used()
            if min(spent.values()) >= seconds:
                break
    assert features is not None
    new, other = (features.transform(held[name].astype(float) / divide) for name in "XV")
    losses = {}
    for alpha, model in models.items():
        own = log_loss(np.clip(model.predict_proba(new)[:, 1], 1e-15, 1 - 1e-15), held["y"])
        p = sigmoid(model.decision_function(other), held["v"], model.decision_function(new))
        losses[alpha] = min(own, log_loss(p, held["y"]))
    best = min(losses, key=lambda alpha: losses[alpha])
    epochs = rows / file.metadata.num_rows
    found = {"cpu": spent[best], "loss": losses[best], "alpha": best, "epochs": epochs}
    return found | {"gamma d": gamma * d}


# ---------------------------------------------------------------------- rows of the table
def accuracy_rows(n: int, machines: tuple[str, ...] = tuple(MACHINES)) -> list[Row]:
    """Log loss at equal CPU time, on both tasks."""
    rows: list[Row] = []
    for task, write in {"known odds": synthetic, "protein, enlarged": enlarged}.items():
        what = f"{task}, n = {n}, m = {M}"
        with tempfile.TemporaryDirectory() as name:
            facts = write(Path(name), n)
            if facts is None:
                rows.append(Row(what, "mercer", note="MERCER_DATA has no protein table"))
                continue
            if "bayes" in facts:
                rows.append(Row(what, "the truth", facts["bayes"], "nats"))
            for key in machines:
                rows += _beside(what, key, name)
    return rows


def _beside(what: str, key: str, folder: str) -> list[Row]:
    """Return a machine of mercer's, and SGD with the same time and each of its kernels."""
    mine = in_fresh_process(["cluster_peers.py", "mercer", key, folder])
    who = MACHINES[key]
    rows = [Row(what, who, mine["loss"], "nats", "", mine["cpu"], mine["quality"])]
    kernels = {"default width": "default", "width of its own search": "searched"}
    kernels["mercer's kernel"] = mine["scales"]
    found = {}
    for kernel, asked in kernels.items():
        given = [folder, str(mine["cpu"]), json.dumps(asked)]
        one = found[kernel] = in_fresh_process(["cluster_peers.py", "sgd", *given])
        quality = {name: one[name] for name in ("alpha", "epochs", "gamma d")}
        peer = f"SGDClassifier, Nystroem, {kernel}, time of {who.partition(',')[0]}"
        rows.append(Row(what, peer, one["loss"], "nats", "", one["cpu"], quality))
    for kernel, one in found.items():
        less = one["loss"] - mine["loss"]
        # the kernel is most of the work: whoever is given it for nothing is shown, not raced
        bar = "" if kernel == "mercer's kernel" else ">= 0"
        rows.append(Row(what, f"{who}: ahead of SGD, {kernel}", less, "nats", bar))
    print(table(rows), file=sys.stderr, flush=True)  # the next one takes many minutes
    return rows


if __name__ == "__main__":
    if sys.argv[1] == "mercer":
        print(json.dumps(mercers(sys.argv[2], Path(sys.argv[3]))))
    else:
        place, seconds, kernel = sys.argv[2:]
        print(json.dumps(descended(Path(place), float(seconds), json.loads(kernel))))
