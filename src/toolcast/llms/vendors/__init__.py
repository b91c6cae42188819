"""The LLM classes, by vendor."""
