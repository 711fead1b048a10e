"""Streams and queries by name."""
