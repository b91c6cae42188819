"""JSON schemas: normalization, and the strict forms that services require."""
