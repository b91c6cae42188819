"""A streamed call from its first event to its end, and its states."""

from __future__ import annotations

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import toolcast
from support.albums import SEA, SHORT, Album, Song, call
from support.chunks import album_stream, call_deltas, delta, sse
from support.example_counts import examples
from support.sync_and_async import API
from toolcast import OpenAI, ToolOrchestratingLLM, Usage, ValidationError
from toolcast.async_support import sync_driver
from toolcast.errors import StreamBusy, StreamClosed
from toolcast.events import Finish, TextDelta, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, ScriptedRequest
from toolcast.values.states import STREAM

LONG = Album(
    title="A rather long title", artist="x", songs=[Song(title="One", seconds=1), Song(title="Two", seconds=2)]
)


def maker(*answers: Any, output: Any = Album, **options: Any) -> Any:
    return ToolOrchestratingLLM(output, "x", ScriptedLLM(*answers), **options)


def walked(states: list[str]) -> bool:
    """Whether each state follows the one before it in the table."""
    return all(after in STREAM[before].values() for before, after in pairwise(states))


# -- states -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observed", [True, False])
def test_the_states_of_a_stream_that_is_looked_at(observed: bool) -> None:
    options = {"observer": lambda *_: None} if observed else {}
    stream = maker(SEA, **options).stream()
    assert stream.state == "initiating_stream"
    with stream:
        assert stream.state == "receiving_chunk"
        for _ in stream:
            assert stream.state in ("yielding_partial", "ready")
    assert stream.state == "ready"


@pytest.mark.parametrize(
    "answers",
    [(SEA,), ("no", SEA), (call('{"title": 1}'), SEA), (SEA.model_dump_json(),), (call("{"), "no")],
    ids=["good", "words first", "invalid first", "in words", "bad to the end"],
)
@pytest.mark.parametrize("view", [None, "events", "changes"])
def test_every_step_is_in_the_table(api: API, answers: Any, view: str | None) -> None:
    observed_states: list[str] = []
    make = maker(*answers, max_attempts=2, observer=lambda _, state: observed_states.append(state))
    observed_states.clear()  # of those of the object itself
    if view is None:
        api.stream(make)
    else:
        try:
            api.view(make, view)
        except toolcast.ToolcastError:
            assert answers[-1] == "no"
    assert walked(["ready", *observed_states])
    assert observed_states[-1] == ("error" if answers[-1] == "no" else "ready")
    assert observed_states.count("initiating_stream") == len(answers)


def test_a_chunk_that_cannot_be_read_is_skipped_and_the_next_one_counts(
    api: API, caplog: pytest.LogCaptureFixture
) -> None:
    """Between two items, observed or not: the states go on from where they were."""
    pieces = sse(*call_deltas(SEA.model_dump_json()), delta("tool_calls"))
    pieces[6:6] = [b'data: {"choices": [\n\n']
    for observer in (None, lambda *_: None):
        make = ToolOrchestratingLLM(
            Album, "x", OpenAI("m", api="chat", api_key="k", network=ReplayNetwork(Recorded(pieces))), observer=observer
        )
        seen = api.stream(make)
        assert isinstance(seen.error, toolcast.errors.MalformedEvent)
        assert seen.items[-1].artist == SEA.artist
    assert caplog.text.count("Failed to parse streaming response") == 2


TEXT = SEA.model_dump_json()
CALLED = sse(*call_deltas(TEXT), delta("tool_calls"))
WORDS = sse(*(delta(content=TEXT[at : at + 8]) for at in range(0, len(TEXT), 8)), delta("stop"))
DAMAGE = b'data: {"choices": [\n\n'


def replayed(*bodies: list[bytes], **options: Any) -> tuple[Any, ReplayNetwork]:
    network = ReplayNetwork(*map(Recorded, bodies))
    return ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=network), **options), network


@pytest.mark.parametrize("body", [CALLED, WORDS], ids=["call", "words"])
def test_a_damaged_answer_is_asked_for_again(api: API, body: list[bytes]) -> None:
    """With the same request, since the model did nothing wrong."""
    make, network = replayed([*body[:6], DAMAGE, *body[6:]], body, max_attempts=2)
    seen = api.stream(make)
    assert (seen.error, seen.final) == (None, SEA)
    assert len(seen.items) > 3
    first, second = network.requests
    assert first.body == second.body
    make, _ = replayed([*body[:6], DAMAGE, *body[6:]], [*body[:4], DAMAGE, *body[4:]], max_attempts=2)
    error = api.stream(make).error
    assert isinstance(error, toolcast.errors.MalformedEvent)
    assert error.partial is not None
    assert [type(attempt.error) for attempt in error.attempts] == [toolcast.errors.MalformedEvent] * 2


def test_a_damaged_answer_is_asked_for_again_in_every_view(api: API) -> None:
    make, _ = replayed([*CALLED[:6], DAMAGE, *CALLED[6:]], CALLED, max_attempts=2)
    (restarted,) = [event for event in api.view(make, "events") if isinstance(event, toolcast.events.Restarted)]
    assert "could not be read" in restarted.reason


@pytest.mark.parametrize("body", [CALLED, WORDS], ids=["call", "words"])
def test_damage_after_the_end_of_the_call_is_a_warning(
    api: API, body: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    make, _ = replayed([*body[:-1], DAMAGE, body[-1]])
    assert api.stream(make).final == SEA
    assert "Failed to parse streaming response" in caplog.text


def test_damage_behind_a_finish_reason_counts_where_the_call_goes_on(api: API) -> None:
    early = sse(delta("tool_calls"), done=False)
    make, _ = replayed([*CALLED[:4], *early, DAMAGE, *CALLED[4:]])
    assert isinstance(api.stream(make).error, toolcast.errors.MalformedEvent)


@pytest.mark.parametrize("body", [CALLED, WORDS], ids=["call", "words"])
def test_damaged_answers_are_accepted_where_that_is_asked_for(api: API, body: list[bytes]) -> None:
    make, _ = replayed([*body[:3], DAMAGE, *body[3:]])
    assert api.stream(make.with_(accept_damaged=True)).final == SEA


def test_what_does_not_validate_is_not_accepted(api: API) -> None:
    make, _ = replayed([CALLED[0], DAMAGE, *CALLED[4:]])
    assert isinstance(api.stream(make.with_(accept_damaged=True)).error, toolcast.ValidationError)


# -- what has arrived -----------------------------------------------------------------------------------------------


def test_the_response_grows_with_the_stream() -> None:
    stream = maker(SEA).stream()
    assert stream.response.message.parts == ()
    assert stream.response.stop_reason == "other"
    next(stream)
    (part,) = stream.response.message.tool_calls
    assert SEA.model_dump_json().startswith(part.arguments)
    assert (stream.response.provider, stream.usage) == ("scripted", Usage())
    stream.final()
    assert stream.response.stop_reason == "tool_use"
    assert stream.response.message.tool_calls == (call(SEA),)


def test_a_request_id_is_known_as_soon_as_there_is_one(api: API) -> None:
    headers = {"content-type": "text/event-stream", "x-request-id": "req-7"}
    network = ReplayNetwork(Recorded(album_stream(), headers=headers), Recorded(album_stream()[:6], headers=headers))
    make = ToolOrchestratingLLM(Album, "x", OpenAI("m", api="chat", api_key="k", network=network, max_retries=0))
    stream = make.stream()
    assert stream.response.request_id is None
    next(stream)
    assert stream.response.request_id == "req-7"
    assert stream.final() == SEA
    error = api.stream(make).error
    assert isinstance(error, toolcast.CallError)
    assert error.request_id == "req-7"


def test_repairs_are_listed_at_the_end_of_a_stream() -> None:
    songs = SEA.model_dump_json(include={"songs"})[9:-1]
    stream = maker(SEA.model_dump() | {"songs": songs}).stream()
    assert stream.final() == SEA
    assert len(stream.response.repairs) == 1
    assert "songs" in stream.response.repairs[0]


REPAIRED = [
    (f"```json\n{SEA.model_dump_json()}\n```", "took the JSON out of a markdown fence"),
    (f"Here you are: {SEA.model_dump_json()}", "left out the text around the JSON"),
    (repr(SEA.model_dump()), "put double quotes for others"),
    (SEA.model_dump_json()[:-1] + ",}", "left out trailing commas"),
    (SEA.model_dump_json() * 2, "took one of 2 equal values"),
]


@pytest.mark.parametrize(("text", "repair"), REPAIRED)
@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize("fail_fast", [True, False])
def test_arguments_that_are_no_json_are_repaired_at_the_end(
    api: API, text: str, repair: str, size: int, fail_fast: bool
) -> None:
    events = [ToolCallStart("1", "Album"), *deltas(text, size=size), done(text), Finish("tool_use")]
    make = maker(events, events, events).with_(fail_fast=fail_fast)
    assert api.stream(make).final == SEA
    result = api.run(make)
    assert (result.output, result.repairs) == (SEA, (repair,))
    stream = make.stream()
    assert stream.final() == SEA
    assert stream.response.repairs == (repair,)


@pytest.mark.fault(94)
@pytest.mark.parametrize("text", [f"```json\n{SEA.model_dump_json()[:-1]}\n```", repr(SEA.model_dump())[:-1]])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_arguments_that_were_cut_off_are_not_repaired(api: API, text: str, size: int) -> None:
    for stop, error in (("tool_use", ValidationError), ("max_tokens", toolcast.errors.OutputTruncated)):
        events = [ToolCallStart("1", "Album"), *deltas(text, size=size), done(text), Finish(stop)]
        assert type(api.stream(maker(events)).error) is error


def test_a_final_value_smaller_than_an_earlier_partial_wins(api: API) -> None:
    """A call that is taken back and made again, shorter."""
    text, short = LONG.model_dump_json(), SHORT.model_dump_json()
    events = [
        ToolCallStart("1", "Album"),
        ToolCallDelta("1", text),
        ToolCallReset("1"),
        ToolCallDelta("1", short),
        toolcast.events.ToolCallDone("1", "Album", short),
        Finish("tool_use"),
    ]
    seen = api.stream(maker(events))
    assert len(seen.items[0].songs) == 2
    assert seen.final == SHORT


def test_the_last_word_has_the_call_not_its_pieces(api: API) -> None:
    events = [
        ToolCallStart("1", "Album"),
        ToolCallDelta("1", LONG.model_dump_json()),
        toolcast.events.ToolCallDone("1", "Album", SHORT.model_dump_json()),
        Finish("tool_use"),
    ]
    seen = api.stream(maker(events))
    assert seen.items[0].title == LONG.title
    assert seen.final == SHORT


def test_words_before_a_call_do_not_grow_an_object(api: API) -> None:
    events = [TextDelta('{"title": "no'), *_called(SEA), Finish("tool_use")]
    seen = api.stream(maker(events))
    assert seen.items[0].title == "no"
    assert seen.final == SEA


def _called(album: Album) -> list[Any]:
    text = album.model_dump_json()
    return [ToolCallStart("1", "Album"), ToolCallDelta("1", text), toolcast.events.ToolCallDone("1", "Album", text)]


# -- views ------------------------------------------------------------------------------------------------------


def test_items_begin_again_when_the_model_is_asked_again(api: API) -> None:
    wrong = call('{"title": 1, "artist": "b", "songs": [{"title": "c", "seconds": 3}]}')
    make = maker(wrong, SEA, max_attempts=2).with_(fail_fast=False)
    assert api.view(make, "items", "songs") == [Song(title="c", seconds=3), *SEA.songs]


def test_text_begins_again_when_the_model_is_asked_again(api: API) -> None:
    make = maker(call('{"title": "Wrong", "artist": 5}'), SEA, max_attempts=2)
    assert "".join(api.view(make, "text", "title")) == f"Wrong{SEA.title}"


def test_events_of_a_stream_that_is_asked_again(api: API) -> None:
    events = api.view(maker("no", SEA, max_attempts=2), "events")
    (restarted,) = [event for event in events if isinstance(event, toolcast.events.Restarted)]
    assert restarted.attempt == 2
    assert "0 tool calls" in restarted.reason


def test_an_error_is_raised_once_and_repeated_by_final(api: API) -> None:
    stream = maker(call('{"title": 1}')).stream()
    with pytest.raises(ValidationError) as first:
        list(stream)
    assert list(stream) == []
    with pytest.raises(ValidationError) as again:
        stream.final()
    assert again.value is first.value


# -- leaving ----------------------------------------------------------------------------------------------------


def test_an_interrupt_leaves_a_closed_stream_without_a_result() -> None:
    stream = maker([ToolCallStart("1", "Album")], KeyboardInterrupt()).stream()
    stream.close()
    with pytest.raises(StreamClosed):
        stream.final()
    interrupted = maker(KeyboardInterrupt()).stream()
    with pytest.raises(KeyboardInterrupt):
        next(interrupted)
    assert interrupted.state == "closed"
    assert list(interrupted) == []
    with pytest.raises(StreamClosed):
        interrupted.final()


def test_a_stream_closed_before_it_began_sends_nothing() -> None:
    llm = ScriptedLLM(SEA)
    with ToolOrchestratingLLM(Album, "x", llm).stream() as entered:
        entered.close()
    stream = ToolOrchestratingLLM(Album, "x", llm).stream()
    stream.close()
    with stream:
        assert list(stream) == []
    assert stream.state == "closed"
    assert llm.requests == [llm.requests[0]]


def test_field_states_of_places_that_cannot_be() -> None:
    parallel = maker([call(SEA)], allow_parallel_tool_calls=True).stream()
    next(parallel)
    assert parallel.field_state("title") == "pending"
    assert parallel.field_state("") == "growing"
    parallel.final()
    assert parallel.field_state("title") == "pending"
    assert parallel.field_state("0.title") == "done"


def test_closing_between_the_end_and_the_last_item() -> None:
    stream = maker(SEA).stream()
    flow: Any = stream._flow
    while flow.output is None:
        while flow.step():
            pass
        sync_driver.run(flow.fill())
    stream.close()
    assert stream.state == "ready"
    assert stream.final() == SEA


# -- the fast path: further deltas of the call that the delta before belonged to -------------------------------------


TEXT = LONG.model_dump_json()


def deltas(text: str, id: str = "1", size: int = 5) -> list[Any]:
    return [ToolCallDelta(id, text[start : start + size]) for start in range(0, len(text), size)]


def read_all(make: Any) -> tuple[list[Any], Any]:
    """Return the attributes of a stream at each of its items, and its error."""
    stream, seen, error = make.stream(), [], None
    try:
        for item in stream:
            message = stream.response.message
            seen.append((repr(item), stream.changed, stream.field_state("songs"), stream.usage, message, stream.state))
    except toolcast.ToolcastError as caught:
        error = (type(caught), str(caught), repr(getattr(caught, "partial", None)))
    return seen, error


def count_slow_deltas(make: Any) -> int:
    """Count the deltas that did not take the fast path."""
    stream = make.stream()
    while stream._flow.output is None and next(stream, None) is not None:
        pass
    return int(stream._flow.processor.feeds)


# An observed stream does not use the fast path, so the others are compared with it.
OBSERVED = {"observer": lambda *_: None}


def test_nearly_every_delta_takes_the_pooled_connection() -> None:
    events = [
        ToolCallStart("1", "Album"),
        *deltas(TEXT),
        toolcast.events.ToolCallDone("1", "Album", TEXT),
        Finish("tool_use"),
    ]
    assert count_slow_deltas(maker(events)) == 1
    assert count_slow_deltas(maker(events, **OBSERVED)) == len(deltas(TEXT)) > 20


def _woven(*streams: list[Any]) -> list[Any]:
    """One of each in turn, as long as there are any."""
    longest = max(map(len, streams))
    return [stream[number] for number in range(longest) for stream in streams if number < len(stream)]


def done(arguments: str, id: str = "1") -> Any:
    return toolcast.events.ToolCallDone(id, "Album", arguments)


SHORT_TEXT = SHORT.model_dump_json()
DONE_1, DONE_2 = done(TEXT), done(SHORT_TEXT, "2")
START_1, START_2, RESET_1 = ToolCallStart("1", "Album"), ToolCallStart("2", "Album"), ToolCallReset("1")
PARALLEL = {"allow_parallel_tool_calls": True}
REASK = {"max_attempts": 2}
FAST_PATH_STREAMS: list[Any] = [
    pytest.param([START_1, *deltas(TEXT), DONE_1], {}, id="one call"),
    pytest.param([START_1, *deltas(TEXT, size=1), DONE_1], {}, id="many deltas"),
    pytest.param([START_1, *deltas(TEXT), DONE_1, START_2, *deltas(SHORT_TEXT, "2"), DONE_2], PARALLEL, id="in turn"),
    pytest.param(
        [START_1, START_2, *_woven(deltas(TEXT), deltas(SHORT_TEXT, "2")), DONE_1, DONE_2], PARALLEL, id="interleaved"
    ),
    pytest.param(
        [START_1, *deltas(TEXT)[:6], START_2, *deltas(SHORT_TEXT, "2"), *deltas(TEXT)[6:], DONE_1, DONE_2],
        PARALLEL,
        id="one within the other",
    ),
    pytest.param(
        [START_1, START_2, *_woven(deltas(TEXT), deltas(SHORT_TEXT, "2")), DONE_1, DONE_2], {}, id="the second dropped"
    ),
    pytest.param(
        [START_1, *_woven(deltas(TEXT), [toolcast.events.UsageReport(Usage(1, n)) for n in range(9)]), DONE_1],
        {},
        id="usage",
    ),
    pytest.param(
        [START_1, *_woven(deltas(TEXT), [toolcast.events.RawEvent({"a": 1})] * 7), DONE_1], {}, id="raw events"
    ),
    pytest.param([START_1, *_woven(deltas(TEXT), [TextDelta("a")] * 7), DONE_1], {}, id="words"),
    pytest.param([START_1, *_woven(deltas(TEXT), [ToolCallDelta("1", "")] * 7), DONE_1], {}, id="empty deltas"),
    pytest.param([START_1, *deltas(TEXT)[:9], RESET_1, *deltas(TEXT), DONE_1], {}, id="taken back midway"),
    pytest.param(
        [START_1, *deltas(TEXT)[:9], RESET_1, *deltas(SHORT_TEXT), RESET_1, *deltas(TEXT), DONE_1],
        {},
        id="taken back twice",
    ),
    pytest.param([START_1, *deltas('{"title": "a", "artist": 5, "songs": []}')], REASK, id="invalid on the fast path"),
    pytest.param([START_1, *deltas('{"title": "a", "artist": 5, "songs": []}')], {}, id="invalid to the end"),
    pytest.param([START_1, *deltas('{"title": "a" "artist"'), done("{")], REASK, id="broken"),
    pytest.param([START_1, *deltas("[1, 2, 3, 4]", size=2), done("[1]")], REASK, id="list"),
    pytest.param([START_1, *deltas(TEXT + "}}}}}}"), DONE_1], {}, id="more than JSON"),
]


@pytest.mark.parametrize(("events", "options"), FAST_PATH_STREAMS)
@pytest.mark.parametrize("fail_fast", [True, False])
def test_on_the_pooled_connection_all_is_as_it_is_beside_it(events: list[Any], options: Any, fail_fast: bool) -> None:
    events = [*events, Finish("tool_use")]
    make, observed = maker(events, LONG, **options), maker(events, LONG, **options, **OBSERVED)
    seen, error = read_all(make.with_(fail_fast=fail_fast))
    assert (seen, error) == read_all(observed.with_(fail_fast=fail_fast))
    assert (error is None) is (seen[-1][0] in (repr(LONG), repr([LONG]), repr([LONG, SHORT])))


def test_each_item_matches_the_text_so_far() -> None:
    """And `response` holds just the text that was fed."""
    pieces = deltas(TEXT)
    stream = maker([START_1, *pieces, DONE_1, Finish("tool_use")]).stream()
    ends = {"".join(piece.arguments for piece in pieces[:end]) for end in range(len(pieces) + 1)}
    lengths = []
    for item in stream:
        (part,) = stream.response.message.tool_calls
        assert part.arguments in ends
        lengths.append(len(part.arguments))
        if toolcast.is_partial(item) and item.title is not None:
            assert item.title in part.arguments
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(TEXT)


@pytest.mark.parametrize("arguments", ["null", " null ", "{}", ""])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_arguments_at_all_on_the_pooled_connection(api: API, arguments: str, size: int) -> None:
    class Easy(Song):
        title: str = "none"
        seconds: int = 0

    events = [ToolCallStart("1", "Easy"), *deltas(arguments, size=size)]
    events += [toolcast.events.ToolCallDone("1", "Easy", arguments), Finish("tool_use")]
    assert api.stream(maker(events, output=Easy)).final == Easy()


@pytest.mark.parametrize("view", [None, "latest"])
def test_fail_fast_on_the_pooled_connection_asks_again(api: API, view: str | None) -> None:
    wrong = '{"title": "a long title", "artist": 5, "songs": '
    events = [START_1, *deltas(wrong, size=3)]
    llm = ScriptedLLM(events, SEA)
    make = ToolOrchestratingLLM(Album, "x", llm, max_attempts=2)
    items = api.stream(make).items if view is None else api.view(make, view)
    assert items[-1] == SEA
    # Whether the latest ones include the last before the error depends on the order in which trio runs its tasks.
    assert view == "latest" or "a long title" in [item.title for item in items]
    explanation = llm.requests[1].messages[-1]
    assert "artist" in repr(explanation)
    stopped = api.stream(maker([*events, *deltas("never read")]))
    assert isinstance(stopped.error, ValidationError)
    assert wrong.startswith(stopped.error.arguments)
    assert stopped.error.partial.title == "a long title"


def test_in_words_an_invalid_draft_is_no_reason_to_stop(api: API) -> None:
    """A thought may end behind it, and the answer follow."""
    text = '{"title": "Draft", "artist": 5}</think>' + SEA.model_dump_json()
    events = [*(toolcast.events.TextDelta(text[at : at + 3]) for at in range(0, len(text), 3)), Finish("end_turn")]
    assert api.stream(maker(events, mode="prompted")).final == SEA


def test_observers_hear_of_every_delta_and_others_see_the_same_states() -> None:
    observed_states: list[str] = []
    events = [START_1, *deltas(TEXT), DONE_1, Finish("tool_use")]
    make = maker(events, observer=lambda _, state: observed_states.append(state))
    observed_states.clear()  # of those of the object itself
    read_all(make)
    assert observed_states.count("processing_chunk") == len(events)
    assert walked(["ready", *observed_states])
    stream = maker(events).stream()
    assert {stream.state for item in stream if toolcast.is_partial(item)} == {"yielding_partial"}
    assert stream.state == "ready"


def test_the_answer_breaks_off_on_the_pooled_connection(api: API) -> None:
    seen = api.stream(maker([START_1, *deltas(TEXT)]))
    assert isinstance(seen.error, toolcast.errors.StreamTruncated)
    assert seen.error.partial.model_dump() == LONG.model_dump()
    assert seen.items[-1].title == LONG.title


@settings(max_examples=examples(100))
@given(st.data())
def test_any_events_in_any_order_are_the_same_on_the_pooled_connection(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 30))
    left = {"1": deltas(TEXT, "1", size), "2": deltas(SHORT_TEXT, "2", size)}
    between = [
        toolcast.events.UsageReport(Usage(1, 2)),
        toolcast.events.RawEvent({}),
        toolcast.events.RawEvent("x", damaged=True),
        TextDelta(" "),
    ]
    events: list[Any] = [START_1, START_2]
    turns = data.draw(st.lists(st.sampled_from(["1", "1", "1", "2", "other", "reset"]), max_size=40))
    for turn in turns:
        if turn in left:
            events += left[turn][:1]
            del left[turn][:1]
        elif turn == "other":
            events.append(data.draw(st.sampled_from(between)))
        else:
            events.append(ToolCallReset("1"))
            left["1"] = deltas(TEXT, "1", size)
    events += [*left["1"], *left["2"], DONE_1, DONE_2, Finish("tool_use")]
    options = {"allow_parallel_tool_calls": data.draw(st.booleans())}
    assert read_all(maker(events, **options)) == read_all(maker(events, **options, **OBSERVED))


def closed_elsewhere(stream: Any) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(stream.close).result(30)


class ClosingNetwork:
    """Closes the stream from another thread while a chunk is read; without `break_off`, `close` aborts the read."""

    def __init__(self) -> None:
        self.status, self.headers, self.closed = 200, {"content-type": "text/event-stream"}, 0
        self.stream: Any = None

    def open(self, request: Any, *, connect: Any = None, read: Any = None) -> Any:
        return self

    def read(self, limit: float | None = None, /) -> bytes:
        closed_elsewhere(self.stream)
        assert self.closed, "the read would wait for the service"
        raise toolcast.errors.StreamInterrupted("the connection was closed")

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("view", [None, "latest", "events", "items", "changes"])
@pytest.mark.parametrize("at", ["start", "growing", "invalid", "network"])
def test_a_stream_that_another_thread_closes_ends(view: str | None, at: str) -> None:
    closed: list[str] = []

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        try:
            if at == "start":
                closed_elsewhere(stream)
            yield ToolCallStart("1", "Album")
            yield ToolCallDelta("1", '{"title": "Sea')
            if at == "growing":
                closed_elsewhere(stream)
            rest = SEA.model_dump_json().removeprefix('{"title":"Sea') if at != "invalid" else '"}'
            yield ToolCallDelta("1", rest)
            yield ToolCallDone("1", "Album", '{"title": "Sea' + rest)
            if at == "invalid":
                closed_elsewhere(stream)
            yield Finish("tool_use")
        finally:
            closed.append("answer")

    network: Any = ClosingNetwork()
    llm = OpenAI("gpt-4o", api_key="k", network=network) if at == "network" else ScriptedLLM(answer, answer)
    stream = network.stream = ToolOrchestratingLLM(Album, "x", llm, max_attempts=2).stream()
    args = ("songs",) if view == "items" else ()
    list(stream if view is None else getattr(stream, view)(*args))
    assert stream.state == "closed"
    assert network.closed if at == "network" else closed == ["answer"]
    with pytest.raises(toolcast.errors.StreamClosed):
        stream.final()


@pytest.mark.parametrize("view", [None, "latest", "events", "final"])
def test_a_stream_that_another_thread_reads_is_busy(view: str | None) -> None:
    reading, go_on = Event(), Event()

    async def answer(request: ScriptedRequest) -> AsyncIterator[Any]:
        yield ToolCallStart("1", "Album")
        reading.set()
        assert go_on.wait(30)
        yield ToolCallDone("1", "Album", SEA.model_dump_json())
        yield Finish("tool_use")

    stream = ToolOrchestratingLLM(Album, "x", ScriptedLLM(answer)).stream()
    reads = iter(getattr(stream, view)()) if view not in (None, "final") else stream
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(stream.final if view == "final" else lambda: list(reads))
        assert reading.wait(30)
        with pytest.raises(StreamBusy, match="another thread is reading"):
            stream.final() if view == "final" else next(reads)
        with pytest.raises(StreamBusy, match="another thread is reading"):
            stream.final()
        go_on.set()
        first.result()
    assert stream.final() == SEA
