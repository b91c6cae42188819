"""Sessions of a user who wraps an LLM: middleware of one's own, a cache of answers, recordings, redaction."""

from __future__ import annotations

import json
import stat
import sys
import threading
from pathlib import Path

from support.chunks import album_body, album_stream, delta as part_of, sse, text_body
from support.loopback import Loopback
from user.session import KEY, answered, begin, finish, play, spoken

POLITE = """
import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from toolcast import FallbackLLM, Hooks, user
from toolcast.events import Event, Finish
from toolcast.llms import ChatRequest, Next, WrapperLLM

class Polite(WrapperLLM):
    async def respond(self, request: ChatRequest, call_next: Next) -> AsyncIterator[Event]:
        async for event in call_next(replace(request, messages=(*request.messages, user("Please.")))):
            if isinstance(event, Finish):
                seen.append(event.stop_reason)
            yield event

seen = []
"""


def sent(server: Loopback) -> list[str]:
    """Return the text of the last message of each request."""
    return [json.loads(request.body)["messages"][-1]["content"] for request in server.requests]


def test_one_method_for_every_way_of_calling() -> None:
    with Loopback() as server:
        for _ in range(2):
            server.answer(answered(album_body()))
            server.answer(*spoken(*album_stream()))
            server.answer(answered(text_body("Calm.")))
            server.answer(*spoken(*sse(part_of(content="Calm."), part_of("stop"))))
        screen = play(
            POLITE
            + """
class Count(Hooks):
    def response(self, call, response, seconds):
        counted.append(response.stop_reason)

counted = []
polite = FallbackLLM([Polite(llm, max_concurrency=1)], max_concurrency=1, hooks=Count())
make = make_album.with_(llm=polite)
print(make(topic="the sea").title, [album.title for album in make.stream(topic="the sea")][-1])
print(polite.chat("How is it?").text, "".join(event.text for event in polite.stream_chat("How is it?")
                                              if hasattr(event, "text")))

async def main():
    print((await make.acall(topic="the sea")).title,
          [album.title async for album in make.astream(topic="the sea")][-1])
    print((await polite.achat("How is it?")).text,
          "".join([event.text async for event in polite.astream_chat("How is it?") if hasattr(event, "text")]))

asyncio.run(main())
print(seen == counted, len(seen), sorted(set(seen)))
""",
            server,
        )
        lines = ["Sea of Glass Sea of Glass", "Calm. Calm."]
        assert screen.went_well() == [*lines, *lines, "True 8 ['end_turn', 'tool_use']"]
        assert sent(server) == ["Please."] * 8


def test_a_wrapper_that_awaits_something_else() -> None:
    with Loopback() as server:
        for text in ("Calm.", "Calm again."):
            server.answer(answered(b"[]"))
            server.answer(answered(text_body(text)))
        screen = play(
            """
            import asyncio
            import httpx
            from toolcast.errors import WouldSuspend
            from toolcast.llms import WrapperLLM

            class Looked(WrapperLLM):
                async def respond(self, request, call_next):
                    async with httpx.AsyncClient() as client:
                        await client.get(sys.argv[1] + "/names")
                    async for event in call_next(request):
                        yield event

            class LookedInSync(WrapperLLM):
                async def respond(self, request, call_next):
                    await call_next.run_sync(lambda: httpx.get(sys.argv[1] + "/names"))
                    async for event in call_next(request):
                        yield event

            try:
                Looked(llm).chat("How is it?")
            except WouldSuspend as error:
                print("call_next.run_sync(function)" in str(error), "achat" in str(error))

            async def inside():
                try:
                    Looked(llm).chat("How is it?")
                except WouldSuspend as error:
                    print("sync in a loop")
                return await LookedInSync(llm).achat("How is it?")

            print(LookedInSync(llm).chat("How is it?").text)
            print(asyncio.run(inside()).text)
            """,
            server,
        )
        assert screen.went_well() == ["True True", "Calm.", "sync in a loop", "Calm again."]
        assert [request.line.split("/")[-2].split()[0] for request in server.requests] == ["names", "completions"] * 2


def test_answers_are_cached_across_processes(tmp_path: Path) -> None:
    path = tmp_path / "answers.db"
    cached = f"""
import asyncio
from toolcast.llms import CachedLLM, SQLiteCache

cached = CachedLLM(llm, SQLiteCache({str(path)!r}), namespace="tenant-1")
make = make_album.with_(llm=cached)
"""
    with Loopback() as server:
        server.answer(*spoken(*album_stream()))
        first = play(
            cached
            + """
stream = make.stream(topic="the sea")
print([album.title for album in stream][-1], stream.usage.total_tokens > 0)
""",
            server,
        )
        again = play(
            cached
            + """
result = make.run(topic="the sea")
print(result.output.title, result.usage.total_tokens, result.cost)
stream = make.stream(topic="the sea")
print(len(list(stream)) > 3, stream.usage.total_tokens)

async def main():
    print((await make.acall(topic="the sea")).title)
    stream = make.astream(topic="the sea")
    print(len([album async for album in stream]) > 3, stream.usage.total_tokens)

asyncio.run(main())
""",
            server,
        )
        assert first.went_well() == ["Sea of Glass True"]
        assert again.went_well() == ["Sea of Glass 0 0", "True 0", "Sea of Glass", "True 0"]
        assert len(server.requests) == 1
        server.answer(answered(album_body()))
        other = play(cached.replace("tenant-1", "tenant-2") + "print(make(topic='the sea').title)", server)
        assert other.went_well() == ["Sea of Glass"]
        assert len(server.requests) == 2
    assert KEY.encode() not in path.read_bytes()
    assert sys.platform == "win32" or stat.S_IMODE(path.stat().st_mode) == 0o600


def test_only_good_answers_are_cached() -> None:
    refusal = json.loads(text_body("I cannot."))
    refusal["choices"][0]["message"] = {"role": "assistant", "content": None, "refusal": "I cannot."}
    with Loopback() as server:
        server.answer(answered(album_body('{"title": 1}')))
        server.answer(answered(json.dumps(refusal).encode()))
        server.answer(*spoken(*album_stream()[:5]))  # it is cut
        server.answer(answered(album_body()))
        screen = play(
            """
            import asyncio
            from toolcast import CallError
            from toolcast.llms import CachedLLM

            make = make_album.with_(llm=CachedLLM(llm))
            for call in (make, make, make.stream, make):
                try:
                    found = call(topic="the sea")
                    print(found.title if isinstance(found, Album) else list(found))
                except CallError as error:
                    print(type(error).__name__)
            print(make(topic="the sea").title, asyncio.run(make.acall(topic="the sea")).title)
            """,
            server,
        )
        assert screen.went_well() == [
            "ValidationError",
            "Refused",
            "StreamTruncated",
            "Sea of Glass",
            "Sea of Glass Sea of Glass",
        ]
        assert len(server.requests) == 4


def test_the_tools_of_a_cached_answer_ask_again() -> None:
    with Loopback() as server:
        server.answer(answered(album_body('{"place": "here"}').replace(b'"Album"', b'"depth"')))
        server.answer(answered(text_body("Eleven.")))
        screen = play(
            """
            import asyncio
            from toolcast import Agent, Permissions
            from toolcast.llms import CachedLLM

            def depth(place: str) -> int:
                "Return the depth."
                return 11

            def approve(request):
                print("may it?", request.tool)
                return request.allow()

            cached = CachedLLM(llm)
            agent = Agent(cached, [depth], permissions=Permissions(approve=approve))
            for _ in range(2):
                turn = agent.run("How deep?")
                print(turn.messages[-1].text, turn.usage.total_tokens > 0)
            print(asyncio.run(agent.arun("How deep?")).messages[-1].text)
            """,
            server,
        )
        assert screen.went_well() == [
            "may it? depth",
            "Eleven. True",
            "may it? depth",
            "Eleven. False",
            "may it? depth",
            "Eleven.",
        ]
        assert len(server.requests) == 2


def test_one_request_for_many_callers() -> None:
    gates = [threading.Event(), threading.Event()]
    with Loopback() as server:
        for gate in gates:
            head, *rest = spoken(*album_stream())
            server.answer(head, gate, *rest)
        python = begin(
            """
            import asyncio, threading
            from concurrent.futures import ThreadPoolExecutor
            from toolcast.llms import CachedLLM

            make = make_album.with_(llm=CachedLLM(llm))
            with ThreadPoolExecutor(8) as pool:
                albums = list(pool.map(lambda _: make.stream(topic="the sea").final().title, range(8)))
            print(len(albums), set(albums))

            async def main():
                streams = [make.astream(topic="the land") for _ in range(8)]
                albums = await asyncio.gather(*[stream.final() for stream in streams])
                print(len(albums), {album.title for album in albums})
                print(sorted({stream.usage.total_tokens > 0 for stream in streams}))

            asyncio.run(main())
            """,
            server,
        )
        for number, gate in enumerate(gates, 1):
            server.wait_requests(number)
            gate.set()
        screen = finish(python)
        assert screen.went_well() == ["8 {'Sea of Glass'}", "8 {'Sea of Glass'}", "[False, True]"]
        assert len(server.requests) == 2


def test_what_was_recorded_and_what_was_redacted(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with Loopback() as server:
        server.answer(answered(text_body("Dear [NAME].")))
        server.answer(answered(b'{"error": {"message": "overloaded"}}', 500))
        server.answer(*spoken(*album_stream()))
        screen = play(
            f"""
            import asyncio, json
            from pathlib import Path
            from toolcast import CallError
            from toolcast.llms import RecordingLLM, RedactedLLM

            recording = RecordingLLM(llm, {str(path)!r})
            redacted = RedactedLLM(recording, lambda text: text.replace("Ada", "[NAME]"))
            print(redacted.chat("Write to Ada.").text)
            try:
                redacted.chat("Write to Ada again.")
            except CallError as error:
                print(type(error).__name__)
            print(asyncio.run(make_album.with_(llm=redacted).astream(topic="Ada").final()).title)

            def broken(text):
                raise LookupError("no rule")

            try:
                RedactedLLM(llm, broken).chat("Ada")
            except LookupError as error:
                print(error)
            for line in Path({str(path)!r}).read_text(encoding="utf-8").splitlines():
                line = json.loads(line)
                answer = line["response"] and line["response"]["stop_reason"]
                print(line["request"]["messages"][-1]["parts"][0]["text"], "|", answer, line.get("error"))
            """,
            server,
        )
        *lines, chat, failed, album = screen.went_well()
        assert lines == ["Dear [NAME].", "ServerError", "Sea of Glass", "no rule"]
        assert chat == "Write to [NAME]. | end_turn None"
        assert failed.startswith("Write to [NAME] again. | None {'type': 'ServerError'")
        assert album == "Create an album about [NAME] | tool_use None"
        assert len(server.requests) == 3
        assert not any(b"Ada" in request.body for request in server.requests)
    assert KEY not in path.read_text(encoding="utf-8")
