"""Words of a text and their stems, for the tool search and the embedder without a model."""
