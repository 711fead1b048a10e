"""Joins that remember only what may still find a partner."""
