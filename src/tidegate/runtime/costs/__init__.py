"""Costs of a graph that runs or may run: what is known of it, what it is estimated to need, and how that is shown."""
