"""Registered ranges with thresholds: which element completes which of them."""
