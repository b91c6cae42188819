"""Sessions on bad days: the service is down, wrong, cut off, silent, or sends something unexpected."""

from __future__ import annotations

import gzip
import json

import pytest

from support.albums import SEA, SHORT
from support.chunks import album_body, album_stream, call_deltas, delta, sse, text_body
from support.loopback import CLOSE, HOLD, RESET, Loopback, head
from user.session import KEY, address, answered, play, spoken

CALL = "print(make_album(topic='the sea').title)"
STREAM = """
for album in make_album(topic="the sea", stream=True):
    print(album.title)
"""


@pytest.mark.fault(3)
def test_the_server_is_down() -> None:
    with Loopback() as server:
        gone = address(server)
    screen = play(
        """
        from toolcast.errors import ConnectFailed
        try:
            make_album(topic="the sea")
        except ConnectFailed as error:
            print(error)
        for album in make_album(topic="the sea", stream=True):
            print(album.title)
        """,
        gone,
    )
    words = screen.failed_with("ConnectFailed")
    assert words.startswith("openai m-1: no connection to 127.0.0.1:")
    assert "refused" in words
    assert screen.lines == [words]


@pytest.mark.fault(3)
def test_no_such_host() -> None:
    words = play(CALL, "http://no-such-host.invalid/v1").failed_with("ConnectFailed")
    assert "no-such-host.invalid" in words


def test_an_address_that_is_none() -> None:
    words = play(CALL, "localhost:8000").failed_with("BadRequest")
    assert "localhost" in words or "http" in words


def test_an_html_page_of_a_proxy() -> None:
    with Loopback() as server:
        server.answer(answered(b"<html><h1>502 Bad Gateway</h1>\x1b[31m</html>", 502, "text/html"))
        words = play(CALL, server).failed_with("ServerError")
        assert "502" in words
        assert "text/html" in words
        assert "\x1b" not in words
        assert "<html>" not in words


def test_the_login_page_of_a_hotel() -> None:
    with Loopback() as server:
        server.answer(answered(b"<html>Sign in, please</html>", 200, "text/html"))
        words = play(CALL, server).failed_with("MalformedEvent")
        assert "Sign in, please" in words
        assert "base_url" in words


def test_garbage() -> None:
    with Loopback() as server:
        server.answer(answered(bytes(range(256)) * 8, 200, "application/octet-stream"))
        play(STREAM, server).failed_with("MalformedEvent")


def test_an_empty_answer() -> None:
    with Loopback() as server:
        server.answer(answered(b""))
        assert "empty" in play(CALL, server).failed_with("MalformedEvent")


@pytest.mark.parametrize("last", [CLOSE, RESET], ids=["closed", "reset"])
def test_a_cut_stream(last: object) -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()[:9], last)[:-1])  # type: ignore[arg-type]  # a step is a piece
        screen = play(
            """
            from toolcast.errors import StreamInterrupted
            try:
                for album in make_album(topic="the sea", stream=True):
                    print(album.title)
            except StreamInterrupted as error:
                print("kept:", error.partial.title, error.partial.songs)
                raise
            """,
            server,
        )
        screen.failed_with("StreamInterrupted")
        assert screen.lines[-1].startswith("kept: Sea of Gla")
        assert screen.lines[-1].endswith(("None", "[]"))


def test_a_stream_that_ends_before_its_end() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream()[:9]))
        screen = play(STREAM, server)
        screen.failed_with("StreamTruncated")
        assert screen.lines[-1].startswith("Sea of Gla")


@pytest.mark.fault(9)
def test_a_cut_stream_runs_no_tool() -> None:
    with Loopback() as server:
        calls = list(call_deltas('{"amount": 100', name="pay"))
        server.answer(*spoken(*sse(*calls, done=False)))
        screen = play(
            """
            def pay(amount: int) -> str:
                print("PAID", amount)
                return "paid"
            for result in ToolOrchestratingLLM(pay, "pay it", llm).stream():
                print(result)
            """,
            server,
        )
        screen.failed_with("StreamTruncated")
        assert screen.out == ""


def test_a_stalled_stream() -> None:
    with Loopback() as server:
        server.answer(*spoken(b"".join(album_stream()[:9]), HOLD))
        screen = play(
            """
            patient = make_album.with_(settings=Settings(timeout=Timeouts(idle=0.2)))
            for album in patient.stream(topic="the sea"):
                print(album.title)
            """,
            server,
        )
        words = screen.failed_with("Timeout")
        assert "0.2 s" in words
        assert "idle" in words
        assert screen.lines[-1].startswith("Sea of Gla")
        server.wait_open(0)


def test_a_server_that_never_begins() -> None:
    with Loopback() as server:
        server.answer(HOLD)
        screen = play("make_album.with_(settings=Settings(timeout=0.2))(topic='the sea')", server)
        words = screen.failed_with("Timeout")
        assert "0.2 s" in words
        server.wait_open(0)


def test_words_instead_of_an_album() -> None:
    with Loopback() as server:
        server.answer(answered(text_body("I would rather talk about the weather.")))
        words = play(CALL, server).failed_with("NoToolCallError")
        assert "Expected at least one tool call, but got 0 tool calls." in words
        assert "I would rather talk about the weather." in words
        assert "max_attempts=2" in words


def test_the_album_in_words_is_the_album() -> None:
    with Loopback() as server:
        server.answer(answered(text_body(SEA.model_dump_json(indent=1))))
        screen = play(
            """
            result = make_album.run(topic="the sea")
            print(result.output.title, *result.repairs, sep="; ")
            """,
            server,
        )
        assert screen.went_well() == ["Sea of Glass; read Album from the text of the answer; no tool was called"]


def test_a_tool_that_no_one_offered() -> None:
    with Loopback() as server:
        server.answer(answered(album_body().replace(b'"name": "Album"', b'"name": "os.system"')))
        words = play(CALL, server).failed_with("UnknownToolError")
        assert "'os.system'" in words
        assert "Album" in words


def test_arguments_that_do_not_fit() -> None:
    with Loopback() as server:
        server.answer(answered(album_body('{"title": "Sea", "songs": [{"title": "x", "seconds": "long"}]}')))
        screen = play(
            """
            from toolcast import ValidationError
            try:
                make_album(topic="the sea")
            except ValidationError as error:
                for fault in error.errors():
                    print(fault["loc"], fault["type"])
                raise
            """,
            server,
        )
        assert screen.code == 1
        assert "toolcast.errors.ValidationError: " in screen.err
        assert sorted(screen.lines) == ["('artist',) missing", "('songs', 0, 'seconds') int_parsing"]


def test_a_second_chance() -> None:
    with Loopback() as server:
        server.answer(answered(album_body('{"title": "Sea"}')))
        server.answer(answered(album_body()))
        screen = play(
            """
            result = make_album.with_(max_attempts=2).run(topic="the sea")
            print(result.output.title, len(result.attempts), result.usage.input_tokens)
            print(type(result.attempts[0].error).__name__, result.attempts[1].error)
            """,
            server,
        )
        assert screen.went_well() == ["Sea of Glass 2 14", "ValidationError None"]
        text = json.loads(server.requests[1].body)["messages"]
        assert [message["role"] for message in text] == ["user", "assistant", "tool"]
        assert "artist: Field required" in text[-1]["content"]


def test_a_second_chance_for_a_stream() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream('{"title": "Sea", "artist": 5, "songs": []}')))
        server.answer(*spoken(*album_stream(SHORT.model_dump_json())))
        screen = play(
            """
            for album in make_album.with_(max_attempts=2).stream(topic="the sea"):
                pass
            print(album)
            """,
            server,
        )
        assert screen.went_well() == ["title='B' artist='C' songs=[]"]
        assert len(server.requests) == 2


def test_max_tokens_was_too_small() -> None:
    with Loopback() as server:
        server.answer(*spoken(*album_stream('{"title": "Sea of Gl', finish="length")))
        screen = play(STREAM, server)
        words = screen.failed_with("OutputTruncated")
        assert "max_tokens" in words
        assert screen.lines[-1] == "Sea of Gl"


def test_a_compressed_answer() -> None:
    with Loopback() as server:
        body = gzip.compress(b"".join(album_stream()))
        headers = ("content-type: text/event-stream", "content-encoding: gzip", f"content-length: {len(body)}")
        server.answer(head(200, *headers), body)
        assert play(STREAM, server).went_well()[-1] == "Sea of Glass"


def test_a_compressed_answer_that_is_not() -> None:
    with Loopback() as server:
        server.answer(head(200, "content-encoding: gzip", "content-length: 20"), b"this is not gzipped!")
        play(STREAM, server).failed_with("MalformedEvent")


def test_too_many_requests_are_waited_for() -> None:
    with Loopback() as server:
        server.answer(head(429, "retry-after-ms: 20", "content-length: 0"))
        server.answer(answered(album_body()))
        screen = play(
            f"""
            patient = make_album.with_(llm=OpenAI("m-1", base_url=sys.argv[1], api_key="{KEY}"))
            result = patient.run(topic="the sea")
            print(result.output.title, len(result.attempts), result.attempts[0].error.status)
            """,
            server,
        )
        assert screen.went_well() == ["Sea of Glass 2 429"]


def test_no_credit_is_not_waited_for() -> None:
    with Loopback() as server:
        server.answer(
            answered(b'{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}', 429)
        )
        # The key in a line of its own: from Python 3.13 on, a traceback shows the lines of a script like this one.
        call = "make_album.with_(llm=OpenAI('m', base_url=sys.argv[1], api_key=key))(topic='a')"
        screen = play(f"key = '{KEY}'\n{call}", server)
        assert "You exceeded your current quota" in screen.failed_with("QuotaExceeded")
        assert len(server.requests) == 1


def test_one_damaged_chunk_of_noise_is_skipped_without_a_word_on_the_screen() -> None:
    with Loopback() as server:
        events = album_stream()
        server.answer(*spoken(*events[:9], b"data: <ping>\n\n", *events[9:]))
        screen = play(STREAM, server)
        assert (screen.code, screen.lines[-1]) == (0, "Sea of Glass")
        assert "skipped" in screen.last  # logging's own last resort shows warnings


def test_a_lost_piece_of_an_album_is_not_passed_over() -> None:
    with Loopback() as server:
        events = album_stream()
        server.answer(*spoken(*events[:6], b'data: {"choices": [{"delta": {"tool_c\n\n', *events[7:]))
        screen = play(STREAM, server)
        assert "could not be read" in screen.failed_with("MalformedEvent")


def test_streamed_words_instead_of_an_album() -> None:
    with Loopback() as server:
        server.answer(*spoken(*sse(delta(content="No "), delta(content="idea."), delta("stop"))))
        screen = play(STREAM, server)
        assert "'No idea.'" in screen.failed_with("NoToolCallError")
        assert screen.out == ""
