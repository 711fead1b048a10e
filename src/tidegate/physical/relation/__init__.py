"""Operators of relations: LIMIT, set operations, semi-joins, changes, coalescing, windows of rows."""
