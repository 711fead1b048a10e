"""Sorted runs of elements, and the search for pairs in them."""
