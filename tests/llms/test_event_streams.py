"""Streams as a caller holds them: states, views, bookkeeping."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, SHORT, Album, Song, call
from support.sync_and_async import API
from toolcast import ToolOrchestratingLLM, is_partial
from toolcast.errors import ConnectFailed, StreamBusy, StreamClosed, StreamInterrupted, StreamTruncated
from toolcast.events import Finish, TextDelta, ToolCallDone, ToolCallStart
from toolcast.testing import ScriptedLLM, ScriptedRequest


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", ScriptedLLM(*answers), **options)


# -- event streams ----------------------------------------------------------------------------------------------


def test_pulling_events_by_hand() -> None:
    stream = ScriptedLLM("Hello").stream_chat("hi")
    assert stream.state == "open"
    with pytest.raises(LookupError):
        _ = stream.current
    assert stream.next()
    assert stream.state == "has_event"
    assert (stream.current, stream.state) == (TextDelta("Hell"), "open")
    assert (stream.current, stream.state) == (TextDelta("Hell"), "open")
    while stream.next():
        pass
    assert (stream.state, stream.err) == ("exhausted", None)
    assert not stream.next()
    with pytest.raises(LookupError):
        _ = stream.current
    assert stream.response.text == "Hello"
    assert stream.usage == toolcast.Usage(10, 5)
    stream.close()
    assert stream.state == "exhausted"


def test_the_partial_result_of_a_chat_is_its_text() -> None:
    stream = ScriptedLLM([TextDelta("hello "), TextDelta("wonderful")]).stream_chat("hi")
    with pytest.raises(StreamTruncated) as caught:
        list(stream)
    assert caught.value.partial == "hello wonderful"


def test_a_failure_is_kept_by_next_and_raised_by_iteration() -> None:
    stream = ScriptedLLM(ConnectFailed("no")).stream_chat("hi")
    assert not stream.next()
    assert stream.state == "errored"
    assert isinstance(stream.err, ConnectFailed)
    assert not stream.next()
    with pytest.raises(ConnectFailed):
        list(stream)


def test_a_closed_stream_gives_nothing_more() -> None:
    stream = ScriptedLLM("Hello").stream_chat("hi")
    with stream:
        next(stream)
    stream.close()
    assert stream.state == "closed"
    assert list(stream) == []


@pytest.mark.parametrize("read", [list, lambda stream: [stream.next(), stream.next()]])
@pytest.mark.parametrize("fails", [False, True])
def test_an_event_stream_that_another_thread_closes_ends(read: Any, fails: bool) -> None:
    closed: list[str] = []

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        try:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(stream.close).result(30)
            if fails:
                raise StreamInterrupted("the connection was closed")
            yield TextDelta("Hello")
            yield Finish("end_turn")
        finally:
            closed.append("answer")

    stream = ScriptedLLM(answer).stream_chat("hi")
    assert read(stream) in ([] if fails else [TextDelta("Hello")], [not fails, False])
    assert (stream.state, stream.err, closed) == ("closed", None, ["answer"])


@pytest.mark.parametrize("read", [next, lambda stream: stream.next()])
def test_an_event_stream_that_another_thread_reads_is_busy(read: Any) -> None:
    reading, go_on = Event(), Event()

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        reading.set()
        assert go_on.wait(30)
        yield TextDelta("Hello")
        yield Finish("end_turn")

    stream = ScriptedLLM(answer).stream_chat("hi")
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(list, stream)
        assert reading.wait(30)
        with pytest.raises(StreamBusy, match="another thread or task is reading"):
            read(stream)
        go_on.set()
        assert first.result() == [TextDelta("Hello"), Finish("end_turn")]


async def test_an_event_stream_that_another_task_reads_is_busy() -> None:
    reading, go_on = anyio.Event(), anyio.Event()

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        reading.set()
        await go_on.wait()
        yield TextDelta("Hello")
        yield Finish("end_turn")

    stream = ScriptedLLM(answer).astream_chat("hi")
    async with anyio.create_task_group() as group:
        group.start_soon(stream.next)
        await reading.wait()
        with pytest.raises(StreamBusy, match="another thread or task is reading"):
            await stream.next()
        go_on.set()
    assert stream.current == TextDelta("Hello")
    assert [event async for event in stream] == [Finish("end_turn")]


def test_events_on_every_api(api: API) -> None:
    events = api.events(ScriptedLLM("Hello"), "hi")
    assert events[:2] == [TextDelta("Hell"), TextDelta("o")]
    assert isinstance(events[-1], Finish)
    with pytest.raises(StreamTruncated):
        api.events(ScriptedLLM([TextDelta("Hell")]), "hi")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_awaiting_events_by_hand(backend: str) -> None:
    async def main() -> None:
        stream = ScriptedLLM("Hello").astream_chat("hi")
        assert await stream.next()
        assert stream.state == "has_event"
        assert (stream.current, stream.state) == (TextDelta("Hell"), "open")
        while await stream.next():
            pass
        assert stream.state == "exhausted"
        assert not await stream.next()
        failed = ScriptedLLM(ConnectFailed("no")).astream_chat("hi")
        assert not await failed.next()
        assert isinstance(failed.err, ConnectFailed)
        with pytest.raises(ConnectFailed):
            await anext(failed)
        closed = ScriptedLLM("Hello").astream_chat("hi")
        async with closed:
            pass
        await closed.aclose()
        assert closed.state == "closed"
        assert [event async for event in closed] == []

    anyio.run(main, backend=backend)


# -- object streams ---------------------------------------------------------------------------------------------


def test_items_are_snapshots_that_never_change() -> None:
    items = []
    shown = []
    for item in maker(SEA).stream():
        items.append(item)
        shown.append(repr(item))
    assert [repr(item) for item in items] == shown
    assert len(set(shown)) > 15


def test_final_drains_and_repeats_itself(api: API) -> None:
    stream = maker(SEA).stream()
    next(stream)
    assert stream.final() == SEA
    assert stream.final() is stream.final()
    assert list(stream) == []
    assert stream.state == "ready"
    assert stream.response.stop_reason == "tool_use"
    assert stream.usage == toolcast.Usage(10, 5)
    failing = maker("no").stream()
    for _ in range(2):
        with pytest.raises(toolcast.errors.NoToolCallError):
            failing.final()
    assert failing.state == "error"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_async_stream_likewise(backend: str) -> None:
    async def main() -> None:
        async with await maker(SEA).acall(stream=True) as stream:
            first = await anext(stream)
            assert is_partial(first)
            assert stream.changed
            assert await stream.final() == SEA
            assert await stream.final() == SEA
            assert [item async for item in stream] == []
        closed = maker(SEA).astream()
        await anext(closed)
        await closed.aclose()
        with pytest.raises(StreamClosed):
            await closed.final()
        busy = maker(SEA).astream()
        await anext(busy)
        with pytest.raises(StreamBusy):
            busy.items("songs")

    anyio.run(main, backend=backend)


def test_list_items_come_once_and_validated(api: API) -> None:
    songs = api.view(maker(SEA), "items", "songs")
    assert songs == SEA.songs
    assert all(type(song) is Song for song in songs)


def test_list_items_come_when_they_close() -> None:
    stream = maker(SEA).stream()
    songs = stream.items("songs")
    assert next(songs) == SEA.songs[0]
    assert stream.field_state("songs") == "growing"
    assert stream.field_state("songs.0") == "done"
    assert stream.field_state(("songs", 1)) in ("pending", "growing")
    assert list(songs) == SEA.songs[1:]
    assert stream.field_state("songs.1.title") == "done"
    assert stream.field_state("nothing") == "pending"


def test_items_of_the_root(api: API) -> None:
    assert api.view(maker(SEA.songs, output=list[Song]), "items") == SEA.songs


def test_items_of_a_stream_of_calls(api: API) -> None:
    calls = [call(SEA), call(SHORT, id="call_2")]
    assert api.view(maker(calls, allow_parallel_tool_calls=True), "items") == [SEA, SHORT]
    songs = api.view(maker(calls, allow_parallel_tool_calls=True), "items", "0.songs")
    assert songs == SEA.songs


def test_items_of_an_answer_that_came_whole(api: API) -> None:
    whole = [ToolCallDone("1", "Album", SEA.model_dump_json()), Finish("tool_use")]
    assert api.view(maker(whole), "items", "songs") == SEA.songs


def test_items_of_an_answer_that_had_to_be_repaired(api: API) -> None:
    arguments = Album(title="a", artist="b", songs=[]).model_dump() | {
        "songs": SEA.model_dump_json(include={"songs"})[9:-1]
    }
    assert api.view(maker(arguments), "items", "songs") == SEA.songs


def test_text_of_one_field(api: API) -> None:
    pieces = api.view(maker(SEA), "text", "songs.0.title")
    assert "".join(pieces) == SEA.songs[0].title
    assert len(pieces) > 2
    assert api.view(maker(SEA), "text", "songs.7.title") == []
    assert api.view(maker(SEA), "text", "songs") == []


def test_text_of_a_stream_of_calls(api: API) -> None:
    make = maker([call(SEA), call(SHORT, id="call_2")], allow_parallel_tool_calls=True)
    assert "".join(api.view(make, "text", "1.artist")) == SHORT.artist


def applied(changes: list[Any]) -> Any:
    """What a page shows that applies these changes."""
    root: Any = None
    for change in changes:
        steps = change.path.split(".") if change.path else []
        if not steps:
            root = change.value
            continue
        target = root
        for step in steps[:-1]:
            target = target[int(step)] if isinstance(target, list) else target[step]
        last = steps[-1]
        if change.kind == "text":
            target[last] += change.value
        elif isinstance(target, list):
            target[int(last) :] = [change.value]
        else:
            target[last] = change.value
    return root


def test_changes_rebuild_the_object(api: API) -> None:
    changes = api.view(maker(SEA), "changes")
    assert Album.model_validate(applied(changes)) == SEA
    assert any(change.kind == "text" for change in changes)


def test_changes_of_a_stream_of_calls(api: API) -> None:
    make = maker([call(SEA), call(SHORT, id="call_2")], allow_parallel_tool_calls=True)
    paths = [change.path for change in api.view(make, "changes")]
    assert "0.songs.0.title" in paths
    assert "1.title" in paths


def test_events_of_an_object_stream(api: API) -> None:
    events = api.view(maker(SEA), "events")
    assert isinstance(events[0], ToolCallStart)
    assert isinstance(events[-1], Finish)


def test_changed_paths() -> None:
    stream = maker(SEA).stream()
    changed = [(path, item) for item in stream for path in stream.changed]
    assert "title" in dict(changed)
    assert "songs.1.seconds" in dict(changed)
    assert stream.changed == ()
    parallel = maker([call(SEA)], allow_parallel_tool_calls=True).stream()
    next(parallel)
    assert all(str(path).split(".")[0] == "0" for path in parallel.changed)


def test_field_states() -> None:
    stream = maker(SEA).stream()
    states = {stream.field_state("title") for _ in stream}
    assert states == {"pending", "growing", "done"} or states == {"growing", "done"}
    assert maker(SEA).stream().field_state("title") == "pending"
    parallel = maker([call(SEA)], allow_parallel_tool_calls=True).stream()
    next(parallel)
    assert parallel.field_state("0.songs") == "pending"
    assert parallel.field_state("5") == "pending"
    parallel.final()
    assert parallel.field_state("0.songs.0.title") == "done"


def test_a_second_view_is_busy() -> None:
    stream = maker(SEA).stream()
    next(stream)
    for begin in (stream.events, stream.changes, lambda: stream.text("title")):
        with pytest.raises(StreamBusy, match="iteration"):
            begin()
    other = maker(SEA).stream()
    other.changes()
    with pytest.raises(StreamBusy):
        other.changes()
    with pytest.raises(StreamBusy):
        next(other)


def test_a_view_keeps_its_stream_alive_and_closes_it() -> None:
    closed: list[bool] = []

    class Closing(ScriptedLLM):
        async def _events(self, *args: Any) -> Any:
            try:
                async for event in super()._events(*args):
                    yield event
            finally:
                closed.append(True)

    songs = ToolOrchestratingLLM(Album, "x", Closing(SEA)).stream().items("songs")
    gc.collect()
    assert next(songs) == SEA.songs[0]
    assert closed == []
    del songs
    gc.collect()
    assert closed == [True]


def test_errors_reach_the_view(api: API) -> None:
    with pytest.raises(toolcast.errors.NoToolCallError):
        api.view(maker("no"), "items", "songs")


@pytest.mark.fault(106)
def test_throwing_into_the_loop_closes_once() -> None:
    stream = maker(SEA).stream()
    with pytest.raises(RuntimeError, match="mine"), stream:
        for _ in stream:
            raise RuntimeError("mine")
    assert stream.state == "closed"


# -- the processor ----------------------------------------------------------------------------------------------


def test_the_processor_gives_snapshots_for_events() -> None:
    processor = toolcast.StreamingObjectProcessor(Album)
    items = [processor.process(event) for event in ScriptedLLM(SEA).stream_chat("x", tools=[Album])]
    shown = [item for item in items if item is not None]
    assert shown[-1].songs[1].seconds == 200
    assert items[0] is None
    assert processor.cur_objects == [shown[-1]]


def test_the_processor_with_parallel_calls_and_a_reset() -> None:
    processor = toolcast.StreamingObjectProcessor(Album | Song, allow_parallel_tool_calls=True)
    for event in (
        ToolCallStart("1", "Song"),
        toolcast.events.ToolCallDelta("1", '{"title": "wro'),
        toolcast.events.ToolCallReset("1"),
        toolcast.events.ToolCallDelta("1", '{"title": "a", "seconds": 1}'),
        ToolCallStart("2", "Unknown"),
        toolcast.events.ToolCallDelta("2", "{}"),
        ToolCallDone("3", "Album", SHORT.model_dump_json()),
        toolcast.events.ToolCallReset("9"),
    ):
        processor.process(event)
    song, album = processor.cur_objects
    assert isinstance(song, Song)
    assert isinstance(album, Album)
    assert processor.item[0].title == "a"


def test_text_grows_only_when_it_begins_like_an_object() -> None:
    for text, grows in (('  {"title": "a"', True), ("I {", False), ("[1]", False)):
        processor = toolcast.StreamingObjectProcessor(Album)
        shown = [processor.process(TextDelta(piece)) for piece in text]
        assert (shown[-1] is not None or any(item is not None for item in shown)) is grows
    processor = toolcast.StreamingObjectProcessor(Album)
    processor.process(TextDelta('{"title": "a"'))
    processor.process(ToolCallStart("1", "Album"))
    assert processor.cur_objects == []
    assert not processor.reading_text
