"""Jobs through the batch API of a provider: `via="batch"`."""
