"""Sessions of a user who wants to see what is sent, what came back, what failed and how long it took: hooks."""

from __future__ import annotations

import json

import pytest

from support.chunks import USAGE, album_body, album_stream, call_deltas, delta, sse
from support.loopback import Loopback
from user.session import answered, play, spoken

HOOKS = """
from toolcast import Hooks
import toolcast

class Print(Hooks):
    def request(self, call, request):
        print("request", call.operation, call.attempt, request.messages[-1].text, [tool.name for tool in request.tools])
        assert "sk-" not in repr(request.http) + repr(dict(request.http.headers))
    def first_token(self, call, seconds):
        print("first token", seconds >= 0)
    def response(self, call, response, seconds):
        print("response", response.stop_reason, response.usage.output_tokens, seconds > 0)
    def retry(self, call, error, wait):
        print("retry", type(error).__name__, wait < 60)
    def error(self, call, error):
        print("error", type(error).__name__)
    def end(self, call, usage, seconds):
        print("end", usage.total_tokens)
"""

REQUEST = "Create an album about the sea"


def test_each_attempt_of_a_call_is_seen_sync_and_async() -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(answered(b'{"error": {"message": "overloaded"}}', 500))
            server.answer(answered(album_body()))
        screen = play(
            HOOKS
            + """
import asyncio
again = OpenAI("m-1", base_url=sys.argv[1], api_key="sk-other", max_retries=1)
make_album = make_album.with_(llm=again)
with toolcast.hooks(Print()):
    print(make_album(topic="the sea").title)
    print(asyncio.run(make_album.acall(topic="the sea")).title)
""",
            server,
        )
        call = [
            f"request structured 1 {REQUEST} ['Album']",
            "retry ServerError True",
            f"request structured 2 {REQUEST} ['Album']",
            "response tool_use 3 True",
            "end 10",
            "Sea of Glass",
        ]
        assert screen.went_well() == [*call, *call]


def test_a_stream_is_seen_until_it_is_left() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        server.answer(*spoken(*album_stream()))
        screen = play(
            HOOKS
            + """
make = make_album.with_(hooks=Print())
print([album.title for album in make.stream(topic="the sea")][-1])
with make.stream(topic="the sea") as stream:
    print(next(iter(stream)).title)
""",
            server,
        )
        request = f"request structured 1 {REQUEST} ['Album']"
        shown = screen.went_well()
        assert shown[:5] == [request, "first token True", "response tool_use 3 True", "end 10", "Sea of Glass"]
        assert shown[5:7] == [request, "first token True"]
        assert shown[-1].startswith("end")


def test_a_failed_call_is_seen_by_a_hook_of_the_process_and_a_broken_hook_changes_nothing() -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "no such key"}}', 401))
        server.answer(answered(album_body()))
        screen = play(
            HOOKS
            + """
class Broken(Hooks):
    def request(self, call, request):
        raise RuntimeError("a mistake in a hook")

handle = toolcast.hooks.add(Print(), Broken())
try:
    make_album(topic="the sea")
except toolcast.AuthFailed as error:
    print("failed")
handle.remove()
print(make_album(topic="the sea").title)
""",
            server,
        )
        request = f"request structured 1 {REQUEST} ['Album']"
        assert screen.out.splitlines() == [request, "error AuthFailed", "end 0", "failed", "Sea of Glass"]
        assert screen.err.count("the hook Broken.request raised RuntimeError") == 1


TURNS = """
import asyncio, threading
import toolcast
from toolcast import AsyncChatMachine, ChatMachine, Engine, Hooks, Permissions, Session
from toolcast.chat.events import QueueMessage

class Watch(Hooks):
    def turn_start(self, call, messages):
        print("turn", [message.text for message in messages], call.session != "")
    def request(self, call, request):
        print("request", call.parent is not None, [tool.name for tool in request.tools])
    def tool(self, call, tool_call, output, seconds):
        print("tool", tool_call.name, tool_call.arguments, "->", output.content, seconds >= 0)
    def turn(self, call, turn):
        print("end", turn.end, turn.rounds, turn.usage.total_tokens, turn.text)

def look(city: str) -> str:
    return city + " is fine."

engine = Engine(llm, [look], permissions=Permissions("bypass"), hooks=Watch())
"""

AGENTS = {
    "sync": 'engine.submit("How is Oslo?")',
    "async": 'asyncio.run(engine.asubmit("How is Oslo?"))',
    "session": """
with Session(engine) as session:
    session.run("How is Oslo?")
""",
    "chat": """
with ChatMachine(engine) as chat:
    for event in ("LOAD_MODEL", QueueMessage("How is Oslo?")):
        chat.dispatch(event)
        chat.run_until("ready", timeout=30)
""",
    "async chat": """
async def talk():
    async with AsyncChatMachine(engine) as chat:
        for event in ("LOAD_MODEL", QueueMessage("How is Oslo?")):
            chat.dispatch(event)
            await chat.run_until("ready")

asyncio.run(talk())
""",
}


@pytest.mark.parametrize("agent", AGENTS)
def test_a_turn_of_an_agent_is_seen_with_its_requests_and_tools(agent: str) -> None:
    with Loopback() as server:
        call = call_deltas(json.dumps({"city": "Oslo"}), "look", "call_1")
        server.answer(*spoken(*sse(*call, delta("tool_calls"), USAGE)))
        server.answer(*spoken(*sse(delta(content="Oslo is fine."), delta("stop"), USAGE)))
        lines = play(TURNS + AGENTS[agent], server).went_well()
    assert lines == [
        f"turn ['How is Oslo?'] {agent == 'session'}",
        "request True ['look']",
        'tool look {"city": "Oslo"} -> Oslo is fine. True',
        "request True ['look']",
        "end end_turn 2 20 Oslo is fine.",
    ]


def test_an_async_stream_is_seen() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        screen = play(
            HOOKS
            + """
import asyncio

async def follow():
    async for album in make_album.with_(hooks=Print()).astream(topic="the sea"):
        pass
    print(album.title)

asyncio.run(follow())
""",
            server,
        )
        request = f"request structured 1 {REQUEST} ['Album']"
        assert screen.went_well() == [request, "first token True", "response tool_use 3 True", "end 10", "Sea of Glass"]
