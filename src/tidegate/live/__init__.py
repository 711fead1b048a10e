"""A live graph: queries come, go and change while it runs."""
