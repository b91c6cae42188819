from __future__ import annotations

import json
import math
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from support.example_counts import examples
from support.web_chats import TO_READY, TO_STREAMING, Tab, chat, pieces
from toolcast.apps.web.feed import Feed
from toolcast.chat.events import (
    ChatEvent,
    Interrupt,
    QueueMessage,
    RetryGeneration,
    StreamChunk,
    StreamComplete,
    ToolCallProgress,
    ToolSearchSuccess,
)
from toolcast.events import TextDelta
from toolcast.messages import Message, TextPart, ThinkingPart, ToolCallPart
from toolcast.values.approvals import PermissionRequest

CALL = ToolCallPart("c1", "send", '{"to": "Ann"}')
CALLS = StreamComplete(Message("assistant", (CALL,)), (PermissionRequest("c1", "send", CALL.arguments),), "tool_use")


async def test_the_first_event_is_a_snapshot_and_what_happens_then_follows() -> None:
    async with chat() as machine, aclosing(Feed(machine).read()) as reader:
        assert await anext(reader) == b"retry: 1000\n\n"
        (first,) = await pieces(reader, 1)
        for event in TO_READY:
            machine.dispatch(event)
        changes = await pieces(reader, 2)
    assert (first.name, first.data["state"], first.data["context"]["messages"]) == ("snapshot", "idle", [])
    assert [change.name for change in changes] == ["change", "change"]
    assert [change.data["event"] for change in changes] == [{"type": "LOAD_MODEL"}, {"type": "MODEL_LOAD_SUCCESS"}]
    assert [change.data["state"] for change in changes] == ["loading_model", "ready"]
    numbers = [int(text.id.rpartition("-")[2]) for text in (first, *changes)]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


async def test_a_piece_of_the_answer_costs_what_it_holds() -> None:
    async with chat(*TO_STREAMING) as machine, aclosing(Feed(machine).read()) as reader:
        await pieces(reader, 1)
        machine.dispatch(StreamChunk(TextDelta("x" * 1000)))
        machine.dispatch(StreamChunk("Hel"))
        long, short = await pieces(reader, 2)
    assert long.data["event"]["content"] == {"type": "TextDelta", "text": "x" * 1000}
    assert short.data["event"]["content"] == "Hel"
    assert len(json.dumps(short.data)) < 250


async def test_a_snapshot_holds_the_answer_so_far_and_what_follows_goes_on_with_it() -> None:
    async with chat(*TO_STREAMING, StreamChunk("Hel")) as machine, aclosing(Feed(machine).read()) as reader:
        (first,) = await pieces(reader, 1)
        machine.dispatch(StreamChunk("lo"))
        (second,) = await pieces(reader, 1)
    assert first.data["context"]["streamed"]["parts"][0]["text"] == "Hel"
    assert second.data["event"]["content"] == "lo"


async def test_what_waits_for_a_word_has_what_binds_the_word_to_it() -> None:
    async with chat(*TO_STREAMING) as machine:
        feed = Feed(machine)
        async with aclosing(feed.read()) as reader:
            await pieces(reader, 1)
            machine.dispatch(CALLS)
            (change,) = await pieces(reader, 1)
        async with aclosing(feed.read()) as reader:
            (snapshot,) = await pieces(reader, 1)
        (request,) = machine.context.pending
    for pending in (change.data["changes"]["pending"], snapshot.data["context"]["pending"]):
        (shown,) = pending
        assert shown | request.to_dict() | {"fingerprint": request.fingerprint} == shown
        assert shown["preview"]["summary"] == "send  Ann"


async def test_who_comes_back_gets_what_was_missed_once() -> None:
    async with chat() as machine:
        feed, tab = Feed(machine), Tab()
        async with aclosing(feed.read()) as reader:
            await anext(reader)
            tab.take(await anext(reader))
        for event in TO_STREAMING:
            machine.dispatch(event)
        async with aclosing(feed.read(tab.last)) as reader:
            await anext(reader)
            tab.take(await anext(reader))
    assert (tab.snapshots, tab.changes, tab.state) == (1, len(TO_STREAMING), "streaming_response")


@pytest.mark.parametrize(
    "last", ["", "5", "other-1", "{name}-99", "{name}-x", "{name}--1", "{name}-²", "{name}-" + "9" * 5000]
)
async def test_an_unknown_event_id_gets_a_snapshot(last: str) -> None:
    async with chat() as machine:
        feed = Feed(machine)
        async with aclosing(feed.read()) as reader:
            (first,) = await pieces(reader, 1)
        async with aclosing(feed.read(last.format(name=first.id.rpartition("-")[0]))) as reader:
            (second,) = await pieces(reader, 1)
    assert second.name == "snapshot"


async def test_two_feeds_do_not_know_each_others_events() -> None:
    async with chat() as machine:
        async with aclosing(Feed(machine).read()) as reader:
            (first,) = await pieces(reader, 1)
        async with aclosing(Feed(machine).read(first.id)) as reader:
            (second,) = await pieces(reader, 1)
    assert second.name == "snapshot"


@pytest.mark.fault(116)
async def test_a_slow_reader_is_left_behind_and_gets_a_snapshot() -> None:
    async with chat(*TO_STREAMING) as machine:
        feed, tab = Feed(machine, limit=2000), Tab()
        async with aclosing(feed.read()) as slow:
            await anext(slow)
            tab.take(await anext(slow))
            machine.dispatch(StreamChunk("first "))
            for _ in range(1000):
                machine.dispatch(StreamChunk("on "))
            tab.take(await anext(slow))
    assert (tab.snapshots, tab.changes) == (2, 0)
    assert tab.answer == "first " + "on " * 1000
    assert 0 < feed.size <= 2000
    assert feed.size == sum(map(len, feed._log))


async def test_an_event_larger_than_the_log_is_reported_by_a_snapshot() -> None:
    async with chat(*TO_READY) as machine, aclosing(Feed(machine, limit=100).read()) as reader:
        await pieces(reader, 1)
        machine.dispatch(QueueMessage("x" * 1000))
        (text,) = await pieces(reader, 1)
    assert text.name == "snapshot"
    assert text.data["context"]["messages"][0]["parts"][0]["text"] == "x" * 1000


async def test_a_reader_hears_now_and_then_that_the_feed_is_there() -> None:
    async with chat() as machine, aclosing(Feed(machine, keep_alive=0.001).read()) as reader:
        await pieces(reader, 1)
        assert await anext(reader) == b": still here\n\n"
        machine.dispatch("STOP")
        while b"STOP" not in await anext(reader):
            pass


async def test_close_ends_all_readers_and_the_feed_hears_no_more() -> None:
    async with chat() as machine:
        feed, read = Feed(machine), list[bytes]()

        async def listen() -> None:
            read.extend([piece async for piece in feed.read()])

        async with anyio.create_task_group() as tabs:
            tabs.start_soon(listen)
            tabs.start_soon(listen)
            await anyio.wait_all_tasks_blocked()
            feed.close()
        machine.dispatch("STOP")
    assert len(read) == 4
    assert feed.size == 0


async def test_the_machine_never_waits_for_a_reader() -> None:
    async with chat(*TO_STREAMING) as machine:
        feed = Feed(machine)
        async with aclosing(feed.read()) as reader:
            await pieces(reader, 1)
            for number in range(200):
                machine.dispatch(StreamChunk(str(number)))
            text = await pieces(reader, 200)
    assert [each.data["event"]["content"] for each in text] == [str(number) for number in range(200)]


@pytest.mark.parametrize(
    ("data", "seen"),
    [("\ud83d", "\ud83d"), ("\u2028\r\n", "\u2028\r\n"), ({"a": math.nan, "b": [math.inf]}, {"a": None, "b": [None]})],
)
async def test_any_progress_data_is_one_event(data: Any, seen: Any) -> None:
    calls = StreamComplete(Message("assistant", (CALL,)), (), "tool_use")
    async with chat(*TO_STREAMING, calls) as machine, aclosing(Feed(machine).read()) as reader:
        await pieces(reader, 1)
        machine.dispatch(ToolCallProgress("c1", data))
        (text,) = await pieces(reader, 1)
    assert text.data["event"]["data"] == seen


async def test_numbers_that_json_does_not_have_are_none_at_all() -> None:
    odd = Message("assistant", (ThinkingPart("so", opaque={"a": math.nan, "b": [math.inf]}), TextPart("Hello")))
    async with chat(*TO_STREAMING) as machine:
        feed = Feed(machine)
        async with aclosing(feed.read()) as reader:
            await pieces(reader, 1)
            machine.dispatch(StreamComplete(odd))
            (change,) = await pieces(reader, 1)
        async with aclosing(feed.read()) as reader:
            (snapshot,) = await pieces(reader, 1)
    for messages in (change.data["changes"]["messages"]["messages"], snapshot.data["context"]["messages"]):
        assert messages[-1]["parts"][0]["opaque"] == {"a": None, "b": [None]}


EVENTS: tuple[ChatEvent, ...] = (
    *TO_STREAMING,
    QueueMessage("another"),
    StreamChunk("piece "),
    StreamChunk("by "),
    StreamComplete(),
    CALLS,
    Interrupt(),
    RetryGeneration(),
    ToolSearchSuccess(("send",)),
)


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.one_of(st.sampled_from(EVENTS), st.sampled_from(["read", "leave"])), max_size=40),
    limit=st.sampled_from([100, 1500, 100_000]),
)
def test_however_often_a_page_comes_back_it_knows_what_the_chat_knows(
    steps: Sequence[ChatEvent | str], limit: int
) -> None:
    anyio.run(_follow, steps, limit)


async def _follow(steps: Sequence[ChatEvent | str], limit: int) -> None:
    async with chat() as machine:
        feed, tab = Feed(machine, limit=limit, keep_alive=0), Tab()
        reader = feed.read()
        for step in (*steps, "read"):
            if isinstance(step, ChatEvent):
                machine.dispatch(step)
            elif step == "leave":
                await reader.aclose()
                reader = feed.read(tab.last)
            else:
                while (piece := await anext(reader)) != b": still here\n\n":
                    tab.take(piece)
        await reader.aclose()
        _same(tab, feed)


def _same(tab: Tab, feed: Feed) -> None:
    known = json.loads(json.dumps(feed.view.snapshot()))
    answer = "".join(part["text"] for part in known["context"].pop("streamed")["parts"])
    assert (tab.state, tab.context, tab.answer) == (known["state"], known["context"], answer)
