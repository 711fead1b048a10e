"""Progress and figures."""
