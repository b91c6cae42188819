"""PEI ratings of runs by evaluator models."""
