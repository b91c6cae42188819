"""Coroutines driven without an event loop, outside of any and inside running ones."""

from __future__ import annotations

import asyncio
import gc
import sys
import types
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from typing import Any

import anyio
import httpx
import pytest
import sniffio
import trio

from toolcast.async_support import sync_driver
from toolcast.errors import ToolcastError, WouldSuspend

PLACES = ["no loop", "asyncio", "trio"]


def inside(place: str, function: Callable[[], Any]) -> Any:
    """What `function` returns, called with no loop running or from within one."""

    async def main() -> Any:
        return function()

    return function() if place == "no loop" else anyio.run(main, backend=place)


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Numbers:
    """An async generator that records whether its `finally` ran."""

    def __init__(self) -> None:
        self.closed = False
        self.generator = self._numbers()

    async def _numbers(self) -> AsyncIterator[int]:
        try:
            yield 1
            yield 2
        finally:
            await self._close()

    async def _close(self) -> None:
        self.closed = True

    async def next(self) -> int:
        return await anext(self.generator)


async def twice(number: int) -> int:
    return number * 2


def test_the_result_comes_back(place: str) -> None:
    assert inside(place, lambda: sync_driver.run(twice(4))) == 8


def test_an_error_comes_out_as_it_is(place: str) -> None:
    async def fails(error: BaseException) -> None:
        raise error

    for error in (ValueError("mine"), KeyboardInterrupt(), StopAsyncIteration()):
        with pytest.raises(type(error)) as caught:
            inside(place, lambda error=error: sync_driver.run(fails(error)))
        assert caught.value is error


def test_hooks_are_off_inside_and_back_afterwards(place: str) -> None:
    async def hooks() -> Any:
        return sys.get_asyncgen_hooks()

    def look() -> Any:
        before = sys.get_asyncgen_hooks()
        return sync_driver.run(hooks()), before, sys.get_asyncgen_hooks()

    during, before, after = inside(place, look)
    assert during == (None, None)
    assert before == after
    assert (before == (None, None)) == (place == "no loop")


def test_an_abandoned_generator_is_closed_when_collected(place: str) -> None:
    def abandon() -> list[Any]:
        numbers = Numbers()
        seen = [sync_driver.run(numbers.next()), numbers.closed]
        del numbers.generator
        gc.collect()
        return [*seen, numbers.closed]

    assert inside(place, abandon) == [1, False, True]


def test_a_generator_can_be_read_to_its_end(place: str) -> None:
    def read() -> list[Any]:
        numbers = Numbers()
        seen = [sync_driver.run(numbers.next()), sync_driver.run(numbers.next())]
        with pytest.raises(StopAsyncIteration):
            sync_driver.run(numbers.next())
        return [*seen, numbers.closed]

    assert inside(place, read) == [1, 2, True]


@pytest.mark.parametrize(
    ("place", "wait"),
    [
        ("asyncio", lambda: asyncio.sleep(0)),
        ("asyncio", lambda: asyncio.sleep(10)),
        ("asyncio", lambda: anyio.sleep(10)),
        ("trio", partial(trio.sleep, 10)),
        ("trio", lambda: anyio.sleep(10)),
    ],
)
def test_what_suspends_is_closed_and_reported(place: str, wait: Callable[[], Awaitable[None]]) -> None:
    cleaned: list[bool] = []

    async def suspends() -> None:
        try:
            await wait()
        finally:
            cleaned.append(True)

    def attempt() -> Any:
        hooks = sys.get_asyncgen_hooks()
        with pytest.raises(WouldSuspend, match="await the async method instead") as caught:
            sync_driver.run(suspends())
        assert sys.get_asyncgen_hooks() == hooks
        return caught.value

    error = inside(place, attempt)
    assert isinstance(error, ToolcastError)
    assert isinstance(error, RuntimeError)
    assert cleaned == [True]


def test_no_loop_is_pretended(place: str) -> None:
    async def library() -> str:
        return sniffio.current_async_library()

    if place == "no loop":
        with pytest.raises(WouldSuspend) as caught:
            sync_driver.run(library())
        assert isinstance(caught.value.__cause__, sniffio.AsyncLibraryNotFoundError)
    else:
        assert inside(place, lambda: sync_driver.run(library())) == place


def test_what_suspends_without_any_loop() -> None:
    @types.coroutine
    def suspend() -> Generator[None]:
        yield

    async def waits() -> None:
        await suspend()

    with pytest.raises(WouldSuspend):
        sync_driver.run(waits())


def test_other_faults_of_an_event_loop_pass() -> None:
    async def fails() -> None:
        raise RuntimeError("Event loop is closed")

    with pytest.raises(RuntimeError, match="Event loop is closed"):
        sync_driver.run(fails())


@pytest.mark.fault(115)
def test_what_asks_for_a_running_loop_is_reported_the_async_api() -> None:
    async def request() -> None:
        async with httpx.AsyncClient() as client:
            await client.get("http://127.0.0.1:9/")

    for ask in (partial(asyncio.sleep, 1), partial(anyio.sleep, 1), partial(trio.sleep, 1), request):
        with pytest.raises(WouldSuspend, match="async method") as caught:
            sync_driver.run(ask())
        assert isinstance(caught.value.__cause__, RuntimeError)
