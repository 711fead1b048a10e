"""Continuous SQL queries over data streams, exact at every instant."""
