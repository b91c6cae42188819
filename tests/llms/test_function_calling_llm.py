"""What every LLM shares: chat, tools, predicting and calling; and bringing one's own."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, SHORT, Album, call
from support.sync_and_async import API
from toolcast import (
    FallbackLLM,
    FunctionCallingLLM,
    Hooks,
    Message,
    Ollama,
    OpenAI,
    OpenAICompatible,
    Prices,
    Settings,
    ToolCallPart,
    ToolOrchestratingLLM,
    assistant,
    llm,
    system,
    user,
)
from toolcast.agents.engine.engine import Engine
from toolcast.errors import (
    MissingOutputError,
    NoToolCallError,
    OutputTypeError,
    StreamTruncated,
    UnknownToolError,
    UnsupportedLLMError,
)
from toolcast.events import Event, Finish, TextDelta, ToolCallDone
from toolcast.llms import CachedLLM, ChatRequest, LLMMetadata, Next, WrapperLLM
from toolcast.llms.client import LLMClient, client_of
from toolcast.llms.function_calling_llm import AgentChatResponse
from toolcast.testing import ReplayNetwork, ScriptedLLM, VirtualClock
from toolcast.values.tool_spec import NamedTool


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


ADD = ToolCallPart("c1", "add", '{"a": 1, "b": 2}')
ADD_MORE = ToolCallPart("c2", "add", '{"a": 3, "b": 4}')


def test_a_string_is_a_user_message(api: API) -> None:
    scripted = ScriptedLLM("Hi!", system_prompt="Be kind.")
    response = api.chat(scripted, "Hello")
    assert response.text == "Hi!"
    assert response.message == assistant("Hi!")
    assert scripted.requests[0].messages == (system("Be kind."), user("Hello"))


@pytest.mark.parametrize("messages", [user("a"), [user("a")], ["a"], (user("a"),)])
def test_messages_in_any_form(messages: Any) -> None:
    scripted = ScriptedLLM("b")
    scripted.chat(messages)
    assert scripted.requests[0].messages == (user("a"),)


def test_chat_returns_tool_calls_unrun(api: API) -> None:
    response = api.chat(ScriptedLLM([ADD, ADD_MORE]), "x", tools=[add])
    assert response.message.tool_calls == (ADD, ADD_MORE)
    assert response.stop_reason == "tool_use"


def test_chat_with_tools_gives_at_most_one_call(api: API, caplog: pytest.LogCaptureFixture) -> None:
    scripted = ScriptedLLM([ADD, ADD_MORE], [ADD, ADD_MORE])
    response = api.method(scripted, "chat_with_tools", [add], "x")
    assert response.message.tool_calls == (ADD,)
    assert "more than one tool call" in caplog.text
    several = api.method(scripted, "chat_with_tools", [add], "x", allow_parallel_tool_calls=True)
    assert several.message.tool_calls == (ADD, ADD_MORE)


@pytest.mark.parametrize("id", ["", "c1"])
def test_calls_of_an_llm_of_ones_own_with_equal_ids(api: API, id: str) -> None:
    def scripted() -> ScriptedLLM:
        return ScriptedLLM([replace(ADD, id=id), replace(ADD_MORE, id=id)])

    response = api.chat(scripted(), "x", tools=[add])
    assert [call.arguments for call in response.message.tool_calls] == [ADD.arguments, ADD_MORE.arguments]
    assert len({call.id for call in response.message.tool_calls}) == 2
    one = api.method(scripted(), "chat_with_tools", [add], "x")
    assert [call.arguments for call in one.message.tool_calls] == [ADD.arguments]
    both = api.method(scripted(), "predict_and_call", [add], "x", allow_parallel_tool_calls=True)
    assert both.parse_tool_outputs(allow_parallel_tool_calls=True) == [3, 7]


def test_chat_with_tools_streams() -> None:
    scripted = ScriptedLLM([ADD, ADD_MORE])
    stream = scripted.chat_with_tools([add], "x", stream=True)
    ids = {event.id for event in stream if isinstance(event, toolcast.events.ToolCallDone)}
    assert ids == {"c1"}

    async def main() -> None:
        stream = await ScriptedLLM([ADD]).achat_with_tools([add], "x", stream=True)
        names = [type(event).__name__ async for event in stream]
        assert names[0] == "ToolCallStart"

    anyio.run(main)


def test_predict_and_call_runs_the_tools(api: API) -> None:
    scripted = ScriptedLLM([ADD, ADD_MORE], [ADD, ADD_MORE])
    one = api.method(scripted, "predict_and_call", [add], "x")
    assert one.parse_tool_outputs() == 3
    assert one.sources[0].raw_input == ADD.arguments
    both = api.method(scripted, "predict_and_call", [add], "x", allow_parallel_tool_calls=True)
    assert both.parse_tool_outputs(allow_parallel_tool_calls=True) == [3, 7]


def test_predict_without_a_call(api: API) -> None:
    scripted = ScriptedLLM("no", "no")
    with pytest.raises(NoToolCallError, match="0 tool calls"):
        api.method(scripted, "predict_and_call", [add], "x")
    answer = api.method(scripted, "predict_and_call", [add], "x", error_on_no_tool_call=False)
    assert answer.response.text == "no"
    assert answer.parse_tool_outputs(allow_parallel_tool_calls=True) == []
    with pytest.raises(MissingOutputError):
        answer.parse_tool_outputs()
    with pytest.raises(AttributeError):
        AgentChatResponse(answer.response).parse_tool_outputs()


def test_predict_an_unknown_tool(api: API) -> None:
    with pytest.raises(UnknownToolError, match="sub"):
        api.method(ScriptedLLM([ToolCallPart("1", "sub", "{}")]), "predict_and_call", [add], "x")


def test_models_are_tools_too(api: API) -> None:
    answer = api.method(ScriptedLLM(SEA), "predict_and_call", [Album, add], "x")
    assert answer.parse_tool_outputs() == SEA


def test_tool_choices(api: API) -> None:
    scripted = ScriptedLLM("a", "b", "c")
    for choice in ("add", "required", {"type": "any"}):
        api.chat(scripted, "x", tools=[add], tool_choice=choice)
    assert [asked.tool_choice for asked in scripted.requests] == [NamedTool("add"), "required", {"type": "any"}]
    with pytest.raises(ValueError, match="subtract"):
        api.chat(scripted, "x", tools=[add], tool_choice="subtract")
    with pytest.raises(ValueError, match="no tools"):
        api.chat(scripted, "x", tool_choice="subtract")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(OutputTypeError, match="add"):
        ScriptedLLM().chat("x", tools=[add, add])


def test_calls_of_a_response() -> None:
    scripted = ScriptedLLM([ADD], "text")
    assert scripted.get_tool_calls_from_response(scripted.chat("x", tools=[add])) == [ADD]
    text = scripted.chat("x")
    assert scripted.get_tool_calls_from_response(text, error_on_no_tool_call=False) == []
    with pytest.raises(NoToolCallError):
        scripted.get_tool_calls_from_response(text)


# -- bringing one's own -----------------------------------------------------------------------------------------


class Echo(FunctionCallingLLM):
    """Returns the text of the last message."""

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata("echo", context_window=100)

    async def _events(
        self, messages: Sequence[Message], tools: Any, tool_choice: Any, settings: Settings
    ) -> AsyncIterator[Event]:
        yield TextDelta(messages[-1].text)
        yield Finish("end_turn")


def test_calls_that_only_end_are_apart_by_what_they_say() -> None:
    class Bare(Echo):
        async def _events(self, *_: Any) -> AsyncIterator[Event]:
            for arguments in (ADD.arguments, ADD.arguments, ADD_MORE.arguments):
                yield ToolCallDone("c", "add", arguments)
            yield Finish("tool_use")

    calls = Bare().chat("x", tools=[add]).message.tool_calls
    assert calls == (replace(ADD, id="c"), replace(ADD_MORE, id="c-2"))


def test_a_custom_llm_may_have_any_names_of_its_own(api: API) -> None:
    """What the library does with an LLM is in its client, so that no name of a subclass stands in for it."""
    names = [*vars(LLMClient), "_network", "_limiter", "_open", "_send", "_best_mode", "_predict", "file_owner"]
    taken = {name: "mine" for name in {*names} - {"llm"} if not name.startswith("__") and name not in dir(WrapperLLM)}
    assert {"source", "answer", "mode", "origin", "price", "build_request", "_open"} <= taken.keys()

    class Own(Echo):
        async def _events(
            self, messages: Any, tools: Any, tool_choice: Any, settings: Settings
        ) -> AsyncIterator[Event]:
            assert vars(self).items() >= taken.items()
            if tools:
                yield ToolCallDone("1", "add", '{"a": 1, "b": 2}')
            yield TextDelta("hi")
            yield Finish("end_turn")

    class OwnWrapper(WrapperLLM):
        async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
            async for event in call_next(request):
                yield event

    llm = Own(hooks=Hooks(), max_concurrency=2, settings=Settings(max_tokens=9), prices=Prices(1, 1))
    for used in (llm, OwnWrapper(llm), FallbackLLM([llm]), CachedLLM(llm)):
        vars(used).update(taken)
        assert api.chat(used, "x").text == "hi"
        assert [type(event) for event in api.events(used, "x")][-2:] == [TextDelta, Finish]
        assert api.call(ToolOrchestratingLLM(add, "x", used)) == 3
        assert used.predict_and_call([add], "x").parse_tool_outputs() == 3
        assert Engine(used).submit("x").text == "hi"
        assert used.count_tokens("x").estimated
        assert used.clock and used.network and used.calls_in_progress == 0


class Offline:
    """A network that is passed; it sends nothing."""

    def close(self) -> None: ...


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda llm: pickle.loads(pickle.dumps(llm))])
def test_a_copy_of_a_custom_llm_has_its_network_and_limit(again: Callable[[Any], Any]) -> None:
    made = again(Echo(network=Offline(), max_concurrency=3))  # type: ignore[arg-type]  # a call does not use it
    assert isinstance(made.network, Offline) and made.max_concurrency == 3
    assert made.chat("x").text == "x" and made.calls_in_progress == 0


def test_a_wrapper_has_the_clock_of_the_wrapped_llm() -> None:
    wrapped = Echo()
    wrapper = CachedLLM(wrapped)
    wrapped.clock = clock = VirtualClock()
    assert client_of(wrapper).sync_backend().now == clock.now


class Waiting(Echo):
    """Suspends before it answers."""

    async def _events(self, *args: Any) -> AsyncIterator[Event]:
        await asyncio.sleep(0)
        async for event in super()._events(*args):
            yield event


class Unfinished(Echo):
    """Forgets its Finish."""

    async def _events(self, *args: Any) -> AsyncIterator[Event]:
        yield TextDelta("a")


def test_a_custom_llm_on_every_api(api: API) -> None:
    response = api.chat(Echo(), "Hello")
    assert (response.text, response.model, response.provider) == ("Hello", "echo", "custom")


def test_one_that_suspends_works_only_on_the_async_api() -> None:
    async def main() -> str:
        return (await Waiting().achat("Hello")).text

    assert anyio.run(main) == "Hello"
    ask = ToolOrchestratingLLM(int, "x", Waiting())
    calls: list[Callable[[], object]] = [
        lambda: Waiting().chat("Hello"),
        lambda: next(iter(Waiting().stream_chat("Hello"))),
        lambda: Waiting().predict_and_call([int], "Hello"),
        ask,
        lambda: ask.stream().final(),
        lambda: Engine(Waiting()).submit("Hello"),
    ]
    for call_it in calls:
        with pytest.raises(
            toolcast.errors.WouldSuspend, match=r"such as a custom LLM whose _events awaits I/O, .*await the async"
        ):
            call_it()


def test_one_without_an_end_is_reported_so(api: API) -> None:
    with pytest.raises(StreamTruncated, match="Finish"):
        api.chat(Unfinished(), "Hello")


def test_an_iterator_that_is_no_generator_will_do(api: API) -> None:
    class Listed(Echo):
        def _events(self, *args: Any) -> AsyncIterator[Event]:
            return Iterating([TextDelta("a"), Finish("end_turn")])

    class Iterating:
        def __init__(self, events: list[Event]) -> None:
            self._events = iter(events)

        def __aiter__(self) -> AsyncIterator[Event]:
            return self

        async def __anext__(self) -> Event:
            for event in self._events:
                return event
            raise StopAsyncIteration

    assert api.chat(Listed(), "x").text == "a"


def test_a_custom_llm_has_no_http_of_its_own() -> None:
    make = toolcast.ToolOrchestratingLLM(Album, "x", Echo())
    assert make.preview().request is None
    assert make.preview().body is None
    for attempt in (make.request, lambda: make.parse("{}")):
        with pytest.raises(TypeError, match="Echo"):
            attempt()


# -- the ready-made ---------------------------------------------------------------------------------------------


def test_names() -> None:
    assert isinstance(llm("openai:gpt-5.4"), OpenAI)
    assert isinstance(llm("ollama:llama3.2"), Ollama)
    assert isinstance(llm("groq:llama"), OpenAICompatible)
    assert llm("local").metadata.model_name == "smollm2"
    assert llm("ollama:qwen3:8b").metadata.model_name == "qwen3:8b"
    for name in ("gpt-5.4", "unknown:model", "openai:"):
        with pytest.raises(UnsupportedLLMError, match=r"write .*(openai:gpt-5.4|provider:model|openai:MODEL)"):
            llm(name)
    assert toolcast.ToolOrchestratingLLM(Album, "x", "ollama:llama3.2").llm.metadata.provider == "ollama"


def test_a_service_is_known_by_its_address_or_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenAICompatible("m", base_url="https://api.groq.com/openai/v1").metadata.provider == "groq"
    assert OpenAICompatible("m", base_url="http://localhost:9/v1").metadata.provider != "groq"
    assert OpenAICompatible("m", service="deepseek").metadata.provider == "deepseek"
    with pytest.raises(UnsupportedLLMError, match="grok"):
        _ = OpenAICompatible("m", service="grok").adapter
    monkeypatch.delenv("OPENAI_COMPATIBLE_BASE_URL", raising=False)
    with pytest.raises(UnsupportedLLMError, match="base_url"):
        _ = OpenAICompatible("m").adapter


def test_keys_and_addresses_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-environment")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy.example/v1")
    request = toolcast.ToolOrchestratingLLM(Album, "x", OpenAI("m")).request()
    assert request.url == "http://proxy.example/v1/chat/completions"
    assert request.headers["authorization"].reveal() == "Bearer sk-from-environment"
    monkeypatch.setenv("OLLAMA_HOST", "box:1234")
    ollama = toolcast.ToolOrchestratingLLM(Album, "x", Ollama("m")).preview()
    assert ollama.request is not None
    assert ollama.request.url == "http://box:1234/api/chat"
    assert ollama.mode == "json_schema"


def test_repr_shows_no_key() -> None:
    made = OpenAI("m", api_key="sk-canary", base_url="http://x/v1")
    assert repr(made) == "OpenAI('m', base_url='http://x/v1')"
    assert "sk-canary" not in repr(vars(made))


def test_pickling_leaves_the_key_behind() -> None:
    made = OpenAI("m", api_key="sk-canary", settings=Settings(seed=1), headers={"User-Agent": "y"})
    data = pickle.dumps(made)
    assert b"sk-canary" not in data
    again = pickle.loads(data)
    assert (again.model, again.settings) == ("m", Settings(seed=1))
    assert again.adapter.provider == "openai"


def test_closing(api: API) -> None:
    closed: list[str] = []

    class Counting(ReplayNetwork):
        def close(self) -> None:
            closed.append("close")

        async def aclose(self) -> None:
            closed.append("aclose")

    with OpenAI("m", api_key="k", network=Counting()):
        pass
    assert closed == ["close"]

    async def main() -> None:
        async with OpenAI("m", api_key="k", network=Counting()):
            pass

    anyio.run(main)
    assert "aclose" in closed[1:]


def test_retries_are_not_made_of_what_is_not_an_llm_error(api: API) -> None:
    scripted = ScriptedLLM(ZeroDivisionError("mine"), SHORT)
    make = toolcast.ToolOrchestratingLLM(Album, "x", scripted)
    with pytest.raises(ZeroDivisionError):
        api.call(make)
    assert api.call(make) == SHORT


def test_calls_that_come_whole(api: API) -> None:
    assert api.call(toolcast.ToolOrchestratingLLM(Album, "x", ScriptedLLM([call(SEA)]))) == SEA
