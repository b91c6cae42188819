"""Messages and their parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast import Message, ToolCallPart, assistant, system, tool_result, user
from toolcast.messages import (
    AudioPart,
    DocumentPart,
    FileRef,
    ImagePart,
    ServerToolPart,
    TextPart,
    ThinkingPart,
    ToolResultPart,
    VideoPart,
)

text = st.text(max_size=20)
json_data = st.dictionaries(text, st.one_of(text, st.integers(0, 9), st.booleans()), max_size=3)
optional_data = st.none() | json_data
media = st.builds(dict, data=st.binary(max_size=20), media_type=st.just("a/b")) | st.builds(dict, url=text)
parts = st.one_of(
    st.builds(TextPart, text),
    media.map(lambda given: ImagePart(**given)),
    media.map(lambda given: AudioPart(**given)),
    media.map(lambda given: VideoPart(**given, start=1.5, fps=2)),
    st.builds(FileRef, text, text, st.none() | text, st.none() | text, size=st.none() | st.integers(0, 9)),
    media.map(lambda given: DocumentPart(**given, name="n")),
    st.builds(ThinkingPart, text, st.none() | text, st.none() | text, st.none() | json_data),
    st.builds(ToolCallPart, text, text, text, st.booleans(), st.none() | json_data),
    st.builds(ToolResultPart, text, text, text, st.booleans()),
    st.builds(
        ServerToolPart,
        text,
        text,
        st.none() | json_data,
        st.none() | text,
        st.none() | text,
        text,
        st.none() | json_data,
    ),
)
messages = st.builds(
    Message, st.sampled_from(["system", "user", "assistant", "tool"]), st.lists(parts, max_size=4).map(tuple)
)


@given(messages)
def test_to_dict_and_back(message: Message) -> None:
    assert Message.from_dict(message.to_dict()) == message


def test_shortcuts() -> None:
    call = ToolCallPart("c1", "add", "{}")
    image = ImagePart(url="https://example.org/a.png")
    assert system("a") == Message("system", (TextPart("a"),))
    assert user("a", image) == Message("user", (TextPart("a"), image))
    assert assistant("a", call).tool_calls == (call,)
    assert tool_result(call, "3") == Message("tool", (ToolResultPart("c1", "3", "add"),))
    assert tool_result("c2", "no", is_error=True).parts == (ToolResultPart("c2", "no", "", True),)


def test_text_is_joined_without_a_separator() -> None:
    assert user("a", ImagePart(url="u"), "b").text == "ab"


@pytest.mark.parametrize("parts", ["words", ["words"], (TextPart("words"),)])
def test_parts_may_be_words(parts: Any) -> None:
    assert Message("user", parts).parts == (TextPart("words"),)


def test_unknown_roles_are_refused() -> None:
    with pytest.raises(ValueError, match="role='human': expected"):
        Message("human")  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("given_", [{}, {"url": "u", "data": b"d", "media_type": "a/b"}, {"data": b"d"}])
def test_media_is_a_url_or_bytes_of_a_known_type(given_: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="ImagePart"):
        ImagePart(**given_)


def test_media_from_files(tmp_path: Path) -> None:
    for name, part, media_type in [
        ("a.png", ImagePart, "image/png"),
        ("a.mp3", AudioPart, "audio/mpeg"),
        ("a.pdf", DocumentPart, "application/pdf"),
    ]:
        path = tmp_path / name
        path.write_bytes(b"data")
        made = part.from_file(str(path))
        assert (made.data, made.media_type) == (b"data", media_type)
    assert DocumentPart.from_file(tmp_path / "a.pdf").name == "a.pdf"
    (tmp_path / "unknown").touch()
    with pytest.raises(ValueError, match="media_type"):
        ImagePart.from_file(tmp_path / "unknown")
