"""The functions, operators, aggregates and casts of the language."""
