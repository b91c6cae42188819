"""call_report.py: the line of each call in the log, and what `verbose=True` writes."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ConfigDict

from support.albums import SEA, Album
from support.chunks import album_body, delta, sse
from support.process import Process
from support.sync_and_async import API
from toolcast import Engine, OpenAI, Prices, ToolOrchestratingLLM, ValidationError
from toolcast.errors import Attempt, BadRequest
from toolcast.llms.call_report import Account
from toolcast.llms.call_state import CallState
from toolcast.messages import ImagePart, assistant, user
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM, VirtualClock
from toolcast.values.settings import Settings
from toolcast.values.usage import Usage

COST = re.compile(r"\d+\.\d\d s, ")


def maker(*answers: Any, **options: Any) -> Any:
    return ToolOrchestratingLLM(Album, "An album\x1b[2J about {x}", ScriptedLLM(*answers), verbose=True, **options)


def written(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines on stderr, without times and numbers of calls."""
    out, error = capsys.readouterr()
    assert out == ""
    return [COST.sub("", re.sub(r"call-\d+", "call-N", line)) for line in error.splitlines()]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_account_of_a_call(api: API, streamed: bool, capsys: pytest.CaptureFixture[str]) -> None:
    make = maker(SEA)
    api.stream(make, x="rain") if streamed else api.call(make, x="rain")
    assert written(capsys) == [
        "toolcast call-N Album with scripted scripted (tool_call)",
        "  tools: Album(title, artist, songs)",
        r"  user: An album\x1b[2J about rain",
        f"  result: {SEA!r}",
        "  10 tokens in, 5 out, cost unknown",
    ]


def test_an_account_has_a_known_cost(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    llm = ScriptedLLM(SEA, prices=Prices(input=1000, output=2000))
    api.call(ToolOrchestratingLLM(Album, "An album", llm, verbose=True))
    assert written(capsys)[-1] == "  10 tokens in, 5 out, about $0.020000"


def test_an_account_and_a_line_have_the_known_part_of_a_cost(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcast")
    call().end(output=1, usage=Usage(10, 5).with_cost("0.5") + Usage(10, 5))
    assert written(capsys)[-1] == "  20 tokens in, 10 out, at least $0.500000"
    assert lines(caplog) == [r"call-1 with p m\x07: done (20 tokens in, 10 out, at least $0.500000)"]


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_an_account_of_a_failure_has_every_attempt(
    api: API, streamed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    make = maker("no", {"title": 1}, max_attempts=2)
    if streamed:
        assert isinstance(api.stream(make, x="y").error, ValidationError)
    else:
        with pytest.raises(ValidationError):
            api.call(make, x="y")
    _, _, _, first, answer, correction, second, last, cost = written(capsys)
    wanted = r"  attempt 1, \d\.\d\d s: NoToolCallError: scripted scripted: Expected at least one tool call"
    assert re.match(wanted, first)
    assert answer == "  assistant: no"
    assert correction.startswith("  user: ")
    assert re.match(r"  attempt 2, \d\.\d\d s: ValidationError: scripted scripted: the arguments", second)
    assert last == '  assistant: Album {"title":1}'
    assert cost.endswith(" out, 2 requests, cost unknown")


class Hidden(Album):
    """An album whose input is hidden."""

    model_config = ConfigDict(hide_input_in_errors=True)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_answers_in_an_account_have_no_hidden_input(
    api: API, streamed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ["Sea of Glass", {"title": "Sea of Glass"}, {"artist": "Sea of Glass"}]
    make = ToolOrchestratingLLM(Hidden, "x", ScriptedLLM(*answers), verbose=True, max_attempts=3)
    if streamed:
        assert isinstance(api.stream(make).error, ValidationError)
    else:
        with pytest.raises(ValidationError):
            api.call(make)
    found = written(capsys)
    assert [line for line in found if line.startswith("  assistant: ")] == [
        "  assistant: (no answer)",
        "  assistant: Hidden {}",
        '  assistant: Hidden "(hidden)"',
    ]
    assert "Sea of Glass" not in "".join(found)


def test_answers_in_an_account_have_no_credentials(api: API, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Recorded.of(album_body(json.dumps({"title": f"{'x' * 250} {KEY * 3}"})))
    llm = OpenAI("m", api="chat", api_key=KEY, network=ReplayNetwork(wrong, wrong))
    with pytest.raises(ValidationError):
        api.call(ToolOrchestratingLLM(Album, "x", llm, verbose=True, max_attempts=2))
    first, last = [line for line in written(capsys) if line.startswith("  assistant: ")]
    assert first == last
    assert "xxx [key]" in first
    assert "sk-c" not in first


def test_an_error_after_a_valid_answer_has_a_line_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    call(attempts=[Attempt(1, BadRequest("no")), Attempt(2)]).end(RuntimeError("the tool"))
    assert written(capsys)[1:4] == [
        "  attempt 1, 0.00 s: BadRequest: no",
        "  attempt 2, 0.00 s",
        "  RuntimeError: the tool",
    ]


@pytest.mark.parametrize(
    ("asked", "reason"), [(None, "back-off"), (2.0, "the service asked for 2.00 s")], ids=["own", "asked"]
)
def test_a_wait_has_its_reason(
    api: API,
    asked: float | None,
    reason: str,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "toolcast")
    headers = {"content-type": "application/json"} | ({} if asked is None else {"retry-after": str(asked)})
    down = Recorded([b'{"error": {"message": "down"}}'], 503, headers)
    llm = OpenAI("m", api="chat", api_key=KEY, network=ReplayNetwork(down, Recorded.of(album_body())))
    llm.clock = VirtualClock()
    api.call(ToolOrchestratingLLM(Album, "x", llm, verbose=True))
    assert f" s later ({reason}): Overloaded: " in written(capsys)[3]
    wait = re.sub(
        r"call-\d+|\d\.\d\d s \(", lambda found: "call-N" if found[0][0] == "c" else "N s (", caplog.messages[0]
    )
    assert wait == f"call-N attempt 1 with openai m: Overloaded (503), the next in N s ({reason})"


def test_a_stream_that_is_closed_early(capsys: pytest.CaptureFixture[str], api: API) -> None:
    api.stream(maker(SEA), take=1, x="y")
    assert written(capsys)[3] == "  closed before its end"


def test_a_stream_that_is_never_begun_has_no_account(capsys: pytest.CaptureFixture[str]) -> None:
    maker(SEA).stream(x="y").close()
    assert written(capsys) == []


def test_an_interrupted_call(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt):
        maker(KeyboardInterrupt())(x="y")
    assert written(capsys)[3] == "  KeyboardInterrupt:"


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [COST.sub("", record.getMessage()) for record in caplog.records if record.levelno == level]


def test_each_call_of_an_llm_is_a_line(api: API, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcast")
    llm = ScriptedLLM("Hi", "Hi", BadRequest("no"), BadRequest("no"))
    api.chat(llm, "x")
    api.events(llm, "x")
    for ask in (api.chat, api.events):
        with pytest.raises(BadRequest):
            ask(llm, "x")
    done, failed = "done (10 tokens in, 5 out)", "BadRequest (0 tokens in, 0 out)"
    assert lines(caplog) == [f"chat with scripted scripted: {end}" for end in (done, done, failed, failed)]


def test_a_stream_of_events_that_is_closed_early(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcast")
    stream = ScriptedLLM("Hi").stream_chat("x")
    stream.next()
    stream.close()
    stream.close()
    ScriptedLLM("Hi").stream_chat("x").close()
    assert lines(caplog) == ["chat with scripted scripted: closed before its end (0 tokens in, 0 out)"]


def test_each_round_of_an_engine_is_a_line(api: API, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcast")
    api.method(Engine(ScriptedLLM("Hi")), "submit", "x")
    with pytest.raises(BadRequest):
        api.method(Engine(ScriptedLLM(BadRequest("no"))), "submit", "x")
    assert lines(caplog) == [
        "round with scripted scripted: done (10 tokens in, 5 out)",
        "round with scripted scripted: BadRequest (0 tokens in, 0 out)",
    ]


def test_no_line_where_no_one_wants_one(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "toolcast")
    ScriptedLLM("Hi").chat("x")
    assert caplog.records == []


def call(*messages: Any, attempts: Sequence[Attempt] = ()) -> CallState:
    account = Account("call-1", {"provider": "p", "model": "m\x07"}, messages)
    return CallState(attempts=[*attempts]).begin(Settings(), lambda: 1.0, lambda: account, verbose=True)


class Rude:
    def __repr__(self) -> str:
        raise RuntimeError("not for you")


def test_an_output_that_cannot_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    call().end(output=Rude())
    assert "  the result cannot be shown, as its __repr__ raised RuntimeError" in written(capsys)


def test_what_is_long_is_cut_and_what_is_no_text_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    picture = ImagePart(data=b"x", media_type="image/png")
    attempts = [Attempt(1, seconds=2, wait=0.25), Attempt(2, seconds=1)]
    call(user("a\n" * 1000), user("look", picture), assistant("ok"), attempts=attempts).end(output="b" * 9000)
    title, long, look, answer, first, second, result, _ = written(capsys)
    assert title == r"toolcast call-N with p m\x07"
    assert (len(long), long[-1]) == (302, "…")
    assert (look, answer) == ("  user: look [image]", "  assistant: ok")
    assert first == "  attempt 1, the next 0.25 s later (back-off): complete"  # `written` removes "2.00 s, "
    assert second == "  attempt 2, 1.00 s"
    assert (len(result), result[-1]) == (2002, "…")


def test_an_account_is_written_once(capsys: pytest.CaptureFixture[str]) -> None:
    twice = call()
    twice.end(output=1)
    twice.end(ValueError())
    assert len(written(capsys)) == 3


@pytest.mark.parametrize("stream", [None, "closed"])
def test_without_a_stderr_nothing_is_written(stream: str | None, process: Process) -> None:
    closed = io.StringIO()
    closed.close()
    process.stream("stderr", None if stream is None else closed)
    call().end(output=1)


KEY = "sk-canary-0123456789"


@pytest.mark.parametrize("status", [200, 400])
def test_bodies_are_logged_without_keys_and_cut(api: API, caplog: pytest.LogCaptureFixture, status: int) -> None:
    caplog.set_level(logging.DEBUG, "toolcast")
    text = "é" * 2000 + KEY * 300
    answer = {"choices": [{"message": {"content": text}}]} if status == 200 else {"error": {"message": text}}
    body = json.dumps(answer, ensure_ascii=False).encode()
    pieces = [body[at : at + 1000] for at in range(0, len(body), 1000)]
    llm = OpenAI(
        "m",
        api="chat",
        api_key=KEY,
        network=ReplayNetwork(Recorded(pieces, status, {"content-type": "application/json"})),
    )
    if status == 200:
        api.chat(llm, text)
    else:
        with pytest.raises(BadRequest):
            api.chat(llm, text)
    request, response = lines(caplog, logging.DEBUG)
    assert request.startswith('request body, attempt 1, POST https://api.openai.com/v1/chat/completions: {"')
    wanted = r"response body, attempt 1 \(%d after \d\.\d\d s\), POST https://api\.openai\.com/v1/chat/completions: \{"
    assert re.match(wanted % status, response)
    for line in (request, response):
        assert "sk-c" not in line
        assert re.search(r"… \(\d+ bytes or more\)$", line)
        assert len(line) < 4300


def test_a_short_body_is_logged_whole(api: API, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "toolcast")
    pieces = sse(delta(content="Hi"), delta("stop"))
    api.events(OpenAI("m", api="chat", api_key=KEY, network=ReplayNetwork(Recorded(pieces))), "x")
    _, response = lines(caplog, logging.DEBUG)
    assert response.endswith(b"".join(pieces).decode())
