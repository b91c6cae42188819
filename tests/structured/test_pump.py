"""The pump of a stream, which makes no event of a chunk that only continues a call, and the usual way: no difference.

An observer receives each event, so an observed stream takes the usual path. Everything else about the two is equal:
snapshots and their changed paths, results, errors with what they carry, tokens, states at the end, connections.
"""

from __future__ import annotations

import functools
import operator
import random
import re
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, create_model, field_validator

from support.albums import SEA, Album
from support.chunks import USAGE, album_stream, call_deltas, delta, sse
from support.extent import nightly
from support.recordings import answers_in
from support.shared_data import needs_shared, recordings
from toolcast import (
    Anthropic,
    CallError,
    FallbackLLM,
    Google,
    Mistral,
    OpenAI,
    OpenAIResponses,
    Settings,
    Timeouts,
    ToolOrchestratingLLM,
)
from toolcast.errors import StreamInterrupted
from toolcast.events import ToolCallDelta, ToolCallStart
from toolcast.providers.base import RequestInput
from toolcast.testing import Recorded, ReplayNetwork, VirtualClock

Pieces = Sequence[bytes | BaseException]


class Passing(Sequence[Any]):
    """Pieces that `action` is called before, with the number of the piece."""

    def __init__(self, pieces: Pieces, action: Callable[[int], object]) -> None:
        self._pieces, self._action = pieces, action

    def __len__(self) -> int:
        return len(self._pieces)

    def __getitem__(self, place: Any) -> Any:
        if place < len(self._pieces):
            self._action(place)
        return self._pieces[place]


@dataclass
class Seen:
    """All that a caller sees of one stream."""

    items: list[Any] = field(default_factory=list)
    changed: list[Any] = field(default_factory=list)
    error: Any = None
    final: Any = None
    usage: Any = None
    response: Any = None
    state: str = ""
    connections: Any = None


def shown(error: BaseException) -> Any:
    """An error as plain data, with all that it carries."""
    if not isinstance(error, CallError):
        return repr(error)
    more = (error.provider, error.model, error.request_id, repr(error.partial), error.retryable)
    attempts = [(each.number, repr(each.error), each.usage, each.request_id) for each in error.attempts]
    return type(error), str(error), more, attempts, getattr(error, "phase", None), repr(error.__cause__)


Maker = Callable[[], tuple[Any, ReplayNetwork]]
"""Makes an orchestrator, always the same one, and the network that answers it."""


def sync_outcome(make: Maker, *, observed: bool, take: int | None = None, then: str = "") -> Seen:
    """What is seen of the first `take` items, and of a method after them."""
    seen = Seen()
    orchestrator, network = make()
    stream = (orchestrator.with_(observer=lambda *_: None) if observed else orchestrator).stream()
    try:
        for item in stream if take != 0 else ():
            look(seen, stream, item)
            if len(seen.items) == take:
                break
        if then:
            seen.final = repr(getattr(stream, then)())
    except BaseException as error:  # an interrupt as well
        seen.error = shown(error)
    return finished(seen, stream, network)


def async_outcome(make: Maker, backend: str, *, observed: bool, take: int | None = None, then: str = "") -> Seen:
    """The same, awaited."""
    seen = Seen()

    async def main() -> None:
        orchestrator, network = make()
        stream = (orchestrator.with_(observer=lambda *_: None) if observed else orchestrator).astream()
        try:
            with anyio.CancelScope() as scope:
                make.__dict__["scope"] = scope
                async for item in stream:
                    look(seen, stream, item)
                    if len(seen.items) == take:
                        break
                if then:
                    seen.final = repr(await getattr(stream, {"close": "aclose"}.get(then, then))())
            seen.final = "cancelled" if scope.cancelled_caught else seen.final
        except Exception as error:
            seen.error = shown(error)
        finished(seen, stream, network)

    anyio.run(main, backend=backend)
    return seen


def look(seen: Seen, stream: Any, item: Any) -> None:
    seen.items.append(repr(item))
    seen.changed.append(stream.changed)


def finished(seen: Seen, stream: Any, network: ReplayNetwork) -> Seen:
    seen.usage, seen.response, seen.state = stream.usage, stream.response, stream.state
    seen.connections = (network.open_replies, network.closed_replies, len(network.requests))
    return seen


def check(make: Maker, *, backend: str = "asyncio", **how: Any) -> Seen:
    """Compare the pump with the usual way, sync and async. Return what is seen."""
    seen = check_sync(make, **how)
    awaited = async_outcome(make, backend, observed=False, **how)
    assert awaited == async_outcome(make, backend, observed=True, **how)
    return seen


def check_sync(make: Maker, **how: Any) -> Seen:
    seen = sync_outcome(make, observed=False, **how)
    assert seen == sync_outcome(make, observed=True, **how)
    return seen


OPENAI = functools.partial(OpenAI, api="chat")


def maker(pieces: Pieces, *more: Pieces, output: Any = Album, llm: Any = OPENAI, **changes: Any) -> Maker:
    """A maker whose network answers with these pieces, and then with `more`."""

    def make() -> tuple[Any, ReplayNetwork]:
        network = ReplayNetwork(*map(Recorded, (pieces, *more)))
        used = llm("m", api_key="k", network=network)
        used.clock = VirtualClock()
        return ToolOrchestratingLLM(output, "x", used).with_(**changes), network

    return make


# -- every recorded stream --------------------------------------------------------------------------------------------

SERVICES: dict[str, Any] = {
    "anthropic-messages": Anthropic,
    "openai-chat": OPENAI,
    "openai-responses": OpenAIResponses,
    "gemini": Google,
    "mistral-chat": Mistral,
}
_borders = re.compile(rb"(?<=\n\n)(?=[^\n])")


@dataclass(frozen=True)
class Answer:
    """A recorded answer with streamed tool calls, and a type that accepts any of them."""

    name: str
    llm: Any
    events: list[bytes]
    output: Any
    deltas: int

    def maker(self, pieces: Pieces) -> Maker:
        return maker(pieces, output=self.output, llm=self.llm, mode="tool_call", allow_parallel_tool_calls=True)


@cache
def answers() -> list[Answer]:
    found = []
    for protocol, llm in SERVICES.items():
        for path in recordings(protocol):
            for number, body in enumerate(answers_in(path)):
                names, deltas = calls_in(llm, body)
                if deltas > len(names):
                    models = [create_model(name, __config__=ConfigDict(extra="allow")) for name in names]
                    output = functools.reduce(operator.or_, models)
                    found.append(Answer(f"{path.name}#{number}", llm, _borders.split(body), output, deltas))
    return found


def calls_in(llm: Any, body: bytes) -> tuple[list[str], int]:
    """The names of the tools that an answer calls, and how many deltas their arguments come in."""
    try:
        events = llm("m", api_key="k").adapter.decoder(RequestInput("m", (), parallel=True)).feed(body)
    except CallError:
        return [], 0
    names = dict.fromkeys([event.name for event in events if isinstance(event, ToolCallStart)])
    return list(names), sum(isinstance(event, ToolCallDelta) for event in events)


def cut_inside(events: Sequence[bytes], number: int) -> Iterator[bytes]:
    """The events, of which every third is cut at one place; over many numbers at each place."""
    for place, event in enumerate(events):
        at = number // 3 % len(event) if (place + number) % 3 == 0 else 0
        yield from (event[:at], event[at:]) if at else (event,)


def joined(events: Sequence[bytes], chance: random.Random) -> Iterator[bytes]:
    """The events, some of which arrive together."""
    waiting = b""
    for event in events:
        waiting += event
        if chance.random() < 0.7:
            yield waiting
            waiting = b""
    if waiting:
        yield waiting


@needs_shared
def test_there_are_recorded_calls() -> None:
    assert len(answers()) > 70
    assert sum(answer.deltas for answer in answers()) > 600
    assert {answer.llm for answer in answers()} >= {Anthropic, OPENAI, OpenAIResponses}


@needs_shared
def test_the_pump_is_used() -> None:
    """An answer in single events takes it, once two of them in a row differ in their text alone."""
    used = set()
    for answer in answers():
        stream = answer.maker(answer.events)()[0].stream()
        for _ in stream:
            if stream._flow._reads is not None:
                used.add(answer.name)
    assert len(used) > 40


@needs_shared
@pytest.mark.parametrize("protocol", SERVICES)
def test_recorded_streams(protocol: str) -> None:
    for answer in answers():
        if answer.llm is SERVICES[protocol]:
            chance = random.Random(answer.name)
            check(answer.maker(answer.events))
            check_sync(answer.maker(list(joined(answer.events, chance))))
            check_sync(answer.maker(list(cut_inside(answer.events, chance.randrange(1500)))))
            end = chance.randrange(len(answer.events))
            check_sync(answer.maker([*answer.events[:end], StreamInterrupted("cut off")]))
            check_sync(answer.maker(answer.events), take=1 + chance.randrange(answer.deltas), then="final")


@needs_shared
@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_recorded_streams_cut_at_many_places(part: int) -> None:
    for answer in answers()[part::8]:
        chance = random.Random(answer.name)
        if sum(map(len, answer.events)) < 20_000:
            for number in chance.sample(range(1500), nightly(40, 12)):
                check_sync(answer.maker(list(cut_inside(answer.events, number))))
        for end in range(chance.randrange(nightly(1, 3)), len(answer.events), nightly(1, 3)):
            (check if end % 5 == 0 else check_sync)(answer.maker([*answer.events[:end], StreamInterrupted("cut off")]))
            check_sync(answer.maker(answer.events[:end]))
            check_sync(answer.maker([*answer.events[:end], KeyboardInterrupt()]))


# -- whatever ends a stream -------------------------------------------------------------------------------------------

STREAM = album_stream()
ENDS = range(len(STREAM) + 1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_chunk_alone(backend: str) -> None:
    seen = check(maker(STREAM), backend=backend)
    assert seen.items[-1] == repr(SEA)
    assert seen.connections == (0, 1, 1)


@given(st.sampled_from([Album, dict[str, Any]]), st.integers(1, 400), st.booleans())
def test_pieces_of_any_size(output: Any, size: int, parallel: bool) -> None:
    name = "Album" if output is Album else "dict"
    body = b"".join(sse(*call_deltas(SEA.model_dump_json(), name), delta("tool_calls"), USAGE))
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    check_sync(maker(pieces, output=output, allow_parallel_tool_calls=parallel))


@pytest.mark.parametrize("end", ENDS)
def test_a_connection_that_breaks_or_ends(end: int) -> None:
    check(maker(STREAM[:end]))
    for error in (
        StreamInterrupted("broken"),
        TimeoutError("late"),
        OSError("reset"),
        RuntimeError("no running event loop"),
    ):
        check(maker([*STREAM[:end], error, *STREAM[end:]]))


@pytest.mark.parametrize("end", ENDS)
def test_a_key_that_interrupts_a_read(end: int) -> None:
    seen = check_sync(maker([*STREAM[:end], KeyboardInterrupt(), *STREAM[end:]]))
    assert seen.error == "KeyboardInterrupt()"
    assert seen.state == "closed"
    assert seen.connections == (0, 1, 1)


@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals reach the main thread")
@pytest.mark.parametrize("end", range(0, len(STREAM), 3))
def test_a_signal_between_two_reads(end: int) -> None:
    pieces = Passing(STREAM, lambda place: place == end and signal.raise_signal(signal.SIGINT))
    seen = check_sync(maker(pieces))
    assert (seen.error, seen.state) == ("KeyboardInterrupt()", "closed")


@pytest.mark.parametrize("end", range(0, len(STREAM), 2))
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_task(backend: str, end: int) -> None:
    def make() -> tuple[Any, ReplayNetwork]:
        pieces = Passing(STREAM, lambda place: place == end and make.__dict__["scope"].cancel())
        return maker(pieces)()

    seen = async_outcome(make, backend, observed=False)
    assert seen == async_outcome(make, backend, observed=True)


@pytest.mark.parametrize("take", range(1, 12, 2))
@pytest.mark.parametrize("then", ["close", "final"])
def test_a_stream_that_is_left(take: int, then: str) -> None:
    check(maker(STREAM), take=take, then=then)


def test_a_stream_of_which_only_the_end_is_asked() -> None:
    seen = check(maker(STREAM), take=0, then="final")
    assert seen.final == repr(SEA)


@pytest.mark.parametrize(
    "limits",
    [
        Timeouts(connect=1, first_token=1, idle=1, total=5),
        Timeouts(connect=1, first_token=1, idle=None, total=2.5),
        Timeouts(first_token=None, idle=0.1, total=None),
        Timeouts(first_token=None, idle=None, total=None),
    ],
)
def test_time_that_passes_between_reads(limits: Timeouts) -> None:
    def make() -> tuple[Any, ReplayNetwork]:
        clock = VirtualClock()
        orchestrator, network = maker(
            Passing(STREAM, lambda _: clock.advance(0.3)), settings=Settings(timeout=limits)
        )()
        orchestrator.llm.clock = clock
        return orchestrator, network

    seen = check(make)
    assert (seen.error is None) == (limits.total is None)
    if seen.error is not None:
        assert seen.error[4] == "total"


@pytest.mark.parametrize(
    "arguments", ['{"title": "A", "artist": 1, "songs": []}', '{"title": "A", "songs": [1]}', "null"]
)
@pytest.mark.parametrize("fail_fast", [True, False])
def test_arguments_that_do_not_fit(arguments: str, fail_fast: bool) -> None:
    check(maker(album_stream(arguments), fail_fast=fail_fast))
    seen = check(maker(album_stream(arguments), STREAM, fail_fast=fail_fast, max_attempts=2))
    assert seen.items[-1] == repr(SEA)


@pytest.mark.parametrize(
    "odd",
    [
        b": a comment\n\n",
        b"data: {broken\n\n",
        b"data: " + b" " * 200 + b"\n\n",
        *sse(delta(content="words"), done=False),
        *sse(*call_deltas("{}", id="call_2", index=1), done=False),
        *sse(delta(tool_calls=[{"index": 0, "function": {"arguments": ""}}]), done=False),
        *sse({"error": {"message": "gone", "code": 500}}, done=False),
        *sse({**USAGE, "usage": {"prompt_tokens": 7, "completion_tokens": 1}}, done=False),
    ],
)
@pytest.mark.parametrize("place", [2, 9, 20])
def test_anything_else_in_between(odd: bytes, place: int) -> None:
    for parallel in (False, True):
        for accepted in (False, True):
            changes: dict[str, Any] = {"allow_parallel_tool_calls": parallel, "accept_damaged": accepted}
            check(maker([*STREAM[:place], odd, *STREAM[place:]], **changes))
            check(maker([*STREAM[:place], odd, *STREAM[place:]], STREAM, max_attempts=2, **changes))


@pytest.mark.parametrize("changes", [{"max_concurrency": 1}, {"fallback": True}])
def test_llms_around_the_llm(changes: dict[str, Any]) -> None:
    def make() -> tuple[Any, ReplayNetwork]:
        network = ReplayNetwork(Recorded(STREAM))
        llm: Any = OpenAI("m", api="chat", api_key="k", network=network, max_concurrency=changes.get("max_concurrency"))
        return ToolOrchestratingLLM(Album, "x", FallbackLLM([llm]) if "fallback" in changes else llm), network

    assert check(make).items[-1] == repr(SEA)
    for take in range(1, 9, 2):
        check(make, take=take, then="close")


def test_calls_in_the_text_of_a_response() -> None:
    """The arguments are the whole text where the service follows a schema."""
    text = SEA.model_dump_json()
    body = [delta(content=text[start : start + 4]) for start in range(0, len(text), 4)]
    for mode in ("json_schema", "prompted"):
        seen = check(maker(sse(*body, delta("stop"), USAGE), mode=mode))
        assert seen.items[-1] == repr(SEA)


def test_the_latest_items() -> None:
    orchestrator, _ = maker(STREAM)()
    assert list(orchestrator.stream().latest())[-1] == SEA


class Interrupting(BaseModel):
    """A model whose validator is interrupted."""

    title: str
    seconds: int
    rest: str = ""

    @field_validator("seconds")
    @classmethod
    def interrupt(cls, value: int) -> int:
        if value == 7:
            raise KeyboardInterrupt
        return value


@pytest.mark.parametrize("seconds", [6, 7])
def test_an_interrupt_in_a_validator(seconds: int) -> None:
    arguments = f'{{"title": "a", "seconds": {seconds}, "rest": "and more of it"}}'
    pieces = sse(*call_deltas(arguments, "Interrupting"), delta("tool_calls"), USAGE)
    seen = check_sync(maker(pieces, output=Interrupting))
    assert (seen.error is None) == (seconds == 6)
    assert seen.connections == (0, 1, 1)
