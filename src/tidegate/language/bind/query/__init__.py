"""SELECT: from a written query to a logical plan."""
