"""Grids of experiments on worker processes or on Ray."""
