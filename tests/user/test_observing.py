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
except toolcast.errors.AuthFailed as error:
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
from toolcast import Agent, Hooks, Permissions, Session
from toolcast.chat import AsyncChatMachine, ChatMachine
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

agent = Agent(llm, [look], permissions=Permissions("bypass"), hooks=Watch())
"""

AGENTS = {
    "sync": 'agent.run("How is Oslo?")',
    "async": 'asyncio.run(agent.arun("How is Oslo?"))',
    "session": """
with Session(agent) as session:
    session.run("How is Oslo?")
""",
    "chat": """
with ChatMachine(agent) as chat:
    for event in ("LOAD_MODEL", QueueMessage("How is Oslo?")):
        chat.dispatch(event)
        chat.run_until("ready", timeout=30)
""",
    "async chat": """
async def talk():
    async with AsyncChatMachine(agent) as chat:
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


FAILING = """
import asyncio
from toolcast import Hooks, ValidationError

noted, times, waits = [], [], []

class Note(Hooks):
    def request(self, call, request):
        noted.append(("request", call.attempt))
    def first_token(self, call, seconds):
        noted.append(("first_token", call.attempt))
    def response(self, call, response, seconds):
        noted.append(("response", call.attempt))
        times.append(seconds)
    def retry(self, call, error, wait):
        noted.append(("retry", call.attempt))
        waits.append(wait)
        assert "max_attempts" not in str(error)
    def error(self, call, error):
        noted.append(("error", call.attempt))
    def end(self, call, usage, seconds):
        noted.append(("end", call.attempt))
        times.append(seconds)

again = OpenAI("m-1", base_url=sys.argv[1], api_key="sk-other", max_retries=1)
make = make_album.with_(llm=again, max_attempts=2, hooks=Note())

async def follow():
    async for album in make.astream(topic="the sea"):
        pass

try:
    if STREAMED and WAY == "async":
        asyncio.run(follow())
    elif STREAMED:
        list(make.stream(topic="the sea"))
    elif WAY == "async":
        asyncio.run(make.acall(topic="the sea"))
    else:
        make(topic="the sea")
except ValidationError as error:
    text, attempts = str(error), error.attempts
print(noted)
first, second, all_of_it = times
# The time of a request contains neither that of another one nor the wait.
print(first + second + sum(waits) <= all_of_it, waits[0] > 0, attempts[0].wait == waits[0])
print("max_attempts" in text, "(after 3 requests in " in text, ", one of them answered 503)" in text)
"""


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize("answer", ["whole", "stream", "whole to a stream"])
def test_each_figure_is_that_of_its_own_request(answer: str, way: str) -> None:
    wrong = '{"title": "Sea of Glass", "artist": "Low", "songs": [{"title": "Foam", "seconds": "two minutes"}]}'
    streamed = answer != "whole"
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "overloaded"}}', 503))
        for _ in range(2):
            server.answer(*spoken(*album_stream(wrong)) if answer == "stream" else [answered(album_body(wrong))])
        screen = play(f"STREAMED, WAY = {streamed}, {way!r}\n{FAILING}", server)
    first = {number: [("first_token", number)] * streamed for number in (2, 3)}
    expected = [
        *[("request", 1), ("retry", 1), ("request", 2), *first[2], ("response", 2), ("retry", 2)],
        *[("request", 3), *first[3], ("response", 3), ("error", 3), ("end", 3)],
    ]
    assert screen.went_well() == [str(expected), "True True True", "False True True"]


@pytest.mark.parametrize("way", ["sync", "async"])
def test_the_advice_is_given_where_one_answer_was_allowed(way: str) -> None:
    with Loopback() as server:
        server.answer(answered(b'{"error": {"message": "overloaded"}}', 503))
        server.answer(answered(album_body('{"title": 1}')))
        screen = play(
            f"WAY = {way!r}"
            + """
import asyncio
from toolcast import ValidationError

again = OpenAI("m-1", base_url=sys.argv[1], api_key="sk-other", max_retries=1)
make = make_album.with_(llm=again)
try:
    asyncio.run(make.acall(topic="the sea")) if WAY == "async" else make(topic="the sea")
except ValidationError as error:
    print("max_attempts=2 lets the model correct itself (after 2 requests in " in str(error))
""",
            server,
        )
    assert screen.went_well() == ["True"]
