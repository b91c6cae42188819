"""toolcast."""
