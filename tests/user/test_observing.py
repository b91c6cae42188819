"""Sessions of a user who wants to see what is sent, what came back, what failed and how long it took: hooks."""

from __future__ import annotations

from support.chunks import album_body, album_stream
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
