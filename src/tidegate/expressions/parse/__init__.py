"""Values from texts."""
