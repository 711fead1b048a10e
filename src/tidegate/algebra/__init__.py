"""The logical algebra and the properties derived from its plans."""
