"""experiment_tools.py: the six tools as a model sees them, as they run from each API, and what it takes to end one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from support import warm_python
from toolcast.async_support.cancellation import Cancellation
from toolcast.async_support.sync_driver import run as run_sync
from toolcast.errors import TurnCancelled, ValidationError
from toolcast.experiments.agent_memory import AgentMemory, RunMemory
from toolcast.experiments.experiment_config import MemoryLimits
from toolcast.experiments.experiment_tools import NOWHERE, CallPlace, agent_tools
from toolcast.experiments.operators import OperatorChannel, TerminalOperator, UnattendedOperator
from toolcast.messages import ToolCallPart
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GENERIC
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.execution import ToolJob, read_call
from toolcast.tools.tool_context import ToolContext
from toolcast.transport.cancel_handle import current_handle
from toolcast.values.settings import Settings

PLACE = CallPlace("run_1", 3, 2, 0)
Arguments = str | dict[str, Any]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[RunMemory]:
    with AgentMemory(tmp_path / "memory.db", MemoryLimits(max_value_chars=200_000)) as memory:
        yield memory.of("run_1")


@pytest.fixture
def tools(memory: RunMemory) -> dict[str, CallableTool]:
    return by_name(agent_tools(memory, UnattendedOperator("fine")))


def by_name(tools: tuple[CallableTool, ...]) -> dict[str, CallableTool]:
    return {tool.name: tool for tool in tools}


class Called:
    """A call as the dispatcher makes it, by each API."""

    def __init__(self, way: str) -> None:
        self.way = way

    def __call__(
        self,
        tools: dict[str, CallableTool],
        name: str,
        arguments: Arguments,
        place: CallPlace | None = PLACE,
        cancellation: Cancellation | None = None,
    ) -> ToolJob:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        job = read_call(ToolCallPart("call_1", name, text), tools)
        context = ToolContext("call_1", name, place, cancellation or Cancellation())

        async def main() -> None:
            if job.ready:
                await job.run(self.way != "sync", context)

        if self.way == "sync":
            run_sync(main())
        else:
            anyio.run(main, backend=self.way)
        return job

    def output(self, tools: dict[str, CallableTool], name: str, arguments: Arguments, **options: Any) -> str:
        return self(tools, name, arguments, **options).output().content


@pytest.fixture(params=["sync", "asyncio", "trio"])
def called(request: pytest.FixtureRequest) -> Called:
    return Called(request.param)


# What the model sees.


def test_the_six_tools(tools: dict[str, CallableTool]) -> None:
    parameters = {name: list(tool.parameters["properties"]) for name, tool in tools.items()}
    assert parameters == {
        "write": ["key", "value"],
        "read": ["key"],
        "list": [],
        "delete": ["key"],
        "pattern_search": ["pattern"],
        "send_message_to_operator": ["message"],
    }


def test_all_parameters_are_texts_and_required_and_described(tools: dict[str, CallableTool]) -> None:
    for tool in tools.values():
        properties = tool.parameters["properties"]
        assert {each["type"] for each in properties.values()} <= {"string"}
        assert all(set(each) == {"type", "description"} for each in properties.values())
        assert tool.parameters.get("required", []) == list(properties)
        assert tool.description.endswith(".")


def test_the_definitions_are_openai_style(tools: dict[str, CallableTool]) -> None:
    specs = tuple(tool.spec for tool in tools.values())
    request = OpenAIChatAdapter(GENERIC).request(RequestInput("gpt", (), specs), Settings())
    sent = json.loads(request.body)["tools"]
    assert [each["type"] for each in sent] == ["function"] * 6
    assert sent[1]["function"] == {
        "name": "read",
        "description": "Get the text that your memory holds under a key.",
        "parameters": {
            "type": "object",
            "properties": {"key": {"type": "string", "description": "The name it is kept under."}},
            "required": ["key"],
            "additionalProperties": False,
        },
    }


def test_what_is_not_there_is_not_offered(memory: RunMemory) -> None:
    assert [tool.name for tool in agent_tools(None, UnattendedOperator())] == ["send_message_to_operator"]
    assert len(agent_tools(memory, None)) == 5
    assert agent_tools(None, None) == ()


def test_what_may_be_done_with_them(tools: dict[str, CallableTool]) -> None:
    assert [name for name, tool in tools.items() if tool.runs_in_parallel] == ["read", "list", "pattern_search"]
    assert [name for name, tool in tools.items() if tool.destructive] == ["delete"]
    assert [name for name, tool in tools.items() if tool.idempotent] == ["write"]


# The memory.


def test_x4_the_words_come_out_as_they_are(tools: dict[str, CallableTool], called: Called) -> None:
    calls: list[tuple[str, Arguments]] = [
        ("list", ""),
        ("write", {"key": "k", "value": "v"}),
        ("write", {"key": "k", "value": "w"}),
        ("write", {"key": "l", "value": "x" * 100_000}),
        ("read", {"key": "k"}),
        ("read", {"key": "none"}),
        ("list", {}),
        ("pattern_search", {"pattern": "K"}),
        ("pattern_search", {"pattern": "k"}),
        ("delete", {"key": "k"}),
        ("delete", {"key": "k"}),
        ("send_message_to_operator", {"message": "hello"}),
    ]
    message = [
        called.output(tools, name, arguments, place=CallPlace("run_1", 1, 0, index))
        for index, (name, arguments) in enumerate(calls)
    ]
    assert message == [
        "No keys stored",
        "Wrote value to key 'k'",
        "Updated key 'k' with new value",
        "Wrote value to key 'l'",
        "w",
        "Error: Key 'none' not found",
        "k, l",
        "No keys found matching pattern 'K'",
        "k",
        "Deleted key 'k'",
        "Error: Key 'k' not found",
        "fine",
    ]
    assert len(called.output(tools, "read", {"key": "l"})) == 100_000


def test_a_call_that_is_made_again_changes_nothing(
    tools: dict[str, CallableTool], memory: RunMemory, called: Called
) -> None:
    for _ in range(2):
        assert called.output(tools, "write", {"key": "k", "value": "v"}) == "Wrote value to key 'k'"
    other = CallPlace("run_1", 3, 2, 1)
    for _ in range(2):
        assert called.output(tools, "delete", {"key": "k"}, place=other) == "Deleted key 'k'"
    memory.write("k", "w")
    assert called.output(tools, "write", {"key": "k", "value": "v"}) == "Wrote value to key 'k'"
    assert memory.read("k") == "w"


def test_outside_of_an_experiment_calls_have_no_names(tools: dict[str, CallableTool], called: Called) -> None:
    message = [called.output(tools, "write", {"key": "k", "value": "v"}, place=None) for _ in range(2)]
    assert message == ["Wrote value to key 'k'", "Updated key 'k' with new value"]
    assert tools["read"].call({"key": "k"}).content == "v"


def test_an_engine_may_have_other_deps(tools: dict[str, CallableTool], called: Called) -> None:
    other: Any = {"name": "of another"}
    message = [called.output(tools, "write", {"key": "k", "value": "v"}, place=other) for _ in range(2)]
    assert message == ["Wrote value to key 'k'", "Updated key 'k' with new value"]
    assert called.output(tools, "send_message_to_operator", {"message": "m"}, place=other) == "fine"


def test_the_name_of_a_call_begins_with_its_cycle() -> None:
    assert CallPlace("run_1", 12, 0, 3).name == "12/0/3"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("7", "7"),
        ("1.5", "1.5"),
        ("true", "true"),
        ("null", "null"),
        ('{"b": [1, "ä"]}', '{"b": [1, "ä"]}'),
        ("[]", "[]"),
        ('"[1]"', "[1]"),
        ('"a\\u0000b"', "a\0b"),
        ("12345678901234567890123", "12345678901234567890123"),
    ],
)
def test_a_value_that_is_no_text_is_kept_as_its_json(tools: dict[str, CallableTool], given: str, kept: str) -> None:
    called = Called("sync")
    assert called.output(tools, "write", f'{{"key": "k", "value": {given}}}') == "Wrote value to key 'k'"
    assert called.output(tools, "read", {"key": "k"}) == kept


def test_a_key_may_be_a_number(tools: dict[str, CallableTool]) -> None:
    called = Called("sync")
    assert called.output(tools, "write", {"key": 7, "value": "v"}) == "Wrote value to key '7'"
    assert called.output(tools, "read", {"key": 7}) == "v"
    assert called.output(tools, "pattern_search", {"pattern": 7}) == "7"
    assert called.output(tools, "pattern_search", {"pattern": True}) == "No keys found matching pattern 'true'"


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
def test_whatever_the_value_is_a_text_is_kept(value: Any) -> None:
    text: list[str] = []

    class Listening:
        def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
            text.append(message)
            return ""

    (tool,) = agent_tools(None, Listening())
    tool.call({"message": value})
    assert text == [value] if isinstance(value, str) else json.loads(text[0]) == value


@pytest.mark.parametrize(
    ("name", "arguments", "reported"),
    [
        ("write", {"key": "k"}, "value: Field required"),
        ("read", {}, "key: Field required"),
        ("read", {"key": None}, "key: Input should be a valid string"),
        ("delete", {"key": ["k"]}, "key: Input should be a valid string"),
        ("pattern_search", {"pattern": {}}, "pattern: Input should be a valid string"),
        ("list", {"key": "k"}, "key: Extra inputs are not permitted"),
        ("write", {"key": "k", "value": "v", "context": {}}, "context: Extra inputs are not permitted"),
        ("send_message_to_operator", {}, "message: Field required"),
        ("list", "no JSON", "Invalid JSON"),
    ],
)
def test_x5_arguments_that_do_not_fit_are_refused(
    tools: dict[str, CallableTool], name: str, arguments: Arguments, reported: str
) -> None:
    job = Called("sync")(tools, name, arguments)
    assert isinstance(job.error, ValidationError)
    assert reported in job.output().content


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_in_an_event_loop_the_memory_is_asked_without_a_thread(
    tools: dict[str, CallableTool], backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_thread(*given: object, **options: object) -> None:
        raise AssertionError("a thread was asked for")

    monkeypatch.setattr(anyio.to_thread, "run_sync", no_thread)
    called = Called(backend)
    assert called.output(tools, "write", {"key": "k", "value": "v"}) == "Wrote value to key 'k'"
    assert called.output(tools, "read", {"key": "k"}) == "v"


# The operator.


class Recording:
    """A channel that keeps what it was asked, and answers or raises."""

    def __init__(self, answer: str | BaseException) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str, int]] = []

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        self.asked.append((message, run_id, cycle_number))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_the_operator_gets_the_name_of_the_run(called: Called) -> None:
    channel = Recording(" as it is \t")
    tools = by_name(agent_tools(None, channel))
    assert called.output(tools, "send_message_to_operator", {"message": "hello"}) == " as it is \t"
    called(tools, "send_message_to_operator", {"message": "again"}, place=None)
    assert channel.asked == [("hello", "run_1", 3), ("again", NOWHERE.run_id, NOWHERE.cycle_number)]
    assert channel.asked[1][1:] == ("unknown", 0)


@pytest.mark.parametrize("error", [ConnectionError("gone"), TimeoutError("late"), EOFError("end"), KeyError("bug")])
def test_what_a_channel_raises_is_the_error_of_the_call(called: Called, error: Exception) -> None:
    job = called(by_name(agent_tools(None, Recording(error))), "send_message_to_operator", {"message": "m"})
    assert job.error is error
    assert not job.done


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_ctrl_c_passes(called: Called, error: BaseException) -> None:
    with pytest.raises(type(error)):
        called(by_name(agent_tools(None, Recording(error))), "send_message_to_operator", {"message": "m"})


@pytest.mark.parametrize("inner", ["asyncio", "trio"])
def test_a_channel_may_run_an_event_loop_of_its_own(inner: str) -> None:
    class Waiting:
        def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
            async def main() -> str:
                await anyio.lowlevel.checkpoint()
                return message.upper()

            return anyio.run(main, backend=inner)

    for way in ("sync", "asyncio", "trio"):
        text = Called(way).output(by_name(agent_tools(None, Waiting())), "send_message_to_operator", {"message": "m"})
        assert text == "M"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_channel_is_asked_also_where_no_one_detects_event_loops(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "sniffio")
    tools = by_name(agent_tools(None, UnattendedOperator("m")))
    assert Called(backend).output(tools, "send_message_to_operator", {"message": "m"}) == "m"


class Blocking:
    """A channel that blocks until its line is broken, or, if it knows nothing of lines, until it is let go."""

    def __init__(self, *, by_handle: bool) -> None:
        self.by_handle = by_handle
        self.asked = threading.Event()
        self.free = threading.Event()
        self.ended = threading.Event()

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        if self.by_handle:
            handle = current_handle()
            assert handle is not None
            handle.register(self.free.set)
        self.asked.set()
        assert self.free.wait(30)
        self.ended.set()
        raise ConnectionError("it broke")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("by_handle", [True, False])
def test_the_loop_goes_on_while_the_operator_thinks_and_a_cancelled_call_does_not_wait(
    backend: str, by_handle: bool
) -> None:
    channel = Blocking(by_handle=by_handle)
    tools = by_name(agent_tools(None, channel))
    job = read_call(ToolCallPart("call_1", "send_message_to_operator", '{"message": "m"}'), tools)
    seen: list[str] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(job.run, True, ToolContext("call_1", job.call.name, PLACE))
            await anyio.to_thread.run_sync(channel.asked.wait, 10)
            seen.append("the loop goes on")
            group.cancel_scope.cancel()
        seen.append("ended" if channel.ended.is_set() else "given up")

    anyio.run(main, backend=backend)
    if not by_handle:
        assert seen == ["the loop goes on", "given up"]
        channel.free.set()
    assert channel.ended.wait(30)
    assert seen[0] == "the loop goes on"
    assert job.ready


def test_a_cancelled_call_without_a_loop_ends_the_wait() -> None:
    channel, cancellation = Blocking(by_handle=True), Cancellation()
    threading.Thread(target=lambda: channel.asked.wait(10) and cancellation.cancel(), daemon=True).start()
    job = Called("sync")(
        by_name(agent_tools(None, channel)), "send_message_to_operator", {"message": "m"}, cancellation=cancellation
    )
    assert isinstance(job.error, TurnCancelled)


GIVEN_UP = """
import anyio, sys, threading
from toolcast.experiments.experiment_tools import agent_tools
from toolcast.experiments.operators import TerminalOperator
from toolcast.messages import ToolCallPart
from toolcast.tools.execution import read_call
from toolcast.tools.tool_context import ToolContext

class Deaf:
    def send_and_wait(self, message, run_id, cycle_number):
        asked.set()
        threading.Event().wait()

class Terminal(TerminalOperator):
    def send_and_wait(self, message, run_id, cycle_number):
        asked.set()
        return super().send_and_wait(message, run_id, cycle_number)

asked = threading.Event()
tools = {tool.name: tool for tool in agent_tools(None, eval(sys.argv[2])())}
job = read_call(ToolCallPart("call_1", "send_message_to_operator", '{"message": "m"}'), tools)

async def main():
    async with anyio.create_task_group() as group:
        group.start_soon(job.run, True, ToolContext())
        await anyio.to_thread.run_sync(asked.wait, 10)
        group.cancel_scope.cancel()

anyio.run(main, backend=sys.argv[1])
print("over", file=sys.stderr)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("channel", ["Deaf", "Terminal"])
def test_a_program_ends_though_no_one_has_answered(backend: str, channel: str) -> None:
    with warm_python.Popen(
        [sys.executable, "-c", GIVEN_UP, backend, channel],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.wait(30) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "over\n"


def test_x11_the_terminal_is_asked(called: Called) -> None:

    screen = io.StringIO()
    channel: OperatorChannel = TerminalOperator(io.StringIO("my answer\n"), screen)
    tools = by_name(agent_tools(None, channel))
    arguments = {"message": "Who am I?"}
    assert called.output(tools, "send_message_to_operator", arguments) == "my answer"
    assert screen.getvalue() == "[AGENT - run_1 | Cycle 3]: Who am I?\n[OPERATOR]: "
    assert called.output(tools, "send_message_to_operator", arguments) == (
        "ConnectionError: the operator's input has ended, so that no answer is possible"
    )
