"""A transport to an MCP server that never answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import anyio


@asynccontextmanager
async def silent() -> AsyncGenerator[Any]:
    """Open streams of which one takes every message, and the other has none."""
    sent, read = anyio.create_memory_object_stream[Any](0)
    write, received = anyio.create_memory_object_stream[Any](inf)
    async with sent, read, write, received:
        yield read, write
