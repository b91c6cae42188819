"""The report of a finished call: one log line, and with `verbose=True` a readable account on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from .errors import Attempt
from .hook_protocol import CallHooks
from .messages import Message
from .terminal_text import visible
from .usage import Usage

logger: Final = logging.getLogger("toolcast")

NO_OUTPUT: Final = object()
_MESSAGE: Final = 300  # characters that are shown of a message
_OUTPUT: Final = 2000  # and of the output or the error
_MESSAGES: Final = 10


class Account:
    """The account of one call, written once, by the first `end`.

    Args:
        name: The name of the call.
        origin: Returns the provider and the model.
        now: Returns the time in seconds.
        messages: The messages that are shown with `verbose`.
        verbose: Write the account on stderr.
        mode: Returns the output mode, which is shown with `verbose`.
        hooks: The hooks of the call, whose `error` and `end` are called.
    """

    __slots__ = ("_began", "_ended", "_hooks", "_messages", "_mode", "_name", "_now", "_origin", "_verbose")

    def __init__(
        self,
        name: str,
        origin: Callable[[], Mapping[str, Any]],
        now: Callable[[], float],
        messages: Sequence[Message] = (),
        *,
        verbose: bool = False,
        mode: Callable[[], str] | None = None,
        hooks: CallHooks | None = None,
    ) -> None:
        self._hooks = hooks
        self._mode = mode
        self._name = name
        self._origin = origin
        self._now = now
        self._messages = messages
        self._verbose = verbose
        self._ended = False
        self._began = now()

    def end(
        self,
        usage: Usage,
        attempts: Sequence[Attempt] = (),
        error: BaseException | None = None,
        output: Any = NO_OUTPUT,
    ) -> None:
        """Write the account of a call that ended with `output` or `error`, or was closed without either."""
        if self._ended:
            return
        self._ended = True
        if self._hooks is not None:
            hooks = self._hooks.for_last_request()
            if error is not None:
                hooks.emit("error", error)
            hooks.emit("end", usage, self._now() - self._began)
        if not (self._verbose or logger.isEnabledFor(logging.INFO)):
            return
        seconds = self._now() - self._began
        origin = self._origin()
        title = visible(f"{self._name} with {origin['provider']} {origin['model']}")
        cost = f"{seconds:.2f} s, {usage.input_tokens} tokens in, {usage.output_tokens} out"
        if len(attempts) > 1:
            cost = f"{cost}, {len(attempts)} requests"
        if any(attempt.cached for attempt in attempts):
            cost = f"{cost}, from the cache"
        end = "closed before its end" if output is NO_OUTPUT else "done"
        logger.info("%s: %s (%s)", title, end if error is None else type(error).__name__, cost)
        if self._verbose:
            result = output if error is None else error
            if (money := usage.cost) is not None:
                cost = f"{cost}, about ${money:.6f}"
            mode = "" if self._mode is None else f" ({self._mode()})"
            _print("\n  ".join([f"toolcast {title}{mode}", *self._lines(attempts, result), cost]))

    def _lines(self, attempts: Sequence[Attempt], result: Any) -> list[str]:
        lines = [_shown(message) for message in self._messages[-_MESSAGES:]]
        try:
            if len(attempts) > 1:
                lines += [_attempt_line(each) for each in attempts[:-1]]
                lines.append(f"attempt {attempts[-1].number}, {attempts[-1].seconds:.2f} s")
            lines.append(_one_line(_describe(result), _OUTPUT))
        except Exception as error:  # the user's output or error, shown: what fails is written instead
            # The output and the error may be of the user's own types, whose __repr__ may raise.
            lines.append(f"the result cannot be shown, as its __repr__ raised {type(error).__name__}")
        return lines


def _shown(message: Message) -> str:
    others = [f"[{part.type}]" for part in message.parts if part.type != "text"]
    return _one_line(" ".join([f"{message.role}:", message.text, *others]), _MESSAGE)


def _attempt_line(attempt: Attempt) -> str:
    wait = f", the next {attempt.wait:.2f} s later" if attempt.wait else ""
    outcome = "complete" if attempt.error is None else _one_line(_describe(attempt.error), _OUTPUT)
    return f"attempt {attempt.number}, {attempt.seconds:.2f} s{wait}: {outcome}"


def _describe(result: Any) -> str:
    if result is NO_OUTPUT:
        return "closed before its end"
    return f"{type(result).__name__}: {result}" if isinstance(result, BaseException) else f"result: {result!r}"


def _one_line(text: str, limit: int) -> str:
    line = visible(" ".join(text[: 2 * limit].split()))
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def _print(text: str) -> None:
    if sys.stderr is not None:  # a program without a console has none
        with suppress(OSError, ValueError):  # the pipe has no reader, or the stream is closed
            sys.stderr.write(f"{text}\n")
