"""Alerts on totals: one for all, or one for each registered subscription with its range."""
