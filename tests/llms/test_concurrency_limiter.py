"""Many at once, and any of them stopped at any moment: results never mix, and every connection is given back.

A call is cancelled at its first await, then at its second, and so on until it gets through (`cancelled_at`);
a sync call is interrupted at each of its I/O calls in the same way. What a caller must see is the cancellation
itself, unchanged, and never a connection that stays open.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import socket
import threading
import types
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
import trio
from anyio.lowlevel import checkpoint
from pydantic import BaseModel, field_validator

from support.albums import Album
from support.chunks import album_body, album_stream, call_deltas, delta, sse
from support.loopback import END, HOLD, Loopback, Piece, chunk, head, whole
from support.sync_and_async import API
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.errors import StreamClosed, StreamTruncated
from toolcast.values.http_request import HTTPRequest

SSE = {"content-type": "text/event-stream"}


class Note(BaseModel):
    topic: str
    words: list[str]


# -- a network that answers what it was asked -----------------------------------------------------------------


class EchoNetwork:
    """Answers every prompt with a `Note` about it, a few characters at a time; counts the answers not given back.

    `at_once` threads have to be reading before any of them gets on.
    """

    def __init__(self, at_once: int = 1) -> None:
        self.lock = threading.Lock()
        self.asked = 0
        self.standing = 0
        self.together = threading.Barrier(at_once, timeout=20)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> EchoReply:
        body = json.loads(request.body)
        topic = body["messages"][-1]["content"]
        arguments = Note(topic=topic, words=topic.split()).model_dump_json()
        pieces = sse(*call_deltas(arguments, name="Note"), delta("tool_calls"))
        with self.lock:
            self.asked += 1
            self.standing += 1
        return EchoReply(self, pieces if body.get("stream") else [album_body(arguments).replace(b'"Album"', b'"Note"')])

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> AsyncEchoReply:
        await checkpoint()
        return AsyncEchoReply(self.open(request, connect=connect, read=read))

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class EchoReply:
    status = 200
    headers = SSE

    def __init__(self, network: EchoNetwork, pieces: list[bytes]) -> None:
        self._network = network
        self.pieces = iter(pieces)
        self._met = False
        self._open = True

    def read(self, limit: float | None = None, /) -> bytes:
        if not self._met:
            self._met = True
            self._network.together.wait()
        return next(self.pieces, b"")

    def close(self) -> None:
        with self._network.lock:
            self._network.standing -= self._open
            self._open = False


class AsyncEchoReply:
    status = 200
    headers = SSE

    def __init__(self, reply: EchoReply) -> None:
        self._reply = reply

    async def read(self, limit: float | None, /) -> bytes:
        await checkpoint()
        return next(self._reply.pieces, b"")

    async def aclose(self) -> None:
        self._reply.close()


def echoing(at_once: int = 1) -> tuple[ToolOrchestratingLLM[Note], EchoNetwork]:
    network = EchoNetwork(at_once)
    llm = OpenAI("m-1", api_key="sk-x", base_url="http://echo.example/v1", network=network)
    return ToolOrchestratingLLM(Note, "about {topic}", llm), network


def note(number: int) -> Note:
    return Note(topic=f"about {number}", words=["about", str(number)])


def all_about(number: int, items: list[Note]) -> None:
    """Fails if anything in the items of one stream belongs to another."""
    assert items[-1] == note(number)
    for item in items:
        assert f"about {number}".startswith(item.topic or "")


# -- many at once ---------------------------------------------------------------------------------------------


@pytest.mark.fault(109)
def test_32_threads_share_one_orchestrator() -> None:
    make, network = echoing(at_once=32)
    seen: dict[int, tuple[list[Note], Note]] = {}

    def work(number: int) -> None:
        items = list(make.stream(topic=number))
        seen[number] = (items, make(topic=number))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(seen) == list(range(32))
    for number, (items, whole_one) in seen.items():
        all_about(number, items)
        assert whole_one == note(number)
    assert (network.asked, network.standing) == (64, 0)


@pytest.mark.fault(109)
async def test_100_tasks_share_one_orchestrator() -> None:
    make, network = echoing()
    seen: dict[int, list[Note]] = {}

    async def stream(number: int) -> None:
        seen[number] = [item async for item in make.astream(topic=number)]

    async def call(number: int) -> None:
        seen[number] = [await make.acall(topic=number)]

    async with anyio.create_task_group() as group:
        for number in range(100):
            group.start_soon(stream if number % 2 else call, number)
    assert sorted(seen) == list(range(100))
    for number, items in seen.items():
        all_about(number, items)
        assert (len(items) > 1) == bool(number % 2)
    assert (network.asked, network.standing) == (100, 0)


async def test_cancelling_half_of_the_tasks_leaves_the_others_alone() -> None:
    make, network = echoing()
    seen: dict[int, list[Note]] = {}

    async def work(number: int) -> None:
        with anyio.CancelScope() as scope:
            items: list[Note] = []
            async for item in make.astream(topic=number):
                items.append(item)
                if number % 2 and len(items) == 2:
                    scope.cancel()
            seen[number] = items

    async with anyio.create_task_group() as group:
        for number in range(50):
            group.start_soon(work, number)
    assert sorted(seen) == list(range(0, 50, 2))
    for number, items in seen.items():
        all_about(number, items)
    gc.collect()
    await anyio.wait_all_tasks_blocked()
    assert (network.asked, network.standing) == (50, 0)


# -- context variables ----------------------------------------------------------------------------------------

tenant: ContextVar[str] = ContextVar("tenant", default="default")


class Owned(BaseModel):
    topic: str
    words: list[str]

    @field_validator("topic")
    @classmethod
    def of_the_tenant(cls, topic: str) -> str:
        return f"{topic} of {tenant.get()}"


def owner(topic: str, words: list[str]) -> str:
    """A sync function, which the async API runs in a worker thread."""
    return f"{topic} of {tenant.get()}"


async def async_owner(topic: str, words: list[str]) -> str:
    await checkpoint()
    return f"{topic} of {tenant.get()}"


def offered_as_note(output: Any) -> Any:
    """An orchestrator for `output`, whose tool the network will call."""
    make, _ = echoing()
    if isinstance(output, type):
        named: Any = type("Note", (output,), {})
    else:

        @functools.wraps(output)
        def named(*args: Any, **kwargs: Any) -> Any:
            return output(*args, **kwargs)

        named.__name__ = named.__qualname__ = "Note"
        if asyncio.iscoroutinefunction(output):

            @functools.wraps(named)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                return await output(*args, **kwargs)

            named = awaited
    return ToolOrchestratingLLM(named, "about {topic}", make.llm)


@pytest.mark.fault(112)
def test_context_variables_reach_validators(api: API) -> None:
    make = offered_as_note(Owned)
    token = tenant.set("Ada")
    try:
        assert api.call(make, topic="x").topic == "about x of Ada"
        assert api.stream(make, topic="x").final.topic == "about x of Ada"
    finally:
        tenant.reset(token)
    assert api.call(make, topic="x").topic == "about x of default"


@pytest.mark.fault(112)
def test_context_variables_reach_functions(api: API) -> None:
    make = offered_as_note(owner)
    token = tenant.set("Ada")
    try:
        assert api.call(make, topic="x") == "about x of Ada"
        assert api.stream(make, topic="x").final == "about x of Ada"
    finally:
        tenant.reset(token)


@pytest.mark.fault(112)
async def test_context_variables_of_tasks_do_not_mix() -> None:
    results: dict[str, list[str]] = {}
    makes = [offered_as_note(output) for output in (owner, async_owner)]

    async def work(name: str) -> None:
        tenant.set(name)
        results[name] = [await make.acall(topic="x") for make in makes]

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(work, f"tenant-{number}")
    assert results == {f"tenant-{n}": [f"about x of tenant-{n}"] * 2 for n in range(20)}
    assert tenant.get() == "default"


# -- cancelled at every await ---------------------------------------------------------------------------------


class Steps:
    """Counts the awaits of all tasks of one call, and cancels it at number `at` and `times - 1` more."""

    def __init__(self, at: int, times: int) -> None:
        self.cancel: Callable[[], object] = bool
        self._due = range(at, at + times)
        self._number = 0

    async def through(self, work: Awaitable[Any]) -> Any:
        """The result of `work`, its awaits counted."""
        return await self._counted(work)

    def task(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        """A task factory: what the library does in tasks of its own is counted as well."""
        return asyncio.Task(self.through(work), loop=loop, **options)

    @types.coroutine
    def _counted(self, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
        steps: Any = work.__await__()
        try:
            wanted = next(steps)
            while True:
                self._number += 1
                if self._number in self._due:
                    self.cancel()
                try:
                    sent = yield wanted
                except BaseException as error:
                    wanted = steps.throw(error)
                else:
                    wanted = steps.send(sent)
        except StopIteration as end:
            return end.value


class Outcome:
    """How a call ended that was cancelled: `error` is what went through it."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.result: Any = None

    async def of(self, work: Awaitable[Any]) -> None:
        try:
            self.result = await work
        except BaseException as error:
            self.error = error
            raise


def by_task(work: Callable[[], Awaitable[Any]], at: int, times: int) -> Outcome:
    """Cancelled by asyncio's `task.cancel()`."""
    outcome = Outcome()

    async def main() -> None:
        steps = Steps(at, times)
        asyncio.get_running_loop().set_task_factory(steps.task)
        task = asyncio.ensure_future(outcome.of(work()))
        steps.cancel = task.cancel
        await asyncio.wait([task])
        steps.cancel = bool
        assert task.cancelled() == (outcome.error is not None)
        await settled()

    asyncio.run(main())
    assert outcome.error is None or type(outcome.error) is asyncio.CancelledError
    return outcome


def by_scope(backend: str, work: Callable[[], Awaitable[Any]], at: int, times: int) -> Outcome:
    """Cancelled by a cancel scope, which on trio is the only way there is."""
    outcome = Outcome()

    async def main() -> None:
        steps = Steps(at, times)
        with anyio.CancelScope() as scope:
            steps.cancel = scope.cancel
            await outcome.of(steps.through(work()))
        assert scope.cancelled_caught == (outcome.error is not None)
        await settled()

    anyio.run(main, backend=backend)
    for error in leaves(outcome.error):
        assert type(error) in (asyncio.CancelledError, trio.Cancelled), repr(error)
    return outcome


def leaves(error: BaseException | None) -> list[BaseException]:
    """`error`, or what it is a group of: trio's own `open_tcp_stream` groups cancellations."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in leaves(member)]
    return [] if error is None else [error]


async def settled() -> None:
    """No other task of ours is left."""
    await anyio.wait_all_tasks_blocked()


Cancel = Callable[[Callable[[], Awaitable[Any]], int, int], Outcome]
CANCELS: list[Cancel] = [by_task, functools.partial(by_scope, "asyncio"), functools.partial(by_scope, "trio")]
NAMES = ["task.cancel", "scope-asyncio", "scope-trio"]


class SteppedNetwork:
    """Three answers to a streamed call that is retried and asked again; awaits at every opportunity."""

    def __init__(self) -> None:
        self.standing = 0
        self.opened = 0
        wrong = sse(*call_deltas('{"topic": 5}', name="note"), delta("tool_calls"))
        right = sse(*call_deltas('{"topic": "x", "words": []}', name="note"), delta("tool_calls"))
        self._answers = iter([(503, [b"{}"]), (200, wrong), (200, right)])

    async def aopen(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> SteppedReply:
        await checkpoint()
        status, pieces = next(self._answers)
        self.standing += 1
        self.opened += 1
        return SteppedReply(self, status, pieces)

    def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Any:
        raise NotImplementedError

    def close(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class SteppedReply:
    headers = SSE

    def __init__(self, network: SteppedNetwork, status: int, pieces: list[bytes]) -> None:
        self.status = status
        self._network = network
        self._pieces = iter(pieces)
        self._open = True

    async def read(self, limit: float | None, /) -> bytes:
        await checkpoint()
        return next(self._pieces, b"")

    async def aclose(self) -> None:
        self._network.standing -= self._open
        self._open = False
        await checkpoint()


class QuickClock:
    """A wait is an await, even if it ends at once."""

    def now(self) -> float:
        return 0.0

    def time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError

    async def asleep(self, seconds: float) -> None:
        await checkpoint()


@pytest.mark.slow
@pytest.mark.fault(103)
@pytest.mark.gate("G7")
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("cancel", CANCELS, ids=NAMES)
def test_cancelled_at_every_await_of_a_long_call(cancel: Cancel, times: int) -> None:
    """Refused, retried, invalid, asked again, valid, and then an async function runs."""
    ran: list[str] = []

    async def note(topic: str, words: list[str]) -> str:
        await checkpoint()
        ran.append(topic)
        return topic

    for at in range(1, 200):
        network = SteppedNetwork()
        llm = OpenAI("m-1", api_key="sk-x", base_url="http://x.example/v1", network=network)
        llm.clock = QuickClock()
        make = ToolOrchestratingLLM(note, "x", llm, max_attempts=2)
        ran.clear()

        async def work(make: Any = make) -> Any:
            async with make.astream() as stream:
                return [item async for item in stream][-1]

        outcome = cancel(work, at, times)
        assert network.standing == 0, f"cancelled at await {at}, a connection stayed open"
        if outcome.error is None and outcome.result is not None:
            assert (outcome.result, ran, network.opened) == ("x", ["x"], 3)
            break
        assert len(ran) <= 1
    assert at > 20  # it was cancelled that often


@pytest.mark.slow
@pytest.mark.fault(103)
@pytest.mark.gate("G7")
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("cancel", CANCELS, ids=NAMES)
def test_cancelled_at_every_await_of_a_real_connection(cancel: Cancel, times: int) -> None:
    for at in range(1, 200):
        with Loopback() as server:
            answer(server, *album_stream())
            llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
            make = ToolOrchestratingLLM(Album, "x", llm)

            async def work(make: Any = make) -> Any:
                return [item async for item in make.astream()][-1]

            outcome = cancel(work, at, times)
            server.wait_open(0)  # the loop has ended
        if outcome.error is None and outcome.result is not None:
            assert outcome.result.title == "Sea of Glass"
            break
    assert at > (5 if cancel is by_task else 2)  # awaits of the caller's task alone, or of all


@pytest.mark.fault(103)
@pytest.mark.parametrize("cancel", CANCELS, ids=NAMES)
def test_a_connection_is_given_back_while_its_loop_goes_on(cancel: Cancel) -> None:
    """Cancelled in the middle of a stream; the server sees the connection close before the loop ends."""
    with Loopback() as server:
        answer(server, *album_stream()[:5], HOLD)
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        make = ToolOrchestratingLLM(Album, "x", llm)
        closed: list[bool] = []

        async def work() -> Any:
            reading = anyio.Event()

            async def read() -> None:
                async for _ in make.astream():
                    reading.set()

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                await reading.wait()
                group.cancel_scope.cancel()
            await anyio.to_thread.run_sync(server.wait_open, 0)
            closed.append(True)

        cancel(work, 10_000, 1)
        assert closed == [True]


# -- interrupted at every I/O call ----------------------------------------------------------------------------


class Interrupts:
    """Raises KeyboardInterrupt in place of the I/O call number `at` of the main thread."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 0
        self.number = 0
        self._main = threading.get_ident()
        # Not `connect`: interrupted there, the standard library itself forgets the socket.
        for name in ("send", "sendall", "recv", "recv_into"):
            self._wrap(monkeypatch, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        original = getattr(socket.socket, name)

        def interrupted(connection: socket.socket, *args: Any) -> Any:
            if threading.get_ident() == self._main:
                self.number += 1
                if self.number == self.at:
                    raise KeyboardInterrupt
            return original(connection, *args)

        monkeypatch.setattr(socket.socket, name, interrupted)

    def begin(self, at: int) -> None:
        self.at, self.number = at, 0


@pytest.mark.fault(106)
@pytest.mark.gate("G7")
@pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])
def test_interrupted_at_every_io_call(stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = Interrupts(monkeypatch)
    for at in range(1, 100):
        with Loopback() as server:
            answer(server, *album_stream()) if stream else server.answer(body())
            server.answer(body())
            llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
            make = ToolOrchestratingLLM(Album, "x", llm)
            interrupts.begin(at)
            try:
                found = list(make.stream())[-1] if stream else make()
            except KeyboardInterrupt as error:
                assert (error.__cause__, error.__context__) == (None, None)
                server.wait_open(0)
            else:
                assert found.title == "Sea of Glass"
                break
            finally:
                interrupts.begin(0)
                llm.close()
    assert at > 3


@pytest.mark.parametrize("at", [1, 2, 3])
def test_after_an_interrupt_the_llm_goes_on(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupts = Interrupts(monkeypatch)
    with Loopback() as interrupted, Loopback() as server:
        answer(interrupted, *album_stream())
        server.answer(body())
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(interrupted), max_retries=0)
        interrupts.begin(at)
        with pytest.raises(KeyboardInterrupt):
            list(ToolOrchestratingLLM(Album, "x", llm).stream())
        interrupts.begin(0)
        again = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0, network=llm.network)
        assert ToolOrchestratingLLM(Album, "x", again)().title == "Sea of Glass"
        llm.close()
        server.wait_open(0)


# -- forgotten ------------------------------------------------------------------------------------------------


@pytest.mark.fault(104)
def test_forgotten_streams_close_their_connections() -> None:
    """Read in part, never begun, begun by a view; collected at once or as part of a cycle. No ResourceWarning."""
    with Loopback() as server:
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        make = ToolOrchestratingLLM(Album, "x", llm)
        for number in range(20):
            answer(server, *album_stream()[:5], HOLD)
            stream = make.stream()
            if number % 2:
                next(stream)
            else:
                next(stream.events())
            cycle: list[Any] = [stream]
            cycle.append(cycle)
            del stream, cycle
            make.stream()
        gc.collect()
        server.wait_open(0)
        assert server.accepted == 20
        server.answer(body())
        assert make().title == "Sea of Glass"
        llm.close()


@pytest.mark.fault(104)
async def test_forgotten_async_streams_close_their_connections() -> None:
    with Loopback() as server:
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        make = ToolOrchestratingLLM(Album, "x", llm)
        for _ in range(10):
            answer(server, *album_stream()[:5], HOLD)
            stream = make.astream()
            await anext(stream)
            del stream
            make.astream()
        gc.collect()
        await anyio.to_thread.run_sync(server.wait_open, 0)
        await llm.aclose()


@pytest.mark.fault(105)
async def test_closing_a_stream_that_another_task_reads() -> None:
    with Loopback() as server:
        answer(server, *album_stream()[:5], HOLD)
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        stream = ToolOrchestratingLLM(Album, "x", llm).astream()
        ended: list[BaseException | None] = []
        reading = anyio.Event()

        async def read() -> None:
            try:
                async for _ in stream:
                    reading.set()
            except StreamClosed as error:
                ended.append(error)
            else:
                ended.append(None)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await reading.wait()
            await anyio.wait_all_tasks_blocked()
            await stream.aclose()
            await stream.aclose()
        assert len(ended) == 1
        assert stream.state == "closed"
        with pytest.raises(StreamClosed):
            await stream.final()
        await anyio.to_thread.run_sync(server.wait_open, 0)
        await llm.aclose()


@pytest.mark.fault(105)
def test_closing_a_stream_that_another_thread_reads() -> None:
    with Loopback() as server:
        answer(server, *album_stream()[:5], HOLD)
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        stream = ToolOrchestratingLLM(Album, "x", llm).stream()
        ended: list[BaseException | None] = []
        first = threading.Event()

        def read() -> None:
            try:
                for _ in stream:
                    first.set()
            except StreamClosed as error:
                ended.append(error)
            else:
                ended.append(None)

        thread = threading.Thread(target=read)
        thread.start()
        assert first.wait(30)
        stream.close()
        thread.join(30)
        assert len(ended) == 1
        server.wait_open(0)
        llm.close()


# -- one LLM, several loops -----------------------------------------------------------------------------------


@pytest.mark.fault(107)
def test_one_llm_in_one_loop_after_another() -> None:
    with Loopback() as server:
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        make = ToolOrchestratingLLM(Album, "x", llm)
        for backend in ("asyncio", "asyncio", "trio", "asyncio", "trio"):
            for _ in range(2):
                server.answer(body())

            async def twice() -> list[str]:
                return [(await make.acall()).title for _ in range(2)]

            assert anyio.run(twice, backend=backend) == ["Sea of Glass"] * 2
            server.wait_open(0)
        assert server.accepted == 5  # each loop had one connection and used it twice


@pytest.mark.fault(107, 109)
def test_one_llm_in_loops_of_several_threads() -> None:
    with Loopback() as server:
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        make = ToolOrchestratingLLM(Album, "x", llm)
        for _ in range(8):
            answer(server, *album_stream())
        titles: list[str] = []

        async def last() -> None:
            titles.append([item.title async for item in make.astream()][-1])

        backends = ["asyncio", "trio"] * 4
        threads = [threading.Thread(target=functools.partial(anyio.run, last, backend=name)) for name in backends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert titles == ["Sea of Glass"] * 8
        server.wait_open(0)


async def test_a_total_time_ends_a_call_from_outside() -> None:
    """`move_on_after` around a call that would wait for ever."""
    with Loopback() as server:
        answer(server, *album_stream()[:5], HOLD)
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        seen: list[Any] = []
        with anyio.move_on_after(0.05) as scope:
            async for item in ToolOrchestratingLLM(Album, "x", llm).astream():
                seen.append(item)
        assert scope.cancelled_caught
        await anyio.to_thread.run_sync(server.wait_open, 0)
        await llm.aclose()


def test_a_cut_stream_leaves_nothing_open(api: API) -> None:
    with Loopback() as server:
        answer(server, *album_stream()[:5])
        llm = OpenAI("m-1", api_key="sk-x", base_url=url(server), max_retries=0)
        seen = api.stream(ToolOrchestratingLLM(Album, "x", llm))
        assert type(seen.error) is StreamTruncated
        llm.close()
        server.wait_open(0)


def url(server: Loopback) -> str:
    return f"http://127.0.0.1:{server.port}/v1"


def body() -> bytes:
    return whole(album_body(), 200, "content-type: application/json")


def answer(server: Loopback, *pieces: bytes | Piece) -> None:
    """A stream of these pieces."""
    parts = [chunk(piece) if isinstance(piece, bytes) else piece for piece in pieces]
    server.answer(head(200, "content-type: text/event-stream", "transfer-encoding: chunked"), *parts, END)
