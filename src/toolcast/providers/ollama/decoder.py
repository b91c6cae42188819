"""The decoder of responses of Ollama's `/api/chat`: JSON lines with whole tool calls.

A line with an `error` ends the response with an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from jiter import from_json

from ...errors import LLMError, NotFound
from ...events import Event, LogprobsDelta, RawEvent, StopReason, TextDelta, ThinkingDelta, UsageReport
from ...values.usage import Usage
from ..answer_detail_forms import token_logprobs
from ..base import RequestInput
from ..http_errors import ErrorSource, stream_error
from ..response_decoder import START, FramedDecoder, as_dict, as_list
from ..sse import JSONLines
from ..tool_calls.by_id import OpenCalls

_STOP: dict[str, StopReason] = {
    "stop": "end_turn",
    "load": "end_turn",
    "unload": "end_turn",
    "length": "max_tokens",
}

# Fields of a line of `/api/generate`, which has no `message`.
_GENERATED = ("response", "thinking")
# One of these is in every line; further fields may be new.
_KNOWN = ("message", "done", "model", "created_at", *_GENERATED)


class OllamaDecoder(FramedDecoder[JSONLines]):
    """A decoder of one response of `/api/chat`, streamed or not."""

    kind: ClassVar[str] = "response of Ollama's /api/chat"
    vital: ClassVar[tuple[str, ...]] = ('"tool_calls"',)

    def __init__(self, source: ErrorSource, request_input: RequestInput) -> None:
        super().__init__(source, request_input, JSONLines())
        self._streams = request_input.stream
        self._calls = OpenCalls(request_input)

    def _read(self, data: bytes, out: list[Event]) -> None:
        if len(self._head) < START:
            self._head += data[:START]
        for line in self._frames.feed(data):
            self._line(line, out)

    def _end_body(self, out: list[Event]) -> None:
        for line in self._frames.close():
            if _decoded(line) is None and line.startswith(b"{"):
                break  # an incomplete line
            self._line(line, out)
        if not self._over:
            raise self._truncated() if self._head.lstrip().startswith(b"{") else self._unreadable(self._head)

    def _line(self, line: bytes, out: list[Event]) -> None:
        if self._over:
            return
        if text := self._envelope.text(b"%b\n" % line):
            out.append(TextDelta(text))
            return
        self._envelope.forget()
        before = len(out)
        document = _decoded(line)
        if document is None:
            text = line.decode("utf-8", "replace")
            out.append(RawEvent(text, damaged=True))
            if text.startswith("{"):
                self._lose(text)
            return
        if document.get("error") or document.get("done_reason") == "error":
            raise with_pull_advice(stream_error({"error": document.get("error") or "it gave no reason"}, self._source))
        if document and document.keys().isdisjoint(_KNOWN):
            self._refuse(document, "a line", "an object with a message", out)
            return
        self._name_model(document.get("model"))
        key = self._message(self._object(document.get("message"), "message", out), document, out)
        if document.get("done"):
            if not self._streams:  # one line is the whole response
                self._body = document
            self._end(document, out)
        elif document.keys().isdisjoint(("message", *_GENERATED)):
            out.append(RawEvent(document))
        elif len(out) == before + 1 and isinstance(last := out[-1], TextDelta):
            self._envelope.learn(b"%b\n" % line, key, last.text)

    def _message(self, message: dict[str, Any], document: dict[str, Any], out: list[Event]) -> str:
        """Read the message of a line. Return the name of the field that contains its text.

        Proxies of Ollama's `/api/generate` have text and thinking beside the message, or in place of it.
        """
        thinking = self._string(message.get("thinking"), "message.thinking", out)
        if thinking := thinking or self._string(document.get("thinking"), "thinking", out):
            out.append(ThinkingDelta(thinking))
        content = self._string(message.get("content"), "message.content", out)
        if text := content or self._string(document.get("response"), "response", out):
            out.append(TextDelta(text))
        if document.get("logprobs") and (tokens := token_logprobs(document["logprobs"])):
            out.append(LogprobsDelta(tokens))
        calls = message.get("tool_calls")
        if calls and not isinstance(calls, list):
            self._refuse(calls, "message.tool_calls", "a list of objects", out)
        for call in as_list(calls):
            self._tool_call(as_dict(call), out)
        return "content" if content else "response"

    def _tool_call(self, found: dict[str, Any], out: list[Event]) -> None:
        function = self._object(found.get("function"), "message.tool_calls.function", out)
        arguments: Any = function.get("arguments")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        name = self._string(function.get("name"), "message.tool_calls.function.name", out)
        self._calls.whole(found.get("id"), name, arguments if arguments.strip() else "{}", out)

    def _end(self, document: Mapping[str, Any], out: list[Event]) -> None:
        self._check_whole()
        reason = str(document.get("done_reason") or "stop")
        stop = _STOP.get(reason, "other")
        if self._calls.count and stop != "max_tokens":
            stop = "tool_use"
        tokens = [document.get(name) for name in ("prompt_eval_count", "eval_count")]
        counts = [token if isinstance(token, int) and token > 0 else 0 for token in tokens]
        if any(counts):
            out.append(UsageReport(Usage(*counts)))
        out.append(self._finished(stop, reason))
        self._over = True


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        document: object = from_json(line)
    except ValueError:
        return None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else None


def with_pull_advice(error: LLMError) -> LLMError:
    """Append the command that fetches a missing model to the error, and return it."""
    if isinstance(error, NotFound):
        named = re.search(r"model '([^']+)' not found", error.message)
        if named:
            error.args = (f"{error.message} To fetch the model: ollama pull {named[1]}",)
    return error
