"""Frozen values and pure functions that all packages share: usage, settings, turns, hooks, credentials."""
