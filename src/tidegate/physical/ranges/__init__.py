"""Alerts on total weights: what is checked, who is registered, and how totals are followed."""
