"""Similarity joins, which may shed comparisons."""
