"""Window joins that make the most productive comparisons when they cannot make all."""
