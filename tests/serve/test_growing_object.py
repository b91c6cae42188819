from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast import ToolOrchestratingLLM
from toolcast.parsing.path_changes import PathChange
from toolcast.serve.vercel import GrowingObject
from toolcast.testing import ScriptedLLM


def test_changes_apply_to_objects_lists_and_texts() -> None:
    document = GrowingObject()
    seen: list[Any] = []
    for change in (
        PathChange("set", "", "a"),
        PathChange("text", "", "b"),
        PathChange("set", "", {"songs": []}),
        PathChange("set", "songs.0", {"a.b": ""}),
        PathChange("text", ("songs", "0", "a.b"), "x"),
        PathChange("set", "songs.1", "y"),
        PathChange("text", "songs.1", "z"),
        PathChange("set", "songs.0", None),
    ):
        document.apply(change)
        seen.append(json.loads(json.dumps(document.root)))
    assert seen == [
        *("a", "ab", {"songs": []}, {"songs": [{"a.b": ""}]}, {"songs": [{"a.b": "x"}]}),
        *({"songs": [{"a.b": "x"}, "y"]}, {"songs": [{"a.b": "x"}, "yz"]}, {"songs": [None, "yz"]}),
    ]


@given(
    st.recursive(
        st.text(max_size=20) | st.integers(-5, 5) | st.none(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c.d", "0"]), inner),
        max_leaves=12,
    ),
    st.integers(1, 9),
)
def test_the_changes_of_a_call_lead_to_its_result(value: Any, chunk: int) -> None:
    make = ToolOrchestratingLLM(output_cls=dict[str, Any], prompt="Go", llm=ScriptedLLM({"x": value}, chunk=chunk))
    document = GrowingObject()
    for change in make.stream().changes():
        document.apply(change)
    assert document.root == {"x": value}


@pytest.mark.parametrize("count", [100, 1000])
def test_all_that_is_sent_is_a_small_multiple_of_the_document(count: int) -> None:
    document = GrowingObject()
    sent = 0
    changes = [PathChange("set", "", {"text": "", "list": []})]
    changes += [PathChange("text", "text", "word ") for _ in range(count)]
    changes += [PathChange("set", f"list.{at}", {"number": at}) for at in range(count)]
    for change in changes:
        if document.apply(change):
            sent += len(json.dumps(document.root))
    assert sent < 12 * len(json.dumps(document.root))
