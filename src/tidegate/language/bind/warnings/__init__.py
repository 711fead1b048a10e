"""Warnings about queries that probably do not mean what their author thinks."""
