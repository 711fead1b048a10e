"""The client of a service: only the standard library and pyarrow."""
