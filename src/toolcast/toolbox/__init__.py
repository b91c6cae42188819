"""Built-in tools: files, shell command, web page, question to the user."""
