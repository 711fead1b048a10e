"""Methods that benchmarks compare Tidegate with: the papers' own algorithms, and naive ones."""
