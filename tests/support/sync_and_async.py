"""One way to write a behaviour test for every face: sync, asyncio, trio, and sync inside a running loop.

A test takes the fixture `face` and says what is called; the face says how. `Face.stream` gives everything that a
consumer saw, the error included, so that faces can be compared.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import pytest

if TYPE_CHECKING:
    from toolcast import ChatResponse, FunctionCallingLLM, ToolOrchestratingLLM
    from toolcast.events import Event


@dataclass
class Seen:
    """What the consumer of a stream saw."""

    items: list[Any] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def final(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.items[-1]


class Face:
    """The sync face."""

    name = "sync"

    def call(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return make(**values)

    def run(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return make.run(**values)

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> Seen:
        """All that `make` streams, or its first `take` items, after which the stream is closed."""
        seen = Seen()
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
        """All that one view of a stream gives."""
        return list(getattr(make.stream(**values), name)(*args))

    def events(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> list[Event]:
        return list(llm.stream_chat(messages, **options))

    def chat(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> ChatResponse:
        return llm.chat(messages, **options)

    def method(self, llm: FunctionCallingLLM, name: str, /, *args: Any, **options: Any) -> Any:
        """A method that has an async twin with an `a` before its name."""
        return getattr(llm, name)(*args, **options)


class _NotEntered:
    """A stream that is iterated without `with`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __enter__(self) -> Any:
        return self._stream

    def __exit__(self, *exc: object) -> None:
        return None


class InLoop(Face):
    """The sync face, called from inside a running event loop, as in a notebook."""

    def __init__(self, backend: str) -> None:
        self.name = f"sync-in-{backend}"
        self._backend = backend

    def _inside(self, function: Callable[[], Any]) -> Any:
        async def main() -> Any:
            return function()

        return anyio.run(main, backend=self._backend)

    def call(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._inside(lambda: Face.call(self, make, **values))

    def run(self, make: ToolOrchestratingLLM[Any], /, **values: Any) -> Any:
        return self._inside(lambda: Face.run(self, make, **values))

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> Seen:
        seen: Seen = self._inside(lambda: Face.stream(self, make, take, **values))
        return seen

    def view(self, make: ToolOrchestratingLLM[Any], name: str, /, *args: Any, **values: Any) -> list[Any]:
        found: list[Any] = self._inside(lambda: Face.view(self, make, name, *args, **values))
        return found

    def events(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> list[Event]:
        found: list[Event] = self._inside(lambda: Face.events(self, llm, messages, **options))
        return found

    def chat(self, llm: FunctionCallingLLM, messages: Any, /, **options: Any) -> ChatResponse:
        response: ChatResponse = self._inside(lambda: Face.chat(self, llm, messages, **options))
        return response

    def method(self, llm: FunctionCallingLLM, name: str, /, *args: Any, **options: Any) -> Any:
        return self._inside(lambda: Face.method(self, llm, name, *args, **options))


class Async(Face):
    """The async face, on one backend."""

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

    def stream(self, make: ToolOrchestratingLLM[Any], /, take: int | None = None, **values: Any) -> Seen:
        seen = Seen()

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


FACES = [Face(), Async("asyncio"), Async("trio"), InLoop("asyncio"), InLoop("trio")]


@pytest.fixture(params=FACES, ids=lambda face: face.name)
def face(request: pytest.FixtureRequest) -> Face:
    """Each way to call toolcast in turn."""
    chosen: Face = request.param
    return chosen
