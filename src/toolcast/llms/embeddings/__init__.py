"""Embeddings of texts: from services, and from embedders that need none."""
