"""The events of paused responses, from sources that the test makes; over HTTP in test_server_tools_scenarios.py."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from toolcast import WebSearch, user
from toolcast.async_support import sync_driver
from toolcast.errors import StreamInterrupted
from toolcast.events import (
    Event,
    Finish,
    RawEvent,
    ServerToolUse,
    TextCitation,
    TextDelta,
    ThinkingDelta,
    ToolCallDone,
    ToolCallStart,
    UsageReport,
)
from toolcast.llms.http.paused_responses import ResumedEvents
from toolcast.llms.request import ChatRequest
from toolcast.messages import TextPart, assistant
from toolcast.values.accumulator import Accumulator
from toolcast.values.citations import Citation
from toolcast.values.usage import Usage

PAUSED = Finish("pause", raw="pause_turn")
SEARCH = ServerToolUse("web_search", "s1", {"query": "sea"}, provider="anthropic", raw={"id": "s1"})
END = Finish("end_turn")


class Source:
    """The events of one response, in these lists."""

    def __init__(self, *batches: Sequence[Event]) -> None:
        self.batches = [list(batch) for batch in batches]
        self.request_id: str | None = f"req_{id(self)}"
        self.closed = 0
        self.broken = False

    async def next_events(self) -> list[Event]:
        if self.broken:
            raise StreamInterrupted("the response was aborted", retryable=False)
        return self.batches.pop(0) if self.batches else []

    def direct_reads(self, id: str) -> None:
        return None

    async def close(self) -> None:
        self.closed += 1

    def break_off(self) -> None:
        self.broken = True


class Service:
    """The sources of the requests, in their order."""

    def __init__(self, *sources: Source) -> None:
        self.sources = sources
        self.requests: list[ChatRequest] = []

    def open(self, request: ChatRequest) -> Source:
        self.requests.append(request)
        return self.sources[len(self.requests) - 1]


REQUEST = ChatRequest((user("Sea?"),), server_tools=(WebSearch(),))


def read(events: ResumedEvents) -> list[list[Event]]:
    async def main() -> list[list[Event]]:
        found: list[list[Event]] = []
        while batch := await events.next_events():
            found.append(batch)
        await events.close()
        return found

    return sync_driver.run(main())


def test_the_end_of_each_but_the_last_is_left_out() -> None:
    # What follows the end of a paused response is read, so that the request is complete, and left out.
    first = Source([SEARCH, UsageReport(Usage(1, 2))], [PAUSED], [RawEvent("late")])
    second = Source([TextDelta("Blue"), PAUSED])
    third = Source([TextDelta("."), UsageReport(Usage(3, 4))], [END])
    service = Service(first, second, third)
    events = ResumedEvents(REQUEST, service.open)
    assert read(events) == [
        [SEARCH, UsageReport(Usage(1, 2))],
        [TextDelta("Blue")],
        [TextDelta("."), UsageReport(Usage(4, 6))],
        [END],
    ]
    assert [request.messages[1:] for request in service.requests] == [
        (),
        (assistant(SEARCH.part),),
        (assistant(SEARCH.part, "Blue"),),
    ]
    assert [source.closed for source in (first, second, third)] == [1, 1, 1]
    assert events.request_id == third.request_id
    assert events.direct_reads("x") is None


@pytest.mark.parametrize(
    "last",
    [
        [PAUSED],  # there is nothing to send back
        [SEARCH, Finish("pause", raw="compaction")],
        [SEARCH, Finish("pause", raw="in_progress")],
        [ToolCallStart("c1", "add"), ToolCallDone("c1", "add", "{}"), PAUSED],
    ],
)
def test_what_is_not_continued_ends_as_it_is(last: list[Event]) -> None:
    service = Service(Source(last))
    assert read(ResumedEvents(REQUEST, service.open)) == [last]
    assert len(service.requests) == 1


def test_an_aborted_response_is_not_continued() -> None:
    first, second = Source([SEARCH, PAUSED]), Source([TextDelta("Blue."), END])
    service = Service(first, second)

    def open_after_abort(request: ChatRequest) -> Source:
        source = service.open(request)
        if source is second:
            events.break_off()  # by another thread, while the first source is still the one in use
        return source

    events = ResumedEvents(REQUEST, open_after_abort)
    assert sync_driver.run(events.next_events()) == [SEARCH]
    with pytest.raises(StreamInterrupted):
        sync_driver.run(events.next_events())
    assert first.broken
    assert second.broken


def searches(number: int) -> ServerToolUse:
    return ServerToolUse("web_search", f"s{number}", {"query": "sea"}, provider="anthropic", raw={"id": f"s{number}"})


def test_citations_have_their_place_in_the_text_of_all_parts() -> None:
    cited = TextCitation(Citation("page_location", 0, 3, provider="anthropic", raw={}))
    first = Source([TextDelta("Sea"), cited, SEARCH, UsageReport(Usage(1, 2)), PAUSED])
    second = Source([TextDelta("Sun"), cited], [UsageReport(Usage(4, 8)), END])
    service = Service(first, second)
    folded = Accumulator()
    usages = []
    for batch in read(ResumedEvents(REQUEST, service.open)):
        for event in batch:
            folded.apply(event)
            usages += [event.usage] if isinstance(event, UsageReport) else []
    assert [(each.start, each.end) for each in folded.message().citations] == [(0, 3), (3, 6)]
    assert [part.citations for part in folded.message().parts if isinstance(part, TextPart)] == [(cited.citation,)] * 2
    assert usages == [Usage(1, 2), Usage(5, 10)]
    assert service.requests[1].messages[-1].citations == (cited.citation,)


content: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=3)),
    st.builds(searches, st.integers(0, 9)),
    st.builds(ThinkingDelta, st.just("Hm."), st.sampled_from([None, "signed"])),
    st.builds(UsageReport, st.builds(Usage, st.integers(0, 9), st.integers(0, 9))),
)


@given(st.lists(st.lists(content, min_size=1, max_size=5), min_size=1, max_size=4), st.data())
def test_a_response_in_parts_is_the_whole_one(parts: list[list[Event]], data: st.DataObject) -> None:
    """However the parts are cut into reads, the message is that of all events, and each request repeats the last."""
    # A text begins anew in each request, so that texts beside a pause are two parts of the message that is sent back.
    for part in parts[:-1]:
        part.append(searches(0))
    sources = []
    for at, part in enumerate(parts):
        events = [*part, END if at == len(parts) - 1 else PAUSED]
        cut = data.draw(st.integers(0, len(events)))
        sources.append(Source(*(batch for batch in (events[:cut], events[cut:]) if batch)))
    service = Service(*sources)
    whole, seen = Accumulator(), Accumulator()
    for part in parts:
        for event in part:
            if not isinstance(event, UsageReport):
                whole.apply(event)
    for batch in read(ResumedEvents(REQUEST, service.open)):
        assert batch
        for event in batch:
            seen.apply(event)
    assert seen.message() == whole.message()
    last = [next((each.usage for each in reversed(part) if isinstance(each, UsageReport)), Usage()) for part in parts]
    if any(isinstance(event, UsageReport) for event in parts[-1]):
        assert seen.usage == sum(last, Usage())
    for request in service.requests[1:]:
        sent = request.messages[-1].parts
        assert sent == seen.message().parts[: len(sent)]
