"""asking.py: what may stand where messages and tool choices are expected."""

from __future__ import annotations

from typing import Any

import pytest

from support.albums import Album
from toolcast import CallableTool, assistant, user
from toolcast.llms.request import ChatRequest, as_messages, resolve_tool_choice
from toolcast.values.tool_spec import NamedTool


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a", [user("a")]),
        (user("a"), [user("a")]),
        (["a", assistant("b")], [user("a"), assistant("b")]),
        ((text for text in ("a", "b")), [user("a"), user("b")]),
        ([], []),
        ({"role": "user", "content": "a"}, [user("a")]),
        ([{"role": "user", "content": "a"}, "b"], [user("a"), user("b")]),
    ],
)
def test_messages_in_any_form(given: Any, expected: Any) -> None:
    assert as_messages(given) == expected


@pytest.mark.parametrize("choice", [None, "auto", "required", "none", {"type": "any"}, NamedTool("x")])
def test_choices_that_name_no_tool_stay_as_they_are(choice: Any) -> None:
    assert resolve_tool_choice(choice, ["Album"]) == choice


def test_a_name_becomes_a_named_tool_or_is_refused() -> None:
    assert resolve_tool_choice("Album", ["Song", "Album"]) == NamedTool("Album")
    with pytest.raises(ValueError, match=r"'Albun' is neither .* one of the tools: Song, Album"):
        resolve_tool_choice("Albun", ["Song", "Album"])
    with pytest.raises(ValueError, match="no tools"):
        resolve_tool_choice("Album", [])


def test_none_sends_no_tools_and_no_choice() -> None:
    tools = (CallableTool.from_model(Album),)
    offered = ChatRequest((user("a"),), tools, "auto", parallel=True, stream=True).conversation("m", "tool_call")
    assert ([tool.name for tool in offered.tools], offered.tool_choice) == (["Album"], "auto")
    assert (offered.model, offered.parallel, offered.stream) == ("m", True, True)
    kept = ChatRequest((user("a"),), tools, "none").conversation("m", "tool_call")
    assert (kept.tools, kept.tool_choice) == ((), None)
    assert ChatRequest((), (), "auto").conversation("m", "tool_call").tool_choice is None
