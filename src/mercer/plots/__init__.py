"""Plots: displays in scikit-learn's style, from a fitted estimator or from predictions.

``SomeDisplay.from_estimator(model, X, y)`` computes and draws; the display keeps what it drew, with
``ax_`` and ``figure_`` of matplotlib. The pictures of the report are these displays.
"""

from mercer.plots.certainty import ErrorRejectDisplay, MarginDisplay
from mercer.plots.check import CheckDisplay, QuantileDisplay
from mercer.plots.classes import DiscriminationDisplay, ReliabilityDisplay
from mercer.plots.evidence import CriteriaDisplay, EvidenceDisplay
from mercer.plots.inference import InferenceDisplay
from mercer.plots.inputs import RelevanceDisplay
from mercer.plots.learning import LearningDisplay
from mercer.plots.prequential import PrequentialDisplay
from mercer.plots.regions import DecisionRegionDisplay
from mercer.plots.regression import BandDisplay, CoverageDisplay, ObservedDisplay, ResidualDisplay
from mercer.plots.scales import LengthScaleDisplay
from mercer.plots.style import Display
from mercer.plots.terms import TermDisplay, TermsDisplay

__all__ = [
    "BandDisplay",
    "CheckDisplay",
    "CoverageDisplay",
    "CriteriaDisplay",
    "DecisionRegionDisplay",
    "DiscriminationDisplay",
    "Display",
    "ErrorRejectDisplay",
    "EvidenceDisplay",
    "InferenceDisplay",
    "LearningDisplay",
    "LengthScaleDisplay",
    "MarginDisplay",
    "ObservedDisplay",
    "PrequentialDisplay",
    "QuantileDisplay",
    "RelevanceDisplay",
    "ReliabilityDisplay",
    "ResidualDisplay",
    "TermDisplay",
    "TermsDisplay",
]
