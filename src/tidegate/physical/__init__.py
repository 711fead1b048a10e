"""Physical operators, their kernels and state."""
