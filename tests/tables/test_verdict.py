"""The model beside the simplest ones, and beside trees."""

import json

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.tables.choose.left_out import of_classes, of_quantity
from mercer.tables.judge.edges import edges_of
from mercer.tables.judge.simple import SimpleClasses, SimpleQuantity
from mercer.tables.judge.verdict import Against
from mercer.tables.quality import mean_and_error

rng = np.random.default_rng(5)


@pytest.mark.parametrize("d", [3, 30])
def test_a_line_leaves_each_row_out_as_a_refit_does(d: int) -> None:
    n, X = 16, rng.normal(size=(16, d))
    w = rng.choice([0.5, 1.0, 2.0], size=n)
    y = X[:, 0] + 3.0 + 0.3 * rng.normal(size=n)
    line = SimpleQuantity(line=True).fit(X, y, w)
    H, P = np.column_stack([np.ones(n), X]), line.penalty_ * np.eye(d + 1)
    P[0, 0] = 0.0  # the constant is free

    def mean(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return x @ np.linalg.solve(H.T @ (w[:, None] * H) + P, H.T @ (w * y))

    np.testing.assert_allclose(line.predict(X), mean(w, H), rtol=1e-6, atol=1e-8)
    for i in range(n):
        without = w.copy()
        without[i] = max(0.0, w[i] - 1.0)
        assert line.left_mean_[i] == pytest.approx(mean(without, H[i]), rel=1e-5, abs=1e-7)


def test_a_class_that_no_row_had_is_not_impossible() -> None:
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    p = SimpleClasses(3, line=True).fit(X, y).predict_proba(X)
    assert np.allclose(p.sum(axis=1), 1.0)
    assert 0.0 < p[:, 2].max() < 0.01


def test_the_standard_error_of_weighted_rows_is_that_of_rows_drawn_anew() -> None:
    values, w = rng.normal(size=400), rng.choice([0.2, 1.0, 3.0], size=400)
    mean, error = mean_and_error(values, w)
    picks = [rng.integers(0, 400, 400) for _ in range(4000)]
    drawn = [np.average(values[i], weights=w[i]) for i in picks]
    assert mean == pytest.approx(np.average(values, weights=w))
    assert error == pytest.approx(np.std(drawn), rel=0.1)


@pytest.mark.parametrize(
    ("gain", "word"),
    [
        (0.1, "better"),
        (0.025, "probably better"),
        (0.015, "not distinguishable"),
        (-0.1, "worse"),
    ],
)
def test_words_say_how_sure_it_is(gain: float, word: str) -> None:
    one = Against("predicting the mean", gain, 0.01, 1.0, 2.0, 400)
    assert one.verdict == word
    assert one.words(True).startswith(word)


def test_trees_find_jumps_and_nothing_in_noise() -> None:
    n = 300
    X, noise = rng.uniform(-1, 1, (n, 3)), rng.normal(size=n)
    plain = of_quantity(noise, np.zeros(n), np.ones(n), np.zeros(n), "leave-one-out")
    edges = edges_of(plain, X, 0)
    assert edges is not None
    assert not edges.found
    jumps = noise + 2.0 * np.sign(X[:, 0] - 0.2)
    found = edges_of(of_quantity(jumps, 0 * X[:, 0], np.full(n, 2.0), noise, "5 folds"), X, 0)
    assert found is not None
    assert found.found
    assert found.share == pytest.approx(0.8, abs=0.1)  # 4 of 5, the variance of the jumps
    assert found.gain == pytest.approx(-0.5 * np.log(1.0 - found.share))
    assert edges_of(of_quantity(*4 * [np.ones(20)], "5 folds"), X[:20], 0) is None


def test_trees_of_classes_see_inputs_and_not_what_a_row_left_out_betrays() -> None:
    n = 300
    X, codes = rng.uniform(-1, 1, (n, 3)), (np.arange(n) % 3 == 0).astype(float)
    p = np.where(codes == 1.0, 0.33, 0.34)  # a constant, from which its own row was taken
    constant = of_classes(codes, np.column_stack([1 - p, p]), "leave-one-out")
    nothing = edges_of(constant, X, 0)
    assert nothing is not None
    assert not nothing.found
    X[:, 1] = np.where(rng.uniform(size=n) < 0.1, -1, 1) * (codes - 0.5)  # nine of ten rows
    found = edges_of(constant, X, 0)
    assert found is not None
    assert found.found
    assert found.gain == pytest.approx(0.31, abs=0.08)  # H(1/3) - H(0.1)
    third = of_classes(np.arange(n) % 3, np.full((n, 3), 1 / 3), "5 folds")
    several = edges_of(third, X, 0)  # the third class alone is told from the others
    assert several is not None
    assert several.found


def test_terminal_json_and_report_compare_with_the_simplest(tmp_path, capsys) -> None:
    x = rng.uniform(0, 6, 150)
    jump = np.where(x > 3.3, 4.0, 0.0) + 0.05 * rng.normal(size=150)
    rows = "\n".join(f"{a},{b}" for a, b in zip(x, jump, strict=True))
    (tmp_path / "t.csv").write_text(f"x,y\n{rows}\n")
    model, page = str(tmp_path / "m.mercer"), tmp_path / "r.html"
    command = ["fit", str(tmp_path / "t.csv"), "-t", "y", "-o", model, "--report", str(page)]
    assert main([*command, "--candidates", "linear", "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    mean, line = plain["baselines"]
    assert mean["verdict"] == "better"
    assert line["verdict"] == "not distinguishable"  # it is one itself
    assert plain["wrong_tool"]["found"]
    assert any("another kind of model" in note for note in plain["remarks"])
    text = page.read_text()
    assert mean["words"] in text
    assert "gradient boosting" in text
    assert main(["info", model]) == 0
    assert "not distinguishable" in capsys.readouterr().out
    assert mercer.load(model).verdict_.edges.found
