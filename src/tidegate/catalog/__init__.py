"""The catalog of streams, queries and functions."""
