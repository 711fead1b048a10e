"""Work that is left out under overload: the pace of steps, and the report of what was shed."""
