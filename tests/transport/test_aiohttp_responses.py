"""How long a read over aiohttp may wait, and its result at the end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import ClientPayloadError

from async_support.test_deadlines import Loop, alarm_of
from toolcast.transport.aiohttp_connections import ActiveAiohttpResponse, ResponseCancelHandle


class Content:
    """As much of aiohttp's `StreamReader` as a wait looks at."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self.ended = False
        self.error: BaseException | None = None

    def is_eof(self) -> bool:
        return self.ended

    def exception(self) -> BaseException | None:
        return self.error

    def set_exception(self, error: BaseException) -> None:
        self.error = error


@pytest.fixture
def loop() -> Loop:
    return Loop()


def opened(loop: Loop) -> tuple[ActiveAiohttpResponse, Content]:
    response: Any = type("Response", (), {"content": Content()})()
    return ActiveAiohttpResponse(response, ResponseCancelHandle(), alarm_of(loop)), response.content


def test_a_read_is_given_up_once_nothing_has_come(loop: Loop) -> None:
    kept, content = opened(loop)
    kept.begin(5)
    loop.until(105)
    assert isinstance(content.error, TimeoutError)


@pytest.mark.parametrize("end", ["closed", "broken", "cancelled"])
def test_a_reader_hears_that_its_connection_is_lost(loop: Loop, end: str) -> None:
    kept, content = opened(loop)
    running = asyncio.new_event_loop()
    closed: asyncio.Future[None] = running.create_future()
    if end == "closed":
        closed.set_result(None)
    elif end == "broken":
        closed.set_exception(OSError())
    else:
        closed.cancel()
    line = kept._handle
    line.lost(closed)
    first = content.error
    assert isinstance(first, ClientPayloadError)
    line.lost(closed)
    assert content.error is first
    running.close()


@pytest.mark.parametrize("came", ["data", "the end"])
def test_a_reader_that_was_woken_in_time_is_left_alone(loop: Loop, came: str) -> None:
    """It is to run in the very round of the event loop in which the timer rings."""
    kept, content = opened(loop)
    kept.begin(5)
    if came == "data":
        content.total_bytes += 3
    else:
        content.ended = True
    loop.until(105)
    assert content.error is None
    kept.end()
    loop.until(1000)
    assert content.error is None
