"""The report of a table: every kind, harmless whatever the table holds, and true."""

from __future__ import annotations

import base64
import re
from copy import copy
from dataclasses import fields, replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import mercer
from mercer.tables.choose.left_out import of_classes, of_quantity
from mercer.tables.choose.ranking import Row
from mercer.tables.choose.screen import ROWS
from mercer.tables.report import draw, table_report
from mercer.tables.report.chapters import CLASSES, QUANTITY, SCREENED, _day, _short, _why
from mercer.tables.report.curves import View, _verdict, typical
from mercer.tables.report.figures import class_cards, mistakes, quantity_cards
from mercer.tables.report.grids import ranking_grid, surprising, why
from mercer.tables.report.page import Card, Chapter, Grid, Page, html
from mercer.tables.report.words import in_words

EVIL = '"><script>alert(1)</script>'
VOID = {"meta", "img"}


class Reader(HTMLParser):
    """Reads a page: nesting, headings, images, header cells, all text."""

    def __init__(self, text):
        super().__init__()
        self.open, self.headings, self.images, self.heads = [], [], [], []
        self.ids, self.links, self.tags, self.text = [], [], set(), []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        known = dict(attrs)
        self.tags.add(tag)
        assert not any(name.startswith("on") for name in known)
        if tag not in VOID:
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(known)
        if tag == "th":
            self.heads.append(known)
        self.ids += [known["id"]] if "id" in known else []
        self.links += [known["href"]] if "href" in known else []

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text.append(data)


def check(text):
    """The page is well formed, accessible and inert; returns what was read."""
    reader = Reader(text)
    assert "script" not in reader.tags
    assert {"iframe", "object", "form", "link"}.isdisjoint(reader.tags)
    assert reader.headings[0] == 1
    assert reader.headings.count(1) == 1
    steps = zip(reader.headings, reader.headings[1:], strict=False)
    assert all(after <= before + 1 for before, after in steps), "a level of headings is left out"
    assert len(set(reader.ids)) == len(reader.ids)
    assert {f"#{name}" for name in reader.ids} >= set(reader.links)
    assert all(head.get("scope") in ("row", "col") for head in reader.heads)
    for image in reader.images:
        assert len(image["alt"]) > 20
        kind, _, data = image["src"].partition(";base64,")
        assert kind == "data:image/svg+xml"
        svg = ElementTree.fromstring(base64.b64decode(data))
        assert not [e for e in svg.iter() if e.tag.endswith("script")]
        links = [v for e in svg.iter() for k, v in e.attrib.items() if k.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    assert "http" not in text.replace("http-equiv", "")
    return reader


def table(kind):
    rng = np.random.default_rng(1)
    x, z = rng.normal(size=(2, 60))
    group = np.array(["a", EVIL, "$x^2$"], dtype=object)[np.arange(60) % 3]
    group[7] = None
    day = np.datetime64("2020-01-01") + np.arange(60)
    x[3] = np.nan
    signal = np.nan_to_num(x) + 0.3 * z
    columns = {EVIL: x, "$\\frac{": z, "group": group, "day": day}
    if kind == "regression":
        return columns | {"y": signal}
    three = np.array(["low", EVIL, "high"], dtype=object)[np.digitize(signal, [-0.5, 0.5])]
    if kind == "multiclass":
        return columns | {"y": three}
    two = np.where(signal > 0, "<b>yes</b>", "no").astype(object)
    if kind == "partly":
        two[rng.permutation(60)[:25]] = None
    return columns | {"y": two}


MACHINES = {
    "regression": "Gaussian process",
    "binary": "support vectors",
    "multiclass": "kernel logistic",
    "partly": "manifold support vectors",
}


@pytest.fixture(scope="module")
def models():
    return {
        kind: mercer.fit(table(kind), "y", candidates=[name], time_budget=20)
        for kind, name in MACHINES.items()
    }


@pytest.fixture(autouse=True)
def still_clock(monkeypatch):
    """Relevance and learning curve are bounded in time: a loaded machine must not shorten them."""
    for module in ("inputs", "learning"):
        monkeypatch.setattr(f"mercer.plots.{module}.monotonic", lambda: 0.0)


@pytest.mark.parametrize("kind", MACHINES)
def test_every_kind_has_a_whole_report(models, kind):
    model = models[kind]
    assert model.kind_ == kind
    told = []
    text = table_report(model, told.append)
    assert [event["step"] for event in told] == list(range(told[0]["steps"]))
    reader = check(text)
    words = " ".join(reader.text)
    wanted = ["In short", "Why this model", "How far it can be trusted", "What it depends on"]
    wanted += ["Would more rows help?", "Rows that surprise it", "The model in words"]
    wanted += ["The columns", model.chosen_.sentence, "constant", "Calibration", "Learning curve"]
    wanted += ["Residuals"] if kind == "regression" else ["ROC", "Precision and recall"]
    assert not [w for w in wanted if w not in words]
    assert EVIL in words, "the name of a column is shown as it is"
    assert len(reader.images) == 6
    for column in model.columns_:
        assert column.rule in words
    for note in model.notes_:
        assert note[:200] in words
    assert table_report(model) == text, "the same fit has the same report"


def test_the_file_is_written_or_not_at_all(models, tmp_path, monkeypatch):
    path = tmp_path / "r.html"
    models["binary"].report(path)
    before = path.read_bytes()
    check(before.decode("utf-8"))
    monkeypatch.setattr("mercer.tables.report.chapters.html", lambda page: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        models["binary"].report(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.html"]


def test_a_loaded_model_has_no_report(models, tmp_path):
    import copy

    bare = copy.copy(models["regression"])
    bare.frame_ = None
    with pytest.raises(ValueError, match="after fitting"):
        table_report(bare)
    with pytest.raises(ValueError, match="after fitting"):
        bare.plot("relevance")
    from matplotlib.figure import Figure

    bare.plot("residuals", Figure().add_subplot())  # the rows left out are in the file


@pytest.mark.parametrize("kind", MACHINES)
def test_single_pictures(models, kind):
    from matplotlib.figure import Figure

    for what in ("auto", *(QUANTITY if kind == "regression" else CLASSES)):
        ax = Figure().add_subplot()
        assert draw(models[kind], what, ax).ax_ is ax
    with pytest.raises(ValueError, match="calibration"):
        models[kind].plot("residual")


def test_the_most_surprising_rows_come_first():
    y, mean, std = np.array([0.0, 9.0, 1.0]), np.array([0.0, 1.0, 2.0]), np.array([1.0, 2.0, 1.0])
    density = -0.5 * ((y - mean) / std) ** 2 - np.log(std)
    rows, inputs = np.array([4, 8, 9]), {"x": [1.5, None, float("nan")]}
    grid = surprising(of_quantity(y, mean, std, density, ""), None, rows, inputs)
    assert [line[0] for line in grid.rows] == ["9", "10", "5"]
    assert grid.rows[0][3:] == ["+4.0", "missing"]
    assert grid.rows[1][3:] == ["-1.0", "missing"]
    p = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]])
    codes = np.array([1, 1, 0])
    found = surprising(of_classes(codes, p, ""), ["no", "yes"], rows, {})
    assert found.rows[0] == ["5", "yes", "no", "10 %", "90 %"]


def test_cards_by_hand():
    y, mean = np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0])
    given = (y, mean, np.full(3, 0.5), np.array([-1.0, -2.0, -3.0]), "")
    cards = quantity_cards(of_quantity(*given))
    assert [c.value for c in cards] == ["0.750", "33.3 %", "0.8165", "-2.000"]
    weighted = quantity_cards(of_quantity(*given, np.array([1.0, 1.0, 0.0])))
    assert weighted[3].value == "-1.500"
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.6, 0.4]])
    codes = np.array([0, 0, 1, 1])
    left = of_classes(codes, p, "")
    cards = class_cards(left, np.array(["a", "b"]))
    assert cards[0].value == "75.0 %"
    assert cards[1].value == f"{-np.mean(np.log([0.8, 0.6, 0.7, 0.4])):.3f}"
    assert cards[3].value == "0.875"
    assert cards[2].value == f"{100 * left.calibration:.1f} %"
    (grid,) = mistakes(left, np.array(["a", "b"]))
    assert grid.rows == [["a", "2", "0"], ["b", "1", "1"]]
    assert mistakes(of_classes(codes, np.full((4, 13), 1 / 13), ""), np.arange(13)) == []


def row(name, score, **others):
    none = dict.fromkeys(field.name for field in fields(Row))
    given = {"name": name, "score": score, "sentence": "words", "by": "leave-one-out"}
    return Row(**(none | given | others))


def test_the_ranking_says_why():
    rows = [row("one", -1.0, chosen=True, error=0.1), row("two", -1.5), row("three", None)]
    assert "0.500 nats per row ahead of “two”" in why(rows)[1]
    rows[1] = row("two", -1.001)
    assert "equally well" in why(rows)[1]
    rows[1] = row("two", -0.5)
    assert "scored 0.500 nats per row more" in why(rows)[1]
    assert len(why([row("one", -1.0, chosen=True)])) == 1
    grid = ranking_grid(rows, quantity=False)
    assert grid.marked == 0
    assert grid.head[3:] == ["log density per row", "wrong classes"]
    assert grid.rows[0][3:] == ["-1.0000", "10.0 %"]
    assert grid.rows[2][3:] == ["–", "–"]


@pytest.mark.parametrize(
    "name",
    [
        "relevance vectors",
        "smoothing spline",
        pytest.param("heavy tails", marks=pytest.mark.slow),
    ],
)
def test_every_machine_has_a_learning_curve(rng, name):
    x = rng.uniform(0, 9, size=40)
    data = {"x": x, "y": np.sin(x) + 0.2 * rng.normal(size=40)}
    text = table_report(mercer.fit(data, "y", candidates=[name]))
    assert len(check(text).images) == 6


def test_few_rows_have_a_report_without_a_learning_curve():
    data = {"x": np.arange(8.0), "y": np.array([0.1, 1.2, 1.9, 3.1, 4.0, 5.2, 5.9, 7.1])}
    text = table_report(mercer.fit(data, "y", candidates=["linear"]))
    assert len(check(text).images) == 5
    assert "Would more rows help?" not in text


def test_text_has_no_direction(rng):
    """A column of text is relevant, but there is no curve along it."""
    words = ["the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs", "near", "a", "river"]
    texts = [" ".join(rng.choice(words, size=6)) for _ in range(60)]
    data = {"t": texts, "y": [float("fox" in t) + 0.01 * i for i, t in enumerate(texts)]}
    model = mercer.fit(data, "y", candidates=["linear"])
    text = table_report(model)
    assert "Relevance of the inputs" in text
    assert "Along the most" not in text
    with pytest.raises(ValueError, match="no order"):
        model.plot("along")


def test_verdicts_of_the_learning_curve():
    assert "would probably help" in _verdict(0.2, 0.05)
    assert "hardly help" in _verdict(0.001, 0.005)
    assert "too few rows" in _verdict(0.05, 0.05)
    assert "too few rows" in _verdict(-0.05, 0.05)
    assert "made it worse by 0.400" in _verdict(-0.4, 0.05)


def test_typical_rows(models):
    frame = models["regression"].frame_
    values = np.array([0.0, 1.0])
    found = typical(frame, EVIL, values)
    assert found.n == 2
    np.testing.assert_array_equal(found.columns[EVIL], values)
    assert found.columns["$\\frac{"][0] == np.nanmedian(frame.columns["$\\frac{"])
    assert set(found.columns["group"]) <= set(frame.columns["group"].tolist())
    assert found.dates == frame.dates


def test_words_of_machines(rng):
    X = rng.normal(size=(30, 1))
    y = X[:, 0] + 0.1 * rng.normal(size=30)
    said = " ".join(in_words(mercer.GPRegressor("matern32").fit(X, y)))
    assert "without corners" in said
    assert "length scale is" in said
    assert "noise" in said
    line = " ".join(in_words(mercer.GPRegressor("linear").fit(X, y)))
    assert "straight lines" in line
    assert "support vectors" in " ".join(in_words(mercer.SVC().fit(X, y > 0)))


def test_all_text_is_escaped():
    evil = "<script>&\"'{{ 7 * 7 }}"
    chapter = Chapter(evil, [evil], [Card(evil, evil)], grids=[Grid(evil, [evil], [[evil]])])
    text = html(Page(evil, evil, [chapter], [evil]))
    assert "script" not in Reader(text).tags
    assert text.count("&lt;script&gt;") >= 9
    assert "49" not in re.sub(r"sha256-\S+", "", text[text.index("</style>") :])


def test_missing_dates_among_the_surprises_are_missing():
    assert _day(float("nan")) is None
    assert [_day(0.0), _day(365.75), _day(-0.5)] == ["1970-01-01", "1971-01-01", "1969-12-31"]


def test_what_is_said_of_the_choice_holds(models):
    """Neither "better than the others" of a machine that is not, nor one table of other rows."""
    model = copy(models["regression"])
    better = "better than the other candidates did"
    assert better in " ".join(_short(View(model)).text)
    best, *rest = model.ranking_
    model.ranking_ = [
        replace(best, name="another", chosen=False),
        replace(best, chosen=True),
        *rest,
    ]
    said = " ".join(_short(View(model)).text)
    assert better not in said
    assert "said below" in said
    assert "at most 500 rows" not in " ".join(_why(View(model)).text)
    left = model.left_out_
    longer = {n: np.tile(getattr(left, n), 9) for n in ("y", "log_density", "mean", "std")}
    model.left_out_ = replace(left, **longer)
    assert f"{len(longer['y'])} rows" in " ".join(_why(View(model)).text)
    assert SCREENED == ROWS
