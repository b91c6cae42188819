"""`RedactedLLM`: every text that is sent passes the function, and nothing is sent if it raises."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.albums import SEA, Album
from support.chunks import album_body
from support.sync_and_async import API
from toolcast import Message, OpenAI, ToolCallPart, ToolOrchestratingLLM, assistant, user
from toolcast.events import Citation
from toolcast.llms import RedactedLLM
from toolcast.messages import AudioPart, DocumentPart, ImagePart, TextPart, ThinkingPart, ToolResultPart, VideoPart
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM


def hide(text: str) -> str:
    return text.replace("Ada", "[NAME]").replace("1815", "[YEAR]")


def sent(*parts: Any, role: Any = "user") -> tuple[Any, ...]:
    """Return the parts of a message as the wrapped LLM gets them, in a conversation that services accept."""
    before = [ToolCallPart(part.call_id, "find") for part in parts if isinstance(part, ToolResultPart)]
    after = [ToolResultPart(part.id, "x") for part in parts if isinstance(part, ToolCallPart)]
    wrapped = ScriptedLLM("ok")
    conversation = [assistant("x", *before), Message(role, parts), Message("tool", tuple(after)), user("x")]
    RedactedLLM(wrapped, hide).chat(conversation)
    return wrapped.requests[0].messages[1].parts


def test_what_is_sent_and_what_comes_back(api: API) -> None:
    wrapped = ScriptedLLM("Ada.", SEA, system_prompt="You know Ada.")
    llm = RedactedLLM(wrapped, hide)
    assert api.chat(llm, "Who is Ada?").text == "Ada."
    assert [message.text for message in wrapped.requests[0].messages] == ["You know [NAME].", "Who is [NAME]?"]
    assert api.stream(ToolOrchestratingLLM(Album, "About {name}", llm), name="Ada").final == SEA
    assert wrapped.requests[1].messages[-1].text == "About [NAME]"


def test_tool_calls_and_results() -> None:
    call = ToolCallPart("c", "find", '{"name": "Ada", "born": 1815, "Ada": [true, null, "\\u0041da"]}')
    (found,) = sent(call, role="assistant")
    assert json.loads(found.arguments) == {"name": "[NAME]", "born": "[YEAR]", "[NAME]": [True, None, "[NAME]"]}
    assert sent(ToolResultPart("c", "Ada, 1815"), role="tool")[0].content == "[NAME], [YEAR]"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{ "name":  "Eve" }', '{ "name":  "Eve" }'),
        ('{"name": "Ada', '{"name": "[NAME]'),
        ('{"name": "Ada", "name": "Eve"}', '{"name": "Eve"}'),
    ],
)
def test_arguments_that_are_unchanged_cut_or_repeated(arguments: str, expected: str) -> None:
    assert sent(ToolCallPart("c", "find", arguments), role="assistant")[0].arguments == expected


def test_reasoning() -> None:
    plain, signed = ThinkingPart("about Ada"), ThinkingPart("about Ada", signature="s")
    other = ThinkingPart("about Eve", opaque={"model": "m"})
    assert sent(plain, signed, other, TextPart("x"), role="assistant") == (
        ThinkingPart("about [NAME]"),
        other,
        TextPart("x"),
    )


def test_citations_are_left_out_where_they_or_the_text_are_changed() -> None:
    cited = Citation("url_citation", 0, 3, "https://a.example/", "Sea", provider="anthropic", raw={"title": "Sea"})
    named = Citation("url_citation", 0, 3, "https://a.example/Ada", provider="anthropic", raw={})
    assert sent(TextPart("Sea.", (cited,)), role="assistant") == (TextPart("Sea.", (cited,)),)
    assert sent(TextPart("Sea.", (cited, named)), role="assistant") == (TextPart("Sea."),)
    assert sent(TextPart("Ada.", (cited,)), role="assistant") == (TextPart("[NAME]."),)


def test_media() -> None:
    image = ImagePart(url="https://example.com/Ada.png")
    inline = ImagePart(url="data:image/png;base64,Ada1815=")
    audio = AudioPart(data=b"Ada", media_type="audio/wav")
    text = DocumentPart(data=b"Ada", media_type="text/plain", name="Ada.txt")
    pdf = DocumentPart(data=b"Ada", media_type="application/pdf")
    inline_pdf = DocumentPart(url="data:application/pdf;base64,QWRh")
    assert sent(image, inline, audio, text, pdf, inline_pdf) == (
        ImagePart(url="https://example.com/[NAME].png"),
        inline,
        audio,
        DocumentPart(data=b"[NAME]", media_type="text/plain", name="[NAME].txt"),
        pdf,
        inline_pdf,
    )
    assert sent(VideoPart(url="https://example.com/Ada.mp4")) == (VideoPart(url="https://example.com/[NAME].mp4"),)
    result = ToolResultPart("c", "x", images=(image,))
    assert sent(result, role="tool")[0].images[0].url == "https://example.com/[NAME].png"


@pytest.mark.parametrize(
    "kind", ["text/html; charset=utf-8", "application/json", "application/atom+xml", "application/x-yaml"]
)
def test_documents_that_are_text(kind: str) -> None:
    hidden = DocumentPart(data=b"<[NAME]>", media_type=kind)
    assert sent(DocumentPart(data=b"<Ada>", media_type=kind)) == (hidden,)
    assert sent(DocumentPart(url=f"data:{kind};base64,PEFkYT4=")) == (hidden,)
    named = DocumentPart(url="https://example.com/Ada", media_type=kind, name="Ada")
    assert sent(named) == (DocumentPart(url="https://example.com/[NAME]", media_type=kind, name="[NAME]"),)


def test_an_error_of_the_function_stops_the_call(api: API) -> None:
    network = ReplayNetwork()
    wrapped = OpenAI("m-1", api="chat", api_key="k", network=network)

    def fail(text: str) -> str:
        raise LookupError("no rule")

    make = ToolOrchestratingLLM(Album, "x", RedactedLLM(wrapped, fail))
    with pytest.raises(LookupError, match="no rule"):
        api.call(make)
    assert isinstance(api.stream(make).error, LookupError)
    wrong: Any = lambda text: None  # noqa: E731 - a function of the wrong type
    with pytest.raises(TypeError, match="expected str; nothing was sent, got NoneType"):
        api.chat(RedactedLLM(wrapped, wrong), "x")
    assert network.requests == []
    with pytest.raises(TypeError, match="redact"):
        RedactedLLM(wrapped, 3)  # type: ignore[arg-type]  # the test


def test_the_preview_is_redacted_as_the_request_is() -> None:
    network = ReplayNetwork(Recorded([album_body()], headers={"content-type": "application/json"}))
    make = ToolOrchestratingLLM(
        Album, "About Ada", RedactedLLM(OpenAI("m-1", api="chat", api_key="k", network=network), hide)
    )
    preview = make.preview().request
    assert preview is not None and b"Ada" not in preview.body
    make()
    assert network.requests[0].body == preview.body


def test_the_messages_of_the_caller_are_not_changed() -> None:
    messages = [user("Ada"), assistant("Ada?"), user("Yes")]
    RedactedLLM(ScriptedLLM("ok"), hide).chat(messages)
    assert messages[0].text == "Ada"
