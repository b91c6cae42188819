"""Middleware: `WrapperLLM`, and the wrappers that cache, record and redact."""
