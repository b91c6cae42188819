"""Events that do and do not change a partial object."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from support.albums import SEA, SHORT, Album, Apology, Song, call
from support.sync_and_async import API
from toolcast import StreamingObjectProcessor, ToolOrchestratingLLM, Usage, ValidationError, is_partial
from toolcast.events import (
    Finish,
    Restarted,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.testing import ScriptedLLM

TEXT = SEA.model_dump_json()


def processed(processor: StreamingObjectProcessor, *events: Any) -> list[Any]:
    """What each event gave."""
    return [processor.process(event) for event in events]


def test_a_snapshot_for_what_shows_and_none_for_the_rest() -> None:
    processor = StreamingObjectProcessor(Album)
    assert processor.item is None
    assert processor.growing is None
    shown = processed(
        processor,
        UsageReport(Usage(1, 1)),
        ToolCallStart("1", "Album"),
        ToolCallDelta("1", '{"title": "S'),
        ToolCallDelta("2", '{"title": "other'),
        ToolCallDelta("1", ""),
        ToolCallDelta("1", 'ea"'),
        Finish("tool_use"),
    )
    assert [item if item is None else item.title for item in shown] == [None, None, "S", None, None, "Sea", None]
    assert is_partial(processor.item)


def test_without_parallel_calls_the_first_is_the_one() -> None:
    processor = StreamingObjectProcessor(Album)
    processed(processor, ToolCallStart("1", "Album"), ToolCallDelta("1", '{"title": "a"'), ToolCallStart("2", "Album"))
    assert processor.process(ToolCallDelta("2", '{"title": "b"')) is None
    assert [item.title for item in processor.cur_objects] == ["a"]


def test_parallel_calls_each_have_their_own_object() -> None:
    processor = StreamingObjectProcessor(Album, allow_parallel_tool_calls=True)
    processed(processor, ToolCallStart("1", "Album"), ToolCallStart("2", "Album"))
    assert processor.item == []
    (second,) = processor.process(ToolCallDelta("2", '{"title": "b"'))
    assert second.title == "b"
    first, second = processor.process(ToolCallDelta("1", '{"title": "a"'))
    assert (first.title, second.title) == ("a", "b")
    assert processor.index == 0


def test_a_call_that_came_whole_grows_once() -> None:
    processor = StreamingObjectProcessor(Album)
    done = ToolCallDone("1", "Album", TEXT)
    shown = processor.process(done)
    assert is_partial(shown)  # the last word is the whole answer's
    assert shown.model_dump() == SEA.model_dump()
    assert processor.process(done) is None


def test_a_truncated_call_that_came_whole_shows_nothing() -> None:
    processor = StreamingObjectProcessor(Album)
    assert processor.process(ToolCallDone("1", "Album", TEXT[:20], truncated=True)) is None
    assert processor.item is None


def test_a_call_that_is_taken_back_begins_again() -> None:
    processor = StreamingObjectProcessor(Album)
    processed(processor, ToolCallStart("1", "Album"), ToolCallDelta("1", TEXT[:60]), ToolCallReset("1"))
    again = processor.process(ToolCallDelta("1", '{"title": "new'))
    assert again.model_fields_set == {"title"}
    assert again.title == "new"
    assert processor.process(ToolCallReset("unknown")) is None


def test_a_restart_forgets_everything() -> None:
    processor = StreamingObjectProcessor(Album)
    processed(processor, ToolCallStart("1", "Album"), ToolCallDelta("1", TEXT[:60]), Restarted(2, "why"))
    assert processor.cur_objects == []
    assert processor.item is None
    assert processor.process(TextDelta('{"title": "w')).title == "w"
    assert processor.reading_text


@pytest.mark.parametrize(
    ("output", "text", "grows"),
    [
        (Album, '{"title": "a"', True),
        (Album, ' \n{"title": "a"', True),
        (Album, 'Here: {"title": "a"', False),
        (Album, "[", False),
        (list[int], '{"value": [1', False),
        (Album | Song, '{"title": "a"', False),
        (len, '{"title": "a"', False),
    ],
    ids=["object", "after space", "after words", "list", "wrapped", "union", "function"],
)
def test_words_grow_an_object_only_where_they_can_be_nothing_else(output: Any, text: str, grows: bool) -> None:
    def title_of(title: str) -> str:
        return title

    processor = StreamingObjectProcessor(title_of if output is len else output)
    shown = processed(processor, *map(TextDelta, text), TextDelta(" "))
    assert any(item is not None for item in shown) is grows
    assert processor.reading_text is grows


def test_words_that_do_not_fit_wait_for_the_end() -> None:
    """They may be no answer at all, so that they are no reason to stop."""
    processor = StreamingObjectProcessor(Album)
    processed(processor, TextDelta('{"title": 5, "artist": "b'))
    assert processor.item.artist == "b"


def test_words_beside_a_call_grow_nothing() -> None:
    processor = StreamingObjectProcessor(Album)
    processor.process(ToolCallStart("1", "Album"))
    assert processor.process(TextDelta(TEXT)) is None
    assert not processor.reading_text


def test_arguments_that_cannot_become_valid_any_more() -> None:
    processor = StreamingObjectProcessor(Album)
    processor.process(ToolCallStart("1", "Album"))
    with pytest.raises(
        ValidationError,
        match=r"the arguments for Album do not fit, 1 error: title: .* got 5; the answer was stopped early",
    ) as caught:
        processor.process(ToolCallDelta("1", '{"title": 5, "songs":'))
    assert (caught.value.tool_name, caught.value.arguments) == ("Album", '{"title": 5, "songs":')
    assert caught.value.errors()[0]["loc"] == ("title",)


@pytest.mark.parametrize(
    ("form", "answer"),
    [
        (Song, {"title": "Foam", "seconds": "two minutes"}),
        (Album, {"title": "Sea", "artist": "Ada", "songs": [{"title": "Foam", "seconds": None}]}),
        (list[Song], {"value": [{"title": "Foam", "seconds": 1.5}]}),
        (dict[str, int], {"a": "b"}),
    ],
)
def test_a_streamed_error_names_the_field_and_the_fault_like_the_plain_call(api: API, form: Any, answer: Any) -> None:
    with pytest.raises(ValidationError) as whole:
        api.call(ToolOrchestratingLLM(form, "x", ScriptedLLM(answer)))
    streamed = api.stream(ToolOrchestratingLLM(form, "x", ScriptedLLM(answer))).error
    assert isinstance(streamed, ValidationError)
    assert streamed.message == f"{whole.value.message}; the answer was stopped early"


class Easy(BaseModel):
    """Everything may be left out."""

    note: str | None = None


@pytest.mark.parametrize("arguments", ["", "{}", "null", " null "])
def test_no_arguments_at_all_are_an_empty_object(api: API, arguments: str) -> None:
    """Some models write `null` for a tool whose arguments may all be left out."""
    answer = call(arguments, "Easy")
    make = ToolOrchestratingLLM(Easy, "x", ScriptedLLM(answer, answer))
    assert api.call(make) == Easy()
    assert api.stream(make).final == Easy()


def test_an_unknown_tool_and_a_union(api: API) -> None:
    processor = StreamingObjectProcessor(Album | Apology)
    processed(processor, ToolCallStart("1", "Albumen"), ToolCallDelta("1", TEXT))
    assert processor.cur_objects == []
    processed(processor, ToolCallStart("2", "Apology"))
    assert processor.process(ToolCallDelta("2", '{"reason": "n')) == processor.item
    assert isinstance(processor.item, Apology)


def test_shorter_at_the_end_than_on_the_way(api: API) -> None:
    events = [
        ToolCallStart("1", "Album"),
        ToolCallDelta("1", TEXT),
        ToolCallDone("1", "Album", SHORT.model_dump_json()),
        Finish("tool_use"),
    ]
    seen = api.stream(ToolOrchestratingLLM(Album, "x", ScriptedLLM(events)))
    assert seen.items[0].songs == SEA.songs
    assert seen.final == SHORT
