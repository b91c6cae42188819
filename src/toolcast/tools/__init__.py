"""Tools: their schema, execution and results."""
