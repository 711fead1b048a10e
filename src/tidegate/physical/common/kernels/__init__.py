"""Kernels that several features use: hashes, groups, orders of values and of time."""
