"""Hypothesis strategies: streams, expressions, plans and ways to deliver elements, over tiny domains."""
