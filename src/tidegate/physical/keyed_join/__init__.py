"""Joins along keys, whose state is cut by constraints on how rows arrive (k-Mon)."""
