"""Processes: a prior over functions, and what conditioning makes of it."""

from mercer.process.process import Posterior, Prior, Process

__all__ = ["Posterior", "Prior", "Process"]
