"""`toolcast demo`: structured calls on a real, small model inside this process."""
