"""Physical operators by feature, each with its state and kernels, over what all have in common."""
