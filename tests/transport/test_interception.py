"""Which interceptor a request goes to, in nested blocks, threads, tasks and fixtures."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

import anyio
import pytest

from toolcast.errors import ToolcastError
from toolcast.testing import Recorded, ReplayNetwork
from toolcast.transport.interception import Interceptor, intercept, intercept_by_default, interceptor
from toolcast.transport.network import SystemClock, aopen_response, open_response
from toolcast.values.http_request import HTTPRequest

REQUEST = HTTPRequest("GET", "http://service.example", {}, b"")


class Named:
    """An interceptor that passes everything on, and counts."""

    def __init__(self, name: str, *, sends_nothing: bool = False) -> None:
        self.name = name
        self.sends_nothing = sends_nothing
        self.requests = 0

    def __repr__(self) -> str:
        return self.name

    def sends_to(self, url: str) -> bool:
        return not self.sends_nothing

    def open(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        self.requests += 1
        return network.open(request, connect=connect, read=read)

    async def aopen(self, network: Any, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        self.requests += 1
        return await network.aopen(request, connect=connect, read=read)


A, B, C = Named("A"), Named("B"), Named("C")


def in_a_thread() -> Interceptor | None:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(interceptor).result()


def test_none() -> None:
    assert interceptor() is None
    network = ReplayNetwork(Recorded([b"x"]))
    assert open_response(network, REQUEST, connect=1, read=1).read() == b"x"


def test_requests_go_to_the_interceptor() -> None:
    network, named = ReplayNetwork(Recorded([b"x"]), Recorded([b"y"])), Named("N")

    async def main() -> bytes:
        return await (await aopen_response(network, REQUEST, connect=1, read=1)).read(1)

    with intercept(named):
        assert open_response(network, REQUEST, connect=1, read=1).read() == b"x"
        assert anyio.run(main) == b"y"
    assert named.requests == 2


def test_the_innermost_block_of_the_context_and_of_the_process() -> None:
    with intercept_by_default(C):
        assert (interceptor(), in_a_thread()) == (C, C)
        with intercept(A):
            assert (interceptor(), in_a_thread()) == (A, A)
            with intercept(B):
                assert (interceptor(), in_a_thread()) == (B, B)
            assert (interceptor(), in_a_thread()) == (A, A)
        assert (interceptor(), in_a_thread()) == (C, C)
    assert (interceptor(), in_a_thread()) == (None, None)


def test_two_contexts_have_their_own_and_a_third_has_to_choose() -> None:
    inside, leave = threading.Barrier(3), threading.Barrier(3)
    seen: dict[str, Interceptor | None] = {}

    def block(named: Named) -> None:
        with intercept(named):
            inside.wait(30)
            seen[named.name] = interceptor()
            leave.wait(30)

    threads = [threading.Thread(target=block, args=(named,)) for named in (A, B)]
    for thread in threads:
        thread.start()
    inside.wait(30)
    with pytest.raises(ToolcastError, match=r"2 recordings .* are open .* copy of the context .* Nothing was sent"):
        interceptor()
    leave.wait(30)
    for thread in threads:
        thread.join()
    assert seen == {"A": A, "B": B}
    assert interceptor() is None


def test_background_work_that_outlives_the_block() -> None:
    with intercept(A):
        inherited = copy_context()
    with pytest.raises(ToolcastError, match="had ended"):
        inherited.run(interceptor)
    assert interceptor() is None


def test_a_fixture_whose_halves_run_in_different_contexts() -> None:
    setup, test, teardown = Context(), Context(), Context()
    with intercept_by_default(C):
        block = intercept(A)
        setup.run(block.__enter__)
        assert test.run(interceptor) is A
        teardown.run(block.__exit__, None, None, None)
        assert [context.run(interceptor) for context in (setup, test, teardown)] == [C, C, C]


def test_waits_are_skipped_where_nothing_is_sent() -> None:
    clock = SystemClock()
    with intercept(Named("replay", sends_nothing=True)):
        clock.sleep(10**6)
        anyio.run(clock.asleep, 10**6)
