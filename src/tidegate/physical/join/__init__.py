"""Join of two streams by equal keys and comparisons."""
