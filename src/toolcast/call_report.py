"""The report of a finished call: one log line, and with `verbose=True` a readable account on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from .errors import Attempt, CallError
from .hook_protocol import CallHooks, NamedSpec
from .messages import Message, Part
from .plain_data import hide_content
from .retries import wait_reason
from .secret_patterns import mask_secrets
from .terminal_text import visible
from .usage import Usage

logger: Final = logging.getLogger("toolcast")

NO_OUTPUT: Final = object()
_MESSAGE: Final = 300  # characters that are shown of a message or the tools
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
        tools: The tools, which are shown with `verbose`.
        hidden: The tools whose types hide their input: their arguments are not shown.
    """

    __slots__ = (
        "_added",
        "_began",
        "_ended",
        "_hidden",
        "_hooks",
        "_messages",
        "_mode",
        "_name",
        "_now",
        "_origin",
        "_tools",
        "_verbose",
    )

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
        tools: Sequence[NamedSpec] = (),
        hidden: Collection[str] = (),
    ) -> None:
        self._added: dict[int, list[str]] = {}  # the lines of the messages that were added, by the attempt before them
        self._tools = tools
        self._hidden = hidden
        self._hooks = hooks
        self._mode = mode
        self._name = name
        self._origin = origin
        self._now = now
        self._messages = messages
        self._verbose = verbose
        self._ended = False
        self._began = now()

    def add_messages(self, attempt: int, messages: Sequence[Message], mask: Callable[[str], str]) -> None:
        """Show `messages`, which were added to the request after the attempt of this number, with `verbose`.

        `mask` removes the credentials of the attempt.
        """
        if self._verbose:
            self._added[attempt] = [_shown(message, mask) for message in messages[-_MESSAGES:]]

    def end(
        self,
        usage: Usage,
        attempts: Sequence[Attempt] = (),
        error: BaseException | None = None,
        output: Any = NO_OUTPUT,
        mask: Callable[[str], str] = mask_secrets,
    ) -> None:
        """Write the account of a call that ended with `output` or `error`, or was closed without either.

        `mask` removes the credentials of the last request.
        """
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
        money = _money(usage)
        logger.info("%s: %s (%s%s)", title, end if error is None else type(error).__name__, cost, money)
        if self._verbose:
            result = output if error is None else error
            if not money and usage.total_tokens:
                money = ", cost unknown"
            mode = "" if self._mode is None else f" ({self._mode()})"
            _print("\n  ".join([f"toolcast {title}{mode}", *self._lines(attempts, result, mask), f"{cost}{money}"]))

    def _lines(self, attempts: Sequence[Attempt], result: Any, mask: Callable[[str], str]) -> list[str]:
        lines = [_one_line(f"tools: {', '.join(map(_signature, self._tools))}", _MESSAGE)] if self._tools else []
        lines += [_shown(message, mask) for message in self._messages[-_MESSAGES:]]
        try:
            for each in attempts[:-1]:
                lines += [_attempt_line(each), *self._added.get(each.number, ())]
            # The text of the error is masked where it is made; the output is the caller's own.
            last = _one_line(_describe(result), _OUTPUT)
            if len(attempts) > 1:
                start = f"attempt {attempts[-1].number}, {attempts[-1].seconds:.2f} s"
                if attempts[-1].error is not None and isinstance(result, BaseException):
                    start, last = f"{start}: {last}", ""
                lines.append(start)
            lines += [last] if last else []
            if isinstance(result, CallError) and result.response is not None and result.response.message.parts:
                lines.append(_shown(hide_content(result.response.message, self._hidden), mask))
        except Exception as error:  # the user's output or error, shown: what fails is written instead
            # The output and the error may be of the user's own types, whose __repr__ may raise.
            lines.append(f"the result cannot be shown, as its __repr__ raised {type(error).__name__}")
        return lines


def _money(usage: Usage) -> str:
    """Return the cost of `usage` as a part of a line; an empty string if it is unknown."""
    if (cost := usage.cost) is not None:
        return f", about ${cost:.6f}"
    return f", at least ${usage.known_cost:.6f}" if usage.known_cost else ""


def _signature(tool: NamedSpec) -> str:
    """Return the name of a tool with those of its parameters."""
    return f"{tool.name}({', '.join(tool.parameters.get('properties', ()))})"


def _shown(message: Message, mask: Callable[[str], str]) -> str:
    parts = [_part(part) for part in message.parts if part.type != "text"]
    # Masked before it is cut: half a credential would not be found.
    return _one_line(mask(" ".join([f"{message.role}:", message.text, *parts])), _MESSAGE)


def _part(part: Part) -> str:
    if part.type == "tool_call":
        return f"{part.name} {part.arguments}"
    return part.content if part.type == "tool_result" else f"[{part.type}]"


def _attempt_line(attempt: Attempt) -> str:
    wait = f", the next {attempt.wait:.2f} s later ({wait_reason(attempt.error)})" if attempt.wait else ""
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
