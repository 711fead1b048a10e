"""Grouping, aggregation and duplicate elimination."""
