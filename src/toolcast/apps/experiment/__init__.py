"""The commands of `toolcast experiment`."""
