"""Parsing of streamed JSON: incremental JSON, lenient JSON, partial Pydantic objects."""
