"""Kernels of count windows, coalescing and changes."""
