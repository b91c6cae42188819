"""The fixture `chats`: each API of the chat machine, sync, asyncio and trio."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.chat_drivers import CHAT_APIS, CHAT_NAMES, ChatAPI
from support.subagents import PATIENCE


@pytest.fixture(params=CHAT_APIS, ids=CHAT_NAMES)
def chats(request: pytest.FixtureRequest) -> Iterator[ChatAPI]:
    """Yield each API of chats in turn; then check that no task goes on."""
    with request.param().running() as api:
        yield api
    for thread in threading.enumerate():
        if thread.name.startswith(("chat ", "tool ")):
            thread.join(PATIENCE)
            assert not thread.is_alive()
