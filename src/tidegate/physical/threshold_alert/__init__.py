"""Alerts on a function of joined streams, and the omission of elements that cannot matter to them."""
