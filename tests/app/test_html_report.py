"""The report: complete, harmless whatever the column names are, and honest."""

from __future__ import annotations

import base64
import html
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.plots.regression import coverage, sampling_band
from mercer.tables.choose.notes import of_intervals, of_search
from mercer.tables.quality import quality
from mercer.tables.report import table_report as render
from mercer.tables.report.curves import View, along

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "$x^2$",
    "$\\frac{",
    "[bold]markup[/]",
    "{{ 7 * 7 }}",
    "very long " + "x" * 500,
    "温度 📈 é",
    "two\nlines",
    "\x1b[31mred\u202e",
    "100%",
    "a,b",
]
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "h3", "p",
    "section", "table", "thead", "tbody", "tr", "th", "td", "figure", "img", "figcaption", "footer",
    "ul", "li", "b", "div", "nav", "a", "caption",
}  # fmt: skip


class Reader(HTMLParser):
    """Collects tags, attributes and images."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.images, self.links = set(), set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag == "img":
            self.images.append(dict(attrs))
        self.links += [value for name, value in attrs if name == "href"]


def check_harmless(text):
    reader = Reader(text)
    assert reader.tags <= ALLOWED
    assert not any(name.startswith("on") for name in reader.attributes)
    assert all(re.fullmatch(r"#part-\d+", link) for link in reader.links)
    assert "default-src 'none'" in text
    assert "49" not in re.findall(r"\{\{.*?\}\}|^49$", text)
    for image in reader.images:
        assert image["alt"]
        kind, _, data = image["src"].partition(";base64,")
        assert kind == "data:image/svg+xml"
        svg = ElementTree.fromstring(base64.b64decode(data))
        assert not [e for e in svg.iter() if e.tag.endswith("script")]
        links = [v for e in svg.iter() for k, v in e.attrib.items() if k.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
    return reader


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 2))
    y = 3 + X[:, 0] + 0.1 * rng.normal(size=40)
    return mercer.fit({"first": X[:, 0], "second": X[:, 1], "y": y}, "y", kernel="rbf")


def test_report_is_complete(fitted):
    text = render(fitted)
    reader = check_harmless(text)
    assert len(reader.images) == 6
    for words in ("R²", "what is done", "Calibration", "Relevance", "length"):
        assert words in text
    assert "http" not in text.replace("http-equiv", "")


def test_the_same_fit_gives_the_same_report(fitted):
    assert render(fitted) == render(fitted)


def test_the_style_has_the_announced_digest(fitted):
    import hashlib

    text = render(fitted)
    style = text[text.index("<style>") + 7 : text.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src &#39;sha256-{html.escape(digest)}&#39;" in text


def test_relevance_finds_the_input_that_matters(fitted):
    view = View(fitted)
    effects = dict(zip(view.effects.names, view.effects.effects, strict=True))
    assert effects["first"] > 5 * effects["second"]
    display = along(view, "first")
    (curve,) = display.curves.values()
    assert len(display.values) == len(curve) == len(display.half)
    assert np.all(display.half > 0)


def test_hostile_names_through_command_line_and_report(tmp_path, monkeypatch, capsys):
    import csv

    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    target = "<b>y</b> $\\alpha$"
    X = rng.normal(size=(25, len(HOSTILE)))
    with open("t.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*HOSTILE, target])
        writer.writerows(np.column_stack([X, X[:, 0] + X[:, 2]]).tolist())
    options = ["--report", "r.html", "--candidates", "linear"]
    code = main(["fit", "t.csv", "-t", target, "-o", "m.mercer", *options])
    out, err = capsys.readouterr()
    assert (code, err) == (0, "")
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    check_harmless(text)
    assert "&lt;b&gt;y&lt;/b&gt;" in text
    assert main(["info", "m.mercer"]) == 0
    out, err = capsys.readouterr()
    assert "\x1b" not in out
    assert "\u202e" not in out
    plain = "".join(out.split())
    assert "[bold]markup[/]" in plain
    assert "<script>alert(1)</script>" in plain
    assert main(["predict", "m.mercer", "t.csv", "-o", "out.csv"]) == 0
    assert sorted(os.listdir()) == ["m.mercer", "out.csv", "r.html", "t.csv"]
    capsys.readouterr()
    assert main(["fit", "t.csv", "-t", "<script>", "-o", "n.mercer"]) == 1
    assert "\x1b" not in capsys.readouterr().err


def test_one_input_and_many_rows(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 10, size=(1200, 1)).round(1)
    y = np.sin(X[:, 0]) + rng.normal(size=1200)
    text = render(mercer.fit({"x": X[:, 0], "y": y}, "y", kernel="rbf"))
    check_harmless(text)
    assert "different inputs" in text
    assert len(text) < 2_000_000


def test_dishonest_intervals_are_noted(fitted):
    narrow = replace(fitted.left_out_, std=fitted.left_out_.std / 10, below=None)
    assert not of_intervals(fitted.left_out_)
    assert "too narrow" in " ".join(of_intervals(narrow))
    search = {"converged": False, "message": "why", "at_bounds": ["loss__noise"]}
    notes = " ".join(of_search({"search": search}))
    assert "did not converge (why)" in notes
    assert "bound of loss__noise" in notes


def test_figures_by_hand():
    y, mean, std = np.array([0.0, 2.0, 4.0]), np.array([1.0, 2.0, 3.0]), np.full(3, 0.5)
    figures = quality(y, mean, std, np.array([-1.0, -2.0, -3.0]))
    assert figures["r2"] == pytest.approx(1 - 2 / 8)
    assert figures["rmse"] == pytest.approx(np.sqrt(2 / 3))
    assert figures["coverage90"] == pytest.approx(1 / 3)
    assert figures["log_density"] == pytest.approx(-2)
    doubled = quality(*(np.repeat(a, 2) for a in (y, mean, std)), np.repeat([-1.0, -2.0, -3.0], 2))
    weighted = quality(y, mean, std, np.array([-1.0, -2.0, -3.0]), np.full(3, 2.0))
    assert {k: v for k, v in doubled.items() if k != "rows"} == pytest.approx(
        {k: v for k, v in weighted.items() if k != "rows"}
    )


def test_calibration_of_honest_predictions(rng):
    y = rng.normal(size=4000)
    levels = np.linspace(0.1, 0.9, 9)
    low, high = sampling_band(levels, len(y), 0.9999)
    share = coverage(y, np.zeros(4000), np.ones(4000), levels)
    assert np.all((low < share) & (share < high))


def test_weights_count_in_cards_and_pictures_alike(rng):
    x, w = rng.normal(size=60), np.r_[np.full(50, 1.0), np.full(10, 30.0)]
    y = x + np.r_[rng.normal(size=50), 3.0 * rng.normal(size=10)]
    page = render(mercer.fit({"x": x, "y": y}, "y", weights=w, kernel="rbf"))
    card = re.search(r"([\d.]+ %)[^%]*of the rows lie in their 90 % interval", page)[1]
    assert f"{card} of the rows lie inside theirs" in page
    assert f"at 90 % it is {card}." in page
