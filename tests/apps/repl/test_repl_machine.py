"""Whatever is typed, answered and interrupted: the loop ends well, and leaves a session that can be gone on with."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from support.repls import repl_on
from support.scripted_screen import ScriptedScreen
from toolcast import CallableTool, Session, ToolCallPart
from toolcast.agents.engine.history import find_problems
from toolcast.apps.repl.slash_commands import COMMANDS
from toolcast.errors import RateLimited
from toolcast.events import Finish, RawEvent, TextDelta
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM
from toolcast.tools.tool_context import ToolContext
from toolcast.values.states import REPL


def look(where: str, context: ToolContext) -> str:
    """Look."""
    context.emit("looking")
    return f"nothing in {where}"


def send(to: str) -> str:
    """Send."""
    if to == "missing":
        raise ValueError("no such recipient")
    return "sent"


TOOLS = (CallableTool.from_function(look).with_(read_only=True), send)

CALLS = st.sampled_from(
    [
        ("look", '{"where": "here"}'),
        ("send", '{"to": "ada"}'),
        ("send", '{"to": "missing"}'),
        ("send", "{}"),
        ("fly", "{}"),
    ]
)
ANSWERS = st.one_of(
    st.sampled_from(["Hello.", "Yes.", RateLimited("slow down"), ZeroDivisionError()]),
    st.just([TextDelta("Half"), RawEvent("?", damaged=True), Finish("max_tokens")]),
    st.just([TextDelta("It breaks off")]),
    st.lists(CALLS, min_size=1, max_size=3),
)
GOES_ON = [name for name in COMMANDS if name not in ("/export", "/save", "/load", "/exit")]
TYPED = st.one_of(
    st.sampled_from(["What?", "Why?", "y", "n", "a", "e", "e {}", '{"to": "bob"}', "two\nlines", "!true", "/nothing"]),
    st.sampled_from([*GOES_ON, "/mode plan", "/mode auto", "/mode fast"]),
    st.sampled_from([None, KeyboardInterrupt(), "", "/exit", *["Well?"] * 16]),
)
SHOWN = st.sampled_from(
    ["content", "call_begins", "call_complete", "call_result", "call_progress", "end_answer", "error"]
)


def script(answers: list[Any]) -> ScriptedLLM:
    """A model with these answers; lists of names and arguments are calls."""
    made: list[Any] = []
    for number, answer in enumerate(answers):
        is_calls = isinstance(answer, list) and isinstance(answer[0], tuple)
        made.append([ToolCallPart(f"c{number}-{at}", *call) for at, call in enumerate(answer)] if is_calls else answer)
    return ScriptedLLM(*made)


@given(
    st.lists(TYPED, min_size=3, max_size=20),
    st.lists(ANSWERS, min_size=3, max_size=12),
    st.lists(SHOWN, max_size=3),
    st.booleans(),
)
def test_it_ends_well(typed: list[Any], answers: list[Any], ctrl_c_at: list[str], interactive: bool) -> None:
    screen, store, states = ScriptedScreen(*typed, interactive=interactive), MemoryStore(), list[str]()
    screen.ctrl_c_at = list(ctrl_c_at)
    llm = script(answers)
    repl = repl_on(screen, llm, TOOLS, store=store, session="s", observer=lambda id, state: states.append(state))
    code = repl.run()
    assert code in (0, 1, 130)
    assert (repl.state, repl.session.state) == ("terminated", "closed")
    assert all(after in REPL[before].values() for before, after in zip(["init", *states], states, strict=False))
    assert [fault for request in llm.requests for fault in find_problems(request.messages)] == []
    results = [what[1] for what in screen.shown if what[0] == "call_result"]
    assert len(results) == len(set(results))
    for id in store.ids():
        again = repl_on(ScriptedScreen(), ScriptedLLM("Fine."), TOOLS, store=store, session=id)
        with again.session as session:
            assert isinstance(session, Session)
            session.run("And now?")
            assert find_problems(session.engine.history) == []
