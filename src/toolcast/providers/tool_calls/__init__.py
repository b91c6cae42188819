"""Decoding of streamed tool calls, by their form on the wire."""
