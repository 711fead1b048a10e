"""Pure columnar kernels of the time-interval algebra."""
