"""The fixture `api`, which runs a test on every API: sync, asyncio, trio, and sync inside a running event loop.

`API.stream` returns all items and the error of a stream, so that the APIs can be compared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

if TYPE_CHECKING:
    from toolcast import FunctionCallingLLM, ToolOrchestratingLLM
    from toolcast.events import ChatResponse, Event


@dataclass
class StreamRecord:
    """The items and the error that the consumer of a stream received."""

    items: list[Any] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def final(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.items[-1]


class API:
    """Calls through the sync API."""

    name = "sync"

    def call(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return make(**values)

    def run(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return make.run(**values)

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> StreamRecord:
        """Return all items of a stream, or its first `take` items, after which the stream is closed."""
        seen = StreamRecord()
        with make.stream(**values) if take is not None else _NotEntered(make.stream(**values)) as stream:
            try:
                for item in stream:
                    seen.items.append(item)
                    if len(seen.items) == take:
                        break
            except Exception as error:
                seen.error = error
        return seen

    def view(self, make: ToolOrchestratingLLM[Any], name: str, /, *args: Any, **values: Any) -> list[Any]:
        """Return all items of one view of a stream."""
        return list(getattr(make.stream(**values), name)(*args))

    def events(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> list[Event]:
        return list(llm.stream_chat(messages, **options))

    def chat(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> ChatResponse:
        return llm.chat(messages, **options)

    def method(self, llm: FunctionCallingLLM, name: str, /, *args: Any, **options: Any) -> Any:
        """Call a method whose async counterpart has an `a` before its name."""
        return getattr(llm, name)(*args, **options)

    def show(self, source: Any, name: str, /, *args: Any, **options: Any) -> Any:
        """Show the stream that a method returns, whose async counterpart has an `a` before its name."""
        return getattr(source, name)(*args, **options).show()


class _NotEntered:
    """A stream that is iterated without `with`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *exc: object) -> None:
        return None


class SyncInLoopAPI(API):
    """Calls through the sync API from inside a running event loop, as in a notebook."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend

    def _inside(self, function: Callable[[], Any]) -> Any:
        async def main() -> Any:
            return function()

        return anyio.run(main, backend=self._backend)

    def call(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._inside(lambda: API.call(self, make, **values))

    def run(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._inside(lambda: API.run(self, make, **values))

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> StreamRecord:
        seen: StreamRecord = self._inside(lambda: API.stream(self, make, take, **values))
        return seen

    def view(self, make: ToolOrchestratingLLM[Any], name: str, /, *args: Any, **values: Any) -> list[Any]:
        found: list[Any] = self._inside(lambda: API.view(self, make, name, *args, **values))
        return found

    def events(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> list[Event]:
        found: list[Event] = self._inside(lambda: API.events(self, llm, messages, **options))
        return found

    def chat(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> ChatResponse:
        response: ChatResponse = self._inside(lambda: API.chat(self, llm, messages, **options))
        return response

    def method(self, llm: FunctionCallingLLM, name: str, /, *args: Any, **options: Any) -> Any:
        return self._inside(lambda: API.method(self, llm, name, *args, **options))

    def show(self, source: Any, name: str, /, *args: Any, **options: Any) -> Any:
        return self._inside(lambda: API.show(self, source, name, *args, **options))


class AsyncAPI(API):
    """Calls through the async API on one backend."""

    def __init__(self, backend: str) -> None:
        self.name = backend

    def _await(self, function: Callable[[], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            return await function()

        return anyio.run(main, backend=self.name)

    def call(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._await(lambda: make.acall(**values))

    def run(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._await(lambda: make.arun(**values))

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> StreamRecord:
        seen = StreamRecord()

        async def consume() -> None:
            stream = await make.acall(stream=True, **values)
            try:
                async for item in stream:
                    seen.items.append(item)
                    if len(seen.items) == take:
                        break
            except Exception as error:
                seen.error = error
            finally:
                await stream.aclose()

        self._await(consume)
        return seen

    def view(self, make: ToolOrchestratingLLM[Any], name: str, /, *args: Any, **values: Any) -> list[Any]:
        async def consume() -> list[Any]:
            async with make.astream(**values) as stream:
                return [item async for item in getattr(stream, name)(*args)]

        found: list[Any] = self._await(consume)
        return found

    def events(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> list[Event]:
        async def consume() -> list[Event]:
            async with llm.astream_chat(messages, **options) as stream:
                return [event async for event in stream]

        found: list[Event] = self._await(consume)
        return found

    def chat(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> ChatResponse:
        response: ChatResponse = self._await(lambda: llm.achat(messages, **options))
        return response

    def method(self, llm: FunctionCallingLLM, name: str, /, *args: Any, **options: Any) -> Any:
        return self._await(lambda: getattr(llm, f"a{name}")(*args, **options))

    def show(self, source: Any, name: str, /, *args: Any, **options: Any) -> Any:
        return self._await(lambda: getattr(source, f"a{name}")(*args, **options).show())


APIS = [API(), AsyncAPI("asyncio"), AsyncAPI("trio"), SyncInLoopAPI("asyncio"), SyncInLoopAPI("trio")]


@pytest.fixture(params=APIS, ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> API:
    """Return each API in turn."""
    chosen: API = request.param
    return chosen
