"""Expressions over columns: nodes, functions, typing, evaluation, Spark SQL text."""
