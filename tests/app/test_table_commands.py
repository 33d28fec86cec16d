"""fit, compare, predict, explain and info from files to files: every kind of table."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.tables.files.read import frame_of
from mercer.tables.files.table import read_file


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def write(path, columns):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def people(n=100, k=3, seed=0):
    """Ages with gaps, towns, dates, remarks; a label of text that depends on age and town."""
    rng = np.random.default_rng(seed)
    age, town = rng.integers(18, 80, n), rng.choice(["Ulm", "Köln", "Bonn, Rhein"], n)
    days = np.datetime64("2023-01-01") + rng.integers(0, 700, n).astype("timedelta64[D]")
    f = (age - 50) / 10 + (town == "Ulm") + 0.7 * rng.normal(size=n)
    label = np.array(["no", "yes"] if k == 2 else ["basic", "plus", "gold"])[
        np.digitize(f, [0.0] if k == 2 else [-1.0, 1.0])
    ]
    return {
        "age": ["" if i % 9 == 0 else str(a) for i, a in enumerate(age)],
        "town": town.tolist(),
        "since": [str(d) for d in days],
        "member": rng.choice(["True", "False"], n).tolist(),
        "plan": label.tolist(),
    }


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


FEW = ["--candidates", "linear,support vectors"]


@pytest.mark.parametrize("k", [2, 3])
def test_a_table_with_text_labels_and_gaps(folder, capsys, k):
    write("t.csv", people(k=k))
    code, out, err = run(capsys, "fit", "t.csv", "-t", "plan", "-o", "m.mercer", *FEW)
    assert code == 0
    assert err == "" or err.startswith("this takes about ")  # of some seconds it is said
    words = " ".join(out.split())
    assert ("two classes" if k == 2 else "several classes") in words
    assert "12 missing: the median, and an indicator" in words
    for kind in ("numeric", "categorical", "date"):
        assert kind in words
    assert "Ranking" in words
    assert "model written to m.mercer" in words

    code, out, err = run(capsys, "predict", "m.mercer", "t.csv", "-o", "out.csv")
    assert (code, err) == (0, "")
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    labels = ["no", "yes"] if k == 2 else ["basic", "gold", "plus"]
    assert list(rows[0]) == ["prediction", *(f"p_{name}" for name in labels)]
    p = np.array([[float(r[f"p_{name}"]) for name in labels] for r in rows])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert [r["prediction"] for r in rows] == [labels[i] for i in p.argmax(axis=1)]
    truth = people(k=k)["plan"]
    assert np.mean([r["prediction"] == y for r, y in zip(rows, truth, strict=True)]) > 0.6

    code, out, _ = run(capsys, "compare", "m.mercer", "--json")
    names = [row["name"] for row in json.loads(out)["ranking"]]
    assert sorted({*names} - {"combination"}) == ["constant", "linear", "support vectors"]
    assert names[-1] == "constant"
    code, out, _ = run(capsys, "info", "m.mercer", "--json")
    about = json.loads(out)
    assert (about["target"], about["estimator"]) == ("plan", about["estimator"])
    assert about["columns"][0]["name"] == "age"
    code, out, _ = run(capsys, "info", "m.mercer")
    assert code == 0
    assert "SHA-256" in out


@pytest.mark.usefixtures("unjudged")
def test_a_quantity_from_parquet(folder, capsys):
    polars = pytest.importorskip("polars")
    given = people()
    frame = polars.DataFrame(given).with_columns(
        polars.col("age").cast(polars.Int64, strict=False),
        polars.col("since").str.to_date(),
        polars.col("member") == "True",
    )
    frame.write_parquet("t.parquet")
    arguments = ["fit", "t.parquet", "-t", "age", "-o", "m.mercer", "--candidates", "linear"]
    code, out, err = run(capsys, *arguments, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["kind"] == "regression"
    kinds = {c["name"]: c["kind"] for c in found["columns"]}
    assert kinds == {
        "town": "categorical",
        "since": "date",
        "member": "numeric",
        "plan": "categorical",
    }
    assert any("12 rows have no value" in note for note in found["remarks"])
    assert found["rows"] == 88
    code, _, err = run(capsys, "predict", "m.mercer", "t.parquet", "-o", "out.parquet")
    assert (code, err) == (0, "")
    out = polars.read_parquet("out.parquet")
    assert out.columns == ["prediction", "std", "low", "high"]
    assert out.height == 100
    assert (out["low"] < out["prediction"]).all()


@pytest.mark.usefixtures("unjudged")
def test_partly_labelled(folder, capsys):
    table = people(k=2)
    table["plan"] = [v if i % 3 == 0 else "" for i, v in enumerate(table["plan"])]
    write("t.csv", table)
    names = "linear,manifold support vectors"
    arguments = ["fit", "t.csv", "-t", "plan", "-o", "m.mercer", "--candidates", names, "--json"]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["kind"] == "partly"
    assert found["leave_one_out"]["rows"] == 34
    assert {r["name"] for r in found["ranking"]} == {
        "linear",
        "manifold support vectors",
        "constant",
    }


def test_cross_validation_on_request(folder, capsys):
    write("t.csv", people(n=60, k=2))
    given = ["fit", "t.csv", "-t", "plan", "-o", "m.mercer", "--candidates", "linear"]
    code, out, err = run(capsys, *given, "--check", "3")
    assert (code, err) == (0, "")
    assert "checked by 3 folds" in out
    code, _, err = run(capsys, *given, "--check", "1")
    assert code == 2


@pytest.mark.usefixtures("unjudged")
def test_numbers_that_name_classes(folder, capsys):
    table = people(n=90)
    code_of = {"basic": "1", "plus": "2", "gold": "3"}
    table["plan"] = [code_of[v] for v in table["plan"]]
    write("t.csv", table)
    given = ["-t", "plan", "--candidates", "linear", "--json"]
    code, out, _ = run(capsys, "compare", "t.csv", *given)
    found = json.loads(out)
    assert found["kind"] == "regression"
    assert any("ask for classification" in note for note in found["remarks"])
    code, out, _ = run(capsys, "fit", "t.csv", *given, "-o", "m.mercer", "--kind", "classification")
    assert code == 0
    assert json.loads(out)["classes"] == [1, 2, 3]


@pytest.mark.usefixtures("unjudged")
def test_compare_of_a_table_writes_nothing(folder, capsys):
    write("t.csv", people(n=60, k=2))
    code, out, err = run(capsys, "compare", "t.csv", "-t", "plan", *FEW)
    assert (code, err) == (0, "")
    assert "support vectors" in out
    assert [p.name for p in folder.iterdir()] == ["t.csv"]
    assert run(capsys, "compare", "t.csv", "-t", "plan", *FEW, "-q") == (0, "", "")
    fitted = mercer.GPRegressor(search=None).fit([[0.0], [1.0]], [0.0, 1.0])
    mercer.save(fitted, "plain.mercer")
    code, _, err = run(capsys, "compare", "plain.mercer")
    assert code == 1
    assert "holds one GPRegressor" in err


@pytest.mark.usefixtures("unjudged")
def test_explain(folder, capsys):
    write("t.csv", people())
    assert run(
        capsys,
        "fit",
        "t.csv",
        "-t",
        "plan",
        "-o",
        "m.mercer",
        "-q",
        "--candidates",
        "support vectors",
    ) == (0, "", "")
    code, out, err = run(capsys, "explain", "m.mercer", "t.csv", "--json", "--top", "2")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert next(iter(found["relevance"])) == "age"
    assert found["relevance"]["age"] > 3 * found["relevance"]["member"]
    effect = found["dependence"][0]
    assert effect["column"] == "age"
    gold = next(c for c in effect["curves"] if c["class"] == "gold")
    assert gold["mean"][-1] > gold["mean"][0] + 0.3
    assert all(a <= b <= c for a, b, c in zip(gold["low"], gold["mean"], gold["high"], strict=True))
    assert len(found["influential_rows"]) == 2
    assert all(1 <= r["row"] <= 100 for r in found["influential_rows"])
    code, out, _ = run(capsys, "explain", "m.mercer", "t.csv", "--top", "1")
    assert code == 0
    assert "leans on most" in out
    assert run(capsys, "explain", "m.mercer", "t.csv", "-q", "--top", "1") == (0, "", "")


def test_explain_a_quantity_with_its_band(folder, capsys):
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 80)
    write("t.csv", {"x": x.tolist(), "y": (3 * x + 0.1 * rng.normal(size=80)).tolist()})
    arguments = ["fit", "t.csv", "-t", "y", "-o", "m.mercer", "-q", "--candidates", "linear"]
    assert run(capsys, *arguments)[0] == 0
    _, out, _ = run(capsys, "explain", "m.mercer", "t.csv", "--json")
    curve = json.loads(out)["dependence"][0]
    at, found = np.array(curve["at"]), curve["curves"][0]
    np.testing.assert_allclose(found["mean"], 3 * at, atol=0.2)
    assert np.all(np.array(found["high"]) - np.array(found["low"]) < 0.5)
    plain = mercer.GPRegressor(search=None).fit([[0.0], [1.0]], [0.0, 1.0])
    mercer.save(plain, "plain.mercer")
    code, _, err = run(capsys, "explain", "plain.mercer", "t.csv")
    assert code == 1
    assert "mercer info" in err


def test_report_of_a_table(folder, capsys):
    write("t.csv", people(n=60, k=2))
    arguments = ["fit", "t.csv", "-t", "plan", "-o", "m.mercer", "--report", "r.html", *FEW]
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert "report to r.html" in out
    text = (folder / "r.html").read_text(encoding="utf-8")
    assert "<script" not in text
    assert "plan" in text


@pytest.mark.usefixtures("unjudged")
def test_names_of_candidates_may_have_commas(folder, capsys):
    x = np.linspace(0, 6, 30).tolist()
    write("t.csv", {"x": x, "y": np.sin(x).tolist()})
    for given in (
        ["--candidates", "linear,Gaussian process, rough"],
        ["--candidates", "linear", "--candidate", '"Gaussian process, rough"'],
    ):
        code, out, _ = run(capsys, "compare", "t.csv", "-t", "y", *given, "--json")
        names = {row["name"] for row in json.loads(out)["ranking"]}
        assert code == 0
        assert names == {"linear", "Gaussian process, rough", "constant"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-t", "plon"], "did you mean 'plan'?"),
        (
            ["-t", "plan", "--candidates", "magic"],
            "no candidate 'magic'; known are ",
        ),
        (["-t", "plan", "--features", "age,age"], "cannot be an input twice"),
        (["-t", "plan", "--kind", "regression"], "holds text, such as"),
        (["-t", "since"], "holds dates"),
        (["-t", "plan", "--kernel", "precomputed"], "there is no kernel 'precomputed'"),
    ],
)
def test_mistakes_cost_one_sentence(folder, capsys, arguments, message):
    write("t.csv", people(n=30))
    code, out, err = run(capsys, "fit", "t.csv", "-o", "m.mercer", *arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1
    assert [p.name for p in folder.iterdir()] == ["t.csv"]


@pytest.mark.usefixtures("unjudged")
def test_other_tables_at_prediction(folder, capsys):
    write("t.csv", people(n=60))
    assert run(capsys, "fit", "t.csv", "-t", "plan", "-o", "m.mercer", "-q", *FEW)[0] == 0
    new = {name: column[:2] for name, column in people(n=60).items() if name != "plan"}
    write("lost.csv", {k: v for k, v in new.items() if k != "town"})
    write("odd.csv", new | {"age": ["12", "old"]})
    write("date.csv", new | {"since": ["2024-01-01", "soon"]})
    write("gone.csv", new | {"age": ["", ""], "town": ["Rome", ""], "since": ["", ""]})
    for name, message in [
        ("lost.csv", "no column 'town' (an input of the model)"),
        ("odd.csv", "line 3: column 'age' holds 'old', not a number"),
        ("date.csv", "'since' holds something that is not a date"),
    ]:
        code, _, err = run(capsys, "predict", "m.mercer", name, "-o", "out.csv")
        assert code == 1
        assert message in err
    code, _, err = run(capsys, "predict", "m.mercer", "t.csv", "-o", "out.csv", "--features", "age")
    assert "leave --features out" in err
    code, out, _ = run(capsys, "predict", "m.mercer", "gone.csv", "-o", "out.csv")
    assert code == 0
    assert "2 predictions" in out


def test_text_becomes_what_it_says(folder):
    write("t.csv", {
        "n": ["1", "NA", "2.5"], "d": ["2024-01-31", "", "2024-02-01 12:00"],
        "b": ["TRUE", "false", ""], "w": ["3", "x", "y"],
    })  # fmt: skip
    data = read_file("t.csv")
    frame = frame_of(data, data.names)
    assert [frame.kind(n) for n in frame.names] == ["number", "date", "text", "text"]
    np.testing.assert_array_equal(frame.columns["d"], [19753.0, np.nan, 19754.5])
    assert frame.columns["b"].tolist() == ["true", "false", None]
    assert frame_of(data, ["n"], {"n": "categorical"}).columns["n"].tolist() == ["1", None, "2.5"]


def test_shell_completion():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from mercer.app.main import main; sys.exit(main([]))"],
        env={"_MERCER_COMPLETE": "bash_complete", "COMP_WORDS": "mercer co", "COMP_CWORD": "1",
             "PATH": ""},
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "compare" in done.stdout
