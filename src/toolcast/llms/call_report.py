"""The report of a finished call: one log line, and with `verbose=True` a readable account on stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from ..errors import Attempt, CallError
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, Part
from ..text.terminal_text import visible
from ..values.hooks import NamedSpec
from ..values.plain_data import hide_content
from ..values.retries import wait_reason
from ..values.usage import Usage

logger: Final = logging.getLogger("toolcast")

NO_OUTPUT: Final = object()
_MESSAGE: Final = 300  # characters that are shown of a message or the tools
_OUTPUT: Final = 2000  # and of the output or the error
_MESSAGES: Final = 10


@dataclass(frozen=True, slots=True)
class Account:
    """The names and messages in the report of one call; `write` writes it.

    Attributes:
        name: The name of the call.
        origin: The provider and the model.
        messages: The messages that are shown with `verbose`.
        mode: Returns the output mode, which is shown with `verbose`.
        tools: The tools, which are shown with `verbose`.
        hidden: The tools whose types hide their input: their arguments are not shown.
    """

    name: str
    origin: Mapping[str, Any]
    messages: Sequence[Message] = ()
    mode: Callable[[], str] | None = None
    tools: Sequence[NamedSpec] = ()
    hidden: Collection[str] = ()

    def write(
        self,
        seconds: float,
        usage: Usage,
        attempts: Sequence[Attempt],
        result: Any,
        mask: Callable[[str], str],
        added: Mapping[int, Sequence[str]],
        *,
        verbose: bool,
    ) -> None:
        """Write the report of a call that took so many `seconds`.

        Args:
            seconds: The time from its begin to its end.
            usage: Tokens, summed over all requests.
            attempts: One entry for each request.
            result: The output, the error, or `NO_OUTPUT` of a call that was closed.
            mask: Removes the credentials of the last request.
            added: The lines of the messages that were added, by the number of the attempt before them.
            verbose: Write it on stderr, too, with the messages.
        """
        title = visible(f"{self.name} with {self.origin['provider']} {self.origin['model']}")
        cost = f"{seconds:.2f} s, {usage.input_tokens} tokens in, {usage.output_tokens} out"
        if len(attempts) > 1:
            cost = f"{cost}, {len(attempts)} requests"
        if any(attempt.cached for attempt in attempts):
            cost = f"{cost}, from the cache"
        end = "closed before its end" if result is NO_OUTPUT else "done"
        money = _money(usage)
        logger.info(
            "%s: %s (%s%s)", title, type(result).__name__ if isinstance(result, BaseException) else end, cost, money
        )
        if verbose:
            if not money and usage.total_tokens:
                money = ", cost unknown"
            mode = "" if self.mode is None else f" ({self.mode()})"
            lines = self._lines(attempts, result, mask, added)
            _print("\n  ".join([f"toolcast {title}{mode}", *lines, f"{cost}{money}"]))

    def _lines(
        self,
        attempts: Sequence[Attempt],
        result: Any,
        mask: Callable[[str], str],
        added: Mapping[int, Sequence[str]],
    ) -> list[str]:
        lines = [_one_line(f"tools: {', '.join(map(_signature, self.tools))}", _MESSAGE)] if self.tools else []
        lines += shown_messages(self.messages, mask)
        try:
            for each in attempts[:-1]:
                lines += [_attempt_line(each), *added.get(each.number, ())]
            # The text of the error is masked where it is made; the output is the caller's own.
            last = _one_line(_describe(result), _OUTPUT)
            if len(attempts) > 1:
                start = f"attempt {attempts[-1].number}, {attempts[-1].seconds:.2f} s"
                if attempts[-1].error is not None and isinstance(result, BaseException):
                    start, last = f"{start}: {last}", ""
                lines.append(start)
            lines += [last] if last else []
            if isinstance(result, CallError) and result.response is not None and result.response.message.parts:
                lines.append(_shown(hide_content(result.response.message, self.hidden), mask))
        except Exception as error:  # the user's output or error, shown: what fails is written instead
            # The output and the error may be of the user's own types, whose __repr__ may raise.
            lines.append(f"the result cannot be shown, as its __repr__ raised {type(error).__name__}")
        return lines


def shown_messages(messages: Sequence[Message], mask: Callable[[str], str]) -> list[str]:
    """Return the last of `messages` as lines; `mask` removes the credentials of a request."""
    return [_shown(message, mask) for message in messages[-_MESSAGES:]]


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
