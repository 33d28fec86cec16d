"""Every display: draws without a warning, on axes of its own or given, with words and contrast."""

from __future__ import annotations

import inspect
import io

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

import mercer
from mercer import plots
from mercer.inference import MCMC
from mercer.plots.style import BLUE, CLASSES, GREY, INK, ORANGE, Display, class_line, class_style

HOSTILE = "$\\frac{ <b>温度</b> " + "x" * 80


@pytest.fixture(scope="module")
def fits():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 2))
    y = np.sin(X[:, 0]) + 0.2 * rng.normal(size=50)
    two = np.where(X[:, 0] + 0.5 * rng.normal(size=50) > 0, "yes", "no")
    three = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.4, 0.4])]
    return {
        "X": X,
        "y": y,
        "two": two,
        "three": three,
        "regressor": mercer.GPRegressor().fit(X, y),
        "additive": mercer.AdditiveRegressor().fit(X, y),
        "binary": mercer.GPClassifier(search=None).fit(X, two),
        "several": mercer.KernelClassifier().fit(X, three),
        "few": mercer.GPClassifier(search=None).fit(X[:8], two[:8]),
    }


def drawn(name, f, ax):
    """Return the display of that name, from the estimator where it can."""
    X, y, model = f["X"], f["y"], f["regressor"]
    simple = {
        "BandDisplay": (model, X, y),
        "CheckDisplay": (model, X, y),
        "CoverageDisplay": (model, X, y),
        "CriteriaDisplay": (model, X, y, "loss__noise"),
        "DecisionRegionDisplay": (f["binary"], X, f["two"]),
        "DiscriminationDisplay": (f["several"], X, f["three"]),
        "ErrorRejectDisplay": (f["binary"], X, f["two"]),
        "EvidenceDisplay": (model, X, y, "loss__noise"),
        "LengthScaleDisplay": (model,),
        "MarginDisplay": (f["several"], X, f["three"]),
        "PrequentialDisplay": (model, X, y),
        "InferenceDisplay": (f["few"], X[:8], f["two"][:8]),
        "LearningDisplay": (mercer.GPRegressor(search=None), X, y),
        "ObservedDisplay": (model, X, y),
        "QuantileDisplay": (model, X, y),
        "RelevanceDisplay": (model, X),
        "ReliabilityDisplay": (f["binary"], X, f["two"]),
        "ResidualDisplay": (model, X, y),
        "TermDisplay": (f["additive"], "x0", X, y),
        "TermsDisplay": (f["additive"], X, y),
    }
    quick = {"inference": MCMC(samples=10, warmup=10), "runs": 0}
    options = quick if name == "InferenceDisplay" else {}
    return getattr(plots, name).from_estimator(*simple[name], ax=ax, **options)


EVERY = [name for name in plots.__all__ if name != "Display"]


@pytest.mark.parametrize("name", EVERY)
def test_draws_on_given_axes_and_on_its_own(name, fits):
    plt.close("all")  # of others before
    figure = Figure(layout="constrained")
    ax = figure.add_subplot()
    display = drawn(name, fits, ax)
    assert isinstance(display, Display)
    assert display.ax_ is ax
    assert display.figure_ is figure
    assert not plt.get_fignums(), "pyplot was used although axes were given"
    assert ax.get_xlabel()
    assert name == "RelevanceDisplay" or ax.get_ylabel()
    again = display.plot()
    assert again is display
    assert plt.get_fignums()
    assert display.ax_ is not ax
    again.figure_.savefig(io.BytesIO(), format="svg")


@pytest.mark.parametrize("name", EVERY)
def test_draws_the_same_twice(name, fits):
    def picture():
        figure = Figure()
        drawn(name, fits, figure.add_subplot())
        out = io.BytesIO()
        figure.savefig(out, format="raw")
        return out.getvalue()

    assert picture() == picture()


@pytest.mark.parametrize("name", EVERY)
def test_has_the_constructors_of_its_kind(name):
    kind = getattr(plots, name)
    assert inspect.ismethod(kind.from_estimator)
    assert name == "DecisionRegionDisplay" or inspect.ismethod(kind.from_predictions)


def luminance(colour):
    c = np.array(to_rgb(colour))
    c = np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4)
    return c @ [0.2126, 0.7152, 0.0722]


@pytest.mark.parametrize("colour", [INK, BLUE, ORANGE, GREY, *CLASSES])
def test_lines_and_text_stand_out_from_white(colour):
    assert 1.05 / (luminance(colour) + 0.05) >= 4.5


def test_classes_differ_by_more_than_colour():
    styles = [(class_style(i)["color"], class_style(i)["marker"]) for i in range(64)]
    assert len(set(styles)) == 64
    lines = [(class_line(i)["color"], class_line(i)["linestyle"]) for i in range(32)]
    assert len(set(lines)) == 32
    for i in range(3):
        assert class_style(i)["marker"] != class_style(i + 1)["marker"]
        assert class_line(i)["linestyle"] != class_line(i + 1)["linestyle"]


def test_text_from_tables_is_literal(fits):
    """A name with dollar signs is a name, not mathematics (which would raise here)."""
    X, y = fits["X"], fits["y"]
    figure = Figure()
    panels = figure.subplots(2, 3).ravel()
    plots.BandDisplay.from_estimator(
        fits["regressor"], X, name=HOSTILE, target=HOSTILE, ax=panels[0]
    )
    plots.RelevanceDisplay.from_predictions([1.0, 2.0], [HOSTILE, "$a$"], ax=panels[1])
    labels, p = np.array([HOSTILE, "$b$"])[np.arange(20) % 2], np.linspace(0.1, 0.9, 20)
    plots.ReliabilityDisplay.from_predictions(labels, p, ax=panels[2])
    plots.DiscriminationDisplay.from_predictions(labels, p, ax=panels[3])
    plots.ObservedDisplay.from_predictions(y, y, np.ones(50), target=HOSTILE, ax=panels[4])
    renamed = mercer.GPClassifier(search=None).fit(X, np.where(fits["two"] == "yes", "$x", "$y^"))
    plots.DecisionRegionDisplay.from_estimator(
        renamed, X, np.where(fits["two"] == "yes", "$x", "$y^"), names=("$", "$_"), ax=panels[5]
    )
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # Agg's own font
        figure.savefig(io.BytesIO())
    texts = " ".join(t.get_text() for t in panels[1].get_yticklabels())
    assert "$a$" in texts


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda f: plots.BandDisplay.from_estimator(f["several"], f["X"]), "standard deviation"),
        (lambda f: plots.BandDisplay.from_estimator(f["regressor"], f["X"], column=5), "column 5"),
        (
            lambda f: plots.BandDisplay.from_predictions([0.0], [0.0], [1.0], levels=(90,)),
            "between 0 and 1",
        ),
        (lambda f: plots.CoverageDisplay.from_predictions([1.0], [1.0], [0.0]), "std positive"),
        (lambda f: plots.CoverageDisplay.from_predictions([1.0], [1.0, 2.0], [1.0]), "same length"),
        (lambda f: plots.CoverageDisplay.from_loo(f["several"], f["three"]), "from_estimator"),
        (lambda f: plots.CoverageDisplay.from_loo(f["regressor"], [1.0]), "the y of the fit"),
        (
            lambda f: plots.ReliabilityDisplay.from_estimator(f["regressor"], f["X"], f["two"]),
            "predict_proba",
        ),
        (lambda f: plots.ReliabilityDisplay.from_loo(f["several"], f["three"]), "held out"),
        (lambda f: plots.ReliabilityDisplay.from_predictions(["a", "b"], [0.5, 1.5]), "between 0"),
        (
            lambda f: plots.ReliabilityDisplay.from_predictions(
                ["a", "d"], [0.5, 0.5], classes=["a", "b"]
            ),
            "'d'",
        ),
        (
            lambda f: plots.DiscriminationDisplay.from_predictions([0, 1], [0.1, 0.2], kind="x"),
            "'roc' or 'pr'",
        ),
        (
            lambda f: plots.DiscriminationDisplay.from_predictions(
                ["a", "a"], [0.1, 0.2], classes=["a", "b"]
            ),
            "one class",
        ),
        (lambda f: plots.DecisionRegionDisplay.from_estimator(f["binary"], f["y"]), "two columns"),
        (
            lambda f: plots.EvidenceDisplay.from_estimator(f["regressor"], f["X"], f["y"], "x"),
            "loss__noise",
        ),
        (
            lambda f: plots.EvidenceDisplay.from_estimator(f["several"], f["X"], f["three"], "x"),
            "no evidence",
        ),
        (
            lambda f: plots.LearningDisplay.from_estimator(f["regressor"], f["X"][:9], f["y"][:9]),
            "20 rows",
        ),
        (
            lambda f: plots.LearningDisplay.from_estimator(mercer.SVC(), f["X"], f["two"]),
            "has no predict_proba",
        ),
        (lambda f: plots.RelevanceDisplay.from_predictions([1.0], ["a", "b"]), "2 names"),
        (lambda f: plots.LengthScaleDisplay.from_predictions([1.0], ["a", "b"]), "2 names"),
        (lambda f: plots.LengthScaleDisplay.from_predictions([-1.0], ["a"]), "negative"),
        (
            lambda f: plots.LengthScaleDisplay.from_estimator(mercer.SmoothingSpline()),
            "RelevanceDisplay",
        ),
        (
            lambda f: plots.ErrorRejectDisplay.from_estimator(f["regressor"], f["X"], f["two"]),
            "predict_proba",
        ),
        (
            lambda f: plots.ErrorRejectDisplay.from_predictions(["a", "b"], [0.1, 0.9], bins=3),
            "no option 'bins'",
        ),
        (
            lambda f: plots.MarginDisplay.from_estimator(f["regressor"], f["X"], f["two"]),
            "decision_function",
        ),
        (lambda f: plots.MarginDisplay.from_loo(f["binary"]), "from_estimator"),
        (lambda f: plots.MarginDisplay.from_predictions(["a", "b"], [[1.0], [2.0]]), "scores"),
        (
            lambda f: plots.PrequentialDisplay.from_estimator(mercer.SVC(), f["X"], f["two"]),
            "OnlineLogisticClassifier",
        ),
        (
            lambda f: plots.PrequentialDisplay.from_estimator(
                mercer.OnlineLogisticClassifier(), f["X"], f["two"], batch=0
            ),
            "batch must be 1",
        ),
        (
            lambda f: plots.CriteriaDisplay.from_estimator(f["several"], f["X"], f["three"], "x"),
            "no evidence",
        ),
    ],
)
def test_refuses_with_a_sentence(call, sentence, fits):
    with pytest.raises(ValueError, match=sentence):
        call(fits)
    assert not plt.get_fignums(), "an empty figure was left behind"


def test_without_matplotlib_there_is_a_sentence(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match="mercer\\[report\\]"):
        plots.ResidualDisplay.from_predictions([1.0, 2.0], [1.0, 1.0], [1.0, 1.0])
