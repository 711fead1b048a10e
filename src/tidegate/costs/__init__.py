"""Cost model of plans: how many rows streams have, what operators keep, and how much work they do.

All of it is arithmetic on floats and knows nothing of operators or queries. Formulas with numbers are those of the
dissertation (chapter 22); the others are derived in their docstrings.
"""
