"""What holds of any model, any answer and any cut: a stream ends as the whole call does.

Models and values are made up by Hypothesis. They go through `ScriptedLLM`, event by event, and as bytes of OpenAI's
dialect through `ReplayNetwork`, cut anywhere; the oracle is Pydantic's own `model_validate_json`.
"""

from __future__ import annotations

import datetime
import gc
import json
from collections.abc import Sequence
from itertools import count, pairwise
from typing import Annotated, Any, Literal, NamedTuple

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field, TypeAdapter, create_model

from support.albums import SEA, SHORT, Album, Apology, Song
from support.chunks import USAGE, delta, sse
from support.sync_and_async import API, APIS
from toolcast import (
    CallError,
    OpenAI,
    ToolCallPart,
    ToolcastError,
    ToolOrchestratingLLM,
    Usage,
    ValidationError,
    is_partial,
)
from toolcast.errors import OutputTruncated
from toolcast.events import (
    Finish,
    TextDelta,
    ToolCallDelta,
    ToolCallDone,
    ToolCallReset,
    ToolCallStart,
    UsageReport,
)
from toolcast.parsing.partial_value import MISSING
from toolcast.structured.stream_views import value_at_steps
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM

# -- models, and documents that fit them or not -------------------------------------------------------------------


class Shape(NamedTuple):
    """A type and the JSON data of its values."""

    type: Any
    data: st.SearchStrategy[Any]


class Made(NamedTuple):
    """A model and one document, as JSON text."""

    model: type[BaseModel]
    text: str

    @property
    def value(self) -> BaseModel:
        return self.model.model_validate_json(self.text)


_numbers = count()
_words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['a: "b"', "{x}", "\\u00e9", "[1,"]
)
_leaves = [
    Shape(str, _words),
    Shape(int, st.integers()),
    Shape(float, st.floats(allow_nan=False, allow_infinity=False)),
    Shape(bool, st.booleans()),
    Shape(str | None, _words | st.none()),
    Shape(Literal["a", "b"], st.sampled_from(["a", "b"])),
    Shape(datetime.date, st.dates().map(str)),
    Shape(int | str, st.integers() | _words),
    Shape(Annotated[str, Field(max_length=20)], _words),
    Shape(Song, st.fixed_dictionaries({"title": _words, "seconds": st.integers()})),
]


def _model(fields: list[tuple[Shape, bool]]) -> Shape:
    names = [f"f{number}" for number in range(len(fields))]
    given: dict[str, Any] = {
        name: (shape.type, ...) if required else (shape.type | None, None)
        for name, (shape, required) in zip(names, fields, strict=True)
    }
    model = create_model(f"Made{next(_numbers)}", **given)
    keys = {True: dict[str, Any](), False: dict[str, Any]()}
    for name, (shape, required) in zip(names, fields, strict=True):
        keys[required][name] = shape.data
    return Shape(model, st.fixed_dictionaries(keys[True], optional=keys[False]))


def _models(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=4).map(_model)


_shapes = st.recursive(
    st.sampled_from(_leaves),
    lambda inner: (
        _models(inner)
        | inner.map(lambda shape: Shape(list[shape.type], st.lists(shape.data, max_size=3)))
        | inner.map(lambda shape: Shape(dict[str, shape.type], st.dictionaries(_words, shape.data, max_size=2)))
    ),
    max_leaves=5,
)


@st.composite
def made(draw: st.DrawFn, damage: bool = False) -> Made:
    """A model with a document that fits, or one in which something may have been replaced or left out."""
    shape = draw(_models(_shapes))
    data = draw(shape.data)
    if damage:
        for _ in range(draw(st.integers(1, 3))):
            data = _damaged(draw, data)
    indent = draw(st.sampled_from([None, 1]))
    return Made(shape.type, json.dumps(data, ensure_ascii=draw(st.booleans()), indent=indent))


def _damaged(draw: st.DrawFn, data: Any) -> Any:
    """`data` with one place replaced by what does not belong there, or by its own JSON text, or left out."""
    if isinstance(data, dict) and data and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(data)))
        if draw(st.integers(0, 3)) == 0:
            return {name: part for name, part in data.items() if name != key}
        return {name: _damaged(draw, part) if name == key else part for name, part in data.items()}
    if isinstance(data, list) and data and draw(st.integers(0, 3)):
        place = draw(st.integers(0, len(data) - 1))
        return [_damaged(draw, part) if number == place else part for number, part in enumerate(data)]
    return draw(st.sampled_from([None, "x", 7, 1.5, True, [], {}, [None], {"a": 1}, json.dumps(data)]))


@st.composite
def cut(draw: st.DrawFn, whole: Any, most: int = 12) -> list[Any]:
    """`whole`, text or bytes, in pieces."""
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=most)))
    pieces = [whole[start:end] for start, end in pairwise([0, *cuts, len(whole)])]
    return [piece for piece in pieces if piece or isinstance(piece, str)]  # no bytes are the end of an answer


apis = st.sampled_from(APIS)

# -- what a consumer sees ---------------------------------------------------------------------------------------------


class Ending(NamedTuple):
    """Return the outcome of a call: a value, or an error and its description of the arguments."""

    value: Any
    error: type[BaseException] | None
    faults: tuple[Any, ...] = ()


def whole(make: Any, api: API = APIS[0]) -> Ending:
    """How the whole call ends."""
    try:
        return Ending(api.call(make), None)
    except ToolcastError as error:
        return _failed(error)


def streamed(make: Any, api: API = APIS[0]) -> tuple[Ending, list[Any]]:
    """How the same call ends as a stream, and its partials."""
    seen = api.stream(make)
    if seen.error is None:
        return Ending(seen.items[-1], None), seen.items[:-1]
    if not isinstance(seen.error, ToolcastError):
        raise seen.error
    return _failed(seen.error), seen.items


def _failed(error: ToolcastError) -> Ending:
    faults = error.errors() if isinstance(error, ValidationError) else ()
    shown = tuple((fault["loc"], fault["type"], fault["msg"], repr(fault["input"])) for fault in faults)
    return Ending(None, type(error), shown)


def look(value: Any) -> Any:
    """A snapshot as plain data: only what is there."""
    if isinstance(value, BaseModel):
        return {name: look(getattr(value, name)) for name in value.model_fields_set}
    if isinstance(value, dict):
        return {key: look(part) for key, part in value.items()}
    return [look(part) for part in value] if isinstance(value, list) else value


def grew(early: Any, late: Any) -> bool:
    """Whether `late` shows all that `early` did, and perhaps more."""
    if isinstance(early, dict) and isinstance(late, dict):
        return all(key in late and grew(part, late[key]) for key, part in early.items())
    if isinstance(early, list) and isinstance(late, list):
        return len(early) <= len(late) and all(map(grew, early, late))
    if isinstance(early, str) and isinstance(late, str):
        return late.startswith(early)
    return type(early) is type(late) and early == late


def script(made: Made, pieces: Sequence[str], **options: Any) -> Any:
    """An orchestrator whose LLM always makes the call in these pieces."""
    name = made.model.__name__
    events = [ToolCallStart("1", name), *(ToolCallDelta("1", piece) for piece in pieces)]
    end = [ToolCallDone("1", name, made.text), UsageReport(Usage(1, 1)), Finish("tool_use")]
    return ToolOrchestratingLLM(made.model, "x", ScriptedLLM(*[[*events, *end]] * 3), **options)


# -- event by event ---------------------------------------------------------------------------------------------------


@pytest.mark.gate("G4")
@given(st.data(), made(), apis)
def test_a_stream_ends_as_the_whole_call_and_only_grows(data: st.DataObject, made: Made, api: API) -> None:
    make = script(made, data.draw(cut(made.text)))
    seen = api.stream(make)
    final = seen.final
    assert final == api.call(make) == made.value
    assert type(final) is made.model
    assert not is_partial(final)
    partials = seen.items[:-1]
    assert all(isinstance(item, made.model) and is_partial(item) for item in partials)
    for early, late in pairwise([*map(look, partials), look(final)]):
        assert grew(early, late)


@given(made())
def test_no_item_changes_once_it_was_given(made: Made) -> None:
    items, shown = [], []
    for item in script(made, list(made.text)).stream():
        items.append(item)
        shown.append(repr(item))
    assert [repr(item) for item in items] == shown


@given(st.data(), made(damage=True), apis)
def test_errors_are_the_same_streamed_and_whole(data: st.DataObject, made: Made, api: API) -> None:
    make = script(made, data.draw(cut(made.text))).with_(fail_fast=False)
    ending, partials = streamed(make, api)
    assert ending == whole(make, api)
    assert all(isinstance(item, made.model) for item in partials)


@given(st.data(), made(damage=True))
def test_failing_fast_never_refuses_what_is_accepted(data: st.DataObject, made: Made) -> None:
    make = script(made, data.draw(cut(made.text)))
    ending, _ = streamed(make)
    expected = whole(make)
    assert (ending.error, ending.value) == (expected.error, expected.value)
    assert {(loc, kind) for loc, kind, *_ in ending.faults} <= {(loc, kind) for loc, kind, *_ in expected.faults}


@given(st.data(), made())
def test_arguments_cut_by_max_tokens(data: st.DataObject, made: Made) -> None:
    text = made.text[: data.draw(st.integers(0, len(made.text)))]
    answer = ToolCallPart("1", made.model.__name__, text, truncated=True)
    make = ToolOrchestratingLLM(made.model, "x", ScriptedLLM(answer, answer, chunk=3))
    ending, partials = streamed(make)
    assert ending == whole(make)
    assert ending.error in (None, OutputTruncated)
    if ending.error is not None:
        assert all(grew(look(item), look(made.value)) for item in partials)


@given(st.data(), made())
def test_an_object_in_words_is_the_object(data: st.DataObject, made: Made) -> None:
    words = [*map(TextDelta, data.draw(cut(made.text))), Finish("end_turn")]
    make = ToolOrchestratingLLM(made.model, "x", ScriptedLLM(words, words))
    ending, partials = streamed(make)
    assert ending == whole(make) == Ending(made.value, None)
    assert all(isinstance(item, made.model) for item in partials)


_ids = st.sampled_from(["1", "2", "3"])
_names = st.sampled_from(["Album", "Song", "Apology", "Unknown"])
_texts = st.sampled_from(
    [
        SEA.model_dump_json(),
        SHORT.model_dump_json(),
        '{"reason": "n',
        'o"}',
        '{"title": "a", "seconds": 1}',
        "{",
        "",
        "x",
    ]
)
_events = st.one_of(
    st.builds(ToolCallStart, _ids, _names),
    st.builds(ToolCallDelta, _ids, _texts),
    st.builds(ToolCallReset, _ids),
    st.builds(ToolCallDone, _ids, _names, _texts, st.booleans()),
    st.builds(TextDelta, _texts),
    st.just(UsageReport(Usage(3, 4))),
)


def _begun(events: list[Any]) -> list[Any]:
    """The events without those of calls that have not begun."""
    known: set[str] = set()
    kept: list[Any] = []
    for event in events:
        if isinstance(event, (ToolCallStart, ToolCallDone)):
            known.add(event.id)
        if not isinstance(event, (ToolCallDelta, ToolCallReset)) or event.id in known:
            kept.append(event)
    return kept


_stops: Any = st.sampled_from(["tool_use", "end_turn", "max_tokens", "refusal", "other"])


@given(st.lists(_events, max_size=8), _stops, st.booleans(), st.sampled_from([Album, Album | Apology, Album | Song]))
def test_events_in_any_order_end_alike(events: list[Any], stop: Any, parallel: bool, output: Any) -> None:
    answer = [*_begun(events), Finish(stop)]
    make = ToolOrchestratingLLM(output, "x", ScriptedLLM(answer, answer), allow_parallel_tool_calls=parallel)
    make = make.with_(fail_fast=False)
    assert streamed(make)[0] == whole(make)


# -- views ------------------------------------------------------------------------------------------------------


def _places(value: Any, steps: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every place in plain data, and what stands there."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(steps, value), *(place for key, part in inside for place in _places(part, (*steps, str(key))))]


@given(st.data(), made(), apis)
def test_views_add_up_to_the_result(data: st.DataObject, made: Made, api: API) -> None:
    make = script(made, data.draw(cut(made.text)))
    final = made.value
    for steps, _ in _places(json.loads(made.text)):
        found = value_at_steps(final, steps)
        if isinstance(found, str):
            assert "".join(api.view(make, "text", steps)) == found
            break
    make = script(made, data.draw(cut(made.text)))
    for steps, _ in _places(json.loads(made.text)):
        found = value_at_steps(final, steps)
        if isinstance(found, list):
            assert api.view(make, "items", steps) == found
            break


@given(st.data(), made())
def test_after_the_end_every_place_is_done(data: st.DataObject, made: Made) -> None:
    stream = script(made, data.draw(cut(made.text))).stream()
    final = stream.final()
    for steps, _ in _places(json.loads(made.text)):
        assert stream.field_state(steps) == ("pending" if value_at_steps(final, steps) is MISSING else "done")
    assert stream.changed == ()


# -- as bytes ---------------------------------------------------------------------------------------------------


def _chunks(arguments: Sequence[str], name: str, index: int = 0) -> list[dict[str, Any]]:
    function = {"name": name, "arguments": ""}
    start = delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}])
    pieces = [delta(tool_calls=[{"index": index, "function": {"arguments": piece}}]) for piece in arguments]
    return [start, *pieces]


def _body(made: Made) -> bytes:
    function = {"name": made.model.__name__, "arguments": made.text}
    message = {"role": "assistant", "tool_calls": [{"id": "c0", "type": "function", "function": function}]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    return json.dumps({**USAGE, "choices": choices}).encode()


def _wired(output: Any, *answers: Recorded, **options: Any) -> tuple[Any, ReplayNetwork]:
    network = ReplayNetwork(*answers)
    llm = OpenAI("m-1", api="chat", api_key="k", network=network, max_retries=0)
    return ToolOrchestratingLLM(output, "x", llm, **options), network


@pytest.mark.fault(1, 42)
@given(st.data(), made(), apis)
def test_bytes_cut_anywhere(data: st.DataObject, made: Made, api: API) -> None:
    name = made.model.__name__
    raw = b"".join(sse(*_chunks(data.draw(cut(made.text)), name), delta("tool_calls"), USAGE))
    answers = Recorded(data.draw(cut(raw))), Recorded(data.draw(cut(_body(made))), headers={})
    make, network = _wired(made.model, *answers)
    seen = api.stream(make)
    result = api.run(make)
    assert seen.final == result.output == made.value
    assert type(seen.final) is made.model
    assert result.usage == Usage(7, 3)
    assert network.open_replies == 0


@given(st.data(), st.lists(st.sampled_from([SEA, SHORT]), min_size=1, max_size=3))
def test_calls_that_are_written_side_by_side(data: st.DataObject, albums: list[Album]) -> None:
    """The pieces of several calls, in any order that keeps each call's own."""
    waiting = [_chunks(data.draw(cut(album.model_dump_json())), "Album", at) for at, album in enumerate(albums)]
    sent = [chunks.pop(0) for chunks in waiting]  # calls begin in order
    turns = [number for number, chunks in enumerate(waiting) for _ in chunks]
    sent += [waiting[number].pop(0) for number in data.draw(st.permutations(turns))]
    raw = b"".join(sse(*sent, delta("tool_calls"), USAGE))
    make, network = _wired(Album, Recorded(data.draw(cut(raw))), allow_parallel_tool_calls=True)
    items = list(make.stream())
    assert items[-1] == albums
    assert all(grew(look(item), look(albums)) or len(albums) > 1 for item in items)
    assert network.open_replies == 0


@pytest.mark.fault(8, 9)
@given(st.data(), apis)
def test_a_connection_that_ends_anywhere(data: st.DataObject, api: API) -> None:
    raw = b"".join(sse(*_chunks(list(SEA.model_dump_json()), "Album"), delta("tool_calls"), USAGE))
    end = data.draw(st.integers(0, len(raw)))
    make, network = _wired(Album, Recorded(data.draw(cut(raw[:end]))))
    ending, partials = streamed(make, api)
    assert ending.value == SEA or (ending.error is not None and issubclass(ending.error, CallError))
    assert all(grew(look(item), look(SEA)) for item in partials)
    assert network.open_replies == 0


@pytest.mark.gate("G1")
@given(st.data(), st.binary(min_size=1, max_size=6), apis)
def test_bytes_overwritten_anywhere(data: st.DataObject, noise: bytes, api: API) -> None:
    """Whatever a server sends: a validated result, or one exception of the library; and every connection back."""
    raw = b"".join(sse(*_chunks(data.draw(cut(SEA.model_dump_json())), "Album"), delta("tool_calls"), USAGE))
    at = data.draw(st.integers(0, len(raw)))
    damaged = raw[:at] + noise + raw[at + data.draw(st.integers(0, 9)) :]
    answer = Recorded(data.draw(cut(damaged)))
    make, network = _wired(Album, answer, answer)
    ending, _ = streamed(make, api)
    assert ending.error is not None or type(ending.value) is Album
    assert ending.error is None or issubclass(ending.error, CallError)
    del make
    gc.collect(0)
    assert network.open_replies == 0


@given(st.sampled_from([Song, list[Song], dict[str, int], int, str | None]), st.data())
def test_any_text_in_place_of_arguments_ends_alike(type_form: Any, data: st.DataObject) -> None:
    """Arguments that are not even JSON, of types that are wrapped or not."""
    alphabet = st.sampled_from([*'{}[]",:\\ue1 -.tfn', '"value":', '{"value":', '"title":"a"', '"seconds":1', "null"])
    text = "".join(data.draw(st.lists(alphabet, max_size=12)))
    make = ToolOrchestratingLLM(type_form, "x", ScriptedLLM())
    name = next(iter(make.preview().tools))
    answer = ToolCallPart("1", name, text)
    make = make.with_(llm=ScriptedLLM(answer, answer, chunk=2), fail_fast=False)
    ending, _ = streamed(make)
    assert ending == whole(make)
    if ending.error is None:
        TypeAdapter(type_form).validate_python(ending.value)
    else:
        assert ending.error is ValidationError
