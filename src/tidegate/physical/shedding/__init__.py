"""Work that is left out under overload: what is decided for the next step, and what is told of the last."""
