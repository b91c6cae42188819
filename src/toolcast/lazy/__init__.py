"""The fast import of toolcast: public names on first use, and dataclasses that are made on first use."""
