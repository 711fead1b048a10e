"""The logical algebra and what is derived of its plans."""
