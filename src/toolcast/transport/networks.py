"""Which network an LLM's requests go through: one of the user's own, one that an extra brings, or httpx."""

from __future__ import annotations

from ..errors import UnsupportedLLMError
from .network import HttpxNetwork, Network


def network_of(choice: Network | str | None) -> Network:
    """The network that was chosen: one of the user's own, `"aiohttp"`, or httpx."""
    if choice is None:
        return HttpxNetwork()
    if not isinstance(choice, str):
        return choice
    if choice != "aiohttp":
        raise UnsupportedLLMError(f"no network is called {choice!r}; there is 'aiohttp'")
    from .aiohttp_network import AiohttpNetwork

    return AiohttpNetwork()
