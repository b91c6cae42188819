"""Views of a stream: their items, and the remaining ones at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from typing_extensions import TypedDict

from support.albums import SEA, SHORT, Album, Song, call
from support.sync_and_async import API
from toolcast import ToolOrchestratingLLM
from toolcast.events import Finish, TextDelta, ToolCallDone
from toolcast.parsing.partial_value import MISSING
from toolcast.structured.stream_views import value_at_steps, with_call_index
from toolcast.testing import ScriptedLLM


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", ScriptedLLM(*answers), **options)


WHOLE = [ToolCallDone("1", "Album", SEA.model_dump_json()), Finish("tool_use")]
"""A call that came in one piece."""


def length(title: str) -> int:
    return len(title)


@pytest.mark.parametrize("view", ["items", "text"])
def test_a_function_grows_nothing_and_owes_its_result(api: API, view: str) -> None:
    make = maker({"title": "abc"}, output=length)
    assert api.view(make, view, "title") == []


def test_changes_of_a_function_are_its_result(api: API) -> None:
    (change,) = api.view(maker({"title": "abc"}, output=length), "changes")
    assert (change.path, change.kind, change.value) == ("", "set", 3)


def test_a_function_that_returns_a_list_owes_its_items(api: API) -> None:
    def words(text: str) -> list[str]:
        return text.split()

    assert api.view(maker({"text": "a b"}, output=words), "items") == ["a", "b"]


def test_text_of_a_call_that_came_whole(api: API) -> None:
    assert api.view(maker(WHOLE), "text", "title") == [SEA.title]


def test_text_that_only_the_end_shows(api: API) -> None:
    """The songs came as JSON text, so that the title of one is first seen in the repaired result."""
    songs = SEA.model_dump_json(include={"songs"})[9:-1]
    repaired = SEA.model_dump() | {"songs": songs}
    assert api.view(maker(repaired), "text", "songs.0.title") == [SEA.songs[0].title]


def test_text_that_the_end_changed_is_not_emitted_twice(api: API) -> None:
    events = [TextDelta(SHORT.model_dump_json()), *WHOLE]
    assert "".join(api.view(maker(events), "text", "artist")).startswith(SHORT.artist)


def test_items_of_a_wrapped_list_in_words(api: API) -> None:
    assert api.view(maker("[1, 2, 3]", output=list[int]), "items") == [1, 2, 3]


def test_items_of_what_is_no_list(api: API) -> None:
    assert api.view(maker(SEA), "items", "title") == []
    assert api.view(maker(SEA), "items", "no.such.place") == []


def test_items_of_one_call_of_several(api: API) -> None:
    calls = [call(SHORT), call(SEA, id="2")]
    assert api.view(maker(calls, allow_parallel_tool_calls=True), "items", "1.songs") == SEA.songs
    assert api.view(maker(calls, allow_parallel_tool_calls=True), "items", "7.songs") == []


def test_a_view_ends_once(api: API) -> None:
    stream = maker(WHOLE).stream()
    texts = stream.text("title")
    assert list(texts) == [SEA.title]
    assert list(texts) == []
    assert stream.final() == SEA


def test_after_a_view_was_left_the_rest_can_be_had(api: API) -> None:
    stream = maker(SEA).stream()
    songs = stream.items("songs")
    assert next(songs) == SEA.songs[0]
    assert stream.final() == SEA
    assert list(songs) == SEA.songs[1:]


@pytest.mark.parametrize(
    ("index", "path", "expected"),
    [(2, "a.b", "2.a.b"), (0, "", "0"), (1, ("a.b", 0), ("1", "a.b", 0)), (1, (), ("1",))],
)
def test_paths_of_parallel_calls(index: int, path: Any, expected: Any) -> None:
    assert with_call_index(index, path) == expected


class Pair(TypedDict):
    left: int


@dataclass
class Box:
    pairs: tuple[Pair, ...]


class Shelf(BaseModel):
    boxes: dict[str, Box]


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ((), Shelf(boxes={"a.b": Box((Pair(left=1),))})),
        (("boxes", "a.b", "pairs", "0", "left"), 1),
        (("boxes", "a.b", "pairs", "1"), MISSING),
        (("boxes", "a.b", "pairs", "left"), MISSING),
        (("boxes", "c", "pairs"), MISSING),
        (("box",), MISSING),
    ],
)
def test_places_in_a_value(steps: tuple[str, ...], expected: Any) -> None:
    assert value_at_steps(Shelf(boxes={"a.b": Box((Pair(left=1),))}), steps) == expected


def test_a_key_with_a_dot_is_reached_by_a_tuple(api: API) -> None:
    value = {"a.b": ["x", "y"]}
    make = maker(value, value, output=dict[str, list[str]])
    assert api.view(make, "items", ("a.b",)) == ["x", "y"]
    assert "".join(api.view(make, "text", ("a.b", 1))) == "y"


def test_songs_of_a_list_are_validated_one_by_one(api: API) -> None:
    songs = api.view(maker(SEA.songs, output=list[Song]), "items", ())
    assert songs == SEA.songs
