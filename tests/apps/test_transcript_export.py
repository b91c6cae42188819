"""Conversations as documents: what is in them, and that nothing of a conversation becomes HTML."""

from __future__ import annotations

import json
import sys
from html import escape
from html.parser import HTMLParser
from typing import Any

import pytest

from toolcast import Message, ToolCallPart, system, user
from toolcast.apps.transcript_export import CONVERSATION_KIND, ExportFormat, export_conversation, export_format
from toolcast.errors import ToolcastError
from toolcast.messages import (
    AudioPart,
    CachePoint,
    DocumentPart,
    ImagePart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
)
from toolcast.values.citations import Citation

PIXEL = bytes.fromhex("89504e470d0a1a0a")
ATTACK = "</pre></details><script>alert(1)</script><img src=x onerror=alert(1)>"


def message(role: Any, *parts: Any) -> Message:
    return Message(role, parts)


HISTORY = [
    system("Be short."),
    message("user", TextPart("What is in\n**notes.txt**?"), ImagePart(data=PIXEL, media_type="image/png")),
    message(
        "assistant",
        ThinkingPart("I should look."),
        ToolCallPart("1", "read_file", '{"path": "notes.txt"}'),
        ToolCallPart("2", "broken", "{not json" + "x" * 200),
    ),
    message(
        "tool",
        ToolResultPart("1", "milk\n```\neggs", "read_file", images=(ImagePart(url="https://example.org/x.png"),)),
        ToolResultPart("2", "no such tool", "broken", is_error=True),
    ),
    message("assistant", TextPart("It is a *list*:\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n"), CachePoint()),
    user("Thanks"),
]


class Elements(HTMLParser):
    """All elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def test_markdown_has_headings_texts_and_folded_calls() -> None:
    text = export_conversation(HISTORY, "markdown", title="My\nnotes", model="m-1", session="s-1")
    assert text.startswith("# My notes\n\n*m-1, 6 messages, session s-1, exported 2")
    assert [line for line in text.splitlines() if line.startswith("## ")] == [
        *("## Instructions", "## You", "## Assistant", "## You")
    ]
    assert "What is in\n**notes.txt**?" in text
    assert "<details><summary>read_file {&quot;path&quot;: &quot;notes.txt&quot;}</summary>" in text
    assert "Result:\n\n````\nmilk\n```\neggs\n````\n" in text
    assert "[image/png, 8 bytes]" in text
    assert "(failed)</summary>" in text
    assert "Error:\n\n```\nno such tool\n```" in text


def test_json_can_be_loaded_again() -> None:
    data = json.loads(export_conversation(HISTORY, "json", title="T"))
    assert data["kind"] == CONVERSATION_KIND
    assert [Message.from_dict(each) for each in data["messages"]] == HISTORY


def test_html_is_complete_renders_markdown_and_folds_calls() -> None:
    page = export_conversation(HISTORY, "html", model="m-1")
    tags = Elements(page).tags
    names = [tag for tag, _ in tags]
    assert names.count("section") == 4
    assert names.count("details") == 3  # thinking and two calls
    assert "open" not in "".join(str(attributes) for tag, attributes in tags if tag == "details")
    assert {"table", "em", "strong"} <= set(names)
    assert ("img", {"src": "data:image/png;base64,iVBORw0KGgo=", "alt": "[image/png, 8 bytes]"}) in tags
    assert "<title>Conversation</title>" in page
    assert "[image, by URL]" in page


@pytest.mark.parametrize(
    "part",
    [
        TextPart(ATTACK),
        TextPart(f"[x](javascript:alert(1)) ![pixel](https://example.org/pixel.png) <{ATTACK}>\n\n```{ATTACK}\n```"),
        ThinkingPart(ATTACK),
        ToolCallPart("1", ATTACK, ATTACK),
        ToolResultPart("1", ATTACK, ATTACK),
        ServerToolPart(ATTACK, input=ATTACK, output={"a": ATTACK}),
        ImagePart(data=ATTACK.encode(), media_type="image/svg+xml"),
        ImagePart(data=b"x", media_type=f'image/png"{ATTACK}'),
        DocumentPart(data=b"x", media_type="text/html", name=ATTACK),
        AudioPart(data=b"x", media_type="audio/wav", transcript=ATTACK),
        TextPart("x", (Citation("url_citation", title=ATTACK, url="javascript:alert(1)"),)),
    ],
)
def test_nothing_of_a_conversation_becomes_active(part: Any) -> None:
    page = export_conversation([message("assistant", part)], "html", title=ATTACK, model=ATTACK, session=ATTACK)
    tags = Elements(page).tags
    assert not {"script", "img", "iframe", "link", "object", "form"} & {tag for tag, _ in tags}
    for _, attributes in tags:
        assert not any(name.startswith("on") for name in attributes)
        assert not (attributes.get("href") or "").startswith("javascript")
    assert page.count("<style>") == 1
    assert "default-src 'none'" in page


def test_a_result_without_its_call_and_empty_parts() -> None:
    history = [
        message("assistant", TextPart(" "), ThinkingPart("")),
        message("tool", ToolResultPart("9", "left", "old_tool")),
        message("assistant", ToolCallPart("3", "waits")),
    ]
    text = export_conversation(history, "markdown")
    assert "## Tool" in text
    assert "Result of old_tool" in text
    assert text.count("## Assistant") == 1
    assert export_conversation([], "markdown").count("#") == 1
    assert "0 messages" in export_conversation([], "html")


def test_the_sources_of_a_text_follow_it() -> None:
    part = TextPart("It is so.", (Citation("url_citation", title="Book", url="https://example.org/book"),))
    text = export_conversation([message("assistant", part)], "markdown")
    assert "<summary>Sources</summary>" in text
    assert "https://example.org/book" in text


@pytest.mark.parametrize(
    ("path", "format"),
    [("a.md", "markdown"), ("A.MARKDOWN", "markdown"), ("x/y.json", "json"), ("b.html", "html"), ("b.HTM", "html")],
)
def test_the_format_is_that_of_the_suffix(path: str, format: ExportFormat) -> None:
    assert export_format(path) == format


@pytest.mark.parametrize("path", ["a", "a.txt", ".md.bak", ""])
def test_another_suffix_is_an_error(path: str) -> None:
    with pytest.raises(ToolcastError, match=r"\.md, \.json or \.html"):
        export_format(path)


def test_html_without_the_package_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "markdown_it", None)
    with pytest.raises(ToolcastError, match=r"pip install 'toolcast\[cli\]'"):
        export_conversation([], "html")


def test_a_file_that_was_put_into_a_message_is_folded() -> None:
    part = TextPart('\n\n<file path="a.txt">\nmilk\n</file>')
    text = export_conversation([message("user", TextPart("See @a.txt"), part)], "markdown")
    assert "<details><summary>file a.txt</summary>\n\nfile a.txt:\n\n```\nmilk\n```" in text


@pytest.mark.parametrize("edited", ['{"to": "eve"}', '{\n  "to": "eve"\n}', '{"text": "' + "x" * 600])
def test_arguments_that_the_user_edited_are_those_that_count(edited: str) -> None:
    content = f"(The user changed the arguments to {edited}.)\nsent (really.)\n"
    history = [
        message("assistant", ToolCallPart("1", "mail", '{"to": "bob"}')),
        message("tool", ToolResultPart("1", content, "mail")),
    ]
    text = export_conversation(history, "markdown")
    summary = " ".join(f"mail {edited}".split())
    shown = summary if len(summary) <= 100 else f"{summary[:99]}…"
    assert f"<summary>{escape(shown)}</summary>" in text
    headings = ("Arguments of the model:", '"bob"', "Arguments after the user's edit:", "sent (")
    parts = [text.index(each) for each in headings]
    assert parts == sorted(parts)
    assert "changed the arguments" not in text
