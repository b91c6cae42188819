"""Streams and their processor: they cannot be copied, in both builds and in any state, and go on as if nothing was."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from support.albums import SEA, Album
from support.chunks import album_stream
from toolcast import Engine, OpenAI, StreamingObjectProcessor, ToolOrchestratingLLM
from toolcast.events import ToolCallDelta, ToolCallStart
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

TEXT = SEA.model_dump_json()

COPIES: dict[str, Callable[[Any], Any]] = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": pickle.dumps}
each_copy = pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)


def service() -> tuple[OpenAI, ReplayNetwork]:
    network = ReplayNetwork(Recorded(album_stream()))
    return OpenAI("m", api="chat", api_key="k", network=network), network


@each_copy
@pytest.mark.parametrize("begun", [False, True])
def test_a_stream_of_objects(copied: Callable[[Any], Any], begun: bool) -> None:
    llm, network = service()
    stream = ToolOrchestratingLLM(Album, "x", llm).stream()
    if begun:
        next(stream)
    with pytest.raises(TypeError, match="ObjectStream cannot be copied or pickled"):
        copied(stream)
    assert weakref.ref(stream)() is stream
    assert stream.final() == SEA
    assert network.open_replies == 0


@each_copy
async def test_an_async_stream_of_objects(copied: Callable[[Any], Any]) -> None:
    llm, _ = service()
    stream = ToolOrchestratingLLM(Album, "x", llm).astream()
    await anext(stream)
    with pytest.raises(TypeError, match="AsyncObjectStream cannot be copied or pickled"):
        copied(stream)
    assert await stream.final() == SEA


@each_copy
def test_a_stream_of_events(copied: Callable[[Any], Any]) -> None:
    llm, _ = service()
    stream = llm.stream_chat("x", tools=[Album])
    assert stream.next()
    with pytest.raises(TypeError, match="EventStream cannot be copied or pickled"):
        copied(stream)
    assert len(list(stream)) > 10


@each_copy
def test_the_stream_of_a_turn(copied: Callable[[Any], Any]) -> None:
    with Engine(ScriptedLLM("Hello.")).stream("Hi.") as stream:
        next(stream)
        with pytest.raises(TypeError, match="TurnStream cannot be copied or pickled"):
            copied(stream)
        assert stream.result().text == "Hello."


@each_copy
@pytest.mark.parametrize("place", [0, len(TEXT) // 2, len(TEXT)])
def test_a_processor(copied: Callable[[Any], Any], place: int) -> None:
    """A copy that shared the unfinished values would change those of the original."""
    processor = StreamingObjectProcessor(Album)
    processor.process(ToolCallStart("1", "Album"))
    processor.process(ToolCallDelta("1", TEXT[:place]))
    with pytest.raises(TypeError, match="StreamingObjectProcessor cannot be copied or pickled"):
        copied(processor)
    assert weakref.ref(processor)() is processor
    processor.process(ToolCallDelta("1", TEXT[place:]))
    assert processor.item.model_dump() == SEA.model_dump()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda item: pickle.loads(pickle.dumps(item))])
def test_the_items_of_a_processor_are_copied(copied: Callable[[Any], Any]) -> None:
    processor = StreamingObjectProcessor(Album)
    processor.process(ToolCallStart("1", "Album"))
    for character in TEXT:
        item = processor.process(ToolCallDelta("1", character))
        if item is not None:
            again = copied(item)
            assert (again, repr(again), type(again)) == (item, repr(item), type(item))
            assert weakref.ref(item)() is item


class Counting(StreamingObjectProcessor):
    """A processor of a user."""

    def __init__(self, output_cls: Any) -> None:
        super().__init__(output_cls)
        self.snapshots = 0

    def process(self, event: Any) -> Any:
        item = super().process(event)
        self.snapshots += item is not None
        return item


def test_subclasses_of_a_processor() -> None:
    processor = Counting(Album)
    processor.process(ToolCallStart("1", "Album"))
    for character in TEXT:
        processor.process(ToolCallDelta("1", character))
    assert processor.snapshots > 10
    assert processor.item.model_dump() == SEA.model_dump()
