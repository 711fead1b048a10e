"""Joins of rows that are alike, which may shed comparisons."""
