"""What comparisons have shown, and which of them fit in a budget."""
