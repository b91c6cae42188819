"""session_log.py: what is written for a step, that it leads there, and that nothing read is trusted."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from toolcast import (
    Message,
    PermissionRequest,
    ToolCallPart,
    ToolcastError,
    Usage,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.agents.engine.instructions import SentInstructions
from toolcast.agents.engine.session_state import VERSION, Record, SessionState, difference, fold, opened_record
from toolcast.llms.request import StoredResponse
from toolcast.messages import CachePoint, ImagePart
from toolcast.stores.jsonl_store import JSONLStore
from toolcast.stores.memory_store import MemoryStore
from toolcast.stores.sqlite_store import SQLiteStore
from toolcast.stores.store import Store

BEGUN = SessionState("s", 5.0)
OPENED = opened_record("s", 5.0)
CALL = assistant(ToolCallPart("c1", "add", "{}"), ToolCallPart("c2", "add", "{}"))


def kinds(records: Iterable[Record]) -> list[str]:
    return [record["kind"] for record in records]


# -- what is written ----------------------------------------------------------------------------------------------


def test_a_log_that_was_only_opened() -> None:
    assert OPENED == {"kind": "opened", "version": [1, 0], "id": "s", "time": 5.0}
    assert fold([OPENED]) == BEGUN


def test_nothing_new_is_nothing() -> None:
    state = replace(BEGUN, history=(user("a"), CALL), started=frozenset({"c1"}), turns=1)
    assert difference(state, state) == []
    assert difference(state, replace(state, history=(*state.history,))) == []


def test_a_step_writes_what_is_new_and_no_more() -> None:
    before = replace(BEGUN, history=(user("a"),), turns=1)
    asked = replace(before, history=(*before.history, CALL), started=frozenset({"c1"}), usage=Usage(3, 4))
    assert difference(before, asked) == [
        {"kind": "message", "message": CALL.to_dict()},
        {"kind": "started", "call_id": "c1"},
        {"kind": "usage", "usage": {"input_tokens": 3, "output_tokens": 4}
         | {"cache_read_tokens": 0, "cache_creation_tokens": 0}, "spent": {}},
    ]  # fmt: skip
    rule = {"tool": "add", "action": "allow"}
    after = replace(asked, remembered=(rule,), end="end_turn")
    assert difference(asked, after) == [
        {"kind": "remembered", "rule": rule},
        {"kind": "turn", "turns": 1, "end": "end_turn"},
    ]


def test_a_result_answers_its_call() -> None:
    before = replace(BEGUN, history=(CALL,), started=frozenset({"c1", "c2"}))
    answered = replace(before, history=(CALL, tool_result("c1", "3", name="add")), started=frozenset({"c2"}))
    records = [OPENED, *difference(BEGUN, before), *difference(before, answered)]
    assert kinds(records) == ["opened", "message", "started", "started", "message"]
    assert fold(records).started == {"c2"}


def test_instructions_are_written_when_they_change() -> None:
    first = SentInstructions.of((system("Be brief."), system(CachePoint())))
    before = replace(BEGUN, turns=1, instructions=first)
    later = replace(before, turns=2, end="end_turn")
    changed = replace(later, instructions=replace(first, current=("Be kind.",)))
    states = [BEGUN, before, later, changed, replace(changed, instructions=None)]
    written = [record for pair in pairwise(states) for record in difference(*pair)]
    assert ["instructions" in record for record in written] == [True, False, True, True]
    assert [fold([OPENED, *written[:end]]) for end in range(5)] == states


@pytest.mark.parametrize(
    "after",
    [
        {"history": (user("b"), user("b"))},
        {"history": ()},
        {"started": frozenset[str]()},
        {"remembered": ()},
        {"remembered": ({"tool": "b"},)},
    ],
)
def test_what_was_taken_away_is_a_whole_new_state(after: dict[str, Any]) -> None:
    before = replace(
        BEGUN, history=(user("a"), user("b")), started=frozenset({"c1"}), remembered=({"tool": "a"},), turns=2
    )
    state = replace(before, **after)
    assert kinds(difference(before, state)) == ["replaced"]
    assert fold([OPENED, *difference(BEGUN, before), *difference(before, state)]) == state


@pytest.mark.parametrize(("kept", "new"), [(999, ()), (998, (user("other"), CALL)), (1, (CALL,))])
def test_what_was_taken_off_the_end_is_not_a_new_history(kept: int, new: tuple[Message, ...]) -> None:
    before = replace(BEGUN, history=tuple(user(str(n)) for n in range(1000)), started=frozenset({"c3"}))
    state = replace(before, history=(*before.history[:kept], *new))
    records = difference(before, state)
    assert records == [
        {"kind": "cut", "messages": kept},
        *({"kind": "message", "message": message.to_dict()} for message in new),
    ]
    assert fold([OPENED, *difference(BEGUN, before), *records]) == state


def test_equal_messages_need_not_be_the_same() -> None:
    before = replace(BEGUN, history=(user("a"), CALL))
    after = replace(BEGUN, history=tuple(Message.from_dict(message.to_dict()) for message in before.history))
    assert difference(before, after) == []


def test_old_messages_are_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = replace(BEGUN, history=tuple(user(str(n)) for n in range(1000)))
    written: list[Message] = []
    real = Message.to_dict
    monkeypatch.setattr(Message, "to_dict", lambda self: (written.append(self), real(self))[1])
    difference(before, replace(before, history=(*before.history, CALL)))
    assert written == [CALL]


def test_bytes_and_what_is_opaque_come_back() -> None:
    message = (
        user("look", ImagePart(data=b"\x00\xff", media_type="image/png")),
        assistant(ToolCallPart("c1", "add", "{}", opaque={"sig": {"a": [1]}})),
    )
    state = replace(BEGUN, history=message)
    assert fold([OPENED, *difference(BEGUN, state)]) == state


# -- any walk, on every store, at every prefix --------------------------------------------------------------------

words = st.sampled_from(["a", "b", "", "ä\n\U0001f600"])
ids = st.sampled_from(["c1", "c2", "c3"])
messages = st.one_of(
    st.builds(user, words),
    st.builds(lambda id: assistant(ToolCallPart(id, "add", "{}")), ids),
    st.builds(lambda id, text: tool_result(id, text, name="add"), ids, words),
)
rules = st.fixed_dictionaries({"tool": words, "action": st.sampled_from(["allow", "deny"])})
states = st.builds(
    SessionState,
    st.just("s"),
    st.just(5.0),
    st.lists(messages, max_size=4).map(tuple),
    st.builds(Usage, st.integers(0, 9), st.integers(0, 9)),
    st.frozensets(ids),
    st.lists(rules, max_size=2).map(tuple),
    st.integers(0, 3),
    st.none() | st.sampled_from(["end_turn", "error"]),
)


@given(st.lists(states, max_size=6))
def test_the_records_lead_from_any_state_to_any_other(walk: list[SessionState]) -> None:
    log, here = [OPENED], BEGUN
    for state in walk:
        log += difference(here, state)
        here = state
        assert fold(log) == here


class Walk(RuleBasedStateMachine):
    """A session that grows, is rolled back and is created again; its logs on three stores agree at every step."""

    base: Path

    @initialize()
    def begin(self) -> None:
        for path in self.base.rglob("s.jsonl"):
            path.unlink()
        self.database = SQLiteStore(self.base / "sessions.db")
        self.database.delete("s")
        self.stores: list[Store] = [MemoryStore(), self.database, JSONLStore(self.base)]
        self.state = BEGUN
        self.log: list[Record] = []
        self.seen: list[tuple[int, SessionState]] = []
        self.write([OPENED])

    def write(self, records: list[Record]) -> None:
        for store in self.stores:
            store.append("s", records)
        self.log += records
        self.seen.append((len(self.log), self.state))

    def go(self, state: SessionState) -> None:
        before, self.state = self.state, state
        self.write(difference(before, state))

    @rule(new=st.lists(messages, max_size=3))
    def append(self, new: list[Message]) -> None:
        history = (*self.state.history, *new)
        answered = {part.call_id for message in new if message.role == "tool" for part in message.parts}  # type: ignore[union-attr]  # a tool's message holds results
        self.go(replace(self.state, history=history, started=self.state.started - answered))

    @rule(id=ids)
    def start(self, id: str) -> None:
        self.go(replace(self.state, started=self.state.started | {id}))

    @rule(left=st.integers(0, 5))
    def roll_back(self, left: int) -> None:
        self.go(replace(self.state, history=self.state.history[:left], end="error"))

    @rule(state=states)
    def become(self, state: SessionState) -> None:
        self.go(state)

    @rule(remembered=rules, used=st.integers(1, 9))
    def end_turn(self, remembered: Mapping[str, Any], used: int) -> None:
        state = self.state
        rules, usage = (*state.remembered, remembered), state.usage + Usage(used)
        spent = {"usage": usage.to_dict(), "tool_calls": used, "seconds": used / 2}
        self.go(replace(state, remembered=rules, usage=usage, spent=spent, turns=state.turns + 1, end="end_turn"))

    @rule(answered=st.integers(0, 2), injected=st.integers(0, 2))
    def wait(self, answered: int, injected: int) -> None:
        answers = tuple(PermissionRequest(str(at), "look", "{}").allow().to_dict() for at in range(answered))
        self.go(replace(self.state, answers=answers, injected=(user("Listen."),) * injected))

    @invariant()
    def every_store_says_the_same(self) -> None:
        for store in self.stores:
            assert store.read("s") == self.log
        assert fold(self.stores[-1].read("s")) == self.state

    def teardown(self) -> None:
        for length, state in self.seen:
            assert fold(self.log[:length]) == state
        for length in range(1, len(self.log) + 1):
            fold(self.log[:length])  # what a crash between two records leaves can be read
        if hasattr(self, "database"):
            self.database.close()


@pytest.fixture(autouse=True, scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> None:
    Walk.base = tmp_path_factory.mktemp("walk")


TestWalk = Walk.TestCase
TestWalk.settings = settings(stateful_step_count=12)


# -- what is read is not trusted ----------------------------------------------------------------------------------


def test_an_empty_log_is_no_session() -> None:
    with pytest.raises(ToolcastError, match="there is no such session"):
        fold([])


MESSAGE = {"kind": "message", "message": user("a").to_dict()}
BAD: list[Any] = [
    None,
    [],
    "opened",
    {},
    {"kind": 7},
    {"kind": []},
    {"kind": "spell"},
    {"kind": "message"},
    {"kind": "message", "message": []},
    {"kind": "message", "message": {"role": "god", "parts": []}},
    {"kind": "message", "message": {"role": "user", "parts": [{"type": "pickle", "text": "x"}]}},
    {"kind": "message", "message": {"role": "user", "parts": [{"type": "text", "text": object()}]}},
    {"kind": "cut"},
    {"kind": "cut", "messages": -1},
    {"kind": "cut", "messages": 2},
    {"kind": "cut", "messages": True},
    {"kind": "started", "call_id": 1},
    {"kind": "remembered", "rule": "all"},
    {"kind": "replaced", "history": []},
    {"kind": "replaced", "history": {}, "started": [], "remembered": []},
    {"kind": "replaced", "history": [1], "started": [], "remembered": []},
    {"kind": "replaced", "history": [], "started": [[]], "remembered": []},
    {"kind": "replaced", "history": [], "started": [], "remembered": [1]},
    {"kind": "usage", "usage": {"input_tokens": 1}},
    {"kind": "usage", "usage": 7},
    {"kind": "usage", "usage": Usage().to_dict()},
    {"kind": "usage", "usage": Usage().to_dict(), "spent": {"usage": {}, "tool_calls": 1, "seconds": 0.0}},
    {"kind": "usage", "usage": Usage().to_dict(), "spent": {"usage": Usage().to_dict(), "tool_calls": "1"}},
    {"kind": "waiting", "answers": [1], "injected": []},
    {"kind": "waiting", "answers": [], "injected": ["x"]},
    {"kind": "turn", "turns": True, "end": None},
    {"kind": "turn", "turns": 1, "end": 1},
    {"kind": "turn", "turns": 1},
    opened_record("other", 1.0),
    opened_record("a", float("inf")),
    {
        "kind": "usage",
        "usage": Usage().to_dict(),
        "spent": {"usage": Usage().to_dict(), "tool_calls": 1, "seconds": float("inf")},
    },
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:40])
def test_bad_data_is_one_error_that_names_the_record(bad: Any) -> None:
    with pytest.raises(ToolcastError, match=r"record 3 of the session is damaged: .*epair it by hand"):
        fold([OPENED, MESSAGE, bad, MESSAGE])


@pytest.mark.parametrize(
    "first",
    [
        MESSAGE,
        {"kind": "opened"},
        OPENED | {"version": "1.0"},
        OPENED | {"version": [1]},
        OPENED | {"version": [1, "0"]},
        OPENED | {"id": 1},
        OPENED | {"time": "now"},
        OPENED | {"time": 10**400},
    ],
)
def test_a_bad_first_record(first: Any) -> None:
    with pytest.raises(ToolcastError, match="record 1 of the session is damaged"):
        fold([first])


def test_nested_beyond_reason() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ToolcastError, match=r"record 2 .* RecursionError"):
        fold([OPENED, {"kind": "message", "message": {"role": "user", "parts": deep}}])


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "message", "role", "parts", "usage", "turns", "end", "call_id", "type", "text"]),
            inner,
        )
    ),
    max_leaves=10,
)
of_a_kind = st.sampled_from(["opened", "message", "started", "usage", "remembered", "replaced", "cut", "turn"])


@pytest.mark.fault(138)
@given(anything, of_a_kind)
def test_any_data_is_read_or_refused(data: Any, kind: str) -> None:
    record = {**data, "kind": kind} if isinstance(data, dict) else {"kind": kind, kind: data, "call_id": data}
    try:
        state = fold([OPENED, record])
    except ToolcastError:
        return
    assert fold([OPENED, *difference(BEGUN, state)]) == state


@pytest.mark.fault(138)
def test_another_major_version_is_refused() -> None:
    with pytest.raises(ToolcastError, match=r"record 1 .*version 2\.0 of the records, and only 1\.x is known: upgrade"):
        fold([OPENED | {"version": [VERSION[0] + 1, 0]}])


def test_a_newer_minor_version_may_have_more_kinds(caplog: pytest.LogCaptureFixture) -> None:
    newer = OPENED | {"version": [VERSION[0], VERSION[1] + 1], "mood": "good"}
    state = fold([OPENED, newer, {"kind": "spell"}, {"kind": "spell"}, MESSAGE | {"tint": "red"}, {"kind": "song"}])
    assert state == replace(BEGUN, history=(user("a"),))
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        f"the session s was written by a newer toolcast: its {kind!r} records are left out"
        for kind in ("spell", "song")
    ]


def test_records_may_be_any_mappings() -> None:
    assert fold([MappingProxyType(OPENED), MappingProxyType(MESSAGE)]).history == (user("a"),)


# -- the stored response ------------------------------------------------------------------------------------------

STORED = StoredResponse("resp_1", "openai", "m", "https://a.com/v1/responses")
ANSWERED = replace(BEGUN, history=(user("One?"), assistant("1.")), stored=STORED, seen=2)


def test_a_stored_response_is_written_beside_its_message() -> None:
    records = difference(BEGUN, ANSWERED)
    assert [record.get("stored", {}).get("id") for record in records] == [None, "resp_1"]
    assert fold([OPENED, *records]) == ANSWERED
    longer = replace(ANSWERED, history=(*ANSWERED.history, user("Two?")))
    assert fold([OPENED, *records, *difference(ANSWERED, longer)]) == longer
    assert difference(ANSWERED, ANSWERED) == []


def test_a_cut_history_has_no_stored_response() -> None:
    records = difference(BEGUN, ANSWERED)
    shorter = replace(ANSWERED, history=ANSWERED.history[:1], stored=None, seen=0)
    assert fold([OPENED, *records, *difference(ANSWERED, shorter)]) == shorter
    longer = replace(ANSWERED, history=(*ANSWERED.history, user("Two?")))
    cut = difference(longer, ANSWERED)
    assert kinds(cut) == ["cut"]
    assert fold([OPENED, *records, *difference(ANSWERED, longer), *cut]) == ANSWERED


def test_a_replaced_history_has_its_own_stored_response() -> None:
    records = difference(BEGUN, ANSWERED)
    for other in (
        replace(ANSWERED, history=(user("Another?"), assistant("1."))),
        replace(ANSWERED, history=(user("Another?"),), stored=None, seen=0),
    ):
        replaced = difference(ANSWERED, other)
        assert kinds(replaced) == ["replaced"]
        assert fold([OPENED, *records, *replaced]) == other


@pytest.mark.parametrize("stored", ["resp_1", {"id": "resp_1"}, {"id": 1, "provider": "", "model": "", "base_url": ""}])
def test_a_damaged_stored_response_is_an_error(stored: Any) -> None:
    record = {"kind": "message", "message": assistant("1.").to_dict(), "stored": stored}
    with pytest.raises(ToolcastError, match="record 2 of the session is damaged"):
        fold([OPENED, record])
