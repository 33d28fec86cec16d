"""``mercer stream``: figures, checkpoints, interrupts, and refusals with file and line."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.app.streams import COMMAND, batches_of, folder, lines, run, table, text

import mercer
from mercer.app.main import main
from mercer.app.stream import learner as stream_learner
from mercer.app.stream import session as stream_session

__all__ = ["folder"]  # a fixture: pytest finds it by its name here


# ---------------------------------------------------------------------- what is learned
@pytest.mark.parametrize("rho", [1.0, 0.9])
def test_the_learner_and_the_figures_are_those_of_partial_fit(folder, capsys, rho):
    arguments = ["1.csv", "2.csv", "-t", "y", "--batch", 40, "--budget", 50, "-o", "m.mercer"]
    code, out, err = run(capsys, *arguments, "--forget", rho, "--json")
    assert (code, err) == (0, "")
    model = mercer.OnlineLogisticClassifier(budget=50, rho=rho)
    *told, end = lines(out)
    given = list(batches_of("1.csv", "2.csv", size=40))
    assert [len(y) for _, y in given] == [40, 40, 40, 10, 40, 30]
    for event, (X, y) in zip(told, given, strict=True):
        if event["batch"] > 1 and rho == 1.0:  # else the past is forgotten first
            p = model.predict_proba(X)
            code_of = np.searchsorted(model.classes_, y)
            assert event["error"] == pytest.approx(np.mean(p.argmax(axis=1) != code_of))
            log_loss = -np.log(p[np.arange(len(y)), code_of]).mean()
            assert event["log_loss"] == pytest.approx(log_loss, rel=1e-9)
        model.partial_fit(X, y, classes="grow")  # others may come
    assert told[0]["log_loss"] == pytest.approx(np.log(2))
    assert end["error"] == pytest.approx(1 - model.prequential_.accuracy, abs=1e-12)
    assert end["log_loss"] == pytest.approx(model.prequential_.log_loss, rel=1e-12)
    assert (end["rows"], end["batches"], end["points"]) == (200, 6, len(model.stream_.points))
    X, _ = table(20, 9)
    written = mercer.load("m.mercer")
    assert written.feature_names_in_.tolist() == ["a", "b"]
    with pytest.warns(UserWarning, match="feature names"):
        np.testing.assert_array_equal(written.predict_proba(X), model.predict_proba(X))


def test_discrimination_stands_behind_a_scaler_and_predicts(folder, capsys):
    arguments = ["1.csv", "2.csv", "-t", "y", "--batch", 50, "--learner", "med", "--json"]
    code, out, _ = run(capsys, *arguments, "-o", "m.mercer")
    assert code == 0
    given = list(batches_of("1.csv", "2.csv", size=50))
    scale = StandardScaler().fit(given[0][0])
    model = mercer.MEDClassifier(calibration="sigmoid")
    for event, (X, y) in zip(lines(out), given, strict=False):
        Z = scale.transform(X)
        if event["batch"] == 1:
            assert event["error"] is None
        else:
            assert event["error"] == np.mean(model.predict(Z) != y)
            p = model.predict_proba(Z)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
            assert event["log_loss"] == pytest.approx(-np.log(p).mean(), rel=1e-12)
        model.partial_fit(Z, y)
    assert main(["predict", "m.mercer", "1.csv", "-o", "p.csv"]) == 0
    header, *rows = (folder / "p.csv").read_text().splitlines()
    assert header == "prediction,p_different,p_same"
    expected = model.predict_proba(scale.transform(table(130, 130)[0]))
    found = np.array([row.split(",")[1:] for row in rows], dtype=float)
    np.testing.assert_array_equal(found, expected)
    capsys.readouterr()
    assert main(["info", "m.mercer"]) == 0
    out = capsys.readouterr().out
    assert "a, b" in out
    assert "batches: 5" in out


def test_rows_without_a_label_are_learned_from(folder, capsys):
    arguments = ["partly.csv", "-t", "y", "--learner", "lapmed", "--batch", 40, "-o", "m.mercer"]
    code, out, _ = run(capsys, *arguments, "--json")
    assert code == 0
    X, y = table(120, 5)
    labels = np.array([label if i % 4 == 0 else None for i, label in enumerate(y)], dtype=object)
    scale = StandardScaler().fit(X[:40])
    model = mercer.LapMEDClassifier()
    for event, i in zip(lines(out), (0, 40, 80), strict=False):
        part = slice(i, i + 40)
        Z, has = scale.transform(X[part]), np.arange(40) % 4 == 0
        if i:
            assert event["error"] == np.mean(model.predict(Z[has]) != y[part][has])
        assert event["log_loss"] is None
        model.partial_fit(Z, labels[part], classes=["same", "different"])
    written = mercer.load("m.mercer")
    score = written.steps[-1][1].decision_function(scale.transform(X))
    np.testing.assert_array_equal(score, model.decision_function(scale.transform(X)))


def test_whole_numbers_are_the_same_in_every_spelling(folder, capsys):
    polars = pytest.importorskip("polars")
    X, y = table(90, 3)
    code = (y == "same").astype(int)
    (folder / "a.csv").write_text(text(X[:30], code[:30]))
    (folder / "b.csv").write_text(text(X[30:60], [f"{c}.0" for c in code[30:60]]))
    frame = {"y": code[60:].astype(float), "b": X[60:, 1], "a": X[60:, 0]}
    polars.DataFrame(frame).write_parquet("c.parquet")
    code_, out, _ = run(
        capsys, "a.csv", "b.csv", "c.parquet", "-t", "y", "--json", "-o", "m.mercer"
    )
    assert code_ == 0
    assert lines(out)[-1]["classes"] == [0, 1]
    model = mercer.OnlineLogisticClassifier(budget=300)
    for part in (slice(0, 30), slice(30, 60), slice(60, 90)):
        model.partial_fit(X[part], code[part])
    written = mercer.load("m.mercer")
    assert written.classes_.tolist() == [0, 1]
    assert written.log_evidence_ == model.log_evidence_


@pytest.mark.parametrize("learner", ["logistic", "med"])
def test_columns_of_words(folder, capsys, learner):
    rng = np.random.default_rng(6)
    towns = rng.choice(["Ulm", "Rom", ""], 90)
    x = rng.normal(size=90) * 40
    y = np.where((x > 0) ^ (towns == "Rom"), "yes", "no")
    rows = [f"{t},{v!r},{c}" for t, v, c in zip(towns, x.tolist(), y, strict=True)]
    rows[70] = rows[70].replace(towns[70], "Oslo", 1) if towns[70] else "Oslo" + rows[70]
    (folder / "w.csv").write_text("\n".join(["town,x,y", *rows]) + "\n")
    (folder / "half.csv").write_text("\n".join(["town,x,y", *rows[:60]]) + "\n")
    arguments = ["-t", "y", "--batch", 30, "--json", "-o", "m.mercer", "--learner", learner]
    code, out, _ = run(capsys, "w.csv", *arguments)
    assert code == 0
    *told, end = lines(out)
    assert [len(e["notes"]) for e in told] == [0, 0, 1]
    assert "column 'town' has words that the first batch did not have" in told[2]["notes"][0]
    # the same by hand: x standardised by the first batch, three indicators in order
    kinds = np.array(["", "Rom", "Ulm"])
    towns[70] = "Oslo"[: towns.itemsize // 4]  # none of the three
    X = np.column_stack([(x - x[:30].mean()) / x[:30].std(), towns[:, None] == kinds])
    model = (
        mercer.OnlineLogisticClassifier(budget=300, standardize=False)
        if learner == "logistic"
        else mercer.MEDClassifier(calibration="sigmoid")
    )
    for i in range(0, 90, 30):
        model.partial_fit(X[i : i + 30], y[i : i + 30])
    assert main(["predict", "m.mercer", "w.csv", "-o", "p.csv"]) == 0
    found = [row.split(",")[1:] for row in (folder / "p.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(np.array(found, dtype=float), model.predict_proba(X), atol=1e-9)
    assert end["error"] < 0.5
    capsys.readouterr()
    again = [a if a != "m.mercer" else "n.mercer" for a in arguments]
    assert run(capsys, "half.csv", *again)[0] == 0
    code, _, err = run(capsys, "w.csv", *again, "--resume")
    assert (code, err) == (0, "")
    assert (folder / "n.mercer").read_bytes() == (folder / "m.mercer").read_bytes()


def test_texts_that_name_rows_are_refused(folder, capsys):
    rows = [f"name{i},{i % 7},{'yes' if i % 2 else 'no'}" for i in range(40)]
    (folder / "names.csv").write_text("\n".join(["who,x,y", *rows]) + "\n")
    code, _, err = run(capsys, "names.csv", "-t", "y")
    assert code == 1
    assert "column 'who' has 40 different texts in 40 rows, which name rows, not groups" in err
    assert run(capsys, "names.csv", "-t", "y", "--features", "x", "-q")[0] == 0


def test_text_for_readers(folder, capsys):
    code, out, _ = run(capsys, "1.csv", "-t", "y", "--batch", 65)
    head, first, second, closing = out.splitlines()
    assert code == 0
    assert head.split()[:3] == ["batch", "rows", "error"]
    assert first.split()[:2] == ["1", "65"]
    assert float(second.split()[2]) <= 0.5
    assert closing.startswith("130 rows in 2 batches; error before learning 0.")
    assert run(capsys, "1.csv", "-t", "y", "--quiet") == (0, "", "")
    assert sorted(os.listdir()) == ["1.csv", "2.csv", "partly.csv"]


def test_what_a_user_should_know_is_noted(folder, capsys):
    (folder / "one.csv").write_text("a,b,y\n1,2,same\n")
    arguments = ["one.csv", "1.csv", "-t", "y", "--classes", "same,different"]
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert out.splitlines()[-1].startswith("note: the first batch had one row")
    _, out, _ = run(capsys, *arguments, "--json")
    assert lines(out)[-1]["notes"][0].startswith("the first batch had one row")

    def warned(self, rows):
        warnings.warn("take care", UserWarning, stacklevel=1)
        return learn(self, rows)

    learn = stream_learner.Learner.learn
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_learner.Learner, "learn", warned)
        _, out, _ = run(capsys, "1.csv", "-t", "y", "--batch", 40)
        assert out.count("note: take care") == 1
        _, out, _ = run(capsys, "1.csv", "-t", "y", "--batch", 40, "--json")
    assert [e["notes"] for e in lines(out)] == [["take care"]] * 4 + [[]]


# ---------------------------------------------------------------------- going on
LEARNERS = {
    "logistic": ["--budget", "40", "--drift", "auto"],
    "med": ["--learner", "med"],
    "lapmed": ["--learner", "lapmed", "--budget", "60"],
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_stream_that_was_interrupted_goes_on_bit_for_bit(folder, capsys, monkeypatch, learner):
    arguments = ["1.csv", "2.csv", "-t", "y", "--batch", "20", *LEARNERS[learner], "--json"]
    code, out, _ = run(capsys, *arguments, "-o", "whole.mercer")
    assert code == 0
    whole = lines(out)
    step = stream_session.Session.step

    def broken(self, given):
        if self.position.batches == 5:
            os.kill(os.getpid(), signal.SIGINT)  # arrives within the batch, which is completed
        return step(self, given)

    with monkeypatch.context() as patch:
        patch.setattr(stream_session.Session, "step", broken)
        code, out, err = run(capsys, *arguments, "-o", "m.mercer", "--resume")
    assert code == 130
    assert "m.mercer holds the first 6 batches: go on from there with --resume" in err
    before = lines(out)
    code, out, err = run(capsys, *arguments, "-o", "m.mercer", "--resume")
    assert (code, err) == (0, "")
    resumed, *after = lines(out)
    assert resumed == {"event": "resume", "rows": 120, "model": "m.mercer"}
    assert before + after[:-1] == whole[:-1]
    assert after[-1] | {"model": None} == whole[-1] | {"model": None}
    assert (folder / "m.mercer").read_bytes() == (folder / "whole.mercer").read_bytes()


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_a_pipe_that_is_killed_and_given_again(folder, capsys, monkeypatch, how):
    source = (folder / "1.csv").read_text().splitlines(keepends=True)
    arguments = ["-t", "y", "--batch", "10", "--every", "2", "--json", "-o", "m.mercer"]
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        process.stdin.writelines(source[:54])  # 53 rows: five batches and three rows that wait
        process.stdin.flush()
        told = [json.loads(process.stdout.readline()) for _ in range(5)]
        process.send_signal(getattr(signal, how))
        _, err = process.communicate(timeout=120)
    assert told[-1]["rows"] == 50
    if how == "SIGTERM":
        assert process.returncode == 130
        assert "m.mercer holds the first 5 batches" in err
    assert [n for n in os.listdir() if n.endswith(".part")] == []
    rows = 40 if how == "SIGKILL" else 50
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("".join(source).encode())))
    code, out, err = run(capsys, *arguments, "--resume")
    assert (code, err) == (0, "")
    assert lines(out)[0]["rows"] == rows
    code, _, _ = run(capsys, "1.csv", *arguments[:-1], "whole.mercer")
    assert code == 0
    assert (folder / "m.mercer").read_bytes() == (folder / "whole.mercer").read_bytes()


def test_a_second_interrupt_does_not_wait_and_keeps_the_checkpoint_before(
    folder, capsys, monkeypatch
):
    step = stream_session.Session.step

    def torn(self, given):
        found = step(self, given)
        if self.position.batches == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return found

    monkeypatch.setattr(stream_session.Session, "step", torn)
    arguments = ["1.csv", "-t", "y", "--batch", 20, "-q", "-o", "m.mercer"]
    code, _, err = run(capsys, *arguments, "--every", 2)
    assert code == 130
    assert "m.mercer holds the first 2 batches" in err
    assert mercer.load("m.mercer").report_["rows"]["seen"] == 40
    os.remove("m.mercer")
    assert run(capsys, *arguments)[2] == "\nmercer: interrupted: nothing was written\n"
    assert not os.path.exists("m.mercer")


def test_rows_that_wait_for_a_graph_are_in_the_checkpoint(folder, capsys):
    (folder / "few.csv").write_text("a,b,y\n1,2,\n3,4,\n")
    arguments = ["-t", "y", "--learner", "lapmed", "--classes", "same,different"]
    assert run(capsys, "few.csv", *arguments, "-q", "-o", "m.mercer")[0] == 0
    assert len(mercer.load("m.mercer").steps[-1][1].waiting_) == 2
    more = [*arguments, "--json", "-o", "m.mercer", "--resume"]
    code, out, _ = run(capsys, "few.csv", "partly.csv", *more)
    assert code == 0
    first, second = lines(out)[1:3]
    assert first["error"] is None  # no label had been learned before
    assert second["error"] is not None
    code, _, _ = run(capsys, "few.csv", "partly.csv", *arguments, "-q", "-o", "whole.mercer")
    assert (folder / "m.mercer").read_bytes() == (folder / "whole.mercer").read_bytes()


def test_other_rows_on_top_of_a_learner(folder, capsys):
    assert run(capsys, "1.csv", "-t", "y", "-o", "m.mercer", "-q")[0] == 0
    code, _, err = run(capsys, "2.csv", "-t", "y", "-o", "m.mercer", "--resume")
    assert code == 1
    assert "m.mercer has read 130 rows, and 70 are given" in err
    assert "--from m.mercer" in err
    code, _, err = run(capsys, "2.csv", "-t", "y", "-o", "m.mercer", "--from", "m.mercer", "-q")
    assert (code, err) == (0, "")
    assert run(capsys, "1.csv", "2.csv", "-t", "y", "-o", "all.mercer", "-q")[0] == 0
    one, other = mercer.load("m.mercer"), mercer.load("all.mercer")
    assert one.report_["rows"] == other.report_["rows"]
    assert one.log_evidence_ == other.log_evidence_


def test_a_learner_made_in_python_goes_on(folder, capsys):
    X, y = table(60, 1)
    machine = mercer.MEDClassifier(kernel="linear")
    mercer.save(make_pipeline(StandardScaler(), machine).fit(X, y == "same"), "p.mercer")
    arguments = ["2.csv", "-t", "y", "--from", "p.mercer", "-o", "m.mercer"]
    code, _, err = run(capsys, *arguments)
    assert code == 1
    assert "p.mercer has the inputs 2 columns without names: pass the same in --features" in err
    code, _, err = run(capsys, *arguments, "--features", "a,b")
    assert code == 1
    assert "2.csv, line 2: the label" in err
    assert "'False', 'True'" in err
    X, y = table(20, 8)
    (folder / "n.csv").write_text(text(X, y == "same"))
    code, _, err = run(capsys, "n.csv", *arguments[1:], "--features", "a,b")
    assert (code, err) == (0, "")
    assert mercer.load("m.mercer").steps[-1][1].stream_.tolist() == [2.0, 80.0]


def test_resume_is_for_the_same_stream(folder, capsys):
    arguments = ["1.csv", "-t", "y", "-o", "m.mercer"]
    assert run(capsys, *arguments, "--batch", 50, "-q")[0] == 0
    before = (folder / "m.mercer").read_bytes()
    X, y = table(130, 77)
    (folder / "other.csv").write_text(text(X, y))
    cases = [
        (["--batch", 50], "m.mercer exists: pass --resume"),
        (["--batch", 40, "--resume"], "made with another --batch"),
        (["--batch", 50, "--resume", "--drop-missing"], "made with another --drop-missing"),
        (["--batch", 50, "--resume", "--budget", 7], "made with another --budget"),
        (["--batch", 50, "--resume", "--forget", 0.5], "made with another --forget"),
        (["--batch", 50, "--resume", "--kernel", "linear"], "made with another --kernel"),
        (["--batch", 50, "--resume", "--learner", "med"], "made with another --learner"),
        (["--batch", 50, "--resume", "--classes", "a,b"], "made with another --classes"),
        (["--batch", 50, "--resume", "--features", "b"], "made with another --features"),
    ]
    for more, message in cases:
        code, _, err = run(capsys, *arguments, *more)
        assert (code, message in err) == (1, True), err
    code, _, err = run(capsys, "other.csv", *arguments[1:], "--batch", 50, "--resume")
    assert code == 1
    assert "the rows given are not the 130 that m.mercer has read" in err
    assert (folder / "m.mercer").read_bytes() == before
    mercer.save(mercer.OnlineLogisticClassifier().partial_fit(X, y), "plain.mercer")
    code, _, err = run(capsys, "1.csv", "-t", "y", "-o", "plain.mercer", "--resume")
    assert code == 1
    assert "plain.mercer is not a checkpoint of a stream" in err
    mercer.save(mercer.GPRegressor(search=None).fit(X, X[:, 0]), "gp.mercer")
    code, _, err = run(capsys, "1.csv", "-t", "y", "--from", "gp.mercer")
    assert code == 1
    assert "gp.mercer holds a GPRegressor, which does not learn from streams" in err


def test_changes_are_said(folder, capsys):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.where((X[:, 0] > 0) ^ (np.arange(400) >= 240), "a", "b")  # the labels turn round
    (folder / "turn.csv").write_text(text(X, y))
    call = ["turn.csv", "-t", "y", "--drift", "auto", "--batch", "40", "--budget", "30"]
    code, out, _ = run(capsys, *call, "--json")
    assert code == 0
    *events, end = lines(out)
    assert [e["batch"] for e in events if e["change"]] == [7]
    assert end["changes"] == 1
    _, out, _ = run(capsys, *call)
    share = f"{100 * events[6]['change']:.0f} %"
    assert f"a change was found in batch 7: {share} renewed" in out
    assert out.count("a change was found") == 1
    assert "; 1 change found" in out
    _, out, _ = run(capsys, "1.csv", "-t", "y", "--json")
    assert all(e["change"] is None for e in lines(out)[:-1])
    assert lines(out)[-1]["changes"] is None


def test_thousands_of_batches_are_not_thousands_of_lines(capsys, monkeypatch):
    clock = iter(np.arange(5000) * 0.01 + 100.0)  # a batch takes ten milliseconds
    ticking = SimpleNamespace(monotonic=lambda: next(clock))  # other threads keep their own clock
    monkeypatch.setattr(stream_session, "time", ticking)
    names = ("error", "mean_error", "log_loss", "mean_log_loss")
    tell = stream_session.Text()
    for i in range(1, 5001):
        tell({"event": "batch", "batch": i, "rows": i, "points": 1, "change": 0.3 * (i == 777)}
             | dict.fromkeys(names, 0.5))  # fmt: skip
    printed = capsys.readouterr().out.splitlines()
    numbers = [int(line.split()[0]) for line in printed if line[:7].strip().isdigit()]
    assert numbers[:100] == list(range(1, 101))
    assert 777 in numbers
    assert 40 <= len(numbers) - 100 <= 60
