"""A live graph: queries that are registered, changed and dropped while everything runs."""
