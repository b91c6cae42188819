"""The choice of an LLM's network, its option `network=`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from ..errors import UnsupportedLLMError
from .httpx_network import HttpxNetwork
from .network import Network

NetworkChoice: TypeAlias = Network | Literal["aiohttp", "auto"]
"""The values of an LLM's `network=`: a `Network`, `"aiohttp"`, or `"auto"` for aiohttp where it can be used."""


def resolve_network(choice: Network | str | None) -> Network:
    """Return the network for an LLM's `network=`: the caller's own, one of the names, or httpx for None."""
    if choice is None:
        return HttpxNetwork()
    if not isinstance(choice, str):
        return choice
    if choice == "auto":
        from .auto_network import AutoNetwork

        return AutoNetwork()
    if choice != "aiohttp":
        raise UnsupportedLLMError(f"network={choice!r}: expected a Network, 'aiohttp', 'auto' or None")
    from .aiohttp_network import AiohttpNetwork  # of an extra

    return AiohttpNetwork()
