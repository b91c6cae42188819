"""A conversation that is left in the middle, and gone on with by another program that only knows its id."""

import tempfile
from pathlib import Path

from toolcast import Agent, Permissions, Session, ToolCallPart
from toolcast.events import TextDelta, ToolResult
from toolcast.stores import SQLiteStore
from toolcast.testing import ScriptedLLM

ORDER = ToolCallPart("call_1", "order", '{"what": "green tea", "cups": 2}')


def order(what: str, cups: int) -> str:
    """Order something to drink."""
    return f"{cups} cups of {what} are on their way"


# It orders nothing before that is approved. Any other model can replace the script.
waiter = Agent(ScriptedLLM(ORDER, "It comes at once."), [order], permissions=Permissions(approve="later"))


def ask(path: Path) -> str:
    """The first program: it asks, and ends when a person is needed."""
    with SQLiteStore(path) as store, waiter.session(store) as session:
        turn = session.run("We would like some tea.")
        print(f"the turn waits for {turn.end}; the session is {session.state}, and unfinished: {session.unfinished}")
        return session.id


def go_on(path: Path, id: str) -> None:
    """The second program: approve the call and print the events."""
    with SQLiteStore(path) as store, Session.resume(id, waiter, store) as session:
        for request in session.pending:
            print(f"may {request.tool} run with {request.arguments}? yes")
        session.send(answers=[request.allow() for request in session.pending])
        for event in session.events():
            if isinstance(event, ToolResult):
                print(f"{event.name}: {event.content}")
            elif isinstance(event, TextDelta):
                print(event.text, end="", flush=True)
        status = session.status
        print(f"\n{status.turn_count} turns, {session.result().end}, {status.tokens_used} tokens: {status.token_state}")


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "sessions.db"
    go_on(file, ask(file))
