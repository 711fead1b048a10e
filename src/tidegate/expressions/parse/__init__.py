"""Parsing of values from text."""
