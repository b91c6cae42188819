"""Structured calls: typed objects by tool calls, complete or streamed as partial objects."""
