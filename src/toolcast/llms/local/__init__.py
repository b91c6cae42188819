"""The embedded llama.cpp server and its model weights."""
