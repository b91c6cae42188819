"""The terminal REPL, `toolcast chat`."""
