"""Resources of a run: limits on memory and processor time, and the sizes of windows that keep within them."""
