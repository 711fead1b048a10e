"""Expressions over columns: nodes, functions, evaluation, text."""
