"""The requests of LLMs that are HTTP services: one exchange with its attempts, and what spans several exchanges."""
