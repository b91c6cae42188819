"""`TelegramOperator`: the operator answers from a telephone, through a bot of Telegram.

The Bot API is two calls here: `sendMessage` to everybody who is authorised, then `getUpdates`, which the server holds
open until somebody writes. The first authorised person who answers counts; nobody else is heard. What was written
before the message went out is no answer to it. A bot can write only to a person who has written to it: who is
authorised by number is written to at once, who is by user name once a message of theirs was seen.

Where the message reaches nobody, the `fallback` asks instead, and the log says why. Once it has arrived, a broken
connection is waited out. The token is a part of each URL, so each text that could hold one is masked on its way out.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final, cast

from ..credentials import Secret, SecretURL
from ..errors import LLMError
from ..http_request import HTTPRequest, build_request
from ..transport.cancel_handle import line_here
from ..transport.network import Clock, HttpxNetwork, Network, SystemClock, read_body
from .operators import OperatorChannel, announced

logger: Final = logging.getLogger("toolcast")

API: Final = "https://api.telegram.org"
LONGEST_POLL: Final = 50  # seconds; the server holds no request longer

_TOKEN: Final = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_PIECE: Final = 4096  # characters of a message, as UTF-16 counts them
_PIECES: Final = 10
_GRACE: Final = 10.0  # seconds beyond what the server was asked to wait
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_LARGEST: Final = 1 << 24  # bytes of an answer; a hundred messages are far less
_FOR_EVER: Final = -1
_MOST_MINUTES: Final = 120


class TelegramOperator:
    """The people `authorized_users`, ids (12345) or names ("@ann"), as they write to the bot of `token`.

    `timeout_minutes`: how long an answer may take, at most 120; 0 does not wait, -1 waits for ever. Without a `token`
    it is the environment's `TELEGRAM_BOT_TOKEN`. `fallback` is asked where Telegram reaches nobody. One bot serves one
    run at a time. `network` replaces httpx, and `base_url` the public server of the Bot API.
    """

    def __init__(
        self,
        authorized_users: Sequence[str | int],
        *,
        timeout_minutes: int = 5,
        token: str | None = None,
        fallback: OperatorChannel | None = None,
        network: Network | None = None,
        base_url: str = API,
    ) -> None:
        given = _Token(os.environ.get("TELEGRAM_BOT_TOKEN", "") if token is None else token)
        del token  # what follows may raise, and no frame of a traceback may hold it
        if not (timeout_minutes == _FOR_EVER or 0 <= timeout_minutes <= _MOST_MINUTES):
            raise ValueError(f"timeout_minutes={timeout_minutes!r}: give 0 to {_MOST_MINUTES}, or -1 to wait for ever")
        if not _TOKEN.fullmatch(given.reveal()):
            wrong = "is no token of a bot" if given else "is not set"
            raise ValueError(f"TELEGRAM_BOT_TOKEN {wrong}: Telegram's BotFather gives one, as in 123456:ABC-DEF")
        self.timeout_minutes: int = timeout_minutes
        self.fallback: OperatorChannel | None = fallback
        self._people = _People(authorized_users)
        self._bot = _Bot(given, network or HttpxNetwork(), SecretURL(base_url.rstrip("/")))
        self._clock: Clock = SystemClock()
        self._lock = Lock()

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """What the first of them answers. Raises `TimeoutError`; `ConnectionError` where there is no fallback."""
        with self._lock:
            try:
                self._send(announced(message, run_id, cycle_number))
                return self._answer()
            except _Failed as error:
                if self.fallback is None or _is_taken_back():
                    raise ConnectionError(f"the operator cannot be reached by Telegram: {error}") from None
                logger.warning("the operator cannot be reached by Telegram, and is asked elsewhere: %s", error)
        return self.fallback.send_and_wait(message, run_id, cycle_number)

    def _send(self, text: str) -> None:
        """Have the message with all who can be written to. Raises `_Failed` where that is nobody."""
        self._see(self._bot.updates(-100, 0))  # and what is older is forgotten
        failure = _Failed(
            "none of the authorised users has written to the bot yet. A bot cannot write first to a user name: "
            "authorise the number of the account, or have them press Start"
        )
        reached = False
        for chat in self._people.chats:
            try:
                for number, piece in enumerate(_pieces(text)):
                    sent = self._bot.call("sendMessage", {"chat_id": chat, "text": piece}, _GRACE)
                    if not number:
                        self._people.was_asked(chat, sent)
                reached = True
            except _Failed as error:
                failure = error
        if not reached:
            raise failure

    def _answer(self) -> str:
        """The first text of an authorised person. Raises `_Failed` where it is in vain to go on waiting."""
        minutes = self.timeout_minutes
        until = math.inf if minutes == _FOR_EVER else self._clock.now() + minutes * 60
        failures = 0
        while (left := until - self._clock.now()) > 0:
            try:
                seconds = math.ceil(min(left, LONGEST_POLL))
                answers = self._see(self._bot.updates(self._people.next_update, seconds))
                failures = 0
            except _Failed as error:
                if not error.passes or _is_taken_back():
                    raise
                pause = error.pause or _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
                self._clock.sleep(min(pause, left))
                continue
            if answers:
                return answers[0]
        raise TimeoutError(f"the operator did not answer by Telegram within {minutes} minute{'s' * (minutes != 1)}")

    def _see(self, updates: Sequence[Mapping[str, Any]]) -> list[str]:
        return [text for update in updates if (text := self._people.said(update)) is not None]


class _People:
    """Who is authorised, where each can be written to, and which updates were seen."""

    def __init__(self, users: Sequence[str | int]) -> None:
        names = [str(user).strip().removeprefix("@").casefold() for user in users]
        if not all(names) or not names:
            raise ValueError("authorized_users: name who may answer, by number (12345) or user name ('@ann')")
        self._names = frozenset(names)
        # By chat, the number of the last message there that is no answer.
        self._chats: dict[int, int] = {int(name): 0 for name in names if name.isdecimal()}
        self.next_update: int = 0

    @property
    def chats(self) -> tuple[int, ...]:
        """Where the bot can write to them: a person's own chat has the person's number."""
        return tuple(self._chats)

    def was_asked(self, chat: int, sent: Any) -> None:
        """Have only what is written in `chat` after the message `sent` be an answer."""
        self._chats[chat] = _number(_part({"sent": sent}, "sent"), "message_id")

    def said(self, update: Mapping[str, Any]) -> str | None:
        """The text that an authorised person has written to the bot in private; None for all else."""
        self.next_update = max(self.next_update, _number(update, "update_id") + 1)
        message = _part(update, "message")
        sender, chat = _part(message, "from"), _part(message, "chat").get("id")
        if not isinstance(chat, int) or chat != sender.get("id") or not self._is_one(sender):
            return None
        if _number(message, "message_id") <= self._chats.setdefault(chat, 0):
            return None
        text = message.get("text")
        # The application sends /start by itself, when somebody meets the bot.
        return text if isinstance(text, str) and text != "/start" else None

    def _is_one(self, sender: Mapping[str, Any]) -> bool:
        name = sender.get("username")
        known = (str(sender.get("id")), name.casefold() if isinstance(name, str) else "")
        return not self._names.isdisjoint(known)


class _Failed(Exception):
    """A call of the Bot API failed. `passes`: it may go well after a `pause` of so many seconds."""

    def __init__(self, message: str, *, passes: bool = False, pause: float | None = None) -> None:
        super().__init__(message)
        self.passes: bool = passes
        self.pause: float | None = pause


class _Token(Secret):
    """The token of a bot: a number, a colon, and what is secret of it, which does not show alone either."""

    __slots__ = ()

    def mask(self, text: str) -> str:
        """`text` without the token."""
        half = self.reveal().partition(":")[2]
        return super().mask(text).replace(half, "[key]")


@dataclass(frozen=True, slots=True)
class _Bot:
    """The Bot API, as far as it is needed."""

    token: Secret
    network: Network
    base_url: SecretURL

    def updates(self, offset: int, seconds: int) -> list[Mapping[str, Any]]:
        """What was written to the bot, from update `offset` on; the server waits so many seconds for something."""
        asked = {"offset": offset, "timeout": seconds, "allowed_updates": ["message"]}
        found = self.call("getUpdates", asked, seconds + _GRACE)
        if not isinstance(found, list):
            raise _Failed(f"getUpdates gave {type(found).__name__} instead of a list", passes=True)
        return [update for update in cast("Any", found) if isinstance(update, dict)]

    def call(self, method: str, values: Mapping[str, Any], seconds: float) -> Any:
        """What `method` gives. Raises `_Failed`, in whose text there is no token."""
        request = self._request(method, values)
        try:
            status, body = self._sent(request, seconds)
        except (LLMError, OSError) as error:
            # Not as its cause: what a network of the user's own raises may hold anything.
            raise _Failed(request.mask(f"{method}: {error}"), passes=True) from None
        try:
            answer: Any = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _Failed(f"{method}: status {status}, and no answer of the Bot API", passes=status >= 500)
        answer = cast("dict[str, Any]", answer)
        if answer.get("ok") is True:
            return answer.get("result")
        raise self._refusal(request, method, status, answer)

    def _refusal(self, request: HTTPRequest, method: str, status: int, answer: Mapping[str, Any]) -> _Failed:
        why = request.mask(str(answer.get("description")))[:200]
        pause = _part(answer, "parameters").get("retry_after")
        seconds = float(pause) if isinstance(pause, (int, float)) and 0 < pause < math.inf else None
        advice = _ADVICE.get(status, "")
        return _Failed(f"{method}: {why} ({status}){advice}", passes=status == 429 or status >= 500, pause=seconds)

    def _request(self, method: str, values: Mapping[str, Any]) -> HTTPRequest:
        url = SecretURL(f"{self.base_url.reveal()}/bot{self.token.reveal()}/{method}", self.token)
        return build_request("POST", url, {"content-type": "application/json"}, json.dumps(values).encode())

    def _sent(self, request: HTTPRequest, seconds: float) -> tuple[int, bytes]:
        reply = self.network.open(request, connect=_GRACE, read=seconds)
        try:
            body = read_body(reply, _GRACE, _LARGEST)
        finally:
            reply.close()
        if len(body) > _LARGEST:
            raise OSError(f"the answer has more than {_LARGEST:,} bytes")
        return reply.status, body


_ADVICE: Final = {
    401: ". Is TELEGRAM_BOT_TOKEN right?",
    404: ". Is TELEGRAM_BOT_TOKEN right?",
    400: ". Has this person written to the bot?",
    403: ". Has this person written to the bot, and not blocked it?",
    409: ". Another program asks this bot for its messages: give each run a bot of its own",
}


def _is_taken_back() -> bool:
    """Whether the call was given up: a broken line looks like a broken connection."""
    return (line := line_here()) is not None and line.broken


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object that `data` has under `name`; an empty one where it has none."""
    part = data.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}


def _number(data: Mapping[str, Any], name: str) -> int:
    """The whole number that `data` has under `name`; 0 where it has none."""
    number = data.get(name)
    return number if isinstance(number, int) else 0


def _pieces(text: str) -> Iterator[str]:
    """`text` in messages that Telegram takes; of one that is too long for ten, the beginning."""
    data = text.encode("utf-16-le", "replace")
    size = 2 * (_PIECE - 100)
    start = count = 0
    while start < len(data):
        count += 1
        end = start + size
        if end < len(data) and 0xD8 <= data[end - 1] < 0xDC:  # the first half of a character
            end -= 2
        piece = data[start:end].decode("utf-16-le")
        if count == _PIECES and end < len(data):
            yield f"{piece}\n[the rest was left out]"
            return
        yield piece
        start = end
