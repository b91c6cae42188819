"""Text for people and for programs: JSON, escapes of a terminal, reprs, tracebacks, redrawn lines, words and stems."""
