"""Kernels of aggregation: the sweep over starts and ends, exact sums, and slots of time."""
