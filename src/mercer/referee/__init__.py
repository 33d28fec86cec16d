"""The referee: how far an approximate posterior is from the truth, on your own data."""

from mercer.referee.check import InferenceCheck, check_inference_on
from mercer.referee.evidence import EvidenceBracket
from mercer.referee.figures import Figures
from mercer.referee.gaussian import gaussian_bound

__all__ = ["EvidenceBracket", "Figures", "InferenceCheck", "check_inference_on", "gaussian_bound"]
