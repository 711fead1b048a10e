"""Synopses of keyed joins, and monitors of constraints."""
