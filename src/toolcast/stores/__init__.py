"""Stores of sessions: JSONL files, SQLite, memory."""
