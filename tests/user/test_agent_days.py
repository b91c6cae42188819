"""Sessions with an agent: wrong keys, cut lines, prompts, restarts, Ctrl-C, threads, other agents."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from support.chunks import USAGE, call_deltas, delta, sse
from support.loopback import CLOSE, HOLD, Loopback, Piece
from user.session import KEY, answered, begin, finish, play, press_ctrl_c, spoken

SIGINT_DEATH = -2  # how a shell sees a Python that does not handle SIGINT

OPENING = f"""\
import sys
from toolcast import Agent, Hooks, OpenAI, Permissions, Session
from toolcast.events import TextDelta
from toolcast.stores import SQLiteStore

llm = OpenAI("m-1", base_url=sys.argv[1], api_key="{KEY}", max_retries=0)

def look(city: str) -> str:
    '''Look at a city.'''
    print("looking at", city)
    return city + " is fine."

def roles(engine):
    return [message.role for message in engine.history]
"""

OSLO = ("call_1", "look", {"city": "Oslo"})
ROME = ("call_2", "look", {"city": "Rome"})


def reply(server: Loopback, text: str, *pieces: Piece) -> None:
    """The next answer is this text; or the beginning of one, and then `pieces`."""
    words = [delta(content=word) for word in text.split(" ")]
    if pieces:
        server.answer(*spoken(*sse(*words, done=False), *pieces)[: -1 if CLOSE in pieces else None])
    else:
        server.answer(*spoken(*sse(delta(content=text), delta("stop"), USAGE)))


def calls(server: Loopback, *made: tuple[str, str, dict[str, Any]]) -> None:
    """The next answer calls these tools."""
    deltas = [call_deltas(json.dumps(arguments), name, id, index) for index, (id, name, arguments) in enumerate(made)]
    server.answer(*spoken(*sse(*(one for each in deltas for one in each), delta("tool_calls"), USAGE)))


def sent(server: Loopback, number: int = -1) -> dict[str, Any]:
    """The body of a request, by default the last."""
    body: dict[str, Any] = json.loads(server.requests[number].body)
    return body


def given(server: Loopback) -> list[str]:
    """Return the tool results in the last request."""
    return [message["content"] for message in sent(server)["messages"] if message["role"] == "tool"]


def test_a_good_day() -> None:
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo is fine.")
        reply(server, "You are welcome.")
        screen = play(
            """
            engine = Agent(llm, [look]).engine()
            turn = engine.submit("How is Oslo?")
            print(turn.text, turn.rounds, turn.usage.total_tokens)
            print(engine.submit("Thank you.").text, roles(engine)[-2:])
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            "looking at Oslo",
            "Oslo is fine. 2 20",
            "You are welcome. ['user', 'assistant']",
        ]
        assert given(server) == ["Oslo is fine."]
        server.wait_open(0)


def test_a_wrong_key() -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "Incorrect API key provided"}}', 401))
        server.answer(answered(b'{"error": {"message": "Incorrect API key provided"}}', 401))
        screen = play(
            """
            from toolcast.errors import AuthFailed
            engine = Agent(llm, [look]).engine()
            try:
                engine.submit("How is Oslo?")
            except AuthFailed:
                print("nothing happened:", engine.history, engine.state)
            engine.submit("How is Oslo?")
            """,
            server,
            opening=OPENING,
        )
        words = screen.failed_with("AuthFailed")
        assert "Incorrect API key provided" in words
        assert screen.lines == ["nothing happened: () idle"]


def test_a_line_that_is_cut_in_the_second_round() -> None:
    """What the tool gave is kept: `submit()` goes on, and the tool does not run again."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo is f", CLOSE)
        reply(server, "Oslo is fine.")
        screen = play(
            """
            from toolcast.errors import StreamInterrupted
            engine = Agent(llm, [look]).engine()
            try:
                engine.submit("How is Oslo?")
            except StreamInterrupted as error:
                print("cut:", roles(engine))
            print(engine.submit().text, roles(engine))
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            "looking at Oslo",
            "cut: ['user', 'assistant', 'tool']",
            "Oslo is fine. ['user', 'assistant', 'tool', 'assistant']",
        ]
        assert sent(server, 1) == sent(server, 2)


def test_a_model_that_has_no_tools() -> None:
    with Loopback() as server:
        reply(server, "I would have to look.")
        screen = play(
            """
            from toolcast.llms import Capabilities
            plain = OpenAI("m-1", base_url=sys.argv[1], api_key="k", capabilities=Capabilities(tools=False))
            print(Agent(plain, [look]).run("How is Oslo?").text)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["I would have to look."]
        assert "tools" not in sent(server)


def test_tools_that_go_wrong() -> None:
    """One raises, one is unknown, one is called wrongly: the model gets the errors; that of the tool is logged."""
    with Loopback() as server:
        calls(server, ("a", "fall", {}), ("b", "fly", {}), ("c", "look", {"town": "Oslo"}), ROME)
        reply(server, "Only Rome, then.")
        screen = play(
            """
            def fall() -> str:
                raise RuntimeError("the floor is wet")
            print(Agent(llm, [look, fall]).run("Look around.").text)
            """,
            server,
            opening=OPENING,
        )
        assert (screen.code, screen.lines) == (0, ["looking at Rome", "Only Rome, then."])
        assert screen.err.startswith("the tool fall raised RuntimeError\nTraceback ")
        assert screen.last == "raised by the tool 'fall'"
        fell, unknown, wrong, fine = given(server)
        assert fell == "The tool failed: RuntimeError: the floor is wet"
        assert "fly" in unknown and "look" in unknown
        assert "city" in wrong
        assert fine == "Rome is fine."


@pytest.mark.parametrize(
    ("typed", "ran"), [("y\n", True), ("n\n", False), ("", False)], ids=["yes", "no", "end of input"]
)
def test_a_person_is_asked(typed: str, ran: bool) -> None:
    """A prompt at the terminal. At the end of the input, the prompt fails, and nothing runs."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "As you like.")
        python = begin(
            """
            def ask(request):
                return input(f"{request.tool} {request.arguments}? ") == "y"
            print(Agent(llm, [look], permissions=Permissions(approve=ask)).run("How is Oslo?").text)
            """,
            server,
            opening=OPENING,
        )
        screen = finish(python, typed)
        assert screen.code == 0
        assert screen.lines[-1].endswith("As you like.")
        assert ('look {"city": "Oslo"}? ' in screen.out, "looking at Oslo" in screen.out) == (True, ran)
        (result,) = given(server)
        assert ("permission denied" in result) == (not ran)
        assert "Error" not in screen.err or typed == ""


def test_the_answer_comes_after_a_restart(tmp_path: Path) -> None:
    store = f"store = SQLiteStore({str(tmp_path / 'sessions.db')!r})"
    made = "agent = Agent(llm, [look], permissions=Permissions(approve='later'))"
    with Loopback() as server:
        calls(server, OSLO, ROME)
        evening = play(
            f"""
            {store}
            {made}
            with agent.session(store, "trip") as session:
                turn = session.run("How are Oslo and Rome?")
                print(turn.end, [request.arguments for request in turn.pending])
            """,
            server,
            opening=OPENING,
        )
        assert evening.went_well() == ['approval [\'{"city": "Oslo"}\', \'{"city": "Rome"}\']']
        reply(server, "Oslo is.")
        morning = play(
            f"""
            {store}
            {made}
            with Session.resume("trip", agent, store) as session:
                oslo, rome = session.pending
                print(session.run(answers=[oslo.allow(), rome.deny("too far")]).text, session.status.turn_count)
            """,
            server,
            opening=OPENING,
        )
        assert morning.went_well() == ["looking at Oslo", "Oslo is. 2"]
        fine, denied = given(server)
        assert fine == "Oslo is fine."
        assert "too far" in denied


def test_ctrl_c_while_the_model_speaks() -> None:
    """It is Python's own interrupt that shows; the engine goes on with the text received so far."""
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        reply(server, "Fine.")
        python = begin(
            """
            engine = Agent(llm, [look]).engine()
            try:
                for event in engine.stream("How is Oslo?"):
                    print("event", event)
            except KeyboardInterrupt:
                print()
                print("stopped", engine.state, roles(engine))
            print(engine.submit("And now?").text, roles(engine))
            """,
            server,
            opening=OPENING,
        )
        press_ctrl_c(python, after="event TextDelta(text='is')")
        *_, stopped, last = finish(python).went_well()
        assert stopped == "stopped idle ['user', 'assistant']"
        assert last == "Fine. ['user', 'assistant', 'user', 'assistant']"


@pytest.mark.parametrize(
    "call",
    ["engine.submit('How is Oslo?')", "asyncio.run(engine.asubmit('How is Oslo?'))", "Session(engine).run('How?')"],
    ids=["sync", "asyncio", "session"],
)
def test_ctrl_c_ends_the_program(call: str) -> None:
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo is", HOLD)
        python = begin(
            f"""
            import asyncio
            answers = []
            class Shown(Hooks):
                def first_token(self, call, seconds):
                    answers.append(call)
                    print("answers", len(answers))
            engine = Agent(llm, [look], hooks=Shown()).engine()
            {call}
            """,
            server,
            opening=OPENING,
        )
        server.wait_requests(2)
        press_ctrl_c(python, after="answers 2")
        screen = finish(python)
        assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
        assert "toolcast.errors" not in screen.err
        server.wait_open(0)


def test_ctrl_c_in_the_middle_of_a_tool_of_a_session(tmp_path: Path) -> None:
    """The process ends with the reason. The stored session goes on, and does not run the tool again."""
    store = f"store = SQLiteStore({str(tmp_path / 'sessions.db')!r})"
    with Loopback() as server:
        calls(server, ("call_1", "pay", {"amount": 100}))
        python = begin(
            f"""
            from threading import Event
            from toolcast.agents.sessions import session_turn as session_turns
            session_turns.GRACE = 0.2  # for the tool never ends
            {store}
            def pay(amount: int) -> str:
                print("paying", amount)
                Event().wait(20)
                return "paid"
            with Session(Agent(llm, [pay]), id="bills", store=store) as session:
                session.run("Pay the bill.")
            """,
            server,
            opening=OPENING,
        )
        press_ctrl_c(python, after="paying 100")
        screen = finish(python)
        assert (screen.last, screen.code) == ("KeyboardInterrupt", SIGINT_DEATH)
        reply(server, "I do not know whether it was paid.")
        screen = play(
            f"""
            {store}
            def pay(amount: int) -> str:
                print("paying again", amount)
                return "paid"
            with Session.resume("bills", Agent(llm, [pay]), store) as session:
                print(session.state, session.unfinished, session.run().text)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["idle True I do not know whether it was paid."]
        assert len(given(server)) == 1


def test_an_engine_in_two_threads() -> None:
    """One turn at a time: the second thread gets an error."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo is fine.")
        screen = play(
            """
            import threading
            from toolcast.errors import IllegalState
            def other():
                try:
                    engine.submit("And Rome?")
                except IllegalState as error:
                    print("the other thread:", error)
            def wander(city: str) -> str:
                thread = threading.Thread(target=other)
                thread.start()
                thread.join()
                return "done"
            engine = Agent(llm, [CallableTool.from_function(wander, "look")]).engine()
            print(engine.submit("How is Oslo?").text, roles(engine))
            """,
            server,
            opening=OPENING + "from toolcast import CallableTool\n",
        )
        text, last = screen.went_well()
        assert text.startswith("the other thread: the engine cannot begin a turn while it is tool_exec")
        assert last == "Oslo is fine. ['user', 'assistant', 'tool', 'assistant']"


def test_a_cell_of_a_notebook() -> None:
    """A notebook runs its cells inside a loop: sync turns work there, async tools in them too, and `await`."""
    with Loopback() as server:
        for _ in range(2):
            calls(server, OSLO)
            reply(server, "Oslo is fine.")
        screen = play(
            """
            import asyncio
            async def look(city: str) -> str:
                await asyncio.sleep(0)
                print("looking at", city)
                return city + " is fine."
            async def cell():
                engine = Agent(llm, [look]).engine()
                print("sync", engine.submit("How is Oslo?").text)
                print("await", (await engine.asubmit("And now?")).text, len(engine.history))
            asyncio.run(cell())
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            *("looking at Oslo", "sync Oslo is fine."),
            *("looking at Oslo", "await Oslo is fine. 8"),
        ]


def test_an_agent_that_asks_another() -> None:
    """The other has a history of its own, and what it costs counts."""
    with Loopback() as server:
        calls(server, ("call_1", "ask_scout", {"prompt": "Look at Oslo."}))
        calls(server, OSLO)
        reply(server, "Oslo is fine.")
        reply(server, "My scout reports: fine.")
        screen = play(
            """
            scout = Agent(llm, [look], instructions="You are a scout.")
            engine = Agent(llm, [scout.as_tool("ask_scout")]).engine()
            print(engine.submit("How is Oslo?").text, roles(engine))
            print(engine.conversation.spending.usage.total_tokens)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            "looking at Oslo",
            "My scout reports: fine. ['user', 'assistant', 'tool', 'assistant']",
            "40",
        ]
        assert given(server) == ["Oslo is fine."]


def test_an_agent_that_never_stops() -> None:
    with Loopback() as server:
        for number in range(2):
            calls(server, (f"call_{number}", "look", {"city": "Oslo"}))
        screen = play("Agent(llm, [look], max_rounds=2).run('Look.')", server, opening=OPENING)
        words = screen.failed_with("RoundsExceeded")
        assert "after 2" in words and "max_rounds=" in words
        assert screen.lines == ["looking at Oslo"] * 2


def test_no_one_waits_for_a_session() -> None:
    """The program ends while a turn goes on: nothing hangs, nothing is printed."""
    with Loopback() as server:
        reply(server, "Oslo is", HOLD)
        python = begin(
            """
            session = Session(Agent(llm, [look]))
            session.send("How is Oslo?")
            for event in session.events():
                if isinstance(event, TextDelta):
                    break
            print("enough")
            """,
            server,
            opening=OPENING,
        )
        assert finish(python).went_well() == ["enough"]


@pytest.mark.parametrize(
    "submit", ["engine.submit('Go.')", "asyncio.run(engine.asubmit('Go.'))"], ids=["sync", "asyncio"]
)
def test_ctrl_c_at_the_prompt(submit: str) -> None:
    """Nothing has run, the history is sound, and the conversation goes on."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "As you like.")
        python = begin(
            f"""
            import asyncio
            def ask(request):
                print("may it?")
                return input() == "y"
            engine = Agent(llm, [look], permissions=Permissions(approve=ask)).engine()
            try:
                {submit}
            except KeyboardInterrupt:
                print("stopped", engine.state, roles(engine))
            print(engine.submit("Never mind.").text)
            """,
            server,
            opening=OPENING,
        )
        press_ctrl_c(python, after="may it?")
        assert finish(python).went_well()[-2:] == ["stopped idle ['user', 'assistant', 'tool']", "As you like."]
        assert len(given(server)) == 1


def test_two_terminals_with_one_session(tmp_path: Path) -> None:
    """The second gets an error; when the first has ended, even by force, the session is free."""
    store = f"store = SQLiteStore({str(tmp_path / 'sessions.db')!r})"
    with Loopback() as server:
        reply(server, "Hello.")
        first = begin(
            f"""
            {store}
            session = Session(Agent(llm), id="mine", store=store)
            print(session.run("Hi.").text)
            input()
            """,
            server,
            opening=OPENING,
        )
        assert first.stdout is not None and first.stdout.readline() == "Hello.\n"
        resume = f"""
            {store}
            with Session.resume("mine", Agent(llm), store) as session:
                print(session.engine.history[-1].text)
            """
        assert "mine" in play(resume, server, opening=OPENING).failed_with("SessionLocked")
        first.kill()
        first.communicate()
        assert play(resume, server, opening=OPENING).went_well() == ["Hello."]


def test_enough_received() -> None:
    """`break`, with and without a block, sync and async: the engine is free, and the line is given back."""
    with Loopback() as server:
        for _ in range(4):
            reply(server, "Oslo is", HOLD)
        reply(server, "Fine.")
        screen = play(
            """
            import asyncio
            engine = Agent(llm, [look]).engine()
            for event in engine.stream("How is Oslo?"):
                break
            print(engine.state)
            with engine.stream("How is Oslo?") as stream:
                for event in stream:
                    break
            print(engine.state)
            async def main():
                async for event in engine.astream("How is Oslo?"):
                    break
                print(engine.state)
                async with engine.astream("How is Oslo?") as stream:
                    async for event in stream:
                        break
                print(engine.state)
            asyncio.run(main())
            print(engine.submit("And now?").text)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["idle"] * 4 + ["Fine."]
        server.wait_open(0)


def test_no_time_to_wait() -> None:
    """`asyncio.timeout` around a turn: what the tool gave is kept, and the turn is gone on with."""
    with Loopback() as server:
        calls(server, OSLO)
        reply(server, "Oslo", HOLD)
        reply(server, "Oslo is fine.")
        screen = play(
            """
            import asyncio
            async def main():
                engine = Agent(llm, [look]).engine()
                try:
                    async with asyncio.timeout(None) as limit:
                        async for event in engine.astream("How is Oslo?"):
                            if isinstance(event, TextDelta):
                                limit.reschedule(asyncio.get_running_loop().time())
                except TimeoutError:
                    print("too slow:", engine.state, roles(engine)[:3])
                print((await engine.asubmit("And now?")).text)
            asyncio.run(main())
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            "looking at Oslo",
            "too slow: idle ['user', 'assistant', 'tool']",
            "Oslo is fine.",
        ]
