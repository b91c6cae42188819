"""OpenAI's client for JavaScript against `toolcast.serve`."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from clients.node import run_node
from clients.served import DELETE, Model, engine, served, sessions
from toolcast import ToolOrchestratingLLM
from toolcast.events import Finish, TextDelta, ThinkingDelta, UsageReport
from toolcast.testing import ScriptedLLM
from toolcast.values.usage import Usage

ANSWER = [
    *(ThinkingDelta("Look outside."), TextDelta("The sea "), TextDelta("is calm.")),
    *(UsageReport(Usage(7, 5, 2, reasoning_tokens=1)), Finish("end_turn")),
]
USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 5,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 2},
    "completion_tokens_details": {"reasoning_tokens": 1},
}


class Album(BaseModel):
    title: str
    songs: list[str]


def scene(name: str, url: str, **values: Any) -> list[Any]:
    return run_node("openai_chat.mjs", scene=name, url=url, **values)


def test_a_streamed_answer() -> None:
    llm = ScriptedLLM(ANSWER, ANSWER)
    with served(engine(llm)) as url:
        chunks, completion = scene("streamed", url)
    *texts, last, usage = chunks
    assert [chunk["choices"][0]["delta"] for chunk in texts] == [
        {"role": "assistant", "content": ""},
        {"reasoning_content": "Look outside."},
        {"content": "The sea "},
        {"content": "is calm."},
    ]
    assert last["choices"][0] == {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}
    assert (usage["choices"], usage["usage"]) == ([], USAGE)
    assert {(chunk["id"], chunk["model"], chunk["object"]) for chunk in chunks} == {
        (usage["id"], "any", "chat.completion.chunk")
    }
    assert completion["choices"][0]["message"]["content"] == "The sea is calm."
    assert completion["usage"] == USAGE
    # The client's system message and its tools are not used.
    assert [message.role for message in llm.requests[0].messages] == ["user"]
    assert [tool.name for tool in llm.requests[0].tools] == ["delete_file"]
    assert llm.requests[0].tool_choice is None


def test_a_whole_answer() -> None:
    with served(engine(ScriptedLLM(ANSWER))) as url:
        (completion,) = scene("whole", url)
    assert completion["object"] == "chat.completion"
    assert completion["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "The sea is calm.", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert completion["usage"] == USAGE


def test_the_list_of_models() -> None:
    with served(engine(ScriptedLLM("unused"))) as url:
        assert scene("models", url) == [[["toolcast"], "model"]]


def test_errors() -> None:
    with served(engine(ScriptedLLM(RuntimeError("/secret"), RuntimeError("/secret")))) as url:
        malformed, failed, streamed = scene("errors", url)
    assert (malformed["status"], malformed["name"]) == (400, "BadRequestError")
    assert malformed["type"] == "invalid_request_error"
    assert "messages[0].content: expected a string or a list of parts, got the number 5" in malformed["message"]
    assert (failed["status"], failed["code"], failed["name"]) == (500, "internal_error", "InternalServerError")
    assert (streamed["code"], streamed["type"], streamed["name"]) == ("internal_error", "server_error", "APIError")
    assert "secret" not in str([failed, streamed])


def test_an_unknown_user() -> None:
    with served(engine(ScriptedLLM("unused")), authorize=lambda request: None) as url:
        _, refused, _ = scene("errors", url)
    assert (refused["status"], refused["name"], refused["code"]) == (401, "AuthenticationError", "unauthorized")


def test_a_request_that_is_aborted() -> None:
    model = Model()
    with served(engine(model.llm), model) as url:
        assert scene("abort", url) == [{"requests": 1, "cancelled": 1}]


@pytest.mark.parametrize(
    ("action", "answer"), [("allow", "They are deleted."), ("deny", "They stay.")], ids=["allow", "deny"]
)
def test_a_call_that_needs_an_approval(action: str, answer: str) -> None:
    llm = ScriptedLLM(DELETE, answer, "You are welcome.")
    with served(sessions(llm)) as url:
        asked, forged, answered, later = scene("approve", url, action=action)
    (choice,) = asked["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["message"]["content"] == 'Waiting for approval:\ndelete_file {"path": "notes.txt"}'
    assert asked["toolcast"]["pending"][0]["arguments"] == DELETE.arguments
    assert (forged["status"], forged["code"]) == (409, "approval_refused")
    assert answered["choices"][0]["message"]["content"] == answer
    assert "toolcast" not in answered
    assert later["choices"][0]["message"]["content"] == "You are welcome."
    (result,) = llm.requests[1].messages[-1].parts
    assert result.is_error == (action == "deny")
    # The history is the session's own, not the client's.
    texts = [message.text for message in llm.requests[2].messages if message.role != "tool"]
    assert texts == ["How is the sea?", "", answer, "Thanks."]


def test_an_object() -> None:
    llm = ScriptedLLM(*[{"title": "The sea", "songs": ["Waves"]}] * 2)
    make = ToolOrchestratingLLM(output_cls=Album, prompt="Create an album about {topic}", llm=llm)
    with served(make) as url:
        assert scene("object", url) == [{"title": "The sea", "songs": ["Waves"]}] * 2
