"""Measurement of what the work of operators costs on this machine."""
