"""Kernels of changed inputs: chosen columns, other units, a learned metric, invariances."""
