"""A cancellation under trio comes out as `trio.Cancelled`, whatever nurseries it has passed through."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import coroutine
from typing import Any

import anyio
import pytest
import trio

from support.engines import call
from support.loopback import Loopback, whole
from toolcast import OpenAICompatible, ToolOrchestratingLLM
from toolcast.agents.engine.engine import Engine
from toolcast.agents.permissions.permissions import Permissions
from toolcast.async_support.exception_groups import collapse_groups, only_cancelled
from toolcast.errors import ConnectFailed
from toolcast.events import Event
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.testing import ScriptedLLM
from toolcast.values.approvals import PermissionRequest
from toolcast.values.capabilities import LLMMetadata

BODY = json.dumps(
    {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}]}
)


@coroutine
def cancelled_at(wait: int, scope: trio.CancelScope, work: Callable[[], Awaitable[Any]]) -> Generator[Any, Any, bool]:
    """Cancel `scope` at the wait of that number. Return whether `work` ended before it came to that."""
    step = work().__await__()
    waits = 0
    try:
        wanted = next(step)
        while True:
            waits += 1
            if waits == wait:
                scope.cancel()
            try:
                sent = yield wanted
            except BaseException as error:
                wanted = step.throw(error)
            else:
                wanted = step.send(sent)
    except StopIteration:
        return waits < wait


@pytest.mark.fault(103)
@pytest.mark.gate("G7")
@pytest.mark.parametrize("way", ["chat", "stream"])
def test_a_request_that_is_cancelled_at_any_wait_raises_cancelled(way: str) -> None:
    async def ask(llm: OpenAICompatible) -> None:
        if way == "chat":
            await llm.achat("hi")
            return
        async with llm.astream_chat("hi") as events:
            async for _ in events:
                pass

    async def broken_off(wait: int) -> bool:
        """Cancel a request at this wait; return whether there were fewer waits."""
        with Loopback() as server:
            server.answer(whole(BODY.encode()))
            async with OpenAICompatible("m", base_url=f"{server.url}/v1", api_key="k", max_retries=0) as llm:
                with trio.CancelScope() as scope:
                    try:
                        return await cancelled_at(wait, scope, lambda: ask(llm))
                    except trio.Cancelled:
                        raise
                    except BaseException as error:
                        raise AssertionError(f"expected Cancelled, got {error!r}") from error
                return False

    async def main() -> None:
        wait = 1
        while not await broken_off(wait):
            wait += 1
        assert wait > 3

    trio.run(main)


async def in_a_nursery(started: anyio.Event) -> str:
    """Wait in a nursery until cancelled, as code of a user may."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        started.set()
    return "never"


class Nested(FunctionCallingLLM):
    """An LLM of a user's, whose events wait in a nursery."""

    def __init__(self, started: anyio.Event) -> None:
        super().__init__()
        self._started = started

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="nested", provider="test")

    async def _events(self, *rest: Any) -> AsyncIterator[Event]:
        await in_a_nursery(self._started)
        raise AssertionError("not reached")
        yield


class NestedNetwork:
    """A network of a user's that connects in a nursery."""

    def __init__(self, started: anyio.Event) -> None:
        self._started = started

    async def aopen(self, *rest: Any, **limits: Any) -> Any:
        await in_a_nursery(self._started)

    def open(self, *rest: Any, **limits: Any) -> Any:
        raise NotImplementedError

    def close(self) -> None: ...

    async def aclose(self) -> None: ...


def of_a_tool(started: anyio.Event) -> Callable[[], Awaitable[Any]]:
    async def fetch(page: int) -> str:
        """Fetch a page."""
        return await in_a_nursery(started)

    return ToolOrchestratingLLM(fetch, "x", ScriptedLLM([call("a", "fetch", '{"page": 1}')])).acall


def of_an_approver(started: anyio.Event) -> Callable[[], Awaitable[Any]]:
    async def approve(request: PermissionRequest) -> bool:
        return bool(await in_a_nursery(started))

    def save(page: int) -> None:
        """Save a page."""

    llm = ScriptedLLM([call("a", "save", '{"page": 1}')], "done")
    engine = Engine(llm, [save], permissions=Permissions(approve=approve))
    return lambda: engine.asubmit("x")


def of_an_llm(started: anyio.Event) -> Callable[[], Awaitable[Any]]:
    return lambda: Nested(started).achat("hi")


def of_a_network(started: anyio.Event) -> Callable[[], Awaitable[Any]]:
    llm = OpenAICompatible("m", base_url="http://127.0.0.1:1/v1", api_key="k", network=NestedNetwork(started))
    return lambda: llm.achat("hi")


@pytest.mark.parametrize("made", [of_a_tool, of_an_approver, of_an_llm, of_a_network])
def test_a_nursery_in_the_code_of_a_user_does_not_change_what_a_cancellation_is(
    made: Callable[[anyio.Event], Callable[[], Awaitable[Any]]],
) -> None:
    raised: list[BaseException] = []

    async def main() -> None:
        started = anyio.Event()
        work = made(started)

        async def watched() -> None:
            try:
                await work()
            except BaseException as error:
                raised.append(error)
                raise

        async with trio.open_nursery() as nursery:
            nursery.start_soon(watched)
            await started.wait()
            nursery.cancel_scope.cancel()

    trio.run(main)
    assert [type(error) for error in raised] == [trio.Cancelled]


@pytest.mark.fault(111)
def test_other_groups_come_out_as_they_are() -> None:
    async def fail() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            raise ConnectFailed("no")

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as raised:
            await collapse_groups(fail)
        assert [type(error) for error in raised.value.exceptions] == [ConnectFailed]

    trio.run(main)


@pytest.mark.fault(111)
def test_a_cancellation_out_of_its_group_refers_to_nothing_that_refers_to_it() -> None:
    async def nested() -> None:
        async with trio.open_nursery(), trio.open_nursery():
            await trio.sleep_forever()

    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            try:
                await collapse_groups(nested)
            except trio.Cancelled as error:
                assert error.__context__ is None
                assert error.__cause__ is None
                assert not [each for each in gc.get_referrers(error) if isinstance(each, BaseExceptionGroup)]
                raise
        assert scope.cancelled_caught

    trio.run(main)


def test_without_trio_no_group_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "trio")
    assert only_cancelled(BaseExceptionGroup("x", [KeyboardInterrupt()])) is None
