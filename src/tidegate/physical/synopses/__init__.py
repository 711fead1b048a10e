"""Many-one joins of streams that keep no more than constraints on how these arrive demand."""
