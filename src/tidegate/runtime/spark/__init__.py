"""The Spark runtime, which runs stages as Spark jobs."""
