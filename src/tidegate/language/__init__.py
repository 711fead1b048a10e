"""From SQL text to a bound logical plan: parse, syntax, bind."""
