"""The command line: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer.app.main import main

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def python(code, **options):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, **options
    )


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table of 60 rows: y = sin(x) + noise, z does nothing, w is 0 or 1."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    x, z = rng.uniform(0, 60, 60), rng.normal(size=60)
    y = 50 + 10 * np.sin(x / 8) + 0.5 * rng.normal(size=60)
    rows = zip(x, z, y, rng.integers(0, 2, 60), strict=True)
    lines = ["x,z,y,w", *(f"{a!r},{b!r},{c!r},{d}" for a, b, c, d in map(_floats, rows))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def _floats(row):
    return [float(v) for v in row[:3]] + [int(row[3])]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small model file with named inputs a, b."""
    path = tmp_path_factory.mktemp("model") / "m.mercer"
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, size=(25, 2))
    fitted = mercer.GPRegressor(search=None).fit(X, np.sin(X[:, 0]) + X[:, 1])
    fitted.feature_names_in_ = np.array(["a", "b"], dtype=object)
    mercer.save(fitted, path)
    return path


# ---------------------------------------------------------------------- the main road
def test_fit_info_predict(folder, capsys):
    code, out, err = run(
        capsys,
        "fit",
        "t.csv",
        "--target",
        "y",
        "-o",
        "m.mercer",
        "--kernel",
        "rbf",
        "--weights",
        "w",
    )
    assert (code, err) == (0, "")
    assert "log evidence" in out
    assert "model written to m.mercer" in out
    code, out, _ = run(capsys, "info", "m.mercer")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines() if " numeric " in line] == ["x", "z"]
    (folder / "new.csv").write_text("note,z,x\nhello,0,10\nworld,0,20\n")
    code, out, _ = run(capsys, "predict", "m.mercer", "new.csv", "-o", "out.csv")
    assert code == 0
    assert "2 predictions" in out
    header, *rows = (folder / "out.csv").read_text().splitlines()
    assert header == "prediction,std,low,high"
    found = np.array([[float(v) for v in row.split(",")] for row in rows])
    mean = mercer.load("m.mercer").predict({"x": [10.0, 20.0], "z": [0.0, 0.0]})
    np.testing.assert_array_equal(found[:, 0], mean)
    assert np.all(np.abs(found[:, 0] - 50 - 10 * np.sin([10 / 8, 20 / 8])) < 2)
    np.testing.assert_allclose(found[:, 3] - found[:, 2], 2 * 1.6448536 * found[:, 1], rtol=1e-6)
    assert sorted(os.listdir()) == ["m.mercer", "new.csv", "out.csv", "t.csv"]


@pytest.mark.parametrize(
    ("make", "header"),
    [
        (lambda: mercer.OnlineLogisticClassifier(budget=30), "prediction,p_high,p_low"),
        (lambda: mercer.MEDClassifier(), "prediction,score"),
    ],
    ids=["probabilities", "score"],
)
def test_classifiers_that_learned_from_a_stream(folder, capsys, make, header):
    data = np.loadtxt("t.csv", delimiter=",", skiprows=1)
    X, y = data[:, :2], np.where(data[:, 2] > 50, "high", "low")
    fitted = make().partial_fit(X[:30], y[:30], classes=["high", "low"]).partial_fit(X[30:], y[30:])
    mercer.save(fitted, "c.mercer")
    code, out, err = run(capsys, "info", "c.mercer")
    assert (code, err) == (0, "")
    assert "batches: 2" in out
    lines = ["x,z", *(f"{a!r},{b!r}" for a, b in X.tolist()), "1.0,"]
    (folder / "new.csv").write_text("\n".join(lines) + "\n")
    arguments = ["predict", "c.mercer", "new.csv", "--allow-missing", "-o"]
    code, out, err = run(capsys, *arguments, "out.csv")
    assert (code, err) == (0, "")
    written = [line.split(",") for line in (folder / "out.csv").read_text().splitlines()]
    assert ",".join(written[0]) == header
    assert [row[0] for row in written[1:-1]] == fitted.predict(X).tolist()
    assert set(written[-1]) == {""}
    figures = np.array([row[1:] for row in written[1:-1]], dtype=float)
    p = getattr(fitted, "predict_proba", None)
    expected = p(X) if p is not None else fitted.decision_function(X)[:, None]
    np.testing.assert_array_equal(figures, expected)
    code, _, _ = run(capsys, *arguments, "out.parquet")
    assert code == 0


def test_json_and_seed(folder, capsys):
    arguments = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--features", "x", "--json"]
    code, out, _ = run(capsys, *arguments, "--seed", "3", "--kernel", "matern52")
    data = json.loads(out)
    assert code == 0
    assert data["features"] == ["x"]
    assert data["leave_one_out"]["r2"] > 0.9
    first = mercer.load("m.mercer").machine_
    assert run(capsys, *arguments, "--seed", "3", "--kernel", "matern52")[0] == 0
    again = mercer.load("m.mercer").machine_  # the files differ by the seconds that the fits took
    assert repr(again.kernel_) == repr(first.kernel_) == data["kernel"]
    np.testing.assert_array_equal(again.posteriors_[0].alpha, first.posteriors_[0].alpha)
    code, out, _ = run(capsys, "info", "m.mercer", "--json")
    assert json.loads(out)["target"] == "y"


def test_quiet_is_quiet(folder, capsys):
    given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "-q"]
    assert run(capsys, *given, "--candidates", "linear") == (0, "", "")
    assert run(capsys, "predict", "m.mercer", "t.csv", "-o", "o.csv", "-q") == (0, "", "")


def test_drop_missing(folder, capsys):
    with open("t.csv", "a") as file:
        file.write("1,,2,1\n")
    given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer"]
    for more in (["--kernel", "rbf"], ["--candidates", "linear"]):
        code, out, _ = run(capsys, *given, *more, "--drop-missing")
        assert code == 0
        assert "1 rows with missing values were left out" in out
        code, out, _ = run(capsys, *given, *more)
        assert code == 0
        assert "1 missing: the median" in " ".join(out.split())


def test_a_kernel_is_a_candidate_among_others(folder, capsys):
    given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--json", "--kernel", "matern32"]
    code, out, _ = run(capsys, *given, "--candidates", "linear")
    ranked = [row["name"] for row in json.loads(out)["ranking"]]
    assert code == 0
    assert sorted(ranked) == ["Gaussian process, matern32", "constant", "linear"]
    table = np.loadtxt("t.csv", delimiter=",", skiprows=1)
    labels = np.where(table[:, 2] > 50, "high", "low")
    lines = [f"{a!r},{b!r},{c}" for a, b, c in zip(*table[:, :2].T.tolist(), labels, strict=True)]
    (folder / "t.csv").write_text("\n".join(["x,z,y", *lines]) + "\n")
    code, out, _ = run(capsys, *given)
    assert code == 0
    assert json.loads(out)["estimator"] == "GPClassifier"


def test_parquet_in_and_out(folder, capsys, model):
    polars = pytest.importorskip("polars")
    polars.DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}).write_parquet("new.parquet")
    assert run(capsys, "predict", model, "new.parquet", "-o", "out.parquet")[0] == 0
    assert polars.read_parquet("out.parquet").columns == ["prediction", "std", "low", "high"]


def test_allow_missing_keeps_the_rows(folder, capsys, model):
    (folder / "new.csv").write_text("a,b\n1,2\n,3\n4,5\n")
    code, _, err = run(capsys, "predict", model, "new.csv", "-o", "out.csv")
    assert code == 1
    assert "line 3: column 'a' has no value" in err
    assert not (folder / "out.csv").exists()
    code, out, _ = run(capsys, "predict", model, "new.csv", "-o", "out.csv", "--allow-missing")
    assert code == 0
    assert "(1 left empty" in out
    assert (folder / "out.csv").read_text().splitlines()[2] == ",,,"


def test_a_model_without_names(folder, capsys):
    X = np.arange(12.0).reshape(6, 2)
    mercer.save(mercer.GPRegressor(search=None).fit(X, X[:, 0]), "m.mercer")
    (folder / "new.csv").write_text("u,v,w\n1,2,3\n")
    code, _, err = run(capsys, "predict", "m.mercer", "new.csv", "-o", "out.csv")
    assert code == 1
    assert "the model has 2 inputs, and 3 columns are given" in err
    assert run(capsys, "predict", "m.mercer", "new.csv", "-o", "o.csv", "--features", "u,v")[0] == 0


# ---------------------------------------------------------------------- mistakes
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "Y"], "did you mean 'y'?"),
        (["-t", "zzzz"], "its columns are 'x', 'z', 'y', 'w'"),
        (["-t", "y", "--weight", "ww"], "no column 'ww' (the weights)"),
        (["-t", "y", "--features", "x,q"], "no column 'q' (an input)"),
        (["-t", "y", "--features", "x,y"], "'y' cannot be an input twice"),
        (["-t", "y", "--features", "x,x"], "'x' cannot be an input twice"),
        (["-t", "y", "--kernel", "rfb"], "rbf"),
        (
            ["-t", "y", "--kernel", "precomputed"],
            "there is no kernel 'precomputed'. Known are: anova",
        ),
        (["-t", "y", "--report", "nowhere/r.html"], "does not exist"),
        (["-t", "y", "-o", "t.csv"], "would overwrite"),
        (["-t", "y", "--report", "m.mercer"], "would overwrite"),
        (["-t", "y", "-o", "nowhere/m.mercer"], "does not exist"),
        (["-t", "y", "-o", "."], "is a directory"),
    ],
)
def test_mistakes_cost_one_sentence(folder, capsys, arguments, message):
    before = (folder / "t.csv").read_bytes()
    code, out, err = run(capsys, "fit", "t.csv", "-o", "m.mercer", *arguments)
    assert code == (2 if "directory" in message else 1)
    assert message in err
    assert out == ""
    assert code == 2 or (err.startswith("mercer: ") and err.count("\n") == 1)
    assert os.listdir() == ["t.csv"]
    assert (folder / "t.csv").read_bytes() == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x,y\n1,2\n3\n", "line 3: 1 fields"),
        ("x,y\n1,2\ntwo,3\n", "line 3: column 'x' holds 'two', not a number"),
        ("x,y,y\n1,2,3\n", "more than one column 'y', and it is the target"),
        ("y\n1\n2\n", "nothing to learn from"),
        ("x,y\n1,2\n", "1 sample"),
        ("x,y\n,2\n1,\n", "1 rows that have no value"),
    ],
)
def test_bad_tables(folder, capsys, text, message):
    (folder / "bad.csv").write_text(text)
    code, _, err = run(capsys, "fit", "bad.csv", "-t", "y", "-o", "m.mercer")
    assert code == 1
    assert message in err
    assert not (folder / "m.mercer").exists()


def test_bad_models(folder, capsys, model):
    (folder / "bad.mercer").write_bytes(model.read_bytes()[:-5])
    code, _, err = run(capsys, "predict", "bad.mercer", "t.csv", "-o", "out.csv")
    assert code == 1
    assert "truncated" in err
    code, _, err = run(capsys, "predict", model, "t.csv", "-o", "out.csv")
    assert code == 1
    assert "lacks 2 columns (an input of the model): 'a', 'b'" in err
    code, _, err = run(capsys, "info", "none.mercer")
    assert code == 1
    assert "none.mercer: No such file" in err


def test_usage(folder, capsys):
    for arguments in (["fit"], ["fit", "t.csv"], ["nonsense"], ["predict", "--coverage", "2"], []):
        assert run(capsys, *arguments)[0] == 2
    assert run(capsys, "fit", "t.csv", "-t", "y", "-o", "m", "--features", "a,,b")[0] == 2
    assert run(capsys, "fit", "t.csv", "-t", "y", "-o", "m", "--delimiter", "ab")[0] == 2
    code, out, _ = run(capsys, "--version")
    assert (code, out) == (0, f"mercer {mercer.__version__}\n")


def test_a_failed_report_leaves_no_half_report(folder, capsys, monkeypatch):
    from mercer.tables import report

    def broken(*arguments):
        raise ValueError("broken")

    monkeypatch.setattr(report, "table_report", broken)
    for more in (["--kernel", "rbf"], ["--candidates", "linear"]):
        given = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--report", "r.html", *more]
        code, _, err = run(capsys, *given)
        assert (code, err) == (1, "mercer: broken\n")
    assert sorted(os.listdir()) == ["t.csv"]


def test_folders_are_checked_before_the_work(folder, capsys, monkeypatch, model):
    from mercer.app import demo, fit

    def never(*args, **options):
        raise AssertionError("the work began")

    monkeypatch.setattr(fit, "read_file", never)
    monkeypatch.setattr(demo.mercer, "fit", never)
    (folder / "new.csv").write_text("a,b\n1,2\n")
    for arguments in (
        ["fit", "t.csv", "-t", "y", "-o", "nowhere/m.mercer"],
        ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "--report", "nowhere/r.html"],
        ["demo", "--report", "nowhere/r.html"],
        ["predict", model, "new.csv", "-o", "nowhere/out.csv"],
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 1
        assert "nowhere does not exist" in err
    assert sorted(os.listdir()) == ["new.csv", "t.csv"]


# ---------------------------------------------------------------------- the process
def test_help_is_light():
    code = (
        "import sys\nfrom mercer.app.main import main\nassert main(['--help']) == 0\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'rich', 'matplotlib', 'polars', 'jinja2'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = python(code)
    assert done.returncode == 0, done.stderr
    assert "predict" in done.stdout


MISSING = """
import sys
from mercer.app.main import main

for module, *arguments in [
    ["click", "--help"],
    ["rich", "demo"],
    ["matplotlib", "demo", "--report", "r.html"],
    ["jinja2", "demo", "--report", "r.html"],
]:
    held = sys.modules.pop(module, None)
    sys.modules[module] = None
    print(module, main(arguments), flush=True)
    del sys.modules[module]
    if held is not None:
        sys.modules[module] = held
"""


def test_missing_extras_are_named(tmp_path):
    done = python(MISSING, cwd=tmp_path)
    assert done.stdout.splitlines() == ["click 1", "rich 1", "matplotlib 1", "jinja2 1"]
    said = done.stderr.splitlines()
    assert len(said) == 4
    for line, extra in zip(said, ["cli", "cli", "report", "report"], strict=True):
        assert f'pip install "mercer[{extra}]"' in line
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="signals differ on Windows")
def test_an_interrupt_before_there_is_a_machine_writes_nothing(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 8))
    np.savetxt(
        tmp_path / "t.csv", np.column_stack([X, X.sum(axis=1)]), delimiter=",", comments="",
        header="a,b,c,d,e,f,g,h,y",
    )  # fmt: skip
    code = (
        "import sys, time\nfrom mercer.app import fit\nfrom mercer.app.main import main\n"
        "shout = lambda event: (print('busy', flush=True), time.sleep(60))\n"  # until the signal
        "import contextlib\nfit.progress = lambda quiet: contextlib.nullcontext(shout)\n"
        "sys.exit(main(['fit', 't.csv', '-t', 'y', '-o', 'm.mercer']))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout.readline() == "busy\n"  # at the first machine: there is none yet
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert err.strip() == "mercer: interrupted: nothing was written"
    assert os.listdir(tmp_path) == ["t.csv"]


def test_doctor(capsys):
    code, out, _ = run(capsys, "doctor")
    assert code == 0
    assert "compiled core" in out
    code, out, _ = run(capsys, "doctor", "--json")
    assert json.loads(out)["checks"]["compiled core"] == "fine"


def test_doctor_reports_trouble(capsys, monkeypatch):
    from mercer.app import doctor

    monkeypatch.setattr(doctor, "_core", lambda: "not there")
    code, _, err = run(capsys, "doctor")
    assert code == 1
    assert "not in order: compiled core" in err


def test_demo(capsys, tmp_path):
    code, out, _ = run(capsys, "demo", "--json", "--report", tmp_path / "r.html")
    data = json.loads(out)
    assert code == 0
    ours, plain = data["held_out"]["GPRegressor"], data["held_out"]["mean of the targets"]
    assert ours["r2"] > 0.4
    assert ours["log_density"] > plain["log_density"]
    assert 0.8 < ours["coverage90"] < 0.98
    assert (tmp_path / "r.html").stat().st_size > 10_000
