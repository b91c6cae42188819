"""The tool calls of chat-completions streams, in all the ways services write them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from toolcast.errors import LimitExceeded
from toolcast.events import Event, ToolCallDelta, ToolCallDone, ToolCallReset, ToolCallStart
from toolcast.providers.tool_calls import by_index
from toolcast.providers.tool_calls.by_index import MOST_CALLS, ToolCalls
from toolcast.text.text_buffer import JOIN_THRESHOLD
from toolcast.values.accumulator import Accumulator
from toolcast.values.tool_spec import ToolNames, ToolSpec

NAMES = ("f", "g", "get", "get_weather", "my tool")
TOOLS = [ToolSpec(name, "", {}) for name in NAMES]


def entry(index: Any = None, id: Any = None, name: Any = None, arguments: Any = None, **more: Any) -> dict[str, Any]:
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    keys = {k: v for k, v in (("index", index), ("id", id)) if v is not None}
    return {**keys, "function": function, **more}


def read(*deltas: Any, cut: bool = False) -> list[Event]:
    """The events of deltas, each a list of entries or one entry."""
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    for delta in deltas:
        calls.take(delta, out)
    assert calls.finish(out, cut=cut) == any(isinstance(event, ToolCallDone) for event in out)
    return out


def calls_of(out: list[Event]) -> list[tuple[str, str, str]]:
    """The finished calls, after a check that what was streamed of each is a whole story of its own."""
    folded = Accumulator()
    for event in out:
        folded.apply(event)
    assert len({call.id for call in folded.message().tool_calls}) == len(folded.message().tool_calls)
    return [(call.id, call.name, call.arguments) for call in folded.message().tool_calls]


def streamed(out: list[Event], id: str) -> str:
    """The arguments of the deltas and resets of one call."""
    text = ""
    for event in out:
        if isinstance(event, ToolCallReset) and event.id == id:
            text = ""
        if isinstance(event, ToolCallDelta) and event.id == id:
            text += event.arguments
    return text


A, B = '{"a":1}', '{"b":2}'
ONE = [("x", "f", A)]
DIALECTS = [
    pytest.param([entry(0, "x", "f", ""), entry(0, arguments='{"a"'), entry(0, arguments=":1}")], ONE, id="openai"),
    pytest.param([entry(0, "x", "f", A)], ONE, id="whole in one chunk"),
    pytest.param([[entry(0, "x", "f", A), entry(1, "y", "g", B)]], [*ONE, ("y", "g", B)], id="two in one chunk"),
    pytest.param(
        [entry(0, "x", "f", ""), entry(1, "y", "g", ""), entry(0, arguments='{"a"'), entry(1, arguments='{"b"'),
         entry(0, arguments=":1}"), entry(1, arguments=":2}")],
        [*ONE, ("y", "g", B)],
        id="interleaved",
    ),
    pytest.param(
        [[entry(0, "x", "f"), entry(0, arguments='{"a"'), entry(0, arguments=":1}")]], ONE, id="one index in one chunk"
    ),
    pytest.param([[entry(0, "x", "f", A)] * 2], ONE, id="a call twice in one chunk"),
    pytest.param([[entry(name="f", arguments=A)] * 2], [("call_1", "f", A), ("call_2", "f", A)],
                 id="no index, two equal calls in one chunk"),
    pytest.param([[entry(None, "x"), entry(None, "x", "f", A)]], ONE, id="no index, the id first, in one chunk"),
    pytest.param([[entry(None, "x", "f"), entry(arguments=A)]], ONE, id="no index, the name first, in one chunk"),
    pytest.param([[3, entry(None, "x", "f", A)]], ONE, id="no index, noise before it"),
    pytest.param([entry(2, "x", "f", A), entry(0, "y", "g", B)], [*ONE, ("y", "g", B)], id="indexes jump"),
    pytest.param([entry("0", "x", "f", ""), entry("0", arguments=A)], ONE, id="index is text"),
    pytest.param([entry(0, "x", "f", A), entry(0, "y", "g", B)], [*ONE, ("y", "g", B)], id="index always 0"),
    pytest.param([entry(0, "x", "f", A), entry(0, "y", "f", A)], [*ONE, ("y", "f", A)], id="index 0, same tool"),
    pytest.param([entry(0, "x", "f", ""), entry(0, arguments=A), entry(0, "y", "f", ""), entry(0, arguments=B)],
                 [*ONE, ("y", "f", B)], id="index 0, same tool, in pieces"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(0, "y", "f", ""), entry(0, arguments=":1}")], ONE,
                 id="id changes in a piece of nothing"),
    pytest.param([entry(0, "x", "f"), entry(0, "y", "f")], [("x", "f", "{}"), ("y", "f", "{}")], id="index 0, no args"),
    pytest.param([entry(0, name="f", arguments=A), entry(0, name="f", arguments=B)],
                 [("call_1", "f", A), ("call_2", "f", B)], id="index 0, no ids"),
    pytest.param([entry(None, "x", "f", A), entry(None, "y", "g", B)], [*ONE, ("y", "g", B)], id="no index"),
    pytest.param([entry(None, "x", "f"), entry(None, "x", arguments='{"a"'), entry(arguments=":1}")], ONE,
                 id="no index, by id and by last"),
    pytest.param([entry(name="f", arguments=A), entry(name="g", arguments=B)],
                 [("call_1", "f", A), ("call_2", "g", B)], id="no index, no id"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(0, "x", "f", ":1}")], ONE, id="id and name repeated"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(0, "", "", ":1}", type="function")], ONE, id="empty id and name"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(0, "y", "f", ":1}")], ONE, id="id changes"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(0, "y", None, ":1}")], ONE, id="id changes, no name"),
    pytest.param([entry(0, "x", "f", A), entry(1, "x", "g", B)], [*ONE, ("call_2", "g", B)], id="id used twice"),
    pytest.param([entry(0, "x", "f", '{"a"'), entry(7, "x", None, ":1}")], ONE, id="index changes"),
    pytest.param([entry(0, None, "f", ""), entry(0, "x", None, A)], [("call_1", "f", A)], id="id too late"),
    pytest.param([entry(0, "x"), entry(0, name="f"), entry(0, arguments=A)], ONE, id="id before the name"),
    pytest.param([entry(0, "x", None, '{"a"'), entry(0, None, "f", ":1}")], ONE, id="name after arguments"),
    pytest.param([entry(0, "x" * 300, "f", A)], [("x" * 300, "f", A)], id="long id"),
    pytest.param([entry(0, 7, "f", A)], [("7", "f", A)], id="id is a number"),
    pytest.param([entry(0, "x", "get_"), entry(0, name="weather"), entry(0, arguments=A)],
                 [("x", "get_weather", A)], id="name in pieces"),
    pytest.param([entry(0, "x", "get"), entry(0, name="_weather"), entry(0, arguments=A)],
                 [("x", "get_weather", A)], id="name in pieces, the first a tool"),
    pytest.param([entry(0, "x", "get"), entry(0, name="get_weather"), entry(0, arguments=A)],
                 [("x", "get_weather", A)], id="name grows"),
    pytest.param([entry(0, "x", "get"), entry(0, name="get"), entry(0, arguments=A)], [("x", "get", A)],
                 id="name repeated"),
    pytest.param([entry(0, "x", "my_tool_9d7f2e8b", A)], [("x", "my_tool_9d7f2e8b", A)], id="unknown name"),
    pytest.param([entry(0, "x", "functions.f", A)], ONE, id="namespace before the name"),
    pytest.param([entry(0, "x", "f<|channel|>commentary", A)], ONE, id="channel token in the name"),
    pytest.param([entry(0, "x", None, A)], [("x", "", A)], id="no name at all"),
    pytest.param([entry(0, "x", "f", {"a": 1})], ONE, id="arguments are an object"),
    pytest.param([entry(0, "x", "f", [1])], [("x", "f", "[1]")], id="arguments are a list"),
    pytest.param([{"index": 0, "id": "x", "name": "f", "arguments": A}], ONE, id="no function object"),
    pytest.param([{"index": 0, "id": "x", "type": "custom", "custom": {"name": "f", "input": "sql"}}],
                 [("x", "f", "sql")], id="custom tool"),
    pytest.param([{"index": 0, "id": "x", "custom": {"name": "f", "arguments": None, "input": "sql"}}],
                 [("x", "f", "sql")], id="custom tool with empty arguments"),
    pytest.param([entry(0, "x", "f")], [("x", "f", "{}")], id="no arguments"),
    pytest.param([entry(0, "x", "f", ""), entry(0, arguments="  ")], [("x", "f", "{}")], id="blank arguments"),
    pytest.param([entry(0, "x", "f", '{"a":')], [("x", "f", '{"a":')], id="cut arguments stay cut"),
    pytest.param([None, [], "noise", [None, 3], {}, {"function": "noise"}], [], id="noise"),
    # Snapshots and repetitions
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='{"a":'), entry(0, arguments=A)], ONE, id="snapshots"),
    pytest.param([entry(0, "x", "f", "{"), entry(0, arguments='{"'), entry(0, arguments='{"a":1'),
                  entry(0, arguments=A), entry(0, arguments=A)], ONE, id="snapshots, finely"),
    pytest.param([entry(0, "x", "f", A), entry(0, arguments=A)], ONE, id="whole text twice"),
    pytest.param([entry(0, "x", "f", A)] * 3, ONE, id="whole call three times"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='{"a": 1}'), entry(0, arguments=A)], ONE,
                 id="snapshots that change"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='":1}'), entry(0, arguments=A)], ONE,
                 id="resent at the end"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='":1}'), entry(0, arguments='{"a" '),
                  entry(0, arguments=":1}")], ONE, id="resent at the end in pieces, spaced"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='":1}'), entry(0, arguments=B)],
                 [("x", "f", A + B)], id="another object at the end is no repetition"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='":1}'), entry(0, arguments="{oops")],
                 [("x", "f", A + "{oops")], id="garbage at the end stays"),
    pytest.param([entry(0, "x", "f", '{"a'), entry(0, arguments='":1}}'), entry(0, arguments='{"a":1}')],
                 [("x", "f", A + "}" + A)], id="garbage in the middle stays"),
    pytest.param([entry(0, "x", "f", "{}"), entry(0, arguments='{"a":'), entry(0, arguments="1}")], ONE,
                 id="an empty object first"),
    pytest.param([entry(0, "x", "f", "{}"), entry(0, arguments="\n")], [("x", "f", "{}\n")], id="white space last"),
    pytest.param([entry(0, "x", "f", '{"a":'), entry(0, arguments='{"a":1}'), entry(0, arguments="}")],
                 [("x", "f", '{"a":{"a":1}}')], id="a legal fragment may repeat the text"),
    pytest.param([entry(0, "x", "f", '{"a":"}'), entry(0, arguments="{"), entry(0, arguments='"}')],
                 [("x", "f", '{"a":"}{"}')], id="brackets in a string"),
    pytest.param([entry(0, "x", "f", '"a'), entry(0, arguments='"a"')], [("x", "f", '"a"')],
                 id="two snapshots of text"),
    pytest.param([entry(0, "x", "f", "["), entry(0, arguments="[[")], [("x", "f", "[[[")], id="cut, and no snapshot"),
]  # fmt: skip


@pytest.mark.fault(80, 81, 82, 83, 84, 85, 86, 88, 91, 92, 93)
@pytest.mark.parametrize(("deltas", "expected"), DIALECTS)
def test_dialects(deltas: list[Any], expected: list[tuple[str, str, str]]) -> None:
    out = read(*deltas)
    assert calls_of(out) == expected
    for id, _, arguments in expected:
        if arguments != "{}" and not arguments.startswith((A + B, A + "{")):
            assert streamed(out, id) == arguments
    starts = [event.id for event in out if isinstance(event, ToolCallStart)]
    assert starts == [id for id, _, _ in expected]


def test_a_known_name_starts_the_call_at_once() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    calls.take([entry(0, "x", "f", "")], out)
    assert out == [ToolCallStart("x", "f")]
    calls.take([entry(0, arguments="{")], out)
    assert out[1:] == [ToolCallDelta("x", "{")]


def test_snapshots_reset_the_streamed_arguments() -> None:
    out = read(
        entry(0, "x", "f", "["), entry(0, arguments="[["), entry(0, arguments="[[1"), entry(0, arguments="[[1]]")
    )
    assert out == [
        ToolCallStart("x", "f"),
        ToolCallDelta("x", "["),
        ToolCallDelta("x", "[["),
        ToolCallDelta("x", "[[1"),
        ToolCallReset("x"),
        ToolCallDelta("x", "[[1]]"),
        ToolCallDone("x", "f", "[[1]]"),
    ]


def test_the_last_snapshot_counts_where_the_whole_stays_incomplete() -> None:
    out = read(entry(0, "x", "f", '{"a":'), entry(0, arguments='{"a":{}}'))
    assert out[-1] == ToolCallDone("x", "f", '{"a":{}}')


def test_names_come_back_as_the_tools_own() -> None:
    wire = ToolNames(TOOLS).sent["my tool"]
    assert calls_of(read(entry(0, "x", wire, A))) == [("x", "my tool", A)]


def test_generated_ids_go_on_through_the_conversation() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS), before=4), list[Event]()
    calls.take([entry(0, "call_5", "f", A), entry(1, None, "g", B)], out)
    calls.finish(out)
    assert [id for id, _, _ in calls_of(out)] == ["call_5", "call_6"]


@pytest.mark.fault(100)
def test_legacy_function_call() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    for piece in ({"name": "f", "arguments": ""}, {"arguments": '{"a"'}, {"arguments": ":1}"}):
        calls.take_legacy(piece, out)
    calls.finish(out)
    assert calls_of(out) == [("call_1", "f", A)]


@pytest.mark.parametrize(("arguments", "cut"), [('{"a":1}', False), ('{"a":1', True), ("", True), ('{"a":"x', True)])
def test_a_limit_marks_the_call_that_it_cut(arguments: str, cut: bool) -> None:
    done = read(entry(0, "x", "f", A), entry(1, "y", "g", arguments), cut=True)[-1]
    assert done == ToolCallDone("y", "g", arguments, truncated=cut)


USES = json.dumps({"tool_uses": [
    {"recipient_name": "functions.f", "parameters": {"a": 1}}, {"recipient_name": "g", "parameters": {}}
]})  # fmt: skip


@pytest.mark.parametrize("name", ["multi_tool_use.parallel", "parallel"])
def test_a_hallucinated_wrapper_is_taken_apart(name: str) -> None:
    out = read(entry(0, "x", name, USES[:10]), entry(0, arguments=USES[10:]))
    assert calls_of(out) == [("call_1", "f", '{"a": 1}'), ("call_2", "g", "{}")]


@pytest.mark.parametrize("arguments", ["{}", '{"tool_uses":[]}', '{"tool_uses":[1]}', "oops"])
def test_a_wrapper_without_calls_is_an_unknown_tool(arguments: str) -> None:
    assert calls_of(read(entry(0, "x", "parallel", arguments))) == [("x", "parallel", arguments)]


def test_opaque_data_is_returned_with_the_call() -> None:
    extra = {"google": {"thought_signature": "s"}}
    done = read(entry(0, "x", "f", A, extra_content=extra), entry(0, arguments=" "))[-1]
    assert done == ToolCallDone("x", "f", A + " ", opaque={"extra_content": extra})


@pytest.mark.fault(99)
def test_too_many_calls() -> None:
    with pytest.raises(LimitExceeded, match="1000"):
        read([entry(i, f"x{i}", "f", A) for i in range(MOST_CALLS + 1)])


JSON = st.dictionaries(
    st.text(max_size=3),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=6),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[a:b] for a, b in itertools.pairwise(edges)]


@given(value=JSON, cuts=st.lists(st.integers(0, 200), max_size=8), ascii=st.booleans())
def test_fragments_of_any_object_are_never_taken_for_snapshots(value: Any, cuts: list[int], ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii)
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in pieces_of(text, cuts)))
    assert calls_of(out) == [("x", "f", text)]
    assert streamed(out, "x") == text
    assert not any(isinstance(event, ToolCallReset) for event in out)


@pytest.mark.fault(92)
@given(value=JSON, cuts=st.lists(st.integers(1, 200), max_size=8))
def test_snapshots_of_any_object_come_to_the_object(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    ends = sorted({*(cut % len(text) for cut in cuts), len(text)} - {0})
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=text[:end]) for end in ends))
    assert calls_of(out) == [("x", "f", text)]


@given(value=JSON, cuts=st.lists(st.integers(0, 200), min_size=2, max_size=8))
def test_arguments_resent_at_the_end_count_once(value: Any, cuts: list[int]) -> None:
    text = json.dumps(value)
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*pieces_of(text, cuts), text]))
    assert [json.loads(arguments) for _, _, arguments in calls_of(out)] == [value]


ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "index": st.none() | st.integers(0, 2),
        "id": st.none() | st.sampled_from(["", "x", "y"]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.none() | st.sampled_from(["", "f", "g", "get", "_weather", "parallel"]),
                "arguments": st.none() | st.sampled_from(["", "{", "}", '"a"', ":", "1", "{}", A, "oops"]),
            },
        ),
    },
)


@pytest.mark.fault(84)
@given(deltas=st.lists(st.lists(ENTRY, max_size=3), max_size=12), cut=st.booleans())
def test_any_entries_give_whole_stories(deltas: list[Any], cut: bool) -> None:
    out = read(*deltas, cut=cut)
    open_: set[str] = set()
    for event in out:
        if isinstance(event, ToolCallStart):
            assert event.id
            open_.add(event.id)
        else:
            assert isinstance(event, (ToolCallDelta, ToolCallReset, ToolCallDone))
            assert event.id in open_
        if isinstance(event, ToolCallDone):
            open_.remove(event.id)
    assert not open_
    calls_of(out)


# -- calls of very many fragments, which are packed on the way ---------------------------------------------------------


LONG_TEXT = json.dumps({"words": [f"word {number}" for number in range(JOIN_THRESHOLD)]})
PIECES = [LONG_TEXT[start : start + 2] for start in range(0, len(LONG_TEXT), 2)]
assert len(PIECES) > 3 * JOIN_THRESHOLD


def test_many_fragments_are_packed_and_all_there() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    calls.take([entry(0, "x", "f", "")], out)
    for piece in PIECES:
        calls.take([entry(0, arguments=piece)], out)
    (call,) = calls._calls
    assert len(call.blocks) == len(PIECES) // JOIN_THRESHOLD
    assert len(call.pieces) < JOIN_THRESHOLD
    assert streamed(out, "x") == LONG_TEXT
    calls.finish(out)
    assert out[-1] == ToolCallDone("x", "f", LONG_TEXT)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_fragments_of_any_size_come_to_the_text(size: int) -> None:
    pieces = [LONG_TEXT[start : start + size] for start in range(0, len(LONG_TEXT), size)]
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in pieces))
    assert calls_of(out) == [("x", "f", LONG_TEXT)]
    assert [event.arguments for event in out if isinstance(event, ToolCallDelta)] == pieces


@pytest.mark.parametrize("again", [[LONG_TEXT], PIECES, [LONG_TEXT[:7], LONG_TEXT[7:]], ["{", LONG_TEXT[1:]]])
def test_arguments_resent_after_a_pack_count_once(again: list[str]) -> None:
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*PIECES, *again]))
    assert calls_of(out) == [("x", "f", LONG_TEXT)]
    assert streamed(out, "x") == LONG_TEXT


@pytest.mark.parametrize("again", [B, "{oops", "{", '{"words":'])
def test_another_object_after_a_pack_stays(again: str) -> None:
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*PIECES, *again]))
    assert calls_of(out) == [("x", "f", LONG_TEXT + again)]


@pytest.mark.parametrize(
    "before",
    [
        JOIN_THRESHOLD - 2,
        JOIN_THRESHOLD - 1,
        JOIN_THRESHOLD,
        JOIN_THRESHOLD + 1,
        2 * JOIN_THRESHOLD - 1,
        2 * JOIN_THRESHOLD,
    ],
)
def test_an_object_that_is_complete_at_a_pack(before: int) -> None:
    """The closing bracket is the newest fragment, which is left where it can be seen."""
    pieces = ['{"a": "', *["x"] * (before - 2), '"}']
    text = "".join(pieces)
    assert calls_of(read(*(entry(0, "x", "f", piece) for piece in [*pieces, text]))) == [("x", "f", text)]
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*pieces, *text]))
    assert calls_of(out) == [("x", "f", text)]
    assert streamed(out, "x") == text


def test_scanning_goes_on_across_a_pack() -> None:
    """Objects inside of a list begin with what a second object would begin with, so that each is looked at."""
    rows = [f'{{"n":{number}}}' for number in range(2 * JOIN_THRESHOLD)]
    pieces = ['{"rows":[', *(part for row in rows for part in (row, ",")), '{"n":', "0", "}", "]}"]
    text = "".join(pieces)
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*pieces, text]))
    assert calls_of(out) == [("x", "f", text)]
    assert streamed(out, "x") == text


def test_scanning_that_failed_before_a_pack_stays_failed() -> None:
    """Text that is no JSON is never followed by a second object."""
    pieces = ['{"a"', "}", "{", "}", *["x"] * (2 * JOIN_THRESHOLD), "}", A]
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in pieces))
    assert calls_of(out) == [("x", "f", "".join(pieces))]


@pytest.mark.parametrize("looks", [1, 2, 7])
def test_scanning_begun_before_a_pack_reads_each_fragment_once(looks: int) -> None:
    text = ['{"a": [', *["[{}", "],"] * looks, *["1,"] * (2 * JOIN_THRESHOLD), *["[{}", "],"] * looks, "0]}"]
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    for piece in text:
        calls.take([entry(0, "x", "f", piece)] if piece is text[0] else [entry(0, arguments=piece)], out)
    (call,) = calls._calls
    assert call.is_complete()
    assert call.is_complete()
    assert call.text() == "".join(text)


@pytest.mark.parametrize(("id", "name", "expected"), [("y", "g", B), ("y", "f", A)])
def test_a_new_call_at_the_same_index_after_a_pack(id: str, name: str, expected: str) -> None:
    out = read(entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in PIECES), entry(0, id, name, expected))
    assert calls_of(out) == [("x", "f", LONG_TEXT), (id, name, expected)]


def test_the_whole_call_again_after_a_pack_is_no_new_call() -> None:
    """Its arguments are compared with all that came, not with what is left unpacked."""
    out = read(
        entry(0, name="f", arguments=""), *(entry(0, arguments=piece) for piece in PIECES),
        entry(0, name="f", arguments=LONG_TEXT),
    )  # fmt: skip
    assert calls_of(out) == [("call_1", "f", LONG_TEXT)]


@given(value=JSON, cuts=st.lists(st.integers(0, 200), min_size=2, max_size=8), many=st.integers(2, 5))
def test_packing_early_makes_no_difference(value: Any, cuts: list[int], many: int) -> None:
    text = json.dumps(value)
    deltas = [entry(0, "x", "f", ""), *(entry(0, arguments=piece) for piece in [*pieces_of(text, cuts), text])]
    unpacked = read(*deltas)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(by_index, "JOIN_THRESHOLD", many)
        assert read(*deltas) == unpacked


# -- text that is known to go on ---------------------------------------------------------------------------------------


def test_add_is_for_fragments_that_are_certain() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    assert not calls.add("x")
    calls.take([entry(0, "x", "f", "")], out)
    assert not calls.add('{"a')
    calls.take([entry(0, arguments='{"a')], out)
    assert not calls.add('":')  # it may yet be a snapshot
    calls.take([entry(0, arguments='":')], out)
    assert calls.add("[")
    assert calls.add("{}")
    assert not calls.add("{")  # perhaps a second object after a complete one
    assert calls.add("]}")
    assert not calls.add('{"a":[{}]}')
    calls.take([entry(0, arguments='{"a":[{}]}')], out)  # again, from the beginning
    assert not calls.add("}")
    calls.finish(out)
    assert out[-1] == ToolCallDone("x", "f", '{"a":[{}]}')


def test_add_waits_for_the_name() -> None:
    calls, out = ToolCalls(ToolNames(TOOLS)), list[Event]()
    calls.take([entry(0, "x", None, '{"a'), entry(0, arguments='":')], out)
    assert not calls.add("1")
    calls.take([entry(0, "x", "f", "")], out)
    calls.take([entry(0, arguments="1")], out)
    assert calls.add("}")
    assert streamed(out, "x") == '{"a":1'
