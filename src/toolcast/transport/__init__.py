"""HTTP: the Network protocol, its httpx and aiohttp implementations, and the connection pool."""
