"""Loops of windows of rows, of coalescing and of changes."""
