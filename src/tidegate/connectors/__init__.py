"""Sources and sinks: files, generators and tables in memory."""
