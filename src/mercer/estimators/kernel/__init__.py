"""Kernel machines with a loss and an inference of your choice."""
