"""chat_effects.py: the work of a chat as it is done, with a scripted model, real tools and a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from support.chat_drivers import PATIENCE, Chat, ChatAPI
from support.chunks import delta, sse
from support.engines import call, results
from support.local_server import Local
from support.loopback import HOLD, Loopback, head
from toolcast import OpenAI
from toolcast.agents.engine.compaction import Compaction
from toolcast.agents.engine.engine import Engine
from toolcast.agents.engine.history import find_problems
from toolcast.agents.permissions.permissions import Permissions, Rule
from toolcast.agents.tool_search.tool_search import LLMSearch
from toolcast.chat.chat_context import ChatContext
from toolcast.chat.effects import StageTask
from toolcast.chat.events import (
    ApproveToolCall,
    Interrupt,
    LoadModel,
    ModelLoadSuccess,
    QueueMessage,
    RejectToolCall,
    RetryGeneration,
    RetryToolCall,
    RetryToolSearch,
    Stop,
    StreamChunk,
    StreamComplete,
    ToolCallProgress,
    ToolCallSuccess,
    ToolSearchSuccess,
)
from toolcast.chat.machine import AsyncChatMachine, ChatChange, ChatMachine
from toolcast.errors import ContextTooLong, IllegalState, RateLimited, TryAgain
from toolcast.events import Finish, TextDelta, ThinkingDelta
from toolcast.llms.function_calling_llm import FunctionCallingLLM
from toolcast.llms.local.llama_cpp import LlamaCpp
from toolcast.llms.model_registry import choose_llm
from toolcast.llms.named_llms import llm
from toolcast.messages import ImagePart, ToolCallPart, assistant, tool_result, user
from toolcast.testing import ReplayNetwork, ScriptedLLM
from toolcast.tools.callable_tool import CallableTool
from toolcast.tools.tool_context import ToolContext
from toolcast.values.approvals import PermissionRequest
from toolcast.values.budgets import Budget
from toolcast.values.capabilities import Progress
from toolcast.values.usage import Prices, Usage
from user.session import address, spoken

PICTURE = ImagePart(data=b"png", media_type="image/png")


class Tools:
    """Tools that return a description of what they did; some block until they are released."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = threading.Event()
        self.opened = threading.Event()
        self.left = threading.Event()
        self.broken = True

    @property
    def all(self) -> list[Any]:
        look = CallableTool.from_function(self.look).with_(read_only=True)
        return [look, self.write, self.count, self.show, self.fail, self.ask_again, self.wait, self.linger]

    def look(self, value: int) -> str:
        """Look at a value."""
        self.done.append(f"look {value}")
        return f"seen {value}"

    def write(self, value: int) -> str:
        """Write a value."""
        self.done.append(f"write {value}")
        return f"written {value}"

    def count(self, value: int, context: ToolContext[Any]) -> int:
        """Count the call, and return the count."""
        for number in range(value):
            context.emit({"at": number})
        return value

    def show(self) -> list[Any]:
        """Show a picture."""
        return ["Here:", PICTURE]

    def fail(self) -> str:
        """Fail, the first time."""
        if self.broken:
            self.broken = False
            raise LookupError("out of reach")
        return "reached"

    def ask_again(self) -> str:
        """Want it otherwise."""
        raise TryAgain("say it with a number")

    def wait(self, context: ToolContext[Any]) -> str:
        """Wait until released, or until the call is cancelled."""
        context.cancellation.then(self.opened.set)
        self.begun.set()
        assert self.opened.wait(PATIENCE)
        self.left.set()
        return "opened"

    async def linger(self) -> str:
        """Wait for ever."""
        self.begun.set()
        try:
            await anyio.sleep(PATIENCE)
        finally:
            self.left.set()
        return "never"


@pytest.fixture
def tools() -> Tools:
    return Tools()


ALLOWED = Permissions("bypass")


def engine_of(*answers: Any, tools: Tools | None = None, permissions: Permissions = ALLOWED, **options: Any) -> Engine:
    return Engine(ScriptedLLM(*answers), [] if tools is None else tools.all, permissions=permissions, **options)


def asked_of(chat: Chat) -> list[Any]:
    """What the model was asked."""
    llm: Any = chat.engine.llm
    requests: list[Any] = llm.requests
    return requests


def begin(chats: ChatAPI, engine: Engine, message: str = "Go.", **options: Any) -> tuple[Chat, list[ChatChange]]:
    """Open a chat, send a message; return the chat and the list of its changes."""
    chat = chats.open(engine=engine, **options)
    received: list[ChatChange] = []
    chat.subscribe(received.append)
    chats.dispatch(chat, QueueMessage(message), LoadModel())
    return chat, received


def types(changes: list[ChatChange]) -> list[str]:
    return [change.event.type for change in changes if not isinstance(change.event, StreamChunk)]


def contents(chat: Chat) -> dict[str, str]:
    return {result.call_id: result.content for result in results(chat.context.messages)}


# The whole way.


def test_a_turn_with_a_tool_that_someone_allows(chats: ChatAPI, tools: Tools) -> None:
    engine = engine_of(call("a", "write", '{"value": 1}'), "Done.", tools=tools, permissions=Permissions())
    engine.llm.prices = Prices(input=1000, output=2000)
    chat, received = begin(chats, engine)
    assert chats.until(chat, "waiting_for_tool_approval", "ready", "load_failed") == "waiting_for_tool_approval"
    (request,) = chat.context.pending
    assert (request.call_id, request.tool, request.arguments) == ("a", "write", '{"value": 1}')
    assert request.reason and tools.done == []
    chats.dispatch(chat, ApproveToolCall("a", fingerprint=request.fingerprint))
    assert chats.until(chat, "ready") == "ready"
    assert tools.done == ["write 1"]
    assert [message.role for message in chat.context.messages] == ["user", "assistant", "tool", "assistant"]
    assert (chat.context.messages[-1].text, contents(chat)) == ("Done.", {"a": "written 1"})
    assert types(received) == [
        *("QUEUE_MESSAGE", "LOAD_MODEL", "MODEL_LOAD_SUCCESS"),
        *("TOOL_SEARCH_SUCCESS", "GENERATION_SUCCESS", "STREAM_COMPLETE"),
        *("APPROVE_TOOL_CALL", "TOOL_CALL_SUCCESS"),
        *("TOOL_SEARCH_SUCCESS", "GENERATION_SUCCESS", "STREAM_COMPLETE"),
    ]
    assert not any(change.ignored for change in received)
    assert chat.context.usage == Usage(20, 10)
    assert chat.context.to_dict()["usage"]["cost"] == "0.04"
    assert (engine.conversation.spending.usage, engine.conversation.spending.tool_calls) == (Usage(20, 10), 1)
    assert find_problems(chat.context.messages) == []
    assert [asked.messages for asked in asked_of(chat)] == [chat.context.messages[:1], chat.context.messages[:3]]


def test_the_answer_is_received_piece_by_piece(chats: ChatAPI) -> None:
    chat, received = begin(
        chats, engine_of([ThinkingDelta("Hm."), TextDelta("Once "), TextDelta("upon"), Finish("end_turn")])
    )
    chats.until(chat, "ready")
    pieces = [change.event.content for change in received if isinstance(change.event, StreamChunk)]
    assert pieces == [ThinkingDelta("Hm."), TextDelta("Once "), TextDelta("upon"), Finish("end_turn")]
    begun = next(change for change in received if isinstance(change.event, StreamChunk))
    assert (begun.state, begun.before.streamed.text) == ("streaming_response", "")
    assert (chat.context.messages[-1].text, chat.context.stop_reason) == ("Once upon", "end_turn")


def test_an_answer_of_nothing_ends_the_turn(chats: ChatAPI) -> None:
    chat, received = begin(chats, engine_of([Finish("end_turn")]))
    chats.until(chat, "ready")
    assert ([message.role for message in chat.context.messages], chat.context.last_error) == (["user"], None)
    assert types(received)[-2:] == ["GENERATION_SUCCESS", "STREAM_COMPLETE"]


def test_the_next_turn_sees_the_one_before(chats: ChatAPI) -> None:
    chat, _ = begin(chats, engine_of("One.", "Two.", instructions="Be brief."))
    chats.until(chat, "ready")
    chats.dispatch(chat, QueueMessage("More."))
    chats.until(chat, "ready")
    assert [message.text for message in asked_of(chat)[1].messages] == ["Be brief.", "Go.", "One.", "More."]


def test_an_answer_that_was_cut_off_is_kept_and_its_calls_do_not_run(chats: ChatAPI, tools: Tools) -> None:
    cut = call("a", "write", '{"value": 1', truncated=True)
    chat, _ = begin(chats, engine_of(cut, tools=tools))
    chats.until(chat, "ready")
    assert (chat.context.stop_reason, tools.done) == ("max_tokens", [])
    assert "stopped before its end" in contents(chat)["a"]
    assert find_problems(chat.context.messages) == []


# Tools.


def test_what_need_not_be_asked_about_runs_at_once(chats: ChatAPI, tools: Tools) -> None:
    calls = [call("a", "look", '{"value": 1}'), call("b", "look", '{"value": 2}')]
    chat, received = begin(chats, engine_of(calls, "Done.", tools=tools, permissions=Permissions("auto")))
    chats.until(chat, "ready")
    assert contents(chat) == {"a": "seen 1", "b": "seen 2"}
    assert not any(change.state == "waiting_for_tool_approval" for change in received)


@pytest.mark.parametrize(
    "permissions, states",
    [
        (Permissions(), {"a": "ask", "b": "ask"}),
        (Permissions("auto"), {"a": "run", "b": "ask"}),
        (Permissions("plan"), {"a": "run", "b": "deny"}),
        (Permissions("deny"), {"a": "deny", "b": "deny"}),
        (Permissions("bypass"), {"a": "run", "b": "run"}),
        (Permissions(rules=[Rule("write", "allow"), Rule("look", "deny")]), {"a": "deny", "b": "run"}),
        (Permissions(approve=lambda request: True), {"a": "ask", "b": "ask"}),
    ],
)
def test_permissions_say_who_is_asked(
    chats: ChatAPI, tools: Tools, permissions: Permissions, states: dict[str, str]
) -> None:
    calls = [call("a", "look", '{"value": 1}'), call("b", "write", '{"value": 2}')]
    chat, _ = begin(chats, engine_of(calls, "Done.", tools=tools, permissions=permissions))
    chats.until(chat, "waiting_for_tool_approval", "ready")
    assert [request.call_id for request in chat.context.pending] == [id for id, how in states.items() if how == "ask"]
    if chat.context.pending:
        chats.dispatch(chat, ApproveToolCall())
        chats.until(chat, "ready")
    denied = {id for id, content in contents(chat).items() if content.startswith("permission denied")}
    assert denied == {id for id, how in states.items() if how == "deny"}
    assert len(tools.done) == 2 - len(denied)


def test_calls_are_decided_one_by_one(chats: ChatAPI, tools: Tools) -> None:
    calls = [call(id, "write", f'{{"value": {number}}}') for number, id in enumerate("abc")]
    chat, _ = begin(chats, engine_of(calls, "Done.", tools=tools, permissions=Permissions()))
    chats.until(chat, "waiting_for_tool_approval")
    chats.dispatch(chat, ApproveToolCall("b"))
    chats.until(chat, "waiting_for_tool_approval")
    assert (tools.done, contents(chat)) == (["write 1"], {"b": "written 1"})
    chats.dispatch(chat, RejectToolCall("a", "not that one"))
    assert chat.state == "waiting_for_tool_approval"
    chats.dispatch(chat, ApproveToolCall("c", arguments='{"value": 7}'))
    chats.until(chat, "ready")
    assert tools.done == ["write 1", "write 7"]
    text = contents(chat)
    assert list(text) == ["a", "b", "c"]
    assert text["a"] == "permission denied: not that one"
    assert "changed the arguments" in text["c"] and text["c"].endswith("written 7")
    assert find_problems(asked_of(chat)[1].messages) == []


def test_a_call_is_allowed_after_a_restart(chats: ChatAPI, tools: Tools) -> None:
    first = engine_of(call("a", "write", '{"value": 1}'), tools=tools, permissions=Permissions())
    chat, _ = begin(chats, first)
    chats.until(chat, "waiting_for_tool_approval")
    data = json.loads(json.dumps(chat.snapshot()))
    chats.close(chat)
    other = chats.open(engine=engine_of("Done.", tools=tools, permissions=Permissions()))
    chats.call(other.restore, data)
    assert other.state == "waiting_for_tool_approval"
    (request,) = other.context.pending
    chats.dispatch(other, {"type": "APPROVE_TOOL_CALL", "fingerprint": request.fingerprint})
    chats.until(other, "ready")
    assert (contents(other), other.context.messages[-1].text) == ({"a": "written 1"}, "Done.")


def test_arguments_that_do_not_fit_are_reported_to_the_model(chats: ChatAPI, tools: Tools) -> None:
    chat, _ = begin(
        chats, engine_of(call("a", "write", '{"value": 1}'), "Done.", tools=tools, permissions=Permissions())
    )
    chats.until(chat, "waiting_for_tool_approval")
    chats.dispatch(chat, ApproveToolCall("a", arguments='{"value": "many"}'))
    chats.until(chat, "ready")
    assert tools.done == [] and results(chat.context.messages)[0].is_error


def test_what_is_always_allowed_is_asked_about_no_more(chats: ChatAPI, tools: Tools) -> None:
    calls = [call("a", "count", '{"value": 1}'), call("b", "count", '{"value": 1}'), call("c", "write", '{"value": 1}')]
    again = [call("d", "count", '{"value": 1}')]
    chat, _ = begin(chats, engine_of(calls, again, "Done.", tools=tools, permissions=Permissions()))
    chats.until(chat, "waiting_for_tool_approval")
    chats.dispatch(chat, ApproveToolCall("a", for_session=True))
    chats.until(chat, "waiting_for_tool_approval")
    assert [request.call_id for request in chat.context.pending] == ["c"]
    assert [rule["tool"] for rule in chat.context.remembered] == ["count"]
    chats.dispatch(chat, RejectToolCall("c"))
    chats.until(chat, "ready")
    assert list(contents(chat)) == ["a", "b", "c", "d"]
    data = chat.snapshot()
    other = chats.open(
        engine=engine_of(call("e", "count", '{"value": 1}'), "Done.", tools=tools, permissions=Permissions())
    )
    chats.call(other.restore, data)
    chats.dispatch(other, QueueMessage("Again."))
    chats.until(other, "ready", "waiting_for_tool_approval")
    assert contents(other)["e"] == "1"


def test_a_tool_says_how_far_it_is(chats: ChatAPI, tools: Tools) -> None:
    chat, received = begin(chats, engine_of(call("a", "count", '{"value": 3}'), "Done.", tools=tools))
    chats.until(chat, "ready")
    text = [change.event for change in received if isinstance(change.event, ToolCallProgress)]
    assert [(event.call_id, event.data) for event in text] == [("a", {"at": number}) for number in range(3)]
    assert all(change.state == "calling_tool" for change in received if isinstance(change.event, ToolCallProgress))


def test_a_tool_shows_a_picture(chats: ChatAPI, tools: Tools) -> None:
    chat, _ = begin(chats, engine_of(call("a", "show"), "Nice.", tools=tools))
    chats.until(chat, "ready")
    assert results(chat.context.messages)[0].images == (PICTURE,)
    assert ChatContext.from_dict(chat.context.to_dict()) == chat.context


@pytest.mark.parametrize(
    "made, words",
    [
        (call("a", "ask_again"), "say it with a number"),
        (call("a", "no_such_tool"), "no_such_tool"),
        (call("a", "look", '{"value": "many"}'), "value"),
    ],
)
def test_what_the_model_can_do_better_is_reported_to_it(
    chats: ChatAPI, tools: Tools, made: ToolCallPart, words: str
) -> None:
    chat, _ = begin(chats, engine_of(made, "Sorry.", tools=tools))
    chats.until(chat, "ready")
    (result,) = results(chat.context.messages)
    assert result.is_error and words in result.content
    assert (chat.context.messages[-1].text, chat.context.last_error) == ("Sorry.", None)


def test_a_tool_that_raises_can_be_called_again(chats: ChatAPI, tools: Tools) -> None:
    calls = [call("a", "look", '{"value": 1}'), call("b", "fail"), call("c", "look", '{"value": 3}')]
    chat, _ = begin(chats, engine_of(calls, "Done.", tools=tools))
    assert chats.until(chat, "ready") == "ready"
    error = chat.context.last_error
    assert error is not None and error.stage == "tool_call"
    assert "fail: LookupError: out of reach" in error.message
    assert (contents(chat), chat.context.running) == ({"a": "seen 1", "c": "seen 3"}, ("b",))
    chats.dispatch(chat, RetryToolCall())
    chats.until(chat, "ready")
    assert contents(chat) == {"a": "seen 1", "b": "reached", "c": "seen 3"}
    assert tools.done == ["look 1", "look 3"]
    assert chat.context.messages[-1].text == "Done."


def test_a_tool_that_takes_too_long_has_failed(chats: ChatAPI, tools: Tools) -> None:
    slow = CallableTool.from_function(tools.wait).with_(timeout=0.001)
    engine = Engine(ScriptedLLM(call("a", "wait")), [slow], permissions=ALLOWED)
    chat, _ = begin(chats, engine)
    chats.until(chat, "ready")
    assert chat.context.last_error is not None and "wait: ToolTimeout" in chat.context.last_error.message
    assert chat.context.running == ("a",)


def test_a_limit_on_tool_calls_holds(chats: ChatAPI, tools: Tools) -> None:
    calls = [call("a", "look", '{"value": 1}'), call("b", "look", '{"value": 2}')]
    chat, _ = begin(chats, engine_of(calls, tools=tools, budget=Budget(tool_calls=1)))
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and (error.stage, tools.done) == ("tool_call", [])
    assert "budget" in error.message and not error.retryable


def test_a_limit_on_tokens_holds(chats: ChatAPI) -> None:
    chat, _ = begin(chats, engine_of("One.", budget=Budget(tokens=10)))
    chats.until(chat, "ready")
    chats.dispatch(chat, QueueMessage("More."))
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and (error.stage, error.retryable) == ("generation", False)
    assert len(asked_of(chat)) == 1


def test_calls_that_no_one_was_asked_about_do_not_run(chats: ChatAPI, tools: Tools) -> None:
    """A snapshot may come from anywhere: that a call runs is no sign that anybody has allowed it."""
    calls = [call("a", "write", '{"value": 1}')]
    chat, _ = begin(chats, engine_of(calls, "Done.", tools=tools, permissions=Permissions()))
    chats.until(chat, "waiting_for_tool_approval")
    data = chat.snapshot()
    data["state"] = "ready"
    data["context"] |= {"pending": [], "running": ["a"], "retry": "tool_call"}
    other = chats.open(engine=engine_of("Done.", tools=tools, permissions=Permissions()))
    chats.call(other.restore, data)
    chats.dispatch(other, RetryToolCall())
    chats.until(other, "ready")
    assert contents(other) == {"a": "permission denied: no approval was given for it"}
    assert tools.done == []


def test_an_answer_to_other_arguments_allows_nothing(chats: ChatAPI, tools: Tools) -> None:
    calls = [call("a", "write", '{"value": 1}')]
    chat, _ = begin(chats, engine_of(calls, "Done.", tools=tools, permissions=Permissions()))
    chats.until(chat, "waiting_for_tool_approval")
    data = chat.snapshot()
    forged = PermissionRequest("a", "write", '{"value": 9}')
    data["state"] = "ready"
    data["context"] |= {"pending": [], "running": ["a"], "retry": "tool_call", "answers": [forged.allow().to_dict()]}
    other = chats.open(engine=engine_of("Done.", tools=tools, permissions=Permissions()))
    chats.call(other.restore, data)
    chats.dispatch(other, RetryToolCall())
    chats.until(other, "ready")
    assert tools.done == []


# Finding tools.


def many(number: int) -> list[CallableTool]:
    def make(at: int) -> CallableTool:
        def tool(value: int) -> str:
            return f"number {at}"

        tool.__doc__ = f"Read the thermometer of hall {at}." if at == 77 else f"Paint fence {at}."
        tool.__name__ = f"read_thermometer_{at}" if at == 77 else f"paint_{at}"
        return CallableTool.from_function(tool)

    return [make(at) for at in range(number)]


def test_of_two_hundred_tools_the_few_that_fit_are_offered(chats: ChatAPI) -> None:
    llm = ScriptedLLM(call("a", "read_thermometer_77", '{"value": 1}'), "Warm.")
    chat, received = begin(chats, Engine(llm, many(200), permissions=ALLOWED), "What does the thermometer say?")
    chats.until(chat, "ready")
    assert [[tool.name for tool in asked.tools] for asked in llm.requests] == [["read_thermometer_77"]] * 2
    found = [change.event.tools for change in received if isinstance(change.event, ToolSearchSuccess)]
    assert found == [("read_thermometer_77",)] * 2
    assert contents(chat) == {"a": "number 77"}


def test_a_model_chooses_the_tools(chats: ChatAPI) -> None:
    scores = {"tools": [{"tool_name": "paint_3", "relevance_score": 0.9, "reasoning": "it paints"}]}
    chooses, answers = ScriptedLLM(scores), ScriptedLLM("Done.")
    engine = Engine(answers, many(20), permissions=ALLOWED)
    chat, _ = begin(chats, engine, search=LLMSearch(chooses))
    chats.until(chat, "ready")
    assert [tool.name for tool in answers.requests[0].tools] == ["paint_3"]
    assert engine.conversation.spending.usage == Usage(20, 10)


def test_a_search_that_fails_can_be_made_again(chats: ChatAPI) -> None:
    scores = {"tools": []}
    search = LLMSearch(ScriptedLLM(RateLimited("slow down"), scores), fallback=False)
    chat, _ = begin(chats, Engine(ScriptedLLM("Done."), many(20)), search=search)
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and (error.stage, error.retryable) == ("tool_search", True)
    chats.dispatch(chat, RetryToolSearch())
    chats.until(chat, "ready")
    assert chat.context.messages[-1].text == "Done."


def test_a_tool_that_is_gone_is_not_offered(chats: ChatAPI, tools: Tools) -> None:
    chat, _ = begin(chats, engine_of("One.", "Two.", tools=tools))
    chats.until(chat, "ready")
    data = chat.snapshot()
    data["context"] |= {"retry": "generation", "tools": ["gone", "look"]}
    chats.call(chat.restore, data)
    chats.dispatch(chat, RetryGeneration())
    chats.until(chat, "ready")
    assert [tool.name for tool in asked_of(chat)[1].tools] == ["look"]


# Models.


class Loaded(ScriptedLLM):
    """A model that takes its time to be there."""

    def __init__(self, *answers: Any, steps: tuple[int, ...] = (0, 10, 10, 55, 100), error: Exception | None = None):
        super().__init__(*answers)
        self.begun = threading.Event()
        self.released = threading.Event()
        self.ended: list[BaseException | None] = []
        self.left = threading.Event()
        self._steps = steps
        self._error = error

    def load(self, progress: Progress | None = None) -> None:
        """Load the model, once `released` is set."""
        self.begun.set()
        assert self.released.wait(PATIENCE) and progress is not None
        try:
            for step in self._steps:
                progress(step * 10, 1000)
            if self._error is not None:
                raise self._error
        except BaseException as error:
            self.ended.append(error)
            raise
        finally:
            self.left.set()


def test_a_model_is_loaded_with_progress(chats: ChatAPI) -> None:
    model = Loaded("Hi.")
    model.released.set()
    chat, received = begin(chats, Engine(model))
    chats.until(chat, "ready")
    loading = [change.context.load_progress for change in received if change.event.type == "MODEL_LOAD_PROGRESS"]
    assert (loading, chat.context.load_progress) == ([0.0, 10.0, 55.0, 100.0], 100.0)
    assert chat.context.messages[-1].text == "Hi."


def test_a_model_that_is_on_the_disk_is_loaded_with_progress(
    chats: ChatAPI, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    local = Local.used_by(monkeypatch)
    received: list[ChatChange] = []
    chat = chats.open(engine=Engine(LlamaCpp(tmp_path / "model.gguf", network=ReplayNetwork())))
    chat.subscribe(received.append)
    chats.dispatch(chat, LoadModel())
    chats.until(chat, "ready")
    assert types(received).count("MODEL_LOAD_PROGRESS") == 2
    assert local.pulled == [] and local.server.running


def test_of_nothing_to_load_nothing_is_reported(chats: ChatAPI) -> None:
    model = Loaded("Hi.", steps=())
    model.released.set()
    chat, received = begin(chats, Engine(model))
    chats.until(chat, "ready")
    assert "MODEL_LOAD_PROGRESS" not in types(received)


def test_a_model_that_is_not_there_can_be_tried_again(chats: ChatAPI) -> None:
    models = {"one": Loaded(error=OSError("no space left")), "two": Loaded("Hi.")}
    for model in models.values():
        model.released.set()
    chat = chats.open(llms=models.__getitem__)
    chats.dispatch(chat, QueueMessage("Hello."), LoadModel("one"))
    assert chats.until(chat, "load_failed") == "load_failed"
    assert chat.context.last_error is not None and "no space left" in chat.context.last_error.message
    chats.dispatch(chat, LoadModel("two"))
    chats.until(chat, "ready")
    assert [message.text for message in chat.context.messages] == ["Hello.", "Hi."]


@pytest.mark.parametrize("llms", [llm, choose_llm])
@pytest.mark.parametrize("name", ["no-such-service:m", "gibberish:"])
def test_a_name_that_names_no_model_fails_in_words(
    chats: ChatAPI, name: str, llms: Callable[[str], FunctionCallingLLM]
) -> None:
    chat = chats.open(llms=llms)
    chats.dispatch(chat, LoadModel(name))
    chats.until(chat, "load_failed")
    error = chat.context.last_error
    assert error is not None and "names no LLM" in error.message and error.stage == "model_load"


@pytest.mark.parametrize("event", [Stop(), LoadModel("other")])
def test_no_one_waits_for_a_model_that_is_not_wanted_any_more(chats: ChatAPI, event: Any) -> None:
    slow, other = Loaded(), Loaded("Hi.")
    other.released.set()
    chat = chats.open(engine=Engine(slow), llms={"other": other}.__getitem__)
    received: list[ChatChange] = []
    chat.subscribe(received.append)
    chats.dispatch(chat, LoadModel())
    assert slow.begun.wait(PATIENCE)
    state = chats.dispatch(chat, event).state
    assert state == ("load_failed" if isinstance(event, Stop) else "loading_model")
    slow.released.set()
    assert slow.left.wait(PATIENCE) and len(slow.ended) == 1
    if isinstance(event, LoadModel):
        assert chats.until(chat, "ready") == "ready"
        assert chat.context.load_progress == 100
    assert sum(change.event.type == "MODEL_LOAD_SUCCESS" for change in received) == isinstance(event, LoadModel)


def test_another_model_answers_from_then_on(chats: ChatAPI, tools: Tools) -> None:
    other = ScriptedLLM("From the other.")
    made: list[str] = []

    def llms(name: str) -> ScriptedLLM:
        made.append(name)
        return other

    engine = engine_of(call("a", "write", '{"value": 1}'), tools=tools, permissions=Permissions())
    chat, _ = begin(chats, engine, llms=llms)
    chats.until(chat, "waiting_for_tool_approval")
    chats.dispatch(chat, LoadModel("other"))
    chats.until(chat, "ready")
    chats.dispatch(chat, RetryToolSearch())
    chats.until(chat, "ready")
    assert [message.role for message in other.requests[0].messages] == ["user", "assistant", "tool"]
    assert (chat.context.messages[-1].text, made, tools.done) == ("From the other.", ["other"], [])
    chats.dispatch(chat, LoadModel())
    chats.until(chat, "ready")
    assert chat.context.model is None


# Failures of the model.


def test_a_model_that_cannot_be_asked_is_asked_again(chats: ChatAPI) -> None:
    chat, received = begin(chats, engine_of(RateLimited("slow down"), "Hi."))
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and (error.stage, error.retryable) == ("generation", True)
    chats.dispatch(chat, RetryGeneration())
    chats.until(chat, "ready")
    assert [message.text for message in chat.context.messages] == ["Go.", "Hi."]
    assert types(received).count("TOOL_SEARCH_SUCCESS") == 1


def test_a_stream_that_breaks_off_keeps_what_was_sent(chats: ChatAPI) -> None:
    chat, _ = begin(chats, engine_of([TextDelta("Once "), TextDelta("upon")], "Once upon a time."))
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and error.stage == "stream"
    assert ([message.text for message in chat.context.messages], chat.context.interrupted) == (
        ["Go.", "Once upon"],
        (1,),
    )
    chats.dispatch(chat, RetryGeneration())
    chats.until(chat, "ready")
    assert [message.text for message in chat.context.messages] == ["Go.", "Once upon a time."]


def test_a_history_that_is_too_long_is_shortened_for_the_model_alone(chats: ChatAPI) -> None:
    engine = engine_of(ContextTooLong("too long"), "Hi.", compaction=Compaction(keep=20))
    engine.restore(Engine(ScriptedLLM(), history=[user("word " * 400), assistant("Yes.")] * 2).snapshot())
    chat, _ = begin(chats, engine)
    chats.until(chat, "ready")
    assert (chat.context.messages[-1].text, len(chat.context.messages)) == ("Hi.", 6)
    first, second = (len(asked.messages) for asked in asked_of(chat))
    assert second < first


def long_history() -> dict[str, Any]:
    """Return the snapshot of an engine with a long history and a tool call in the middle of it."""
    called = [assistant(call("a", "look", '{"value": 1}')), tool_result("a", "seen 1")]
    history = [user("word " * 400), *called, assistant("Yes."), user("word " * 400), assistant("Yes.")]
    return Engine(ScriptedLLM(), history=history).snapshot()


def test_what_was_shortened_once_is_sent_so_from_then_on(chats: ChatAPI, tools: Tools) -> None:
    again = call("a", "look", '{"value": 2}')
    engine = engine_of(ContextTooLong("too long"), again, "Two.", "Three.", tools=tools, compaction=Compaction(keep=20))
    engine.restore(long_history())
    chat, _ = begin(chats, engine)
    chats.until(chat, "ready")
    chats.dispatch(chat, QueueMessage("More."))
    chats.until(chat, "ready")
    long, *short = [asked.messages for asked in asked_of(chat)]
    assert len(long) == 7 and len(chat.context.messages) == 12
    assert [len(messages) for messages in short] == [len(short[0]), len(short[0]) + 2, len(short[0]) + 4]
    assert short[2][: len(short[0])] == short[0]
    assert short[2][len(short[0]) :] == chat.context.messages[7:11]
    assert all(find_problems(messages) == [] for messages in (chat.context.messages, *short))
    assert list(contents(chat)) == ["a", "a-2"]


def test_a_history_that_is_over_the_limit_is_shortened_before_it_is_sent(chats: ChatAPI) -> None:
    engine = engine_of("Hi.", compaction=Compaction(at=100, keep=20))
    engine.restore(long_history())
    chat, _ = begin(chats, engine)
    chats.until(chat, "ready")
    assert len(asked_of(chat)[0].messages) < 7
    assert len(chat.context.messages) == 8


def test_a_summary_that_fails_leaves_a_history_that_fits(chats: ChatAPI) -> None:
    engine = engine_of("Hi.", compaction=Compaction(at=100, keep=20, summarise=ScriptedLLM("", "")))
    engine.restore(long_history())
    chat, _ = begin(chats, engine)
    chats.until(chat, "ready")
    assert len(asked_of(chat)[0].messages) == 7
    assert contents(chat)


@pytest.mark.parametrize("compaction", [None, Compaction(keep=20)])
def test_a_history_that_cannot_be_shortened_is_an_error(chats: ChatAPI, compaction: Compaction | None) -> None:
    chat, _ = begin(chats, engine_of(ContextTooLong("too long"), compaction=compaction))
    chats.until(chat, "ready")
    assert chat.context.last_error is not None and "too long" in chat.context.last_error.message


# Interrupting.

STREAM = (head(200, "content-type: text/event-stream"), HOLD)
STALLED: dict[str, tuple[Any, ...]] = {
    "before the first byte": (HOLD,),
    "before the first event": STREAM,
    "in the answer": tuple(spoken(*sse(delta(content="Once upon"), done=False), HOLD)),
}
STOPS: list[Any] = [Interrupt(), Stop(), LoadModel()]


@pytest.mark.parametrize("event", [*STOPS, None], ids=lambda event: event.type if event else "close")
@pytest.mark.parametrize("where", STALLED)
def test_the_providers_connection_closes(chats: ChatAPI, where: str, event: Any) -> None:
    with Loopback() as server:
        server.answer(*STALLED[where])
        server.answer(*spoken(*sse(delta(content="again"), delta("stop"))))
        llm = OpenAI("m-1", base_url=address(server), api_key="k", max_retries=0)
        chat, _ = begin(chats, Engine(llm))
        server.wait_requests(1)
        if where == "in the answer":
            spoke = threading.Event()
            chat.subscribe(lambda change: spoke.set() if len(change.context.streamed) else None)
            if not len(chat.context.streamed):
                assert spoke.wait(PATIENCE)
        if event is None:
            chats.close(chat)
            server.wait_open(0)
        else:
            chats.dispatch(chat, event)
            server.wait_open(0)
            chats.until(chat, "ready")
            kept = [user("Go."), *([assistant("Once upon")] if where == "in the answer" else [])]
            assert (list(chat.context.messages), chat.context.last_error) == (kept, None)
            chats.dispatch(chat, RetryGeneration())
            chats.until(chat, "ready")
            assert list(chat.context.messages) == [user("Go."), assistant("again")]
        chats.call(llm.close if chats.name == "sync" else llm.aclose)


@pytest.mark.parametrize("event", STOPS, ids=lambda event: event.type)
def test_the_connection_of_a_search_closes(chats: ChatAPI, event: Any) -> None:
    with Loopback() as server:
        server.answer(HOLD)
        llm = OpenAI("m-1", base_url=address(server), api_key="k", max_retries=0)
        chat, _ = begin(chats, Engine(ScriptedLLM("Hi."), many(20)), search=LLMSearch(llm))
        server.wait_requests(1)
        chats.dispatch(chat, event)
        server.wait_open(0)
        chats.until(chat, "ready")
        assert (chat.context.last_error, chat.context.retry) == (None, "tool_search")
        chats.call(llm.close if chats.name == "sync" else llm.aclose)


@pytest.mark.parametrize("event", STOPS, ids=lambda event: event.type)
@pytest.mark.parametrize("name", ["wait", "linger"])
def test_a_tool_that_runs_is_cancelled(chats: ChatAPI, tools: Tools, name: str, event: Any) -> None:
    calls = [call("a", name), call("b", "look", '{"value": 1}')]
    chat, received = begin(chats, engine_of(calls, "Well.", tools=tools))
    assert tools.begun.wait(PATIENCE)
    chats.dispatch(chat, event)
    assert tools.left.wait(PATIENCE)
    chats.until(chat, "ready")
    assert "had begun when the user interrupted it" in contents(chat)["a"]
    assert (list(contents(chat)), tools.done) == (["a", "b"], [])
    assert (chat.context.messages[-1].text == "Well.") == isinstance(event, Interrupt)
    assert not any(isinstance(change.event, ToolCallSuccess) for change in received)


def test_a_tool_that_does_not_look_is_left_behind(chats: ChatAPI, tools: Tools) -> None:
    def stubborn() -> str:
        """Wait, whatever happens."""
        tools.begun.set()
        assert tools.opened.wait(PATIENCE)
        tools.left.set()
        return "late"

    engine = Engine(ScriptedLLM(call("a", "stubborn"), "Well."), [stubborn], permissions=ALLOWED)
    chat, received = begin(chats, engine)
    assert tools.begun.wait(PATIENCE)
    chats.dispatch(chat, Interrupt())
    try:
        assert chats.until(chat, "ready") == "ready"
    finally:
        tools.opened.set()
    assert tools.left.wait(PATIENCE)
    assert chat.context.messages[-1].text == "Well." and contents(chat)["a"] != "late"
    chats.close(chat)
    assert not any(isinstance(change.event, ToolCallSuccess) for change in received)


def test_what_is_sent_meanwhile_is_answered_after_the_interruption(chats: ChatAPI) -> None:
    with Loopback() as server:
        server.answer(*STALLED["in the answer"])
        server.answer(*spoken(*sse(delta(content="Better."), delta("stop"))))
        llm = OpenAI("m-1", base_url=address(server), api_key="k", max_retries=0)
        chat, _ = begin(chats, Engine(llm))
        chats.until(chat, "streaming_response")
        chats.dispatch(chat, QueueMessage("Rather something else."))
        assert chat.context.queue == (user("Rather something else."),)
        chats.dispatch(chat, Interrupt())
        chats.until(chat, "ready")
        texts = [message.text for message in chat.context.messages]
        assert texts[-2:] == ["Rather something else.", "Better."]
        chats.call(llm.close if chats.name == "sync" else llm.aclose)


# Work that others do.


def test_one_work_can_be_done_otherwise(chats: ChatAPI) -> None:
    async def parrot(work: StageTask) -> None:
        from toolcast.chat.events import GenerationSuccess

        work.emit(GenerationSuccess())
        work.emit(StreamComplete(assistant(work.context.messages[-1].text)))

    chat, _ = begin(chats, engine_of(), "Polly.", perform={"generate": parrot})
    chats.until(chat, "ready")
    assert [message.text for message in chat.context.messages] == ["Polly.", "Polly."]


def test_what_waits_for_an_event_loop_is_reported_so_where_there_is_none() -> None:
    async def suspends(work: StageTask) -> None:
        await anyio.lowlevel.checkpoint()
        work.emit(ModelLoadSuccess())

    with ChatMachine(engine_of(), perform={"load_model": suspends}) as chat:
        chat.dispatch("LOAD_MODEL")
        assert chat.run_until("load_failed", "ready", timeout=PATIENCE) == "load_failed"
        assert chat.context.last_error is not None


def test_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def none(*args: Any, **options: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("toolcast.chat.machine.start_job", none)
    with ChatMachine(engine_of()) as chat:
        chat.dispatch("LOAD_MODEL")
        assert chat.state == "load_failed"
        assert chat.context.last_error is not None and "can't start new thread" in chat.context.last_error.message
        assert not chat._tasks


class Leave(BaseException):
    """What stands for Ctrl-C in a thread."""


def test_what_is_no_error_ends_the_work_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    async def leaves(work: StageTask) -> None:
        raise Leave("gone")

    with ChatMachine(engine_of(), perform={"load_model": leaves}) as chat:
        chat.dispatch("LOAD_MODEL")
        assert chat.run_until("load_failed", timeout=PATIENCE) == "load_failed"
        assert chat.context.last_error is not None and chat.context.last_error.message == "Leave: gone"


def test_work_that_there_is_not_is_not_done_otherwise(chats: ChatAPI) -> None:
    with pytest.raises(ValueError, match="perform= has 'generating'; the orders are load_model, "):
        chats.open(perform={"generating": print})


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_event_loop_that_ends_closes_the_chat(backend: str, tools: Tools, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> AsyncChatMachine:
        chat = AsyncChatMachine(engine_of(call("a", "linger"), tools=tools))
        chat.dispatch(QueueMessage("Go."))
        chat.dispatch("LOAD_MODEL")
        await chat.run_until("calling_tool")
        while not tools.begun.is_set():
            await anyio.lowlevel.checkpoint()
        return chat

    chat = anyio.run(main, backend=backend)
    assert tools.left.is_set()
    with pytest.raises(IllegalState, match="the chat is closed"):
        chat.restore(chat.snapshot())
    assert (chat.state, chat.context.last_error, caplog.text) == ("calling_tool", None, "")


# What it costs.


def cost(pieces: int) -> int:
    """Count the calls of the library's functions while an answer of so many chunks is streamed."""
    chat = ChatMachine(Engine(ScriptedLLM("x" * pieces, chunk=1)))
    chat.subscribe(ChatChange.to_dict)
    count = 0

    def profile(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event == "call" and "toolcast" in frame.f_code.co_filename

    with chat:
        chat.dispatch("LOAD_MODEL")
        chat.run_until("ready", timeout=PATIENCE)
        threading.setprofile(profile)
        try:
            chat.dispatch(QueueMessage("Go."))
            chat.run_until("ready", timeout=60)
        finally:
            threading.setprofile(None)
        assert len(chat.context.messages[-1].text) == pieces
    return count


def test_a_piece_costs_the_same_however_long_the_answer_is() -> None:
    cost(10)  # what is imported on first use
    first, second, third = cost(500), cost(1000), cost(1500)
    assert abs((third - second) - (second - first)) < 0.05 * (second - first)
    assert (second - first) / 500 < 60


def test_a_thousand_pieces_in_an_event_loop() -> None:
    async def main() -> None:
        async with AsyncChatMachine(Engine(ScriptedLLM("x" * 1000, chunk=1))) as chat:
            chat.dispatch(QueueMessage("Go."))
            chat.dispatch("LOAD_MODEL")
            await chat.run_until("ready")
            assert len(chat.context.messages[-1].text) == 1000

    anyio.run(main)


def test_nothing_of_a_chat_is_left_over(chats: ChatAPI) -> None:
    import gc
    import weakref

    chat, _ = begin(chats, engine_of("Hi."))
    chats.until(chat, "ready")
    assert not chat._tasks
    chats.close(chat)
    chats.call(bool)  # the loop's thread has left `close`, which has its result before it returns
    chats.opened.remove(chat)
    gone = weakref.ref(chat)
    del chat
    del _
    gc.collect()
    assert gone() is None


class Mute(ScriptedLLM):
    """A model whose stream is empty, without a finish event."""

    async def _events(self, *asked: Any, **more: Any) -> Any:
        return
        yield


def test_a_model_that_says_nothing_at_all_has_failed(chats: ChatAPI) -> None:
    chat, _ = begin(chats, Engine(Mute()))
    chats.until(chat, "ready")
    error = chat.context.last_error
    assert error is not None and error.stage == "generation" and "without a Finish" in error.message
