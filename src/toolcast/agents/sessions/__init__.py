"""Sessions: turns in the background, persisted and resumed."""
