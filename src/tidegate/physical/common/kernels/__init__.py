"""Kernels that several features use: hashing, grouping, order of values, order of time."""
