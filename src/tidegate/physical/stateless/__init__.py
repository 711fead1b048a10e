"""Operators without state: filter, map, window, union, and those that change validities."""
