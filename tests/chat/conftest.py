"""The fixture `chats`: each API of the chat machine, sync, asyncio and trio."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from support.chat_drivers import CHAT_FACES, CHAT_NAMES, ChatFace
from support.subagents import PATIENCE


@pytest.fixture(params=CHAT_FACES, ids=CHAT_NAMES)
def chats(request: pytest.FixtureRequest) -> Iterator[ChatFace]:
    """Each way to use a chat machine in turn. Afterwards no work goes on."""
    with request.param().running() as face:
        yield face
    for thread in threading.enumerate():
        if thread.name.startswith(("chat ", "tool ")):
            thread.join(PATIENCE)
            assert not thread.is_alive()
