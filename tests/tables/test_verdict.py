"""The model beside the simplest ones, and beside trees."""

import json

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.tables.choose.left_out import by_folds, of_classes, of_quantity, predicted_by
from mercer.tables.data.structure import RowStructure
from mercer.tables.data.target import Target
from mercer.tables.data.weights import fitted
from mercer.tables.judge import verdict as verdicts
from mercer.tables.judge.edges import edges_of
from mercer.tables.judge.simple import SimpleClasses, SimpleQuantity
from mercer.tables.judge.verdict import Against, judge
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


def structures(n: int) -> dict[str, RowStructure]:
    return {
        "groups": RowStructure("g", rng.permutation(np.arange(n) // 5)),
        "times": RowStructure("t", times=rng.integers(0, 40, n).astype(float)),
    }


@pytest.mark.parametrize("how", ["groups", "times"])
@pytest.mark.parametrize("k", [0, 3])
def test_rows_that_belong_together_are_left_out_of_the_simple_models_in_the_same_folds(
    how: str, k: int
) -> None:
    """A model that is the straight line itself, left out in its folds, gains nothing at all."""
    n = 90
    X, structure = rng.normal(size=(n, 2)), structures(n)[how]
    y = np.arange(n) % 3.0 if k else X[:, 0] + rng.normal(size=n)
    machine = SimpleClasses(k, line=True) if k else SimpleQuantity(line=True)
    left = by_folds(machine, X, y, y, k, 7, structure=structure)
    kind, classes = ("multiclass", np.arange(3)) if k else ("regression", None)
    target = Target("y", kind, y, classes, structure=structure)
    verdict = judge(left, np.arange(n), X, target, 7)
    mean, line = verdict.simple
    assert (line.gain, line.error) == (0.0, 0.0)
    assert line.own == line.other
    assert mean.error > 0.0
    assert mean.rows == line.rows == (n if how == "groups" else int(np.sum(left.weights > 0.0)))


@pytest.mark.parametrize("by", ["leave-group-out", "30 rows held out"])
@pytest.mark.parametrize("how", ["groups", "times"])
def test_no_simple_model_has_seen_the_group_or_the_future(monkeypatch, how: str, by: str) -> None:
    n = 90
    structure = structures(n)[how]
    own = structure.together.astype(float)
    X, y = np.column_stack([own, rng.normal(size=n)]), rng.normal(size=n)
    held = np.sort(structure.held(np.arange(n), 30, rng)) if "held" in by else np.arange(n)
    left = of_quantity(y[held], 0 * held, 0 * held + 1.0, -(y[held] ** 2), by)
    seen: list = []

    def watched(machine, rows, *given):  # type: ignore[no-untyped-def]
        seen.append(set(rows[:, 0]))
        return fitted(machine, rows, *given)

    def asked(machine, rows, *given):  # type: ignore[no-untyped-def]
        new = set(rows[:, 0])
        assert not new & seen[-1]
        assert how == "groups" or min(new) > max(seen[-1])
        return predicted_by(machine, rows, *given)

    monkeypatch.setattr(verdicts, "fitted", watched)
    monkeypatch.setattr(verdicts, "predicted_by", asked)
    target = Target("y", "regression", y, structure=structure)
    assert len(judge(left, held, X, target, 0).simple) == 2
    assert len(seen) >= 2


def test_groups_count_as_one_in_the_standard_error() -> None:
    groups = np.repeat(np.arange(60), 5)
    values = rng.normal(size=60)[groups] + 0.1 * rng.normal(size=300)
    _, apart = mean_and_error(values)
    mean, error = mean_and_error(values, None, groups)
    drawn = [values.reshape(60, 5)[rng.integers(0, 60, 60)].mean() for _ in range(4000)]
    assert mean == pytest.approx(values.mean())
    assert error == pytest.approx(np.std(drawn), rel=0.1)
    assert error > 2.0 * apart


def test_trees_do_not_learn_from_the_group_or_the_future() -> None:
    """A residual of each group of its own is no edge: a new group has another."""
    n = 300
    groups = np.repeat(np.arange(60), 5)
    place, effect = rng.normal(size=60), rng.normal(size=60)
    X, y = place[groups][:, None], effect[groups] + 0.1 * rng.normal(size=n)
    left = of_quantity(y, np.zeros(n), np.ones(n), -0.5 * y**2, "leave-group-out")
    naive = edges_of(left, X, 0)
    honest = edges_of(left, X, 0, RowStructure("g", groups))
    assert naive is not None
    assert honest is not None
    assert naive.found
    assert not honest.found
    later = edges_of(left, X, 0, RowStructure("t", times=np.arange(n) / 10.0))
    assert later is not None
    assert later.rows == 250  # the first sixth has nothing before it
