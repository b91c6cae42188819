"""What one call costs a peer: CPU time of its process, against the canned server in a process on another core.

A caller is measured one call at a time, whole and streamed, and if it is async also with a hundred calls at once. A
call is the whole way: from the prompt to an object (of the SDKs, which know no objects, to its text).
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, Protocol

from canned import TEXT, Person, serving
from pydantic import BaseModel

COUNT = 50
AT_ONCE = 100
ROUNDS = 3


class Client(Protocol):
    """`call` and `stream` make one request, read it to its end, and return what it came to; `close` ends the client.

    All three are coroutine functions of an async client.
    """

    @property
    def call(self) -> Callable[[], Any]: ...
    @property
    def stream(self) -> Callable[[], Any]: ...
    @property
    def close(self) -> Callable[[], Any]: ...


@dataclass(frozen=True)
class Ready:
    """A client for the table, from two functions."""

    call: Callable[[], Any]
    stream: Callable[[], Any]
    close: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Caller:
    """One line of the table. `make` is given the base URL; a sync caller's name ends in ", sync"."""

    name: str
    make: Callable[[str], Client]
    path: str = "Person/v1"


def costs(callers: Sequence[Caller]) -> Iterator[dict[str, Any]]:
    """Every caller in turn: microseconds a call, of each round."""
    if not callers:
        return
    with serving() as url:
        for caller in callers:
            base = f"{url}/{caller.path}" if caller.path else url
            found: dict[str, Any] = {"client": caller.name, "call": [], "stream": []}
            try:
                if caller.name.endswith(", sync"):
                    _measure(caller.make(base), found)
                else:
                    asyncio.run(_ameasure(partial(caller.make, base), found))
            except Exception as problem:
                found["error"] = f"{type(problem).__name__}: {problem}"[:300]
            yield found


def right(result: Any) -> bool:
    """Whether it is the person of the server's answer; what is no object (bytes, a number of chunks) is only there."""
    if isinstance(result, BaseModel):
        return result.model_dump() == Person.model_validate_json(TEXT).model_dump()
    return result == TEXT if isinstance(result, str) else bool(result)


def tool_text(chunk: Any) -> Iterator[str]:
    """What a chunk of chat completions adds to the arguments of the tool."""
    for choice in chunk.choices:
        for call in choice.delta.tool_calls or ():
            yield call.function.arguments


def chat(create: Callable[..., Any]) -> Ready:
    """A client from an SDK's function for chat completions: one call and one stream, as text."""
    return Ready(
        lambda: create().choices[0].message.tool_calls[0].function.arguments,
        lambda: "".join(text for chunk in create(stream=True) for text in tool_text(chunk)),
    )


def achat(create: Callable[..., Any]) -> Ready:
    """The same from one that is awaited."""

    async def call() -> str:
        return (await create()).choices[0].message.tool_calls[0].function.arguments

    async def stream() -> str:
        return "".join([text async for chunk in await create(stream=True) for text in tool_text(chunk)])

    return Ready(call, stream)


def last(items: Iterable[Any]) -> Any:
    """The last of the items."""
    return deque(items, maxlen=1).pop()


async def alast(items: AsyncIterable[Any]) -> Any:
    """The last of the items."""
    return [item async for item in items][-1]


def _measure(client: Client, found: dict[str, Any]) -> None:
    found["right"] = right(client.call()) and right(client.stream())
    for _ in range(ROUNDS):
        for name, work in (("call", client.call), ("stream", client.stream)):
            gc.collect()
            begun = process_time()
            for _ in range(COUNT):
                work()
            found[name].append(_each(begun, COUNT))
    client.close()


async def _ameasure(make: Callable[[], Client], found: dict[str, Any]) -> None:
    client = make()
    found["right"] = right(await client.call()) and right(await client.stream())
    found["at_once"] = []
    await _at_once(client.call, 1)  # the connections are opened
    for _ in range(ROUNDS):
        for name, work in (("call", client.call), ("stream", client.stream)):
            gc.collect()
            begun = process_time()
            for _ in range(COUNT):
                await work()
            found[name].append(_each(begun, COUNT))
        gc.collect()
        begun = process_time()
        await _at_once(client.call, 3)
        found["at_once"].append(_each(begun, 3 * AT_ONCE))
    if isinstance(closing := client.close(), Awaitable):
        await closing


async def _at_once(work: Callable[[], Awaitable[Any]], each: int) -> None:
    async def calling() -> None:
        for _ in range(each):
            await work()

    await asyncio.gather(*(calling() for _ in range(AT_ONCE)))


def _each(begun: float, count: int) -> float:
    return round((process_time() - begun) / count * 1e6, 2)
