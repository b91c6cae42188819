"""Protocols of LLM services: request encoding and response decoding, without I/O."""
