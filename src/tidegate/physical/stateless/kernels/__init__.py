"""Arithmetic on validities."""
