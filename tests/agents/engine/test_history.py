"""agents/engine/history.py: problems of a history, fixing them, ids of calls, and which messages are dropped first."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from support.histories import broken, sound
from support.turns import PROTOCOLS
from toolcast import Settings
from toolcast.agents.engine.history import (
    estimate_tokens,
    find_problems,
    repair,
    surplus,
    trim,
    unanswered_calls,
)
from toolcast.messages import (
    AudioPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GENERIC
from toolcast.providers.content_parts import CallIds

WORDS = "It was not run."
HELLO = user("Hello.")


def call(id: str = "c1", arguments: str = "{}") -> ToolCallPart:
    return ToolCallPart(id, "look", arguments)


def answer(id: str = "c1", content: str = "42") -> Message:
    return tool_result(call(id), content)


def not_run(id: str = "c1") -> Message:
    return tool_result(call(id), WORDS, is_error=True)


# -- repairs: before, after, the problem

REPAIRS: dict[str, tuple[list[Message], list[Message], str]] = {
    "no result": ([HELLO, assistant(call())], [HELLO, assistant(call()), not_run()], "are followed by"),
    "one of two results": (
        [assistant(call("a"), call("b")), answer("b")],
        [assistant(call("a"), call("b")), not_run("a"), answer("b")],
        "are followed by",
    ),
    "results in another order": (
        [assistant(call("a"), call("b")), answer("b", "B"), answer("a", "A")],
        [assistant(call("a"), call("b")), answer("a", "A"), answer("b", "B")],
        "are followed by",
    ),
    "a second result": (
        [assistant(call()), answer(content="first"), answer(content="second")],
        [assistant(call()), answer(content="first")],
        "are followed by",
    ),
    "a result without a call": ([HELLO, answer(), assistant("Hi.")], [HELLO, assistant("Hi.")], "at once"),
    "a result before its call": ([answer(), assistant(call())], [assistant(call()), not_run()], "are followed by"),
    "a result that comes late": (
        [assistant(call()), HELLO, answer()],
        [assistant(call()), answer(), HELLO],
        "at once",
    ),
    "a result that comes too late": (
        [assistant(call()), HELLO, assistant("Hi."), answer()],
        [assistant(call()), not_run(), HELLO, assistant("Hi.")],
        "are followed by",
    ),
    "a result given by the user": (
        [assistant(call()), user(ToolResultPart("c1", "42", "look"), "And now?")],
        [assistant(call()), answer(), user("And now?")],
        "at once",
    ),
    "calls in two answers": (
        [assistant(call("a")), assistant(call("b")), answer("a"), answer("b")],
        [assistant(call("a")), answer("a"), assistant(call("b")), answer("b")],
        "the model went on",
    ),
    "more than results in a message of tools": (
        [assistant(call()), Message("tool", (ToolResultPart("c1", "42", "look"), TextPart("Well.")))],
        [assistant(call()), answer()],
        "TextPart",
    ),
    "one id for calls in two rounds": (
        [assistant(call()), answer(content="1"), assistant(call()), answer(content="2")],
        [assistant(call()), answer(content="1"), assistant(call("c1-2")), answer("c1-2", "2")],
        "another call's",
    ),
    "one id for two calls of an answer": (
        [assistant(call(), call()), answer(content="1"), answer(content="2")],
        [assistant(call(), call("c1-2")), answer(content="1"), answer("c1-2", "2")],
        "another call's",
    ),
    "a new id that is taken further down": (
        [assistant(call(), call()), answer(), answer(), assistant(call("c1-2")), answer("c1-2")],
        [assistant(call(), call("c1-3")), answer(), answer("c1-3"), assistant(call("c1-2")), answer("c1-2")],
        "another call's",
    ),
    "no id": ([assistant(call("")), answer("")], [assistant(call("call")), answer("call")], "an id is empty"),
    "arguments that were cut off": (
        [assistant(call(arguments='{"a": "cu')), answer()],
        [assistant(call(arguments=json.dumps({"malformed": '{"a": "cu'}))), answer()],
        "are no object",
    ),
    "arguments that are none": ([assistant(call(arguments=" ")), answer()], [assistant(call()), answer()], "no object"),
    "an empty message": ([HELLO, Message("assistant"), user(" ")], [HELLO], "is empty"),
    "an answer of nothing but thoughts": ([HELLO, assistant(ThinkingPart("Hm.", "signed"))], [HELLO], "is empty"),
}


@pytest.mark.fault(131)
@pytest.mark.parametrize("before, after, wrong", REPAIRS.values(), ids=REPAIRS)
def test_what_is_repaired(before: list[Message], after: list[Message], wrong: str) -> None:
    assert any(wrong in fault for fault in find_problems(before)), find_problems(before)
    assert repair(before, WORDS) == tuple(after)


def test_what_is_sound_stays_as_it_is() -> None:
    begun = [system("Be brief."), HELLO, assistant("Let me look.", call("a"), call("b"))]
    joined = Message("tool", (ToolResultPart("a", "A"), ToolResultPart("b", "B")))
    broken_off = assistant(call("c"))
    repaired = repair([*begun, joined, assistant("So."), HELLO, broken_off], WORDS)
    assert all(one is other for one, other in zip(repaired, [*begun, joined], strict=False))
    assert repaired[-1] == not_run("c")


def test_a_mistake_of_the_program_is_left_to_be_refused() -> None:
    wrong = [user(call("a")), assistant(ToolResultPart("a", "A"))]
    assert repair(wrong, WORDS) == tuple(wrong)


@given(broken)
def test_what_is_repaired_is_sound_and_stays_so(history: tuple[Message, ...]) -> None:
    repaired = repair(history, WORDS)
    assert find_problems(repaired) == []
    assert unanswered_calls(repaired) == ()
    again = repair(repaired, "other words")
    assert len(again) == len(repaired)
    assert all(one is other for one, other in zip(again, repaired, strict=True))


@given(broken)
def test_nothing_is_repaired_where_nothing_is_wrong(history: tuple[Message, ...]) -> None:
    repaired = repair(history, WORDS)
    same = len(repaired) == len(history) and all(one is other for one, other in zip(repaired, history, strict=True))
    assert same == (find_problems(history) == [])


@given(broken)
def test_all_that_was_sent_and_all_that_was_called_is_still_there(history: tuple[Message, ...]) -> None:
    repaired = repair(history, WORDS)
    assert "".join(message.text.strip() for message in repaired if message.role != "tool") == "".join(
        message.text.strip() for message in history if message.role != "tool"
    )
    made = [call.name for message in history for call in message.tool_calls]
    assert [call.name for message in repaired for call in message.tool_calls] == made


WIRES = {name: protocol.wire() for name, protocol in PROTOCOLS.items()}


def sent(name: str, history: tuple[Message, ...]) -> dict[str, Any]:
    request = WIRES[name].request(RequestInput("m-1", (HELLO, *history)), Settings())
    body: dict[str, Any] = json.loads(request.body)
    return body


@pytest.mark.parametrize("name", WIRES)
@given(history=broken)
def test_every_wire_takes_what_is_repaired(name: str, history: tuple[Message, ...]) -> None:
    text: Any = sent(name, repair(history, WORDS))
    assert CHECKS[name](text) == []


def chat_faults(body: dict[str, Any]) -> list[str]:
    """After the reference of chat completions: an assistant message with calls, then one tool message for each."""
    found: list[str] = []
    open_calls: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                found.append("a result without its call")
            continue
        if open_calls:
            found.append(f"{message['role']} before all results")
        open_calls = [call["id"] for call in message.get("tool_calls") or ()]
        if not (message.get("content") or message.get("images") or open_calls):
            found.append(f"an empty {message['role']}")
    return found + [f"unanswered: {open_calls}"] * bool(open_calls)


def responses_faults(body: dict[str, Any]) -> list[str]:
    """After the reference of the Responses API: each `function_call` has one output."""
    items: list[dict[str, Any]] = body["input"]
    made = [item["call_id"] for item in items if item.get("type") == "function_call"]
    given = [item["call_id"] for item in items if item.get("type") == "function_call_output"]
    return [] if made == given and len(set(made)) == len(made) else [f"{made} are answered by {given}"]


def anthropic_faults(body: dict[str, Any]) -> list[str]:
    """After the reference of Messages: roles take turns, and the user's turn begins with the results of all calls."""
    found: list[str] = []
    wanted: list[str] = []
    role = "assistant"
    for turn in body["messages"]:
        found += ["the same role twice"] * (turn["role"] == role)
        role = turn["role"]
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        if results != wanted or any(block["type"] != "tool_result" for block in turn["content"][: len(results)]):
            found.append(f"{wanted} are answered by {results}")
        wanted = [block["id"] for block in turn["content"] if block["type"] == "tool_use"]
    return found + [f"unanswered: {wanted}"] * bool(wanted)


def google_faults(body: dict[str, Any]) -> list[str]:
    """After the reference of Gemini: as many responses as calls, in their order, in the turn that follows."""
    found: list[str] = []
    wanted: list[str] = []
    for turn in body["contents"]:
        given = [part["functionResponse"]["name"] for part in turn["parts"] if "functionResponse" in part]
        found += [f"{wanted} are answered by {given}"] * (given != wanted)
        wanted = [part["functionCall"]["name"] for part in turn["parts"] if "functionCall" in part]
    return found + [f"unanswered: {wanted}"] * bool(wanted)


def bedrock_faults(body: dict[str, Any]) -> list[str]:
    """After the reference of Converse: as `anthropic_faults`, with blocks of another form."""
    found: list[str] = []
    wanted: list[str] = []
    role = "assistant"
    for turn in body["messages"]:
        found += ["the same role twice"] * (turn["role"] == role)
        role = turn["role"]
        results = [block["toolResult"]["toolUseId"] for block in turn["content"] if "toolResult" in block]
        if results != wanted or any("toolResult" not in block for block in turn["content"][: len(results)]):
            found.append(f"{wanted} are answered by {results}")
        wanted = [block["toolUse"]["toolUseId"] for block in turn["content"] if "toolUse" in block]
    if any("tool" in key for turn in body["messages"] for block in turn["content"] for key in block):
        found += ["calls without a tool configuration"] * ("toolConfig" not in body)
    return found + [f"unanswered: {wanted}"] * bool(wanted)


CHECKS = {
    "bedrock": bedrock_faults,
    "chat": chat_faults,
    "responses": responses_faults,
    "anthropic": anthropic_faults,
    "anthropic-vertex": anthropic_faults,
    "cohere": chat_faults,
    "google": google_faults,
    "mistral": chat_faults,
    "ollama": chat_faults,
}


def test_the_checks_see_what_is_wrong() -> None:
    for name, check in CHECKS.items():
        for wrong in ("no result", "one of two results"):
            assert check(sent(name, tuple(REPAIRS[wrong][0]))), name


def test_arguments_go_as_they_were_repaired() -> None:
    history = repair([HELLO, assistant(call(arguments="{"))], WORDS)
    request = OpenAIChatAdapter(GENERIC).request(RequestInput("m-1", history), Settings())
    assert json.loads(request.body)["messages"][1]["tool_calls"][0]["function"]["arguments"] == '{"malformed": "{"}'


# -- calls without a result


@pytest.mark.parametrize(
    "history, ids",
    [
        ([], []),
        ([answer("a")], []),
        ([HELLO, assistant("Hi.")], []),
        ([assistant(call("a"), call("b"))], ["a", "b"]),
        ([assistant(call("a"), call("b")), answer("b")], ["a"]),
        ([assistant(call("a"), call("a")), answer("a")], ["a"]),
        ([assistant(call("a")), answer("b")], ["a"]),
        ([assistant(call("a")), HELLO], []),  # it was gone on without: `repaired` answers it
        ([assistant(call("a")), HELLO, assistant(call("b"))], ["b"]),
    ],
)
def test_calls_that_a_history_ends_in(history: list[Message], ids: list[str]) -> None:
    assert [call.id for call in unanswered_calls(history)] == ids


@given(sound())
def test_a_sound_history_has_no_faults_and_no_open_calls(history: tuple[Message, ...]) -> None:
    assert find_problems(history) == []
    assert unanswered_calls(history) == ()
    cut = max((at for at, message in enumerate(history) if message.tool_calls), default=0)
    assert unanswered_calls(history[: cut + 1]) == (history[cut].tool_calls if history else ())


# -- ids


def test_ids_that_are_taken_get_a_number() -> None:
    ids = CallIds([assistant(call("call_1"), call("call_1-3")), answer("other")])
    made = [ids.unique(id) for id in ("call_1", "call_1", "call_1-2", "other", "other", "", "")]
    assert made == ["call_1-2", "call_1-4", "call_1-2-2", "other", "other-2", "call", "call-2"]


@given(broken, st.lists(st.sampled_from(["", "call_1", "call_1-2", "call_2", "c", "c-2-2"])))
def test_no_id_is_given_twice(history: tuple[Message, ...], asked: list[str]) -> None:
    before = {call.id for message in history for call in message.tool_calls}
    ids = CallIds(history)
    made = [ids.unique(id) for id in asked]
    assert len(set(made)) == len(made)
    assert before.isdisjoint(made)
    assert all(new.startswith(id) for id, new in zip(asked, made, strict=True))


# -- how long it is, and what goes first


@pytest.mark.parametrize(
    "message, tokens",
    [
        (user(), 4),
        (user("a"), 5),
        (user("abcd", "e"), 6),
        (assistant(ThinkingPart("abcdefgh"), ToolCallPart("c1", "look", '{"a": 1}')), 10),
        (Message("tool", (ToolResultPart("c1", "abcd", images=(ImagePart(url="u"),)),)), 1006),
        (user(AudioPart(url="u"), "abcd"), 2006),
    ],
)
def test_tokens_are_estimated(message: Message, tokens: int) -> None:
    assert estimate_tokens([message]) == tokens


@given(broken, broken)
def test_what_is_new_is_all_that_has_to_be_counted(old: tuple[Message, ...], new: tuple[Message, ...]) -> None:
    assert estimate_tokens(old + new) == estimate_tokens(old) + estimate_tokens(new)


LONG = "word" * 88 + "end"  # 100 tokens with those around it


def test_the_oldest_rounds_go_first() -> None:
    text = system(LONG)
    history = [text, user(LONG), assistant(LONG), user(LONG), assistant(LONG), user(LONG)]
    assert trim(history, 600) == tuple(history)
    assert trim(history, 599) == (text, *history[3:])
    assert trim(history, 399) == (text, history[5])
    assert trim(history, 1) == (text, history[5])


def test_calls_go_before_what_was_sent_of_them() -> None:
    round = [user(LONG), assistant(call("a"), call("b")), answer("a", LONG), answer("b", LONG), assistant(LONG)]
    history = [*round, user(LONG)]
    assert trim(history, 450) == (round[0], round[4], history[5])
    assert trim(history, 250) == (history[5],)


def test_within_one_long_round_the_oldest_calls_go() -> None:
    asked = user(LONG)
    calls = [(assistant(call(f"c{n}")), answer(f"c{n}", LONG)) for n in range(4)]
    history = [asked, *(message for pair in calls for message in pair)]
    assert trim(history, 350) == (asked, *calls[2], *calls[3])
    assert trim(history, 0) == (asked, *calls[3])
    assert trim([*history, assistant(LONG)], 0) == (asked, assistant(LONG))


def test_a_history_that_no_one_began() -> None:
    answered = [assistant(call()), answer(), assistant(call("c2")), answer("c2")]
    assert trim(answered, 0) == tuple(answered[2:])
    assert trim([answer()], 0) == (answer(),)
    assert trim([], 0) == ()


@pytest.mark.fault(131)
@given(sound(), st.integers(0, 3000))
def test_what_is_left_is_sound(history: tuple[Message, ...], tokens: int) -> None:
    kept = trim(history, tokens)
    assert find_problems(kept) == []
    assert bool(kept) == bool(history)
    assert [message for message in kept if message.role == "system"] == [
        message for message in history if message.role == "system"
    ]
    spoken = [message.role for message in kept if message.role != "system"]
    assert spoken[:1] in ([], ["user"])
    if history:
        assert kept[-1] is history[-1]


@given(sound(), st.integers(0, 3000), st.integers(0, 300))
def test_more_room_keeps_more_and_no_more_goes_than_must(history: tuple[Message, ...], tokens: int, more: int) -> None:
    gone = surplus(history, tokens)
    assert surplus(history, tokens + more) <= gone
    kept = trim(history, tokens)
    if estimate_tokens(kept) > tokens:
        assert surplus(kept, 0) == set()


@given(broken, st.integers(0, 100))
def test_nothing_is_trimmed_that_fits(history: tuple[Message, ...], spare: int) -> None:
    assert trim(history, estimate_tokens(history) + spare) == history
