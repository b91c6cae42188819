"""`stream.latest()`: a slow reader gets the latest snapshot, a fast one every snapshot."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio
import pytest

import toolcast
from support.albums import SEA, SHORT, Album, call
from support.chunks import album_stream, call_deltas, delta, sse
from support.sync_and_async import API, AsyncAPI, SyncInLoopAPI
from toolcast import OpenAI, ToolOrchestratingLLM, is_partial
from toolcast.errors import StreamBusy, StreamClosed
from toolcast.events import Finish, ToolCallDelta, ToolCallDone, ToolCallStart
from toolcast.structured.stream import BUFFERED_WITHIN
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock

TEXT = SEA.model_dump_json()
SLOW = 10 * BUFFERED_WITHIN


class Paced(ScriptedLLM):
    """Time goes by before some events: `waits` are their numbers, through all answers. `pace`: before others."""

    def __init__(self, *answers: Any, waits: Any = (), pace: float = 0.0) -> None:
        super().__init__(*answers)
        self.ticking = VirtualClock()
        self.clock = self.ticking
        self._waits = waits
        self._pace = pace
        self._count = 0

    async def _events(self, *args: Any) -> AsyncIterator[Any]:
        async with aclosing(super()._events(*args)) as events:
            async for event in events:
                self.ticking.advance(SLOW if self._count in self._waits else self._pace)
                self._count += 1
                yield event


def maker(*answers: Any, waits: Any = (), output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", Paced(*answers, waits=waits), **options)


def looked(make: Any, busy: Callable[[int], float] = lambda number: SLOW) -> list[tuple[Any, Any]]:
    """The items that a reader gets who is `busy` after each, and what each has changed."""
    stream, seen = make.stream(), []
    for item in stream.latest():
        seen.append((item, stream.changed))
        make.llm.ticking.advance(busy(len(seen)))
    return seen


def alooked(make: Any, backend: str) -> list[tuple[Any, Any]]:
    seen = []

    async def main() -> None:
        async with make.astream() as stream:
            async for item in stream.latest():
                seen.append((item, stream.changed))
                make.llm.ticking.advance(SLOW)

    anyio.run(main, backend=backend)
    return seen


def slowly(api: API, make: Any) -> list[tuple[Any, Any]]:
    """The same on any API."""
    if isinstance(api, AsyncAPI):
        return alooked(make, api.name)
    return api._inside(lambda: looked(make)) if isinstance(api, SyncInLoopAPI) else looked(make)


# -- a fast reader ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [True, False])
def test_a_fast_reader_sees_what_iteration_sees(api: API, observed: bool) -> None:
    """However long each event takes to come."""
    options = {"observer": lambda *_: None} if observed else {}
    for waits in ((), range(100), range(0, 100, 3)):
        seen = api.view(maker(SEA, waits=waits, **options), "latest")
        every = api.stream(maker(SEA, **options)).items
        assert list(map(repr, seen)) == list(map(repr, every))
        assert seen[-1] == SEA
        assert not is_partial(seen[-1])


def test_the_changes_of_a_fast_reader_are_those_of_iteration() -> None:
    stream = maker(SEA).stream()
    every = [(repr(item), stream.changed) for item in stream]
    assert [(repr(item), changed) for item, changed in looked(maker(SEA), lambda number: 0.0)] == every
    assert len(every) > 15


def test_several_events_in_one_read_are_one_item(api: API) -> None:
    head, *rest = sse(*call_deltas(TEXT), delta("tool_calls"))
    middle = len(rest) // 2

    def make() -> Any:
        pieces = [head, b"".join(rest[:middle]), b"".join(rest[middle:])]
        llm = OpenAI("m", api="chat", api_key="k", network=ReplayNetwork(Recorded(pieces)), max_retries=0)
        llm.clock = VirtualClock()
        return ToolOrchestratingLLM(Album, "x", llm)

    half, whole, last = api.view(make(), "latest")
    assert is_partial(half)
    assert (half.title, half.artist, whole.model_dump(), last) == (SEA.title, "The Tides", SEA.model_dump(), SEA)
    stream = make().stream()
    first = next(stream.latest())
    assert first.title == SEA.title
    assert set(stream.changed) >= {"", "title"}


# -- a slow reader ------------------------------------------------------------------------------------------------


def test_a_slow_reader_skips_to_the_newest(api: API) -> None:
    """All that comes at once was there while the reader was away: here the rest of the answer."""
    (first, changed), (last, at_the_end) = slowly(api, maker(SEA))
    assert is_partial(first)
    assert changed == ("",)
    assert (last, at_the_end) == (SEA, ())
    assert not is_partial(last)


def test_a_slow_reader_stops_at_what_has_to_be_waited_for(api: API) -> None:
    """Event 10 takes its time. It comes to the reader who had to wait for it, with all that came before it."""
    every = [(repr(item), item) for item in api.stream(maker(SEA)).items]
    (first, _), (newest, changed), (last, _) = slowly(api, maker(SEA, waits=[10]))
    assert repr(first) == every[0][0]
    assert last == SEA
    assert newest.title == SEA.title
    assert newest.artist is not None
    assert repr(newest) in [shown for shown, _ in every]
    assert changed[:2] == ("title", "artist") or set(changed) == {"title", "artist"}


def test_changed_includes_skipped_items() -> None:
    """The paths of each item are all those that iteration would have reported since the item before it."""
    stream = maker(SEA).stream()
    paths: list[tuple[str, tuple[Any, ...]]] = [(repr(item), stream.changed) for item in stream]
    for waits in ([6], [9, 12, 13], range(5, 40, 4), range(40)):
        seen = looked(maker(SEA, waits=waits))
        position = 0
        for item, changed in seen[:-1]:
            end = position
            union: dict[Any, None] = {}
            while True:
                union.update(dict.fromkeys(paths[end][1]))
                end += 1
                if paths[end - 1][0] == repr(item) and set(union) == set(changed):
                    break
            assert tuple(union) == changed
            position = end
        assert seen[-1] == (SEA, ())


def test_a_reader_is_as_slow_as_it_was_the_last_time() -> None:
    """Slow once, after the second item: that time, and no other, something is passed over."""
    every = [repr(item) for item, _ in looked(maker(SEA), lambda number: 0.0)]
    seen = [repr(item) for item, _ in looked(maker(SEA, waits=[9]), lambda number: SLOW if number == 2 else 0.0)]
    assert seen[:2] == every[:2]
    assert len(seen) < len(every)
    assert seen[2:] == every[every.index(seen[2]) :]


def test_less_than_patience_is_no_time() -> None:
    quick = looked(maker(SEA), lambda number: BUFFERED_WITHIN / 2)
    assert len(quick) == len(looked(maker(SEA), lambda number: 0.0))


def test_catching_up_takes_no_longer_than_the_reader_was_away() -> None:
    """What comes bit by bit, each at once, would otherwise keep the reader waiting to the end."""
    make = ToolOrchestratingLLM(Album, "x", Paced(SEA, pace=BUFFERED_WITHIN / 2))
    seen = looked(make, lambda number: 2 * BUFFERED_WITHIN)
    every = looked(maker(SEA), lambda number: 0.0)
    assert 4 < len(seen) < len(every) / 2
    assert seen[-1] == every[-1]
    assert {repr(item) for item, _ in seen} <= {repr(item) for item, _ in every}


def test_items_of_a_slow_reader_never_change() -> None:
    items = [(item, repr(item)) for item, _ in looked(maker(SEA, waits=range(0, 60, 3)))]
    assert len(items) > 5
    assert all(repr(item) == shown for item, shown in items)


# -- calls side by side, and answers that are asked for again -------------------------------------------------------


def test_parallel_calls(api: API) -> None:
    calls = [call(SEA), call(SHORT, id="call_2")]
    seen = api.view(maker(calls, allow_parallel_tool_calls=True), "latest")
    assert list(map(repr, seen)) == list(map(repr, api.stream(maker(calls, allow_parallel_tool_calls=True)).items))
    assert seen[-1] == [SEA, SHORT]


def test_parallel_calls_and_a_slow_reader(api: API) -> None:
    pieces = [TEXT[:12], TEXT[12:]]
    short = SHORT.model_dump_json()
    events = [
        ToolCallStart("1", "Album"),
        ToolCallDelta("1", "{"),
        ToolCallDelta("1", pieces[0][1:]),
        ToolCallStart("2", "Album"),
        ToolCallDelta("2", short[:12]),
        ToolCallDelta("1", pieces[1]),
        ToolCallDelta("2", short[12:]),
        ToolCallDone("1", "Album", TEXT),
        ToolCallDone("2", "Album", short),
        Finish("tool_use"),
    ]
    make = maker(events, waits=[5, 7], allow_parallel_tool_calls=True)
    (first, at_first), (both, at_both), *more, (last, _) = slowly(api, make)
    assert (len(first), at_first) == (1, ("0",))
    assert [part.title for part in both] == [SEA.title, SHORT.title]
    assert {path.split(".")[0] for path in at_both} == {"0", "1"}
    assert set(at_both) >= {"0.title", "1.title"}
    assert len(more) <= 1
    assert last == [SEA, SHORT]


@pytest.mark.parametrize("wrong", ["no", call('{"title": 1}'), call('{"title": "Wrong", "artist": 5}'), call("{")])
def test_an_answer_that_is_asked_for_again(api: API, wrong: Any) -> None:
    seen = api.view(maker(wrong, SEA, max_attempts=2), "latest")
    every = api.stream(maker(wrong, SEA, max_attempts=2)).items
    assert list(map(repr, seen)) == list(map(repr, every))
    items = [item for item, _ in slowly(api, maker(wrong, SEA, max_attempts=2))]
    assert items[-1] == SEA
    assert all(isinstance(item, Album) for item in items)
    assert len(items) <= 2


@pytest.mark.parametrize("wait", [4, 5, 7, 9])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_slow_reader_never_gets_nothing_at_all(api: API, wait: int, parallel: bool) -> None:
    """The reader is away when the first answer fails, and the second takes its time, before or after it begins."""
    wrong = [ToolCallStart("1", "Album"), ToolCallDelta("1", "{"), ToolCallDelta("1", '"title": "Wrong"')]
    wrong += [ToolCallDelta("1", ', "artist": 5}')]
    make = maker(wrong, SEA, waits=[wait], max_attempts=2, allow_parallel_tool_calls=parallel)
    items = [item for item, _ in slowly(api, make)]
    assert items[-1] == ([SEA] if parallel else SEA)
    assert all(items)


# -- errors and endings -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [lambda api, make: api.view(make, "latest"), slowly])
def test_errors_are_raised(api: API, read: Any) -> None:
    with pytest.raises(toolcast.errors.NoToolCallError):
        read(api, maker("no"))
    with pytest.raises(toolcast.ValidationError) as caught:
        read(api, maker(call('{"title": "a", "artist": 5}')))
    assert caught.value.partial.title == "a"
    with pytest.raises(toolcast.errors.ConnectFailed):
        read(api, maker(toolcast.errors.ConnectFailed("no")))
    with pytest.raises(toolcast.CallError):
        read(api, maker([ToolCallStart("1", "Album"), ToolCallDelta("1", TEXT[:20]), ToolCallDelta("1", TEXT[20:])]))


def test_after_an_error_there_is_no_more() -> None:
    stream = maker(call('{"title": 1}')).stream()
    items = stream.latest()
    with pytest.raises(toolcast.ValidationError) as first:
        list(items)
    assert list(items) == []
    with pytest.raises(toolcast.ValidationError) as again:
        stream.final()
    assert again.value is first.value


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_one_view_at_a_time(backend: str) -> None:
    stream = maker(SEA).stream()
    items = stream.latest()
    for begin in (stream.latest, stream.events, stream.changes, stream.items, lambda: next(stream)):
        with pytest.raises(StreamBusy, match=r"latest\(\)"):
            begin()
    assert next(items) is not None
    other = maker(SEA).stream()
    next(other)
    with pytest.raises(StreamBusy, match="iteration"):
        other.latest()

    async def main() -> None:
        astream = maker(SEA).astream()
        aitems = astream.latest()
        for abegin in (astream.latest, astream.events):
            with pytest.raises(StreamBusy, match=r"latest\(\)"):
                abegin()
        with pytest.raises(StreamBusy):
            await anext(astream)
        assert await anext(aitems) is not None
        await astream.aclose()
        assert [item async for item in aitems] == []

    anyio.run(main, backend=backend)


def test_final_after_some_of_the_latest() -> None:
    stream = maker(SEA).stream()
    items = stream.latest()
    first = next(items)
    assert stream.final() == SEA
    assert is_partial(first)
    assert list(items) == []
    assert (stream.changed, stream.state) == ((), "ready")
    whole = maker(SEA).stream()
    *_, last = whole.latest()
    assert whole.final() is last


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_final_after_some_of_the_latest_awaited(backend: str) -> None:
    async def main() -> None:
        async with maker(SEA).astream() as stream:
            items = stream.latest()
            assert is_partial(await anext(items))
            assert await stream.final() == SEA
            assert [item async for item in items] == []

    anyio.run(main, backend=backend)


@pytest.mark.parametrize("slow", [True, False])
def test_closing_midway_gives_the_connection_back(slow: bool) -> None:
    network = ReplayNetwork(Recorded(album_stream()))
    llm = OpenAI("m", api="chat", api_key="k", network=network, max_retries=0)
    llm.clock = clock = VirtualClock()
    with ToolOrchestratingLLM(Album, "x", llm).stream() as stream:
        items = stream.latest()
        assert next(items) is not None
        clock.advance(SLOW if slow else 0)
        assert network.open_replies == 1
    assert (network.open_replies, network.closed_replies) == (0, 1)
    assert list(items) == []
    assert stream.state == "closed"
    with pytest.raises(StreamClosed):
        stream.final()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_closing_midway_gives_the_connection_back_there_too(backend: str) -> None:
    network = ReplayNetwork(Recorded(album_stream()))
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=network, max_retries=0))

    async def main() -> None:
        async with make.astream() as stream:
            async for _ in stream.latest():
                assert network.open_replies == 1
                break
        assert (network.open_replies, network.closed_replies) == (0, 1)

    anyio.run(main, backend=backend)


def test_the_view_keeps_its_stream_alive() -> None:
    network = ReplayNetwork(Recorded(album_stream()))
    items = ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=network)).stream().latest()
    next(items)
    assert network.open_replies == 1
    *_, last = items
    assert last == SEA
    dropped = ReplayNetwork(Recorded(album_stream()))
    items = ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=dropped)).stream().latest()
    next(items)
    del items
    assert dropped.open_replies == 0
