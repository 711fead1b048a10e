"""Programs that run one query on one engine each, in a process and perhaps an environment of their own."""
