"""Load shedding: the pace of steps, and the report of the work that was left out."""
