"""Words of other libraries: each is refused where it is written, with toolcast's word in the error."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

import toolcast
from toolcast import Agent, Engine, FunctionCallingLLM, OpenAI, Settings, ToolOrchestratingLLM, Turn, llm, tool
from toolcast.agents.engine.engine_config import AgentOptions
from toolcast.agents.engine.turn_request import TurnOptions
from toolcast.errors import UnsupportedLLMError
from toolcast.llms.function_calling_llm import ToolCallOptions
from toolcast.llms.http_llm import LLMOptions
from toolcast.llms.model_registry import choose_llm
from toolcast.llms.named_llms import providers
from toolcast.structured.orchestrator import OrchestratorOptions
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_options import ToolChanges
from toolcast.values.option_suggestions import ATTRIBUTES, NAMES, OPTIONS, PROVIDERS, SETTINGS, refuse_unknown
from toolcast.values.settings import SettingsChanges


class Person(BaseModel):
    name: str


FAKE = ScriptedLLM([])
AGENT = Agent(FAKE)
CALL = ToolOrchestratingLLM(Person, "Read {text}", FAKE)
OBJECTS: dict[str, Any] = {
    "Agent": AGENT,
    "Engine": Engine(FAKE),
    "Turn": Turn(),
    "ToolOrchestratingLLM": CALL,
    "FunctionCallingLLM": FAKE,
    "FunctionCallingLLM.chat": FAKE.chat,
}
typed = partial(ToolOrchestratingLLM, llm=FAKE)
openai = partial(OpenAI, "gpt-5.4", api_key="none")

REFUSED: list[tuple[str, Callable[..., Any], str]] = [
    *[
        (word, partial(typed, prompt="x"), "pass output_cls=...")
        for word in ("response_model", "output_type", "response_format", "result_type")
    ],
    ("system_prompt", partial(typed, Person, "x"), "pass system_prompt=... to the LLM"),
    ("messages", partial(typed, Person), "pass prompt=..."),
    ("max_retries", partial(typed, Person, "x"), "pass max_attempts=..."),
    ("temperature", partial(typed, Person, "x"), "pass settings=Settings(temperature=...)"),
    ("model", partial(ToolOrchestratingLLM, Person, "x"), "pass llm=..."),
    ("max_retries", CALL.with_, "pass max_attempts=..."),
    ("max_atempts", CALL.with_, "did you mean max_attempts=?"),
    ("output_type", Agent, "pass output_cls=..."),
    ("response_model", Agent, "pass output_cls=..."),
    ("model", Agent, "pass llm=..."),
    ("system_prompt", Agent, "pass instructions=..."),
    ("deps_type", Agent, "leave it out: a tool names the type, context: ToolContext[Shop]"),
    ("retries", Agent, "pass max_attempts=..."),
    ("toolsets", Agent, "pass tools=..."),
    ("model_settings", Agent, "pass settings=..."),
    ("max_iterations", Agent, "pass max_rounds=..."),
    ("history", Agent, "pass history=... to Agent.run or to the Engine"),
    ("output_cls", Engine, "pass output_cls=... to a ToolOrchestratingLLM, an Agent or Engine.submit"),
    ("output_type", Engine, "pass output_cls=... to a ToolOrchestratingLLM, an Agent or Engine.submit"),
    ("message_history", Engine, "pass history=..."),
    ("output_type", partial(AGENT.run, "x"), "pass output_cls=..."),
    ("message_history", partial(AGENT.run, "x"), "pass history=..."),
    ("user_prompt", AGENT.run, "pass message=..."),
    ("usage_limits", partial(AGENT.run, "x"), "pass budget=..."),
    ("temperature", partial(AGENT.run, "x"), "it is a setting, Settings(temperature=...), of the LLM"),
    ("system_prompt", partial(AGENT.run, "x"), "pass system_prompt=... to the LLM or instructions=... to the Agent"),
    ("response_model", partial(FAKE.chat, "x"), "pass output_cls=... to a ToolOrchestratingLLM"),
    ("functions", partial(FAKE.count_tokens, "x"), "pass tools=..."),
    ("response_model", openai, "pass output_cls=... to a ToolOrchestratingLLM"),
    ("extra_body", openai, "pass settings=Settings(extra={...}), which goes into the request body"),
    ("user", openai, "pass settings=Settings(extra={'user': ...}), which goes into the request body"),
    ("requires_approval", tool, "pass approval=..."),
    ("timeout_seconds", tool, "pass timeout=..."),
    ("temprature", Settings, "did you mean temperature=?"),
    ("temprature", Settings(seed=1).with_, "did you mean temperature=?"),
    ("max_completion_tokens", Settings, "pass max_tokens=..."),
    ("frequency_penalty", Settings, "pass extra={'frequency_penalty': ...}, which goes into the request body"),
    ("model_kwargs", Settings, "pass extra=..."),
]


@pytest.mark.parametrize(
    ("word", "place", "expected"), REFUSED, ids=[f"{word}-{n}" for n, (word, *_) in enumerate(REFUSED)]
)
def test_an_option_of_another_library_is_refused_with_the_word_of_toolcast(
    word: str, place: Callable[..., Any], expected: str
) -> None:
    with pytest.raises(TypeError) as caught:
        place(**{word: 1})
    assert f"takes no {word!r}: {expected}" in str(caught.value)


@pytest.mark.parametrize(("word", "own"), [(word, own) for word, owns in OPTIONS.items() for own in owns])
def test_each_word_of_the_table_leads_to_the_option_where_that_is_known(word: str, own: str) -> None:
    with pytest.raises(TypeError, match=rf"^f\(\) takes no {word!r}: pass {own}=\.\.\.$"):
        refuse_unknown("f", {word: 1}, (own,))


@pytest.mark.parametrize(("word", "own"), [(word, *own) for word, own in SETTINGS.items()])
def test_each_setting_of_the_table_leads_to_the_setting(word: str, own: str) -> None:
    with pytest.raises(TypeError, match=rf"^Settings\(\) takes no {word!r}: pass {own}="):
        Settings(**{word: 1})
    with pytest.raises(TypeError, match=rf"^f\(\) takes no {word!r}: pass settings=Settings\({own}="):
        refuse_unknown("f", {word: 1}, ("settings",))


def test_the_words_of_toolcast_in_the_tables_are_options() -> None:
    places: list[Any] = [AgentOptions, LLMOptions, OrchestratorOptions, ToolCallOptions, ToolChanges, TurnOptions]
    named = {"output_cls", "model", "llm", "prompt", "tools", "message", "messages", "history", "server"}
    known = named.union(*(place.__annotations__ for place in places))
    assert {own for owns in OPTIONS.values() for own in owns} <= known
    assert {own for owns in SETTINGS.values() for own in owns} <= {*SettingsChanges.__annotations__}


@given(st.data())
def test_a_setting_without_one_of_its_letters_is_suggested(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(name for name in SettingsChanges.__annotations__ if len(name) > 5)))
    place = data.draw(st.integers(1, len(name) - 1))
    typed = name[:place] + name[place + 1 :]
    with pytest.raises(TypeError, match=rf"^Settings\(\) takes no '{typed}': (did you mean {name}=\?|pass )"):
        Settings(**{typed: 1})


def test_without_output_type_or_prompt() -> None:
    make: Any = ToolOrchestratingLLM
    with pytest.raises(TypeError, match=r"^ToolOrchestratingLLM\(\) needs output_cls and prompt: "):
        make()
    with pytest.raises(TypeError, match=r"needs prompt: ToolOrchestratingLLM\(Album, 'text'\)"):
        make(Person)
    with pytest.raises(TypeError, match="needs output_cls: "):
        make(prompt="x")


WORDS = [
    (kind, word, instead)
    for kind, rows in ATTRIBUTES.items()
    for words, instead in rows.items()
    for word in words.split()
]


@pytest.mark.parametrize(("kind", "word", "instead"), WORDS, ids=[f"{kind}.{word}" for kind, word, _ in WORDS])
def test_an_attribute_of_another_library_is_an_error_with_the_word_of_toolcast(
    kind: str, word: str, instead: str
) -> None:
    owner = OBJECTS[kind]
    if kind == "FunctionCallingLLM.chat":
        with pytest.raises(AttributeError, match=re.escape(f"there is no {word}.create: {instead}")):
            _ = getattr(owner, word).create
        return
    for place in (owner, type(owner)):
        assert not hasattr(place, word)
        with pytest.raises(AttributeError, match=re.escape(f"has no attribute {word!r}: {instead}")):
            getattr(place, word)
    assert word not in dir(owner)
    methods = re.findall(r"(?:use|or|await) (\w+)\(", instead)
    assert [name for name in methods if not hasattr(owner, name) and name not in (*toolcast.__all__, "use_llm")] == []


def test_other_attributes_are_as_they_were() -> None:
    class Shop(Agent[Any, None]):
        tool = "of a subclass"

        @property
        def broken(self) -> str:
            return self.typo

    made: Any = Shop(FAKE)
    assert made.tool == "of a subclass" and "tool" in dir(made)
    assert "run" in dir(made) and "run_sync" not in dir(made)
    with pytest.raises(AttributeError, match="'typo'"):
        _ = made.broken
    call: Any = copy.copy(CALL)
    call.batch = 5  # an attribute of the instance
    assert call.batch == 5
    turn = Turn(rounds=2)
    assert pickle.loads(pickle.dumps(turn)) == copy.deepcopy(turn) == turn
    remote = pickle.loads(pickle.dumps(OpenAI("m")))
    assert isinstance(remote, FunctionCallingLLM) and not hasattr(remote, "invoke")


@pytest.mark.parametrize(("word", "own"), NAMES.items())
def test_a_name_of_another_library_is_an_error_with_the_word_of_toolcast(word: str, own: str) -> None:
    assert word not in toolcast.__all__ and not hasattr(toolcast, word)
    with pytest.raises(AttributeError, match=f"module 'toolcast' has no attribute '{word}': use ") as raised:
        getattr(toolcast, word)
    found = str(raised.value).rpartition(" ")[2]
    assert found.endswith(own)
    assert eval(found, {"toolcast": toolcast}) is not None
    with pytest.raises(ImportError, match=rf"cannot import name '{word}' from 'toolcast': use {found}$"):
        exec(f"from toolcast import {word}", {})


def test_a_name_that_no_library_has_is_the_error_of_python() -> None:
    with pytest.raises(ImportError, match=r"cannot import name 'Foo' from 'toolcast' \("):
        exec("from toolcast import Foo", {})
    with pytest.raises(AttributeError, match=r"module 'toolcast' has no attribute 'Foo'$"):
        _ = toolcast.Foo
    assert import_module("toolcast.prompts") is toolcast.prompts


MODELS = [
    ("openai/gpt-4o", "openai:gpt-4o"),
    ("OpenAI/gpt-4o", "openai:gpt-4o"),
    ("openrouter/openai/gpt-4o", "openrouter:openai/gpt-4o"),
    ("gpt-4o", "openai:gpt-4o"),
    ("o3-mini", "openai:o3-mini"),
    ("gpt-9", "openai:gpt-9"),
    ("claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
    ("gemini-2.5-flash", "google:gemini-2.5-flash"),
    ("gemini/gemini-2.5-flash", "gemini:gemini-2.5-flash"),
    *[(f"{word}/m", f"{own}:m") for word, own in PROVIDERS.items()],
]


@pytest.mark.parametrize("make", [llm, choose_llm])
@pytest.mark.parametrize(("name", "expected"), MODELS)
def test_a_model_as_other_libraries_write_it(make: Callable[[str], object], name: str, expected: str) -> None:
    with pytest.raises(UnsupportedLLMError, match=rf"names no LLM: write '{expected}' \(a model of Ollama is"):
        make(name)


@pytest.mark.parametrize(("word", "own"), PROVIDERS.items())
def test_a_provider_as_other_libraries_write_it(word: str, own: str) -> None:
    assert own in providers() and word not in providers()
    with pytest.raises(UnsupportedLLMError, match=f"write '{own}:some-model'"):
        llm(f"{word}:some-model")


@pytest.mark.parametrize(
    "name",
    [
        *("llama3.2", "gpt-oss", "gpt-oss:20b", "gemma3", "gemma3:4b", "mistral-small", "codestral"),
        *("command-r", "deepseek-r1", "qwen3-coder", "library/llama3.2", "me/gpt-4o", "hf.co/openai/gpt-oss-20b"),
        *("openai/gpt-oss:20b", "gemini-3-flash-preview:cloud", "llava", "granite4", "olmo2", "kimi-k2:1t-cloud"),
    ],
)
def test_a_model_of_ollama_needs_no_provider(name: str) -> None:
    chosen = choose_llm(name, environ={})
    assert (chosen.metadata.provider, chosen.metadata.model_name) == ("ollama", name)
