"""Applications: the command line, the terminal REPL, the web UI, the experiment commands."""
