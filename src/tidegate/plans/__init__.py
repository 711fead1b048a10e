"""Plans by hand: queries that are put together operator by operator in Python."""
