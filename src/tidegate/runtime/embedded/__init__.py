"""The embedded runtime, which runs stages in this process."""
