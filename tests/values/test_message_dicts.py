"""message_dicts.py: messages in the form of OpenAI's chat completions, wherever a message is expected."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.albums import SEA, Album
from support.sync_and_async import API
from toolcast import Engine, Message, ToolCallPart, ToolOrchestratingLLM, assistant, system, tool_result, user
from toolcast.chat.events import QueueMessage, parse_event
from toolcast.errors import PromptError
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    VideoPart,
)
from toolcast.prompts import ChatPromptTemplate, PromptTemplate
from toolcast.testing import ScriptedLLM
from toolcast.values.message_dicts import message_from_dict

PNG = base64.b64encode(b"png").decode()
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"a": "{x}"}'}}

READ: list[tuple[dict[str, Any], Message]] = [
    ({"role": "user", "content": "Hi {x}"}, user("Hi {x}")),
    ({"role": "system", "content": "Be brief."}, system("Be brief.")),
    ({"role": "developer", "content": "Be brief."}, system("Be brief.")),
    ({"role": "assistant", "content": "Ho", "refusal": None, "annotations": [], "audio": None}, assistant("Ho")),
    ({"role": "assistant", "content": None, "refusal": "No."}, assistant("No.")),
    ({"role": "user", "content": ["a", {"type": "text", "text": "b"}]}, user("a", "b")),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x.org/a", "detail": "low"}}]},
        user(ImagePart(url="https://x.org/a", detail="low")),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://x.org/a"}]},
        user(ImagePart(url="https://x.org/a")),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/gif;base64,{PNG}"}}]},
        user(ImagePart(data=b"png", media_type="image/gif")),
    ),
    (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}}]},
        user(AudioPart(data=b"png", media_type="audio/mp3")),
    ),
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_data": PNG, "filename": "a.pdf"}}]},
        user(DocumentPart(data=b"png", media_type="application/pdf", name="a.pdf")),
    ),
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1", "filename": "a.pdf"}}]},
        user(FileRef("openai", "file-1", name="a.pdf")),
    ),
    (
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "https://host/a.mp4"}}]},
        user(VideoPart(url="https://host/a.mp4")),
    ),
    (
        {"role": "user", "content": [{"type": "video_url", "video_url": f"data:video/webm;base64,{PNG}"}]},
        user(VideoPart(data=b"png", media_type="video/webm")),
    ),
    (
        {"role": "user", "content": [{"type": "video_url", "video_url": f"data:;base64,{PNG}"}]},
        user(VideoPart(data=b"png", media_type="video/mp4")),
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        assistant(ToolCallPart("c1", "find", '{"a": "{x}"}')),
    ),
    (
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "find", "arguments": {"a": 1}}}]},
        assistant(ToolCallPart("call_1", "find", '{"a": 1}')),
    ),
    (
        {"role": "assistant", "content": "Ho", "reasoning_content": "hm"},
        assistant(ThinkingPart("hm"), TextPart("Ho")),
    ),
    ({"role": "tool", "tool_call_id": "c1", "content": "391"}, tool_result("c1", "391")),
    (
        {
            "role": "tool",
            "tool_call_id": "c1",
            "name": "find",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "b"},
                {"type": "image_url", "image_url": {"url": f"data:;base64,{PNG}"}},
            ],
        },
        Message(
            "tool", (ToolResultPart("c1", "a\nb", "find", images=(ImagePart(data=b"png", media_type="image/png"),)),)
        ),
    ),
    (
        user("Hi", ImagePart(data=b"png", media_type="image/png")).to_dict(),
        user("Hi", ImagePart(data=b"png", media_type="image/png")),
    ),
]


@pytest.mark.parametrize(("data", "message"), READ)
def test_a_dict_is_the_message_that_it_says(data: dict[str, Any], message: Message) -> None:
    assert message_from_dict(data) == message


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ({}, "is not a message: expected 'role'"),
        ({"role": "robot", "content": "x"}, "is not a message"),
        ({"role": ["user"], "content": "x"}, "is not a message"),
        ({"role": "user"}, "'content' or 'tool_calls'"),
        ({"role": "user", "content": 5}, "content: expected str or a list of parts, got int"),
        ({"role": "user", "content": [5]}, "5 is not a part"),
        ({"role": "user", "content": [{"type": "video", "video": {}}]}, "expected a type of text, refusal, image_url"),
        ({"role": "user", "content": [{"type": ["text"]}]}, "is not a part"),
        ({"role": "user", "content": [{"type": "text"}]}, "has no 'text'"),
        (
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "?", "format": "wav"}}]},
            "not base64",
        ),
        ({"role": "user", "content": [{"type": "file", "file": {"filename": "a"}}]}, "has no 'file_data'"),
        ({"role": "user", "content": [{"type": "file", "file": {"file_id": 1}}]}, "has no 'file_id'"),
        ({"role": "user", "content": [{"type": "video_url", "video_url": {}}]}, "has no 'url'"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": "?"}]}, "has no 'data'"),
        ({"role": "user", "content": [{"type": "file", "file": {"file_data": "data:x;base64,é"}}]}, "is not base64"),
        ({"role": "assistant", "tool_calls": [{"name": "x"}]}, "is not a tool call"),
        ({"role": "assistant", "tool_calls": ["x"]}, "is not a tool call"),
        (
            {"role": "tool", "content": [{"type": "file", "file": {"file_data": PNG}}]},
            "a tool result: expected text and images",
        ),
    ],
)
def test_what_is_no_message_is_an_error_that_says_where(data: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        message_from_dict(data)
    with pytest.raises(ValueError, match=rf"messages\[1\]: .*{why}"):
        ScriptedLLM().chat([user("a"), data])
    if data.get("role") in ("user", "assistant", "tool") and len(data) > 1:
        with pytest.raises(PromptError, match=why):
            ChatPromptTemplate([data])
        with pytest.raises(PromptError, match=why):
            PromptTemplate("{x}").format_messages(x=data)


def test_llms_take_dicts_alone_and_among_others(api: API) -> None:
    llm = ScriptedLLM("a", "b")
    api.chat(llm, {"role": "user", "content": "Hi"})
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    api.chat(llm, [system("s"), "u", called, {"role": "tool", "tool_call_id": "c1", "content": "391"}])
    assert llm.requests[0].messages == (user("Hi"),)
    assert llm.requests[1].messages[2] == assistant(ToolCallPart("c1", "find", '{"a": "{x}"}'))


def test_prompts_take_dicts_as_data(api: API) -> None:
    llm = ScriptedLLM(SEA)
    prompt = [{"role": "system", "content": "Answer {like} this"}, "{history}", ("user", "About {topic}")]
    make = ToolOrchestratingLLM(Album, prompt, llm)
    history = [{"role": "user", "content": "{a}"}, assistant("b")]
    assert api.call(make, topic="the sea", history=history) == SEA
    assert llm.requests[0].messages == (
        system("Answer {like} this"),
        user("{a}"),
        assistant("b"),
        user("About the sea"),
    )
    assert PromptTemplate("{x}").format_messages(x=history[0]) == [user("{a}")]
    with pytest.raises(PromptError, match="its message must consist of this variable alone"):
        PromptTemplate("a {x}").format_messages(x=history[0])


def test_a_dict_that_is_no_message_is_still_a_value() -> None:
    assert PromptTemplate("{x}").format(x={"role": "pilot", "content": "a"}) == "{'role': 'pilot', 'content': 'a'}"
    assert PromptTemplate("{x}").format(x={"role": "user"}) == "{'role': 'user'}"


def test_engines_and_chats_take_dicts() -> None:
    llm = ScriptedLLM("a", "b")
    engine = Engine(llm, history=[{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}])
    engine.inject({"role": "user", "content": "3"})
    engine.submit({"role": "user", "content": "4"})
    assert [message.text for message in llm.requests[0].messages] == ["1", "2", "3", "4"]
    assert QueueMessage({"role": "user", "content": "5"}) == QueueMessage("5")
    assert parse_event({"type": "QUEUE_MESSAGE", "message": {"role": "user", "content": "5"}}) == QueueMessage("5")
