"""Helpers without a subject of their own: text, JSON, reprs, lazy imports. Nothing here imports another package."""
