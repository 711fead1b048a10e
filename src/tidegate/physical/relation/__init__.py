"""Operators of relations: LIMIT, set operations, semi-joins, changes, coalescing, count windows."""
