"""Slots of elements, indexes of them, and comparisons by cells."""
