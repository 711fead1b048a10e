"""Trackers of totals in ranges, for all time or within a window."""
