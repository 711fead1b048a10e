"""Hints for people who write the SQL of other systems."""
