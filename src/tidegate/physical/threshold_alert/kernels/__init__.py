"""Brackets, combinations, incidents and retention of elements."""
