"""The llama.cpp server, with grammars that enforce tool calls."""
