"""From the syntax tree to a program: names, types, plans."""
