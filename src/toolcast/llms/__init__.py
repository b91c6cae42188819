"""LLMs: the base class, provider classes, HTTP exchange, fallback, concurrency limits, event streams."""
