"""telegram.py against a server of the Bot API on the loopback interface: accepted messages, failures, the token."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Iterator
from typing import Any

import anyio
import pytest

from support.loopback import HOLD, RESET, Loopback, Piece, head, whole
from toolcast.async_support.cancellation import Cancellation
from toolcast.async_support.sync_driver import run as run_sync
from toolcast.errors import ConnectFailed, TurnCancelled
from toolcast.experiments import telegram as module
from toolcast.experiments.experiment_tools import agent_tools
from toolcast.experiments.telegram import TelegramOperator
from toolcast.messages import ToolCallPart
from toolcast.tools.execution import read_call
from toolcast.tools.tool_context import ToolContext
from toolcast.transport.network import Response, SystemClock
from toolcast.values.http_request import HTTPRequest

TOKEN = "123456:AAE-top_secret-token"
SECRET = TOKEN.partition(":")[2]
ANN, BOB, EVE = 7, 8, 9
SENT = {"message_id": 1}
BROKEN: tuple[Piece, ...] = (head(200, "content-length: 100"), b'{"ok"', RESET)


def ok(result: Any) -> bytes:
    return whole(json.dumps({"ok": True, "result": result}).encode())


def refused(status: int, why: str, **parameters: Any) -> bytes:
    answer = {"ok": False, "error_code": status, "description": why, "parameters": parameters}
    return whole(json.dumps(answer).encode(), status)


def written(number: int, text: str | None, sender: int = ANN, **changes: Any) -> dict[str, Any]:
    """Return the update for a message."""
    message = {"message_id": 100 + number, "from": {"id": sender}, "chat": {"id": sender}}
    message |= ({} if text is None else {"text": text}) | changes
    return {"update_id": number, "message": message}


class Bot(Loopback):
    """The Bot API on the loopback interface."""

    def operator(self, users: tuple[str | int, ...] = (ANN,), **options: Any) -> TelegramOperator:
        base = f"http://127.0.0.1:{self.port}/"
        return TelegramOperator(users, **{"token": TOKEN, "base_url": base, **options})

    def answers(self, *answers: bytes | tuple[Piece, ...]) -> None:
        for each in answers:
            self.answer(*(each if isinstance(each, tuple) else (each,)))

    @property
    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """What was asked: methods and values."""
        return [(each.line.split(" ")[1].rpartition("/")[2], json.loads(each.body)) for each in self.requests]


class Time(SystemClock):
    """A clock that only a sleep moves on, and each look by `step` seconds."""

    def __init__(self, step: float = 0.0) -> None:
        self.slept: list[float] = []
        self.step = step
        self.seconds = 0.0

    def now(self) -> float:
        self.seconds += self.step
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


@pytest.fixture
def bot() -> Iterator[Bot]:
    with Bot() as bot:
        yield bot


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "SystemClock", lambda: time)
    return time


class Elsewhere:
    """The channel behind Telegram."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, int]] = []

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        self.asked.append((message, run_id, cycle_number))
        return "from elsewhere"


def asked(operator: TelegramOperator, message: str = "Who am I?") -> str:
    return operator.send_and_wait(message, "run_1", 2)


# A message and its answer.


def test_a_message_is_sent_and_the_answer_returned(bot: Bot) -> None:
    bot.answers(ok([]), ok(SENT), ok([]), ok([written(41, "  yourself \n")]))
    assert asked(bot.operator()) == "  yourself \n"
    assert bot.requests[0].line == f"POST /bot{TOKEN}/getUpdates HTTP/1.1"
    assert bot.calls == [
        ("getUpdates", {"offset": -100, "timeout": 0, "allowed_updates": ["message"]}),
        ("sendMessage", {"chat_id": ANN, "text": "[AGENT - run_1 | Cycle 2]: Who am I?"}),
        ("getUpdates", {"offset": 0, "timeout": 50, "allowed_updates": ["message"]}),
        ("getUpdates", {"offset": 0, "timeout": 50, "allowed_updates": ["message"]}),
    ]


def test_what_was_written_before_the_message_is_no_answer(bot: Bot) -> None:
    bot.answers(ok([written(40, "early"), written(41, "too")]), ok(SENT), ok([written(42, "answer")]))
    operator = bot.operator()
    assert asked(operator) == "answer"
    assert bot.calls[2][1]["offset"] == 42
    bot.answers(ok([written(43, "late")]), ok(SENT), ok([written(44, "next"), written(45, "more")]))
    assert asked(operator) == "next"
    assert bot.calls[5][1]["offset"] == 44


@pytest.mark.parametrize(
    "update",
    [
        written(41, "text", EVE),
        written(41, "text", EVE, username="ann"),
        written(41, None),
        written(41, None, photo=[]),
        written(41, "/start"),
        written(41, "in a group", chat={"id": -100}),
        written(41, "of a channel", **{"from": None}),
        {"update_id": 41, "edited_message": {"text": "edited"}},
        {"update_id": 41},
        {"update_id": "41", "message": {}},
        written(41, "written as the question went out", message_id=1),
        written(41, "without a number", message_id=None),
        {"message": {}},
        written(41, "", chat={"id": "7"}),
        "no update",
    ],
)
def test_no_one_else_and_nothing_else_is_received(bot: Bot, update: Any) -> None:
    bot.answers(ok([]), ok(SENT), ok([update]), ok([written(42, "mine")]))
    assert asked(bot.operator()) == "mine"


def test_all_who_are_authorised_are_written_to_and_the_first_counts(bot: Bot) -> None:
    bot.answers(ok([]), ok(SENT), ok(SENT), ok([written(1, "me first", BOB), written(2, "and me", ANN)]))
    assert asked(bot.operator((ANN, str(BOB)))) == "me first"
    assert [values["chat_id"] for method, values in bot.calls if method == "sendMessage"] == [ANN, BOB]


def test_one_who_blocks_the_bot_is_passed_over(bot: Bot) -> None:
    bot.answers(ok([]), refused(403, "Forbidden: bot was blocked by the user"), ok(SENT), ok([written(1, "here", BOB)]))
    assert asked(bot.operator((ANN, BOB))) == "here"


def test_who_is_authorised_by_name_is_written_to_once_they_wrote(bot: Bot) -> None:
    named = {"from": {"id": ANN, "username": "AnnSmith"}}
    bot.answers(ok([written(1, "/start", **named)]), ok(SENT), ok([written(2, "it is me", **named)]))
    operator = bot.operator(("@annsmith",))
    assert asked(operator) == "it is me"
    bot.answers(ok([]), ok(SENT), ok([written(3, "again", **named)]))
    assert asked(operator) == "again"


def test_who_is_authorised_by_name_and_never_wrote_cannot_be_reached(bot: Bot) -> None:
    bot.answers(ok([]))
    with pytest.raises(ConnectionError, match="none of the authorised users has written to the bot yet"):
        asked(bot.operator(("@ann",)))


def test_a_long_message_may_be_answered_before_its_last_piece(bot: Bot) -> None:
    sent = [ok({"message_id": number}) for number in (10, 12)]
    bot.answers(ok([]), *sent, ok([written(1, "to the first", message_id=11)]))
    assert asked(bot.operator(), "a" * 5000) == "to the first"


def test_long_messages_come_in_pieces_and_one_that_is_too_long_reports_it(bot: Bot) -> None:
    bot.answers(ok([]), *[ok(SENT)] * 3, ok([written(1, "x")]))
    message = "😀" * 4000
    asked(bot.operator(), message)
    pieces = [values["text"] for method, values in bot.calls if method == "sendMessage"]
    assert "".join(pieces) == f"[AGENT - run_1 | Cycle 2]: {message}"
    assert max(len(piece.encode("utf-16-le")) // 2 for piece in pieces) <= 4096


def test_of_a_message_that_is_too_long_there_is_the_beginning(bot: Bot) -> None:
    bot.answers(ok([]), *[ok(SENT)] * 10, ok([written(1, "x")]))
    asked(bot.operator(), "a\ud800" * 100_000)
    pieces = [values["text"] for method, values in bot.calls if method == "sendMessage"]
    assert len(pieces) == 10
    assert pieces[-1].endswith("?a\n[the rest was left out]")
    assert max(map(len, pieces)) <= 4096


def test_ten_full_pieces_are_not_cut(bot: Bot) -> None:
    begins = "[AGENT - run_1 | Cycle 2]: "
    message = "a" * (3996 * 10 - len(begins))
    bot.answers(ok([]), *[ok(SENT)] * 10, ok([written(1, "x")]))
    asked(bot.operator(), message)
    pieces = [values["text"] for method, values in bot.calls if method == "sendMessage"]
    assert len(pieces) == 10
    assert "".join(pieces) == begins + message


# Time.


def test_a_timeout_of_zero_does_not_wait(bot: Bot) -> None:
    bot.answers(ok([]), ok(SENT))
    with pytest.raises(TimeoutError, match="the operator did not answer by Telegram within 0 minutes"):
        asked(bot.operator(timeout_minutes=0, fallback=Elsewhere()))
    assert len(bot.calls) == 2


def test_time_that_is_up_is_a_timeout_and_no_one_else_is_asked(bot: Bot, time: Time) -> None:
    time.step = 25.0
    bot.answers(ok([]), ok(SENT))
    elsewhere = Elsewhere()
    bot.answers(ok([]), ok([]))
    with pytest.raises(TimeoutError, match=r"within 1 minute$"):
        asked(bot.operator(timeout_minutes=1, fallback=elsewhere))
    assert [values["timeout"] for _, values in bot.calls[2:]] == [35, 10]
    assert elsewhere.asked == []


def test_minus_one_waits_for_ever(bot: Bot, time: Time) -> None:
    time.step = 1e9
    bot.answers(ok([]), ok(SENT), *[ok([])] * 5, ok([written(1, "at last")]))
    assert asked(bot.operator(timeout_minutes=-1)) == "at last"


def test_while_it_waits_a_broken_connection_is_waited_out(bot: Bot, time: Time) -> None:
    bot.answers(
        ok([]),
        ok(SENT),
        BROKEN,
        refused(502, "Bad Gateway"),
        whole(b"<html>", 503),
        refused(429, "Too Many Requests: retry after 7", retry_after=7),
        ok({"no": "list"}),
        BROKEN,
        ok([]),
        BROKEN,
        ok([written(1, "back")]),
    )
    assert asked(bot.operator(fallback=Elsewhere())) == "back"
    assert time.slept == [1.0, 2.0, 5.0, 7.0, 30.0, 30.0, 1.0]


def test_a_connection_that_stays_broken_is_a_timeout(bot: Bot, time: Time) -> None:
    bot.answers(ok([]), ok(SENT), *[refused(500, "Internal Server Error", retry_after=45)] * 2)
    with pytest.raises(TimeoutError):
        asked(bot.operator(timeout_minutes=1))
    assert time.slept == [45.0, 15.0]


@pytest.mark.parametrize("pause", [0, -3, "7", None, float("inf"), True])
def test_an_invalid_pause_is_ignored(bot: Bot, time: Time, pause: Any) -> None:
    bot.answers(ok([]), ok(SENT), refused(429, "Too Many Requests", retry_after=pause), ok([written(1, "x")]))
    assert asked(bot.operator()) == "x"
    assert time.slept == [1.0]


# No connection.


@pytest.mark.parametrize(
    ("answers", "reported"),
    [
        ([refused(401, "Unauthorized")], "getUpdates: Unauthorized (401). Is TELEGRAM_BOT_TOKEN right?"),
        ([refused(404, "Not Found")], "getUpdates: Not Found (404). Is TELEGRAM_BOT_TOKEN right?"),
        ([(RESET,)], "getUpdates: the connection to 127.0.0.1:"),
        ([whole(b"not found", 404)], "getUpdates: status 404, and no answer of the Bot API"),
        ([whole(b"[]")], "getUpdates: status 200, and no answer of the Bot API"),
        ([whole(b'{"ok": false}', 418)], "getUpdates: None (418)"),
        (
            [ok([]), refused(400, "Bad Request: chat not found")],
            "sendMessage: Bad Request: chat not found (400). Has this person written to the bot?",
        ),
        (
            [ok([]), ok(SENT), refused(409, "Conflict: terminated by other getUpdates request")],
            "Another program asks this bot for its messages: give each run a bot of its own",
        ),
    ],
)
def test_where_no_one_is_reached_the_fallback_is_asked(
    bot: Bot, answers: list[bytes | tuple[Piece, ...]], reported: str, caplog: pytest.LogCaptureFixture
) -> None:
    elsewhere = Elsewhere()
    bot.answers(*answers)
    assert asked(bot.operator(fallback=elsewhere)) == "from elsewhere"
    assert elsewhere.asked == [("Who am I?", "run_1", 2)]
    assert "the operator cannot be reached by Telegram, and is asked elsewhere: " in caplog.text
    assert reported in caplog.text
    bot.answers(*answers)
    with pytest.raises(ConnectionError, match=r"^the operator cannot be reached by Telegram: ") as raised:
        asked(bot.operator())
    assert reported in str(raised.value)


def test_a_server_that_is_not_there(bot: Bot) -> None:
    with Loopback() as gone:
        base = f"http://127.0.0.1:{gone.port}"
    with pytest.raises(ConnectionError, match=r"getUpdates: no connection to 127\.0\.0\.1"):
        asked(bot.operator(base_url=base))


def test_an_answer_without_end_is_cut(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_BYTES", 10)
    bot.answers(ok([]))
    with pytest.raises(ConnectionError, match="the answer has more than 10 bytes"):
        asked(bot.operator())


def test_a_server_that_falls_silent(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GRACE", 0.05)
    bot.answer(head(200, "content-length: 100"), b'{"ok"', HOLD)
    with pytest.raises(ConnectionError, match="getUpdates: "):
        asked(bot.operator())


# The token.


@pytest.fixture
def no_token_is_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Whatever is logged, the token is not in it."""
    with caplog.at_level(logging.DEBUG):
        yield
    records = caplog.get_records("call")
    assert records
    assert SECRET not in " ".join([record.getMessage() for record in records])


@pytest.mark.usefixtures("no_token_is_logged")
@pytest.mark.parametrize("proxied", [False, True])
@pytest.mark.parametrize(
    "answer",
    [
        (RESET,),
        refused(401, f"no such bot: {TOKEN}"),
        whole(f"no JSON of {TOKEN}".encode(), 500),
        (f"HTTP/1.1 {TOKEN}\r\n\r\n".encode(),),
        (head(200, f"x-{TOKEN}: {TOKEN}"), b"\x00", RESET),
    ],
)
def test_the_token_is_in_no_error_and_in_no_log(
    bot: Bot, answer: Any, proxied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if proxied:  # then httpx does more by itself, and logs the URL
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{bot.port}")
    bot.answers(answer)
    operator = bot.operator(base_url="http://api.telegram.example") if proxied else bot.operator()
    with pytest.raises(ConnectionError) as raised:
        asked(operator)
    everything = "".join(traceback.format_exception(raised.value)) + repr(raised.value.__context__)
    assert SECRET not in everything
    assert TOKEN in bot.requests[0].line


@pytest.mark.usefixtures("no_token_is_logged")
def test_the_token_is_in_no_log_where_all_goes_well(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{bot.port}")
    bot.answers(ok([]), ok(SENT), ok([written(1, "x")]))
    asked(bot.operator(base_url="http://api.telegram.example"))


def test_no_look_at_the_objects_shows_the_token(bot: Bot) -> None:
    operator = bot.operator()
    request = operator._bot._request("getMe", {})
    assert TOKEN in request.target
    assert SECRET not in repr(operator._bot) + repr(request) + repr(vars(operator)) + request.url
    assert request.mask(f"POST {request.target}").endswith("/bot[key]/getMe")


def test_what_a_network_of_the_users_own_reports_is_masked() -> None:
    class Talkative:
        def open(self, request: HTTPRequest, *, connect: float | None, read: float | None) -> Response:
            raise ConnectFailed(f"no way to {request.target}")

    network: Any = Talkative()
    with pytest.raises(ConnectionError, match=r"no way to https://api\.telegram\.org/bot\[key\]/getUpdates") as raised:
        asked(TelegramOperator([ANN], token=TOKEN, network=network))
    assert SECRET not in "".join(traceback.format_exception(raised.value))


# What is given up.


def test_a_call_that_is_cancelled_does_not_wait_and_asks_no_one_else(bot: Bot) -> None:
    elsewhere, cancellation = Elsewhere(), Cancellation()
    bot.answers(ok([]), ok(SENT), (HOLD,))
    tools = {tool.name: tool for tool in agent_tools(None, bot.operator(timeout_minutes=-1, fallback=elsewhere))}
    job = read_call(ToolCallPart("call_1", "send_message_to_operator", '{"message": "m"}'), tools)

    def cancel() -> None:
        bot.wait_requests(3)
        cancellation.cancel()

    threading.Thread(target=cancel, daemon=True).start()
    run_sync(job.run(False, ToolContext(cancellation=cancellation)))
    assert isinstance(job.error, TurnCancelled)
    assert elsewhere.asked == []


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_task_gives_the_connection_back(bot: Bot, backend: str) -> None:
    bot.answers(ok([]), ok(SENT), (HOLD,))
    tools = {tool.name: tool for tool in agent_tools(None, bot.operator(timeout_minutes=-1))}
    job = read_call(ToolCallPart("call_1", "send_message_to_operator", '{"message": "m"}'), tools)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(job.run, True, ToolContext())
            await anyio.to_thread.run_sync(bot.wait_requests, 3)
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    bot.wait_open(0)


# What it is made of.


@pytest.mark.parametrize("token", ["", "not a token", "1:a/../b", "1:ä", "654321:", ":abc", "1:abc\n"])
def test_a_token_that_is_none(token: str) -> None:
    with pytest.raises(
        ValueError, match=r"TELEGRAM_BOT_TOKEN is (not set|no token of a bot): Telegram's BotFather"
    ) as raised:
        TelegramOperator([ANN], token=token)
    assert not token or token not in str(raised.value)


def test_the_token_of_the_environment(bot: Bot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    bot.answers(ok([]), ok(SENT), ok([written(1, "x")]))
    assert asked(bot.operator(token=None)) == "x"


@pytest.mark.parametrize("minutes", [-2, 121, float("nan")])
def test_minutes_that_are_none(minutes: Any) -> None:
    with pytest.raises(ValueError, match="give 0 to 120, or -1 to wait for ever"):
        TelegramOperator([ANN], timeout_minutes=minutes, token=TOKEN)


@pytest.mark.parametrize("users", [(), ("",), ("@",), (ANN, " ")])
def test_users_that_are_none(users: tuple[str | int, ...]) -> None:
    with pytest.raises(ValueError, match="name who may answer"):
        TelegramOperator(users, token=TOKEN)
