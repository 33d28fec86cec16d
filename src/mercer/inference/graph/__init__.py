"""Posteriors that are smooth along a graph of the inputs."""
