"""OpenAI's chat completions API, and the table of services compatible with it."""
