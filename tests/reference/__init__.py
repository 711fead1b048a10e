"""The meaning of plans, by definition: slow, obvious, and written without the package's own evaluation."""
