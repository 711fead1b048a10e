"""Slots of elements, their indexes, and comparisons by cells."""
