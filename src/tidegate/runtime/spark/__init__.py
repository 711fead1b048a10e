"""Stages on Spark."""
