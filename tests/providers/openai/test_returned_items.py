"""Items of the Responses API that go back as they came: those of unknown kinds, and what is sealed for one service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from support.sealing_service import CALLER, COMPACTION, PROGRAM, SHELL, SealingService
from support.sync_and_async import API
from toolcast import Engine, FallbackLLM, OpenAI, OpenAICompatible, Session, ToolOrchestratingLLM, user
from toolcast.messages import ThinkingPart, ToolCallPart, assistant, tool_result
from toolcast.stores import SQLiteStore


class Album(BaseModel):
    title: str


def look(title: str) -> str:
    """Look at an album."""
    return f"{title} is blue"


@pytest.fixture
def service() -> Iterator[SealingService]:
    with SealingService() as double:
        yield double


@pytest.fixture
def other() -> Iterator[SealingService]:
    with SealingService("b") as double:
        yield double


def openai(double: SealingService) -> Any:
    return OpenAI("gpt-6-sol", api_key="k", network=double.network, max_retries=0)


def azure(double: SealingService) -> Any:
    address = {"service": "azure-v1", "base_url": "https://me.openai.azure.com"}
    return OpenAICompatible("gpt-6-sol", api_key="k", network=double.network, max_retries=0, **address)


def kinds(double: SealingService) -> list[str]:
    return [item.get("type") or item["role"] for item in double.created[-1].json["input"]]


ABOUT = [{"namespace": "albums"}, {"namespace": "albums", "caller": CALLER}]


@pytest.mark.parametrize("about", ABOUT)
def test_unknown_items_and_fields_of_calls_go_back(service: SealingService, tmp_path: Path, about: Any) -> None:
    service.extra, service.about = [COMPACTION, PROGRAM], about
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(openai(service), [look]), id="ada", store=store) as session:
        assert session.run("Look at it").rounds == 2
    answer = ["compaction", "program", "function_call"]  # what was before the compaction is in it
    assert kinds(service) == [*answer, "function_call_output"]
    sent = service.created[-1].json["input"]
    assert sent[:2] == [COMPACTION | {"encrypted_content": "a:c"}, PROGRAM]
    with Session.resume("ada", Engine(openai(service), [look]), store) as session:
        assert session.run("An album", output_cls=Album).output == Album(title="Sea")
    store.close()
    assert kinds(service)[: len(answer) + 1] == [*answer, "function_call_output"]
    assert service.refused == []


@pytest.mark.parametrize("about", ABOUT)
def test_calls_streams_and_chats(service: SealingService, api: API, about: Any) -> None:
    service.extra, service.about = [COMPACTION, PROGRAM], about
    make = ToolOrchestratingLLM(Album, "An album", openai(service))
    assert api.call(make) == Album(title="Sea")
    assert [item.title for item in api.stream(make).items][-1] == "Sea"
    used = openai(service)
    answer = api.chat(used, "Look", tools=[look])
    asked = [user("Look"), answer.message, tool_result(answer.message.tool_calls[0].id, "blue")]
    assert api.chat(used, asked, tools=[look]).text == "Done."
    assert service.refused == []


def test_a_call_that_only_the_client_can_run(service: SealingService) -> None:
    """It is sent with its result, and left out without one: the conversation goes on."""
    service.extra = [SHELL]
    used = openai(service)
    message = used.chat("Look", tools=[look]).message
    (call,) = message.tool_calls
    result = tool_result(call.id, "blue")
    assert used.chat([user("Look"), message, result], tools=[look]).text == "Done."
    assert kinds(service) == ["user", "reasoning", "function_call", "function_call_output"]
    output = '[{"stdout": "a.txt", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]'
    assert used.chat([user("Look"), message, tool_result("shell_1", output), result], tools=[look]).text == "Done."
    sent = service.created[-1].json["input"]
    answer = ["reasoning", "shell_call", "function_call"]
    assert kinds(service) == ["user", *answer, "shell_call_output", "function_call_output"]
    assert sent[4]["output"][0]["stdout"] == "a.txt"
    alone = assistant(*[part for part in message.parts if not isinstance(part, ToolCallPart)])
    assert used.chat([user("Look"), alone, user("And?")]).text == "Done."
    assert kinds(service) == ["user", "user"]


# -- sealed for one service


def test_another_service_is_sent_no_sealed_data(service: SealingService, other: SealingService, api: API) -> None:
    service.extra, service.about = [COMPACTION, PROGRAM], ABOUT[1]
    first = Engine(openai(service), [look])
    assert first.submit("Look").rounds == 2
    second = Engine(azure(other), [look], history=first.history)
    assert second.submit("Look").rounds == 2
    assert other.refused == []
    assert kinds(other)[:3] == ["user", "function_call", "function_call_output"]
    assert api.chat(FallbackLLM([openai(service), azure(other)]), second.history).text == "Done."


@pytest.mark.parametrize("old", [False, True], ids=["region", "history of an older version"])
def test_a_refused_conversation_heals(service: SealingService, other: SealingService, api: API, old: bool) -> None:
    """Another region of one provider has another key, too."""
    answer = api.chat(openai(service), "Look", tools=[look])
    parts = answer.message.parts
    if old:
        assert isinstance(parts[0], ThinkingPart)
        opaque = {name: value for name, value in (parts[0].opaque or {}).items() if name != "provider"}
        parts = (ThinkingPart(opaque=opaque), *parts[1:])
    history = [user("Look"), assistant(*parts), tool_result(answer.message.tool_calls[0].id, "blue")]
    used = azure(other) if old else openai(other)
    answered = api.chat(used, history, tools=[look])
    assert answered.text == "Done."
    assert len(other.refused) == 1
    assert kinds(other) == ["user", "function_call", "function_call_output"]
    assert api.chat(used, [*history, answered.message, user("And?")]).text == "Done."
    assert kinds(other) == ["user", "function_call", "function_call_output", "reasoning", "message", "user"]
    assert len(other.refused) == 1
