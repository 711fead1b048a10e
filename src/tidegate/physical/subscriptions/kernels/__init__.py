"""Trackers of totals in ranges, for ever or within a window."""
