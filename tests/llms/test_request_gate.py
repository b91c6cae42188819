"""`RequestGate`: each attempt passes it once, however it ends; waits in it are not the service's."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import pytest

from support.albums import SEA, Album
from support.chunks import album_body, album_stream
from support.sync_and_async import API
from toolcast import FallbackLLM, FunctionCallingLLM, OpenAI, Settings, Timeouts, ToolOrchestratingLLM
from toolcast.errors import AuthFailed, Overloaded, RateLimited, ServerError, StreamInterrupted, Timeout
from toolcast.events import Event, Finish, TextDelta
from toolcast.llms import CachedLLM, LLMMetadata, MemoryCache
from toolcast.llms.client import client_of
from toolcast.llms.request_gate import GateRequest, Gates, Passage, RequestOrigin, key_fingerprint, use_gate
from toolcast.llms.token_estimates import estimate_input_tokens
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock
from toolcast.transport.cancel_handle import current_handle
from toolcast.transport.network import IOBackend
from toolcast.values.usage import Usage


@dataclass
class Admitted:
    """One passage through a `Recorder`."""

    gate: Recorder
    request: GateRequest
    statuses: list[int] = field(default_factory=list)
    ends: list[tuple[Usage, BaseException | None]] = field(default_factory=list)

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        assert all(name == name.lower() for name in headers)
        self.statuses.append(status)

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        self.ends.append((usage, error))
        return isinstance(error, RateLimited | Overloaded) and len(self.gate.passages) < self.gate.most


class Recorder:
    """A gate that admits every request, after a wait of `wait` seconds on the clock of the LLM."""

    def __init__(self, wait: float = 0.0, most: int = 0, refuse: Callable[[], BaseException | None] = lambda: None):
        self.passages: list[Admitted] = []
        self.wait = wait
        self.most = most
        self.refuse = refuse

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        if self.wait:
            await backend.sleep(self.wait)
        if (error := self.refuse()) is not None:
            raise error
        self.passages.append(Admitted(self, request))
        return self.passages[-1]

    @property
    def errors(self) -> list[type[BaseException] | None]:
        """The type of the error of each passage; it has ended exactly once."""
        assert {len(passage.ends) for passage in self.passages} <= {1}
        return [None if error is None else type(error) for passage in self.passages for _, error in passage.ends]


def openai(*answers: Any, clock: VirtualClock | None = None, **options: Any) -> tuple[OpenAI, ReplayNetwork]:
    network = ReplayNetwork(*(Recorded.of(a) if isinstance(a, bytes) else a for a in answers))
    llm = OpenAI("m", api="chat", api_key="sk-secret", network=network, **options)
    llm.clock = clock or VirtualClock()
    return llm, network


def busy(status: int = 429) -> Recorded:
    return Recorded.of('{"error": {"message": "slow down"}}', status=status)


def test_a_request_passes_once(api: API) -> None:
    llm, _ = openai(album_body())
    gate = Recorder()
    with use_gate(gate):
        assert api.call(ToolOrchestratingLLM(Album, "Make one, please.", llm)) == SEA
    assert gate.errors == [None]
    (passage,) = gate.passages
    assert passage.statuses == [200]
    assert passage.ends[0][0] == Usage(7, 3)
    request = passage.request
    assert (request.origin.provider, request.origin.model) == ("openai", "m")
    assert request.max_tokens is None
    assert not request.nested
    assert request.input_tokens == request.input_tokens == estimate_input_tokens(request.messages, request.tools) > 10


def test_a_call_without_a_gate_passes_none(api: API) -> None:
    llm, _ = openai(album_body(), album_body())
    gate, make = Recorder(), ToolOrchestratingLLM(Album, "x", openai(album_body())[0])
    with use_gate(gate), use_gate(None):
        api.call(make)
    api.call(ToolOrchestratingLLM(Album, "x", llm))
    assert gate.passages == []


def test_a_passage_ends_before_a_tool_runs(api: API) -> None:
    gate, inner = Recorder(), ScriptedLLM("inner")

    def album(title: str, artist: str, songs: list[Any]) -> str:
        """Make an album."""
        assert gate.errors == [None]
        return api.chat(inner, "x").text if api.name == "sync" else "inner"

    llm, _ = openai(album_body().replace(b'"Album"', b'"album"'))
    with use_gate(gate):
        assert api.call(ToolOrchestratingLLM(album, "x", llm)) == "inner"


def test_a_stream_ends_its_passage_with_its_last_byte(api: API) -> None:
    llm, _ = openai(Recorded(album_stream()))
    gate = Recorder()
    with use_gate(gate):
        assert api.stream(ToolOrchestratingLLM(Album, "x", llm)).final == SEA
    assert gate.errors == [None]


def test_a_closed_stream_ends_its_passage(api: API) -> None:
    llm, network = openai(Recorded(album_stream()))
    gate = Recorder()
    with use_gate(gate):
        api.stream(ToolOrchestratingLLM(Album, "x", llm), take=1)
    assert gate.errors == [None]
    assert network.open_replies == 0


def test_every_attempt_passes(api: API) -> None:
    """An error that the gate leaves to the policy of retries waits as without a gate, and passes again."""
    clock = VirtualClock()
    llm, _ = openai(busy(500), album_body(), clock=clock)
    gate = Recorder()
    with use_gate(gate):
        result = api.run(ToolOrchestratingLLM(Album, "x", llm))
    assert gate.errors == [ServerError, None]
    assert [passage.statuses for passage in gate.passages] == [[500], [200]]
    assert gate.passages[0].request is gate.passages[1].request
    assert len(clock.slept) == 1
    assert [attempt.number for attempt in result.attempts] == [1, 2]


@pytest.mark.parametrize("status", [429, 503])
def test_the_gate_decides_on_refused_requests(api: API, status: int) -> None:
    clock = VirtualClock()
    llm, network = openai(*[busy(status)] * 5, album_body(), clock=clock, max_retries=0)
    gate = Recorder(most=9)
    with use_gate(gate):
        result = api.run(ToolOrchestratingLLM(Album, "x", llm))
    assert len(network.requests) == len(gate.errors) == 6
    assert clock.slept == []
    assert len(result.attempts) == 6


def test_when_the_gate_gives_up_the_policy_decides(api: API) -> None:
    llm, network = openai(*[busy()] * 5, max_retries=1)
    gate = Recorder(most=3)
    with use_gate(gate), pytest.raises(RateLimited) as caught:
        api.call(ToolOrchestratingLLM(Album, "x", llm))
    assert gate.errors == [RateLimited] * 4
    assert len(network.requests) == len(caught.value.attempts) == 4


def test_nothing_is_sent_twice_after_its_first_event(api: API) -> None:
    pieces = [*album_stream()[:3], b'data: {"error": {"message": "overloaded", "code": 429}}\n\n']
    llm, network = openai(Recorded(pieces))
    gate = Recorder(most=9)
    with use_gate(gate):
        stream = api.stream(ToolOrchestratingLLM(Album, "x", llm))
    assert stream.error is not None
    assert len(network.requests) == len(gate.errors) == 1


@pytest.mark.parametrize("timeout", [30, Timeouts(total=None)])
def test_a_wait_in_the_gate_is_not_the_services(api: API, timeout: Any) -> None:
    """The total begins with the first request: an hour in the gate, and the same again before the next attempt."""
    clock = VirtualClock()
    llm, _ = openai(busy(), album_body(), clock=clock, settings=Settings(timeout=timeout))
    gate = Recorder(wait=3600, most=9)
    with use_gate(gate):
        assert api.call(ToolOrchestratingLLM(Album, "x", llm)) == SEA
    assert clock.slept == [3600, 3600]


def test_the_time_of_the_service_still_counts(api: API) -> None:
    clock = VirtualClock()

    class Slow(ReplayNetwork):
        def open(self, request: Any, **limits: Any) -> Any:
            clock.advance(20)
            return super().open(request, **limits)

    llm = OpenAI("m", api="chat", api_key="k", network=Slow(*[busy()] * 5), settings=Settings(timeout=30))
    llm.clock = clock
    gate = Recorder(wait=3600, most=9)
    with use_gate(gate), pytest.raises(Timeout, match="total"):
        api.call(ToolOrchestratingLLM(Album, "x", llm))
    assert gate.errors == [RateLimited, Timeout]


def test_a_fallback_passes_for_each_llm(api: API) -> None:
    clock = VirtualClock()
    first, _ = openai(busy(500), clock=clock, max_retries=0, settings=Settings(timeout=30))
    second, _ = openai(album_body(), clock=clock)
    llm = FallbackLLM([first, second], settings=Settings(timeout=40))
    llm.clock = clock
    gate = Recorder(wait=3600)
    with use_gate(gate):
        assert api.call(ToolOrchestratingLLM(Album, "x", llm)) == SEA
    assert gate.errors == [ServerError, None]


def test_an_answer_of_a_cache_passes_no_gate(api: API) -> None:
    llm, _ = openai(album_body())
    make = ToolOrchestratingLLM(Album, "x", CachedLLM(llm, MemoryCache()))
    gate = Recorder()
    with use_gate(gate):
        assert [api.call(make) for _ in range(3)] == [SEA] * 3
    assert gate.errors == [None]


@pytest.mark.parametrize("error", [AuthFailed("no budget"), ZeroDivisionError("mine"), KeyboardInterrupt()])
def test_an_error_of_the_gate_ends_the_call(api: API, error: BaseException) -> None:
    for llm in (openai()[0], ScriptedLLM("x")):
        gate = Recorder(refuse=lambda: error)
        with use_gate(gate), pytest.raises(type(error)):
            api.chat(llm, "x")
        assert gate.passages == []


def test_an_error_before_the_request_ends_the_passage(api: API) -> None:
    def auth() -> dict[str, str]:
        raise ZeroDivisionError

    llm = OpenAI("m", api="chat", network=ReplayNetwork(), auth=auth)
    gate = Recorder()
    with use_gate(gate), pytest.raises(ZeroDivisionError):
        api.chat(llm, "x")
    assert gate.errors == [ZeroDivisionError]
    assert gate.passages[0].statuses == []


async def test_a_cancelled_request_ends_its_passage() -> None:
    import anyio

    started = anyio.Event()

    class Stuck(ReplayNetwork):
        async def aopen(self, request: Any, **limits: Any) -> Any:
            started.set()
            await anyio.sleep_forever()

    llm = OpenAI("m", api="chat", api_key="k", network=Stuck())
    gate = Recorder()
    with use_gate(gate):
        async with anyio.create_task_group() as group:
            group.start_soon(llm.achat, "x")
            await started.wait()
            group.cancel_scope.cancel()
    assert gate.errors == [anyio.get_cancelled_exc_class()]


def test_a_wait_is_broken_off_by_another_thread() -> None:
    """The handle of the response is that of the wait, too."""
    waiting = threading.Event()

    class Endless(Recorder):
        async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
            handle = current_handle()
            assert handle is not None
            waiting.set()
            handle.sleep(3600)
            raise StreamInterrupted("the response was aborted", retryable=False)

    llm, network = openai(album_body())
    with use_gate(Endless()):
        stream = llm.stream_chat("x")
    source: Any = stream._source  # what a session calls from another thread
    thread = threading.Thread(target=stream.next)
    thread.start()
    waiting.wait()
    source.break_off()
    thread.join()
    assert isinstance(stream.err, StreamInterrupted)
    assert network.requests == []


def test_llms_without_http_pass_too(api: API) -> None:
    llm = ScriptedLLM("a", Overloaded("x"), Overloaded("x"), "b", settings=Settings(max_tokens=5))
    gate = Recorder(most=9)
    with use_gate(gate):
        assert [api.chat(llm, "x").text for _ in range(2)] == ["a", "b"]
    assert gate.errors == [None, Overloaded, Overloaded, None]
    assert gate.passages[0].request.origin == RequestOrigin("scripted", "scripted")
    assert gate.passages[0].request.max_tokens == 5
    assert gate.passages[1].request is gate.passages[3].request


def test_without_http_the_last_refusal_is_the_error(api: API) -> None:
    llm = ScriptedLLM(Overloaded("x"), Overloaded("y"))
    gate = Recorder(most=2)
    with use_gate(gate), pytest.raises(Overloaded, match="y") as caught:
        api.chat(llm, "x")
    assert [attempt.number for attempt in caught.value.attempts] == [1, 2]


def test_without_http_nothing_is_sent_twice_after_its_first_event(api: API) -> None:
    llm = ScriptedLLM([TextDelta("a"), Overloaded("x")])
    gate = Recorder(most=9)
    with use_gate(gate), pytest.raises(Overloaded):
        api.events(llm, "x")
    assert gate.errors == [Overloaded]


@pytest.mark.parametrize("answer", [ZeroDivisionError("mine"), [TextDelta("cut")]])
def test_without_http_every_end_is_one(api: API, answer: Any) -> None:
    gate = Recorder()
    with use_gate(gate), pytest.raises((ZeroDivisionError, ValueError)):
        api.chat(ScriptedLLM(answer), "x")
    assert len(gate.errors) == 1


def test_without_http_a_closed_stream_ends_its_passage() -> None:
    gate = Recorder()
    with use_gate(gate), ScriptedLLM("a long text").stream_chat("x") as stream:
        stream.next()
    assert gate.errors == [None]


def test_a_custom_llm_that_calls_another_one_passes_once() -> None:
    """The request of the other would wait for the passage of the first."""

    class Outer(FunctionCallingLLM):
        metadata = LLMMetadata("outer", "test")

        async def _events(self, *request: Any) -> AsyncIterator[Event]:
            yield TextDelta(inner.chat("x").text)
            yield Finish("end_turn")

    inner, gate = ScriptedLLM("inner"), Recorder()
    with use_gate(gate):
        assert Outer().chat("x").text == "inner"
        assert inner.requests
    assert [passage.request.origin.model for passage in gate.passages] == ["outer"]


def test_a_second_request_of_one_call_is_nested() -> None:
    gate = Recorder()
    llm = ScriptedLLM("a", "b")
    with use_gate(gate):
        call = client_of(llm).begin_call(Settings(), client_of(llm).sync_backend())
        request = client_of(llm).build_request("x", (), None, None, parallel=True)
        first, second = (client_of(llm).open_events(request, client_of(llm).sync_backend(), call) for _ in range(2))
        for source in (first, second):
            with pytest.raises(StopIteration):
                source.next_events().send(None)  # type: ignore[attr-defined]  # a coroutine that does not suspend
        for source in (first, second):
            with pytest.raises(StopIteration):
                source.close().send(None)  # type: ignore[attr-defined]  # the same
    assert [passage.request.nested for passage in gate.passages] == [False, True]
    assert call.passages == 0


def test_a_slot_of_max_concurrency_is_waited_for_without_limit() -> None:
    """With a gate, the wait for a slot of the LLM does not count towards the call's total either."""
    llm = ScriptedLLM("a", "b", max_concurrency=1, settings=Settings(timeout=0.001))
    gate = Recorder()
    with use_gate(gate):
        first = llm.stream_chat("x")
        first.next()
        results: list[str] = []
        thread = threading.Thread(target=copy_context().run, args=(lambda: results.append(llm.chat("x").text),))
        thread.start()
        while llm.calls_in_progress < 2:
            threading.Event().wait(0.001)
        list(first)
        thread.join()
    assert results == ["b"]


def test_gates_are_entered_in_order_and_left_in_reverse(api: API) -> None:
    first, second = Recorder(), Recorder(most=9)
    llm, _ = openai(busy(), album_body())
    with use_gate(Gates([first, second])):
        assert api.call(ToolOrchestratingLLM(Album, "x", llm)) == SEA
    assert first.errors == second.errors == [RateLimited, None]
    assert first.passages[0].statuses == [429]


def test_when_a_gate_refuses_the_passage_of_the_one_before_ends(api: API) -> None:
    first = Recorder()
    second = Recorder(refuse=lambda: AuthFailed("no"))
    with use_gate(Gates([first, second])), pytest.raises(AuthFailed):
        api.chat(openai()[0], "x")
    assert first.errors == [AuthFailed]
    assert first.passages[0].ends[0][0] == Usage()


def test_origins_differ_by_key_and_reveal_none() -> None:
    def origin(**options: Any) -> RequestOrigin:
        return client_of(OpenAI("m", api="chat", **options)).request_origin

    first, second = (origin(api_key=f"sk-{name}") for name in "ab")
    assert first == origin(api_key="sk-a")
    assert first.key != second.key
    assert "sk-a" not in repr(first)
    assert origin(api_key="k", base_url="http://user:secret@host/v1").base_url == "http://***@host/v1/chat/completions"
    auth = lambda: {"authorization": "x"}  # noqa: E731  # one function for two LLMs
    assert origin(auth=auth) == origin(auth=auth) != origin(auth=lambda: {"authorization": "x"})
    assert key_fingerprint(None) == ""


def test_an_origin_is_not_pickled() -> None:
    llm = OpenAI("m", api="chat", api_key="sk-a")
    assert client_of(llm).request_origin.key
    assert pickle.loads(pickle.dumps(llm))._origin is None


def test_tasks_have_gates_of_their_own() -> None:
    async def call(llm: ScriptedLLM, gate: Recorder) -> None:
        with use_gate(gate):
            await asyncio.sleep(0)
            await llm.achat("x")

    async def both() -> None:
        await asyncio.gather(*(call(ScriptedLLM("a"), gate) for gate in gates))

    gates = [Recorder(), Recorder()]
    asyncio.run(both())
    assert [gate.errors for gate in gates] == [[None], [None]]
