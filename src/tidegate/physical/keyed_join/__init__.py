"""Keyed joins, whose state is limited by constraints on how rows arrive (k-Mon)."""
