"""Sources and sinks by location."""
