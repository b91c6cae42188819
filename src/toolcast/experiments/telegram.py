"""`TelegramOperator`: the operator answers by Telegram, through a bot.

Two methods of the Bot API are used: `sendMessage` to every authorised user, then `getUpdates` with long polling. The
first answer of an authorised user counts; messages of others are ignored, and so is what was written before the message
went out. A bot can write only to users who have written to it: a user authorised by number is written to at once, one
by user name once a message of theirs was seen.

If the message reaches no user, the `fallback` channel asks instead, and the log has the reason. Once it has arrived,
connection errors are retried. The token is part of each URL, so every text that could contain one is masked.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Final, cast

from ..errors import LLMError
from ..lazy.lazy_dataclasses import dataclass
from ..text.reprs import safe_repr
from ..transport.cancel_handle import current_handle
from ..transport.httpx_network import HttpxNetwork
from ..transport.network import Clock, Network, SystemClock, open_response, read_body
from ..values.credentials import Secret, SecretURL
from ..values.http_request import HTTPRequest, build_request
from .operators import OperatorChannel, announced

logger: Final = logging.getLogger("toolcast")

API: Final = "https://api.telegram.org"
LONGEST_POLL: Final = 50  # seconds; the server holds no request longer

_TOKEN: Final = re.compile(r"[0-9]+:[A-Za-z0-9_-]+")
_CHUNK: Final = 4096  # characters of a message, as UTF-16 counts them
_MAX_CHUNKS: Final = 10
_GRACE: Final = 10.0  # seconds beyond what the server was asked to wait
_PAUSES: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
_MAX_BYTES: Final = 1 << 24  # bytes of an answer; a hundred messages are far less
_NO_TIMEOUT: Final = -1
_MAX_MINUTES: Final = 120


class TelegramOperator:
    """The operators `authorized_users`, ids (12345) or names ("@ann"), who write to the bot of `token`.

    One bot serves one run at a time.

    Args:
        authorized_users: The users whose answers count.
        timeout_minutes: The time for an answer, at most 120; 0 does not wait, -1 waits for ever.
        token: The bot's token, by default the environment's `TELEGRAM_BOT_TOKEN`.
        fallback: The channel that is asked if Telegram reaches no user.
        network: Used instead of httpx.
        base_url: Used instead of the public server of the Bot API.
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
        if not (timeout_minutes == _NO_TIMEOUT or 0 <= timeout_minutes <= _MAX_MINUTES):
            raise ValueError(f"timeout_minutes={timeout_minutes!r}: give 0 to {_MAX_MINUTES}, or -1 to wait for ever")
        if not _TOKEN.fullmatch(given.reveal()):
            wrong = "is no token of a bot" if given else "is not set"
            raise ValueError(f"TELEGRAM_BOT_TOKEN {wrong}: Telegram's BotFather gives one, as in 123456:ABC-DEF")
        self.timeout_minutes: int = timeout_minutes
        self.fallback: OperatorChannel | None = fallback
        self._users = _Users(authorized_users)
        self._bot = _Bot(given, network or HttpxNetwork(), SecretURL(base_url.rstrip("/")))
        self._clock: Clock = SystemClock()
        self._lock = Lock()

    @safe_repr
    def __repr__(self) -> str:
        return f"TelegramOperator(timeout_minutes={self.timeout_minutes}, fallback={self.fallback!r})"

    def send_and_wait(self, message: str, run_id: str, cycle_number: int) -> str:
        """Return the first answer. Raises `TimeoutError`, or `ConnectionError` if there is no fallback."""
        with self._lock:
            try:
                self._send(announced(message, run_id, cycle_number))
                return self._answer()
            except _Failed as error:
                if self.fallback is None or _is_cancelled():
                    raise ConnectionError(f"the operator cannot be reached by Telegram: {error}") from None
                logger.warning("the operator cannot be reached by Telegram, and is asked elsewhere: %s", error)
        return self.fallback.send_and_wait(message, run_id, cycle_number)

    def _send(self, text: str) -> None:
        """Send the message to all reachable users. Raises `_Failed` if there is none."""
        self._see(self._bot.updates(-100, 0))  # and what is older is forgotten
        failure = _Failed(
            "none of the authorised users has written to the bot yet. A bot cannot write first to a user name: "
            "authorise the number of the account, or have them press Start"
        )
        reached = False
        for chat in self._users.chats:
            try:
                for number, chunk in enumerate(_chunks(text)):
                    sent = self._bot.call("sendMessage", {"chat_id": chat, "text": chunk}, _GRACE)
                    if not number:
                        self._users.mark_sent(chat, sent)
                reached = True
            except _Failed as error:
                failure = error
        if not reached:
            raise failure

    def _answer(self) -> str:
        """Return the first text of an authorised user. Raises `_Failed` if polling cannot succeed."""
        minutes = self.timeout_minutes
        until = math.inf if minutes == _NO_TIMEOUT else self._clock.now() + minutes * 60
        failures = 0
        while (left := until - self._clock.now()) > 0:
            try:
                seconds = math.ceil(min(left, LONGEST_POLL))
                answers = self._see(self._bot.updates(self._users.next_update, seconds))
                failures = 0
            except _Failed as error:
                if not error.passes or _is_cancelled():
                    raise
                pause = error.pause or _PAUSES[min(failures, len(_PAUSES) - 1)]
                failures += 1
                self._clock.sleep(min(pause, left))
                continue
            if answers:
                return answers[0]
        raise TimeoutError(f"the operator did not answer by Telegram within {minutes} minute{'s' * (minutes != 1)}")

    def _see(self, updates: Sequence[Mapping[str, Any]]) -> list[str]:
        return [text for update in updates if (text := self._users.accepted_text(update)) is not None]


class _Users:
    """The authorised users, their chats, and the updates that were seen."""

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
        """The chats the bot can write to: a user's private chat has the user's number."""
        return tuple(self._chats)

    def mark_sent(self, chat: int, sent: Any) -> None:
        """Accept only messages of `chat` that come after the message `sent`."""
        self._chats[chat] = _number(_part({"sent": sent}, "sent"), "message_id")

    def accepted_text(self, update: Mapping[str, Any]) -> str | None:
        """Return the text that an authorised user wrote to the bot in private; None for all other updates."""
        self.next_update = max(self.next_update, _number(update, "update_id") + 1)
        message = _part(update, "message")
        sender, chat = _part(message, "from"), _part(message, "chat").get("id")
        if not isinstance(chat, int) or chat != sender.get("id") or not self._is_one(sender):
            return None
        if _number(message, "message_id") <= self._chats.setdefault(chat, 0):
            return None
        text = message.get("text")
        # The application sends /start by itself, when a user opens the bot for the first time.
        return text if isinstance(text, str) and text != "/start" else None

    def _is_one(self, sender: Mapping[str, Any]) -> bool:
        name = sender.get("username")
        known = (str(sender.get("id")), name.casefold() if isinstance(name, str) else "")
        return not self._names.isdisjoint(known)


class _Failed(Exception):
    """The error of a failed call of the Bot API. `passes`: it may succeed after a `pause` in seconds."""

    def __init__(self, message: str, *, passes: bool = False, pause: float | None = None) -> None:
        super().__init__(message)
        self.passes: bool = passes
        self.pause: float | None = pause


class _Token(Secret):
    """The token of a bot: a number, a colon, and the secret part, which is masked alone too."""

    __slots__ = ()

    def mask(self, text: str) -> str:
        """Return `text` without the token."""
        half = self.reveal().partition(":")[2]
        return super().mask(text).replace(half, "[key]")


@dataclass(frozen=True, slots=True)
class _Bot:
    """A client of the Bot API's two methods."""

    token: Secret
    network: Network
    base_url: SecretURL

    def updates(self, offset: int, seconds: int) -> list[Mapping[str, Any]]:
        """Return the messages to the bot from update `offset` on; the server waits so many seconds for one."""
        asked = {"offset": offset, "timeout": seconds, "allowed_updates": ["message"]}
        found = self.call("getUpdates", asked, seconds + _GRACE)
        if not isinstance(found, list):
            raise _Failed(f"getUpdates gave {type(found).__name__} instead of a list", passes=True)
        return [update for update in cast("Any", found) if isinstance(update, dict)]

    def call(self, method: str, values: Mapping[str, Any], seconds: float) -> Any:
        """Call `method` and return its result. Raises `_Failed`, whose text never contains the token."""
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
        reply = open_response(self.network, request, connect=_GRACE, read=seconds)
        try:
            body = read_body(reply, _GRACE, _MAX_BYTES)
        finally:
            reply.close()
        if len(body) > _MAX_BYTES:
            raise OSError(f"the answer has more than {_MAX_BYTES:,} bytes")
        return reply.status, body


_ADVICE: Final = {
    401: ". Is TELEGRAM_BOT_TOKEN right?",
    404: ". Is TELEGRAM_BOT_TOKEN right?",
    400: ". Has this person written to the bot?",
    403: ". Has this person written to the bot, and not blocked it?",
    409: ". Another program asks this bot for its messages: give each run a bot of its own",
}


def _is_cancelled() -> bool:
    """Return whether the call was cancelled: a cancelled call looks like a connection error."""
    return (handle := current_handle()) is not None and handle.broken


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the object that `data` has under `name`; an empty one if there is none."""
    part = data.get(name)
    return cast("Mapping[str, Any]", part) if isinstance(part, dict) else {}


def _number(data: Mapping[str, Any], name: str) -> int:
    """Return the integer that `data` has under `name`; 0 if there is none."""
    number = data.get(name)
    return number if isinstance(number, int) else 0


def _chunks(text: str) -> Iterator[str]:
    """Split `text` into messages that Telegram accepts; a text too long for ten is truncated."""
    data = text.encode("utf-16-le", "replace")
    size = 2 * (_CHUNK - 100)
    start = count = 0
    while start < len(data):
        count += 1
        end = start + size
        if end < len(data) and 0xD8 <= data[end - 1] < 0xDC:  # the first half of a character
            end -= 2
        chunk = data[start:end].decode("utf-16-le")
        if count == _MAX_CHUNKS and end < len(data):
            yield f"{chunk}\n[the rest was left out]"
            return
        yield chunk
        start = end
