"""`CachePoint` outside of requests: dicts, histories, estimates, redaction, summaries, telemetry, stored sessions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from toolcast import Anthropic, Engine, Message, ToolOrchestratingLLM, WebSearch, system, user
from toolcast.agents.engine.compaction import summary_prompt
from toolcast.agents.engine.history import find_problems, has_content, repair
from toolcast.agents.engine.instructions import as_instructions
from toolcast.apps.logs_command import _message_texts
from toolcast.llms import RedactedLLM
from toolcast.llms.token_estimates import estimate_message_tokens
from toolcast.messages import CachePoint, TextPart
from toolcast.observability.telemetry_content import messages_json
from toolcast.structured.response_validation import is_empty
from toolcast.testing import ScriptedLLM
from toolcast.values.message_dicts import message_from_dict

MARKED = user("a", CachePoint("1h"), "b", CachePoint())


class Title(BaseModel):
    """A title."""

    text: str


def test_to_dict_and_back() -> None:
    data = MARKED.to_dict()
    assert [part["type"] for part in data["parts"]] == ["text", "cache_point", "text", "cache_point"]
    assert Message.from_dict(json.loads(MARKED.to_json())) == MARKED
    assert message_from_dict(data) == MARKED
    assert MARKED.text == "ab"


def test_cache_control_of_a_dict() -> None:
    control = {"type": "ephemeral", "ttl": "1h"}
    content = [{"type": "text", "text": "a", "cache_control": control}, {"type": "text", "text": "b"}]
    found = message_from_dict({"role": "user", "content": content})
    assert found.parts == (TextPart("a"), CachePoint("1h"), TextPart("b"))


def test_a_point_is_no_content() -> None:
    alone = user(CachePoint())
    assert (has_content(alone), is_empty(alone)) == (False, True)
    assert find_problems([alone]) == ["a message of the user is empty"]
    assert repair([user("a"), Message("assistant", (CachePoint(),)), MARKED], "cut") == (user("a"), MARKED)
    assert estimate_message_tokens(MARKED) == estimate_message_tokens(user("a", "b"))


def test_what_people_and_tools_read_is_without_it() -> None:
    assert summary_prompt([MARKED])[1].text.count("user:") == 2
    assert [text for _, text in _message_texts(MARKED)] == ["a", "b"]
    (message,) = json.loads(messages_json([MARKED], (), str))
    assert [part["type"] for part in message["parts"]] == ["text", "text"]


def test_a_redacted_message_has_its_points() -> None:
    llm = ScriptedLLM("Yes.")
    RedactedLLM(llm, lambda text: text.replace("a", "*")).chat([MARKED])
    assert llm.requests[0].messages == (user("*", CachePoint("1h"), "b", CachePoint()),)


def test_instructions() -> None:
    def now(context: Any) -> str:
        return "now"

    found = as_instructions(["a", CachePoint(), now, ("b",)])
    assert found == (system("a"), system(CachePoint()), now, system("b"))
    with pytest.raises(TypeError, match="instructions: expected str, a function of the ToolContext, a list of these"):
        Engine(ScriptedLLM("a"), instructions=["a", 5])  # type: ignore[list-item]  # what a user may write


def test_instructions_of_an_output_mode_follow_the_marks() -> None:
    llm = Anthropic("claude-sonnet-4-5", api_key="k")
    prompt = [system("rules", CachePoint()), user("a title")]
    make = ToolOrchestratingLLM(Title, prompt, llm, mode="json_schema", allow_parallel_tool_calls=True)
    body = make.preview().body
    assert [block.get("cache_control") for block in body["system"]] == [{"type": "ephemeral"}, None]
    prompted = make.with_(mode="prompted").preview().body
    assert "rules" in json.dumps(prompted)


def test_a_typed_call_has_no_points_among_its_tools() -> None:
    with pytest.raises(TypeError, match="a CachePoint stands in the prompt of a typed call"):
        ToolOrchestratingLLM(Title, "a", ScriptedLLM("a"), tools=[WebSearch(), CachePoint()])  # type: ignore[list-item]  # as above
