"""Alerts on totals: one total for all elements of a key, or one for each registered subscription."""
