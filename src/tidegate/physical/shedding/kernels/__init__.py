"""Evidence from comparisons, and the choice of those that fit in a budget."""
