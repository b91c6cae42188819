"""A double of Claude's APIs whose thoughts are bound to their conversation: Messages, Vertex AI, and Converse.

Written from "Preserved thinking" (platform.claude.com/docs/en/build-with-claude/preserved-thinking, September 2026),
which has the rule under "What counts as an edit": a `thinking` or `redacted_thinking` block is valid as long as the
`system` prompt, `tools` and all messages before it have the values that it was made with. Appending messages, moving
`cache_control`, and any parameter beside these leave it valid; "JSON formatting and key order don't matter; the values
do". Thoughts may be removed "from the start of the history, from the end, or all of them", but the rest must be an
"unbroken run", and "once you remove a block, leave it out. Putting it back invalidates the thinking blocks produced
while it was gone". The error is that of "Troubleshooting thinking". Converse has the same check (AWS user guide,
"Thinking block binding"); its errors are ValidationExceptions.

Late system messages follow "Mid-conversation system messages and tool changes" (October 2026), "Limitations": one "must
immediately follow a `user` turn" and "must precede an `assistant` turn or end the array". Models before Opus 4.8, and
Sonnet 5, refuse the role, and so does Converse: "To add system instructions mid-conversation, use the InvokeModel API."

Models that cannot stop thinking refuse to: "What's new in Claude Opus 5.5" ("Thinking can't be disabled", which is so
on Fable 5.1 too) and "What's new in Claude Sonnet 5.5" ("Turn off up-front thinking with `between_tools`", at an effort
of `high` or below).

Schemas of tools are refused in the words of public reports: "tools.0.custom.input_schema.properties: Property keys
should match pattern '^[a-zA-Z0-9_.-]{1,64}$'" and "tools.0.custom.input_schema: input_schema does not support oneOf,
allOf, or anyOf at the top level".

Each response is the next of `script`, or a thought and a text. `refusals` are the messages of the refused requests.
`cached_share` is the share of the bytes of all requests that a cache would have had from the request before.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, NoReturn, TypeAlias

from support.aws_event_messages import event as aws_event
from support.loopback import END, Piece, chunk, head
from support.service_double import Received, Refused, ServiceDouble, as_json

LATE_SYSTEM = ("claude-opus-4-8", "claude-opus-5", "claude-fable-5", "claude-mythos-5", "claude-sonnet-5-5")
ALWAYS_THINKING = ("claude-opus-5-5", "claude-fable-5-1", "claude-fable-5-2")
CHECKING = ("claude-fable-5-1", "claude-fable-5-2", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5")


@dataclass(frozen=True)
class Call:
    """A tool call of a response."""

    id: str
    name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Thought:
    """A thought of a response."""

    text: str = "Hm."
    redacted: bool = False


Content: TypeAlias = "str | Call | Thought"


@dataclass(frozen=True)
class _Origin:
    """What a thought was made with: hashes of the system prompt, the tools and each block before it."""

    model: str
    system: str
    tools: str
    before: tuple[str, ...]
    previous: str | None


@dataclass(frozen=True)
class _Block:
    """A block of the history: its place, its value by which it is compared, and the signature of a thought."""

    path: str
    value: str
    signature: str | None = None
    kind: str = "thinking"


class BoundThoughtsService(ServiceDouble):
    """The service."""

    routes: ClassVar[Any] = (
        (r"POST /v1/messages", "messages"),
        (r"POST /v1/messages/count_tokens", "count_tokens"),
        (r"POST /v1/projects/.*/publishers/anthropic/models/count-tokens:rawPredict", "count_tokens"),
        (r"POST /v1/projects/.*/publishers/anthropic/models/(.+):(rawPredict|streamRawPredict)", "vertex"),
        (r"POST /model/([^/]+)/count-tokens", "count_converse"),
        (r"POST /model/([^/]+)/(converse|converse-stream)", "converse"),
    )

    def __init__(self) -> None:
        super().__init__()
        self.script: deque[Sequence[Content]] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.refusals: list[str] = []
        self.answered = 0
        self.takes_late_system = True
        self._thoughts: dict[str, _Origin] = {}
        self._sent = self._cached = 0
        self._prompt = ""

    @property
    def cached_share(self) -> float:
        """The share of the bytes of the answered requests that the answered one before each began with."""
        return self._cached / self._sent

    def thoughts_sent(self, at: int = -1) -> int:
        """Return the number of thoughts in a request."""
        return sum(_signature(block) is not None for block in _blocks(self.bodies[at]))

    # -- the protocols

    def messages(self, request: Received) -> tuple[Piece, ...]:
        body = request.json
        return self._anthropic(body, body["model"], streams=bool(body.get("stream")))

    def vertex(self, request: Received, model: str, method: str) -> tuple[Piece, ...]:
        assert "model" not in request.json
        return self._anthropic(request.json, model, streams=method == "streamRawPredict")

    def count_tokens(self, request: Received) -> tuple[Piece, ...]:
        with self.lock:
            self._check(request.json, request.json["model"], converse=False)
        return as_json({"input_tokens": len(request.body)})

    def count_converse(self, request: Received, model: str) -> tuple[Piece, ...]:
        with self.lock:
            # It takes the ids of models alone, not those of inference profiles.
            self._check(request.json["input"]["converse"], f"us.{model}", converse=True)
        return as_json({"inputTokens": len(request.body)})

    def converse(self, request: Received, model: str, method: str) -> tuple[Piece, ...]:
        body = request.json
        _check_roles(body)
        blocks = self._respond(body, model, converse=True)
        usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
        reason = "tool_use" if any("toolUse" in block for block in blocks) else "end_turn"
        if method == "converse":
            output = {"message": {"role": "assistant", "content": blocks}}
            return as_json({"output": output, "stopReason": reason, "usage": usage, "metrics": {"latencyMs": 1}})
        events = [aws_event("messageStart", {"role": "assistant"})]
        for number, block in enumerate(blocks):
            events += _converse_events(number, block)
        events.append(aws_event("messageStop", {"stopReason": reason}))
        events.append(aws_event("metadata", {"usage": usage, "metrics": {"latencyMs": 1}}))
        start = head(200, "content-type: application/vnd.amazon.eventstream", "transfer-encoding: chunked")
        return (start, chunk(b"".join(events)), END)

    def _anthropic(self, body: dict[str, Any], model: str, *, streams: bool) -> tuple[Piece, ...]:
        _check_late_system(body, model, takes=self.takes_late_system)
        for number, tool in enumerate(body.get("tools", ())):
            if (problem := _schema_problem(tool["input_schema"])) is not None:
                self._refuse(f"tools.{number}.custom.input_schema{problem}", converse=False)
        blocks = self._respond(body, model, converse=False)
        reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "usage": usage}
        if not streams:
            return as_json({**message, "content": blocks, "stop_reason": reason})
        events: list[dict[str, Any]] = [{"type": "message_start", "message": {**message, "content": []}}]
        for number, block in enumerate(blocks):
            events += _anthropic_events(number, block)
        events.append({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 1}})
        events.append({"type": "message_stop"})
        frames = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]
        return (
            head(200, "content-type: text/event-stream", "transfer-encoding: chunked"),
            chunk(b"".join(frames)),
            END,
        )

    # -- the rule

    def _respond(self, body: dict[str, Any], model: str, *, converse: bool) -> list[dict[str, Any]]:
        """Check a request, and return the blocks of the response, with signed thoughts."""
        with self.lock:
            self.bodies.append(body)
            self._check_thinking(body, model, converse=converse)
            previous = self._check(body, model, converse=converse)
            self._count_cached(body)
            self.answered += 1
            script = self.script.popleft() if self.script else (Thought(), f"Answer {self.answered}.")
            before = [block.value for block in _history(body) if block.signature is None]
            made: list[dict[str, Any]] = []
            for item in script:
                if isinstance(item, Thought):
                    origin = _Origin(model, *_frame(body), tuple(before), previous)
                    previous = self._sign(origin)
                    made.append(_thought(item, previous, converse=converse))
                else:
                    made.append(_content(item, converse=converse))
                    before.append(_value("assistant", made[-1]))
            return made

    def _sign(self, origin: _Origin) -> str:
        text = f"{len(self._thoughts)} {origin}".encode()
        signature = base64.b64encode(hashlib.sha256(text).digest()).decode()
        self._thoughts[signature] = origin
        return signature

    def _check(self, body: dict[str, Any], model: str, *, converse: bool) -> str | None:
        """Raise `Refused` if a thought does not fit. Return the signature of the last one that the model reads."""
        system, tools = _frame(body)
        before: list[str] = []
        last: str | None = None
        for block in _history(body):
            if block.signature is None:
                before.append(block.value)
                continue
            origin = self._thoughts.get(block.signature)
            if origin is None:
                self._refuse(f"{block.path}: Invalid `signature` in `{block.kind}` block", converse=converse)
            if _checks(model) and _checks(origin.model):
                if origin.model != model:
                    continue  # the model cannot read it: it is dropped
                if (why := _difference(origin, system, tools, before, last)) is not None:
                    self._refuse(_REFUSAL.format(path=block.path, kind=block.kind, why=why), converse=converse)
            last = block.signature
        return last

    def _check_thinking(self, body: dict[str, Any], model: str, *, converse: bool) -> None:
        """Refuse a way of thinking that the model does not have."""
        fields = body.get("additionalModelRequestFields", {}) if converse else body
        kind = fields.get("thinking", {}).get("type")
        effort = (fields.get("output_config") or body.get("outputConfig") or {}).get("effort")
        allowed = {"adaptive"} if any(name in model for name in ALWAYS_THINKING) else {"adaptive", "disabled"}
        if "claude-sonnet-5-5" in model:
            allowed = {"adaptive", "between_tools"}
        if kind is not None and _checks(model) and kind not in allowed:
            use = "between_tools" if "between_tools" in allowed else "adaptive"
            self._refuse(
                f'"thinking.type.{kind}" is not supported for this model. Use "thinking.type.{use}" and '
                '"output_config.effort" to control thinking behavior.',
                converse=converse,
            )
        if kind == "between_tools" and effort in ("xhigh", "max"):
            self._refuse(f"between_tools is not supported at effort {effort}", converse=converse)

    def _refuse(self, text: str, *, converse: bool) -> NoReturn:
        self.refusals.append(text)
        raise _converse_error(text) if converse else anthropic_error(text)

    def _count_cached(self, body: dict[str, Any]) -> None:
        tools = body.get("tools") or body.get("toolConfig", {}).get("tools") or []
        prompt = _bare([tools, _system(body), body["messages"]])
        common = next((at for at, (a, b) in enumerate(zip(prompt, self._prompt, strict=False)) if a != b), None)
        self._cached += min(len(prompt), len(self._prompt)) if common is None else common
        self._sent += len(prompt)
        self._prompt = prompt


def _schema_problem(schema: Any) -> str | None:
    """What is refused in the schema of a tool."""
    if not schema.keys().isdisjoint(("oneOf", "allOf", "anyOf")):
        return ": input_schema does not support oneOf, allOf, or anyOf at the top level"
    bad = [key for key in _properties(schema) if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", key)]
    return ".properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'" if bad else None


def _properties(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        yield from schema.get("properties", ())
        for value in schema.values():
            yield from _properties(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _properties(value)


_REFUSAL = (
    "{path}: Invalid `signature` in `{kind}` block. The block is bound to a different conversation. Remove the block, "
    'or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block". That setting requires the '
    "`thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header. {why}"
)


def _checks(model: str) -> bool:
    """Return True for a model that checks its thoughts. It reads those of models that do not."""
    return any(name in model for name in CHECKING)


def _difference(origin: _Origin, system: str, tools: str, before: Sequence[str], last: str | None) -> str | None:
    """Return the sentence that names the first difference to what a thought was made with."""
    if origin.system != system:
        return "The `system` prompt differs from the one this block was created with."
    if origin.tools != tools:
        return "The `tools` list differs from the one this block was created with."
    if origin.before != tuple(before):
        return "The messages before it differ from those this block was created with."
    if last is not None and origin.previous != last:
        return "An earlier thinking block is missing or out of order."
    return None


def anthropic_error(text: str) -> Refused:
    """The refusal of a request, in the form of the Messages API."""
    return Refused(400, {"type": "error", "error": {"type": "invalid_request_error", "message": text}})


def _converse_error(text: str) -> Refused:
    message = f"The model returned the following errors: {text}"
    return Refused(400, {"message": message}, "x-amzn-errortype: ValidationException")


def _check_late_system(body: dict[str, Any], model: str, *, takes: bool) -> None:
    """Raise `Refused` for a late system message at a wrong place, or for a model without them."""
    roles = [message["role"] for message in body["messages"]]
    if "system" in roles and not (takes and any(name in model for name in LATE_SYSTEM)):
        raise anthropic_error("role 'system' is not supported on this model")
    for before, role, after in zip(["", *roles], roles, [*roles[1:], "assistant"], strict=False):
        if role == "system" and (before, after) != ("user", "assistant"):
            raise anthropic_error("messages: a `system` message must follow a `user` turn and precede an answer")
        if role == before:
            raise anthropic_error(f"messages: two {role} turns in a row")


def _check_roles(body: dict[str, Any]) -> None:
    """Raise `Refused` unless roles alternate, and each message has content, as Converse demands."""
    messages = body["messages"]
    if any(a["role"] == b["role"] for a, b in pairwise(messages)) or not all(each["content"] for each in messages):
        raise _converse_error("A conversation must alternate between user and assistant roles.")


# -- values


def _system(body: dict[str, Any]) -> list[Any]:
    """The system prompt as blocks: a text is one block."""
    given = body.get("system") or []
    return [{"type": "text", "text": given}] if isinstance(given, str) else given


def _frame(body: dict[str, Any]) -> tuple[str, str]:
    """The values of the system prompt and of the tools."""
    return _bare(_system(body)), _bare(body.get("tools") or body.get("toolConfig", {}).get("tools") or [])


def _bare(value: Any) -> str:
    """The value as JSON, whatever its order, without the marks of a cache."""
    return json.dumps(_unmarked(value), sort_keys=True)


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(each) for each in value if not (isinstance(each, dict) and "cachePoint" in each)]
    return value


def _value(role: str, block: Any) -> str:
    return f"{role} {_bare(block)}"


def _blocks(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in body["messages"]:
        yield from message["content"]


def _history(body: dict[str, Any]) -> Iterator[_Block]:
    """Yield the blocks of all messages, without those that mark a cache."""
    for number, message in enumerate(body["messages"]):
        for place, block in enumerate(message["content"]):
            if "cachePoint" in block:
                continue
            path = f"messages.{number}.content.{place}"
            yield _Block(path, _value(message["role"], block), _signature(block), block.get("type", "thinking"))


def _signature(block: dict[str, Any]) -> str | None:
    """The signature of a block that is a thought, or the data of one that is redacted."""
    if block.get("type") == "thinking":
        return str(block["signature"])
    if block.get("type") == "redacted_thinking":
        return str(block["data"])
    if thought := block.get("reasoningContent"):
        return str(
            thought["redactedContent"] if "redactedContent" in thought else thought["reasoningText"]["signature"]
        )
    return None


# -- responses


def _thought(thought: Thought, signature: str, *, converse: bool) -> dict[str, Any]:
    if converse and thought.redacted:
        return {"reasoningContent": {"redactedContent": signature}}
    if converse:
        return {"reasoningContent": {"reasoningText": {"text": thought.text, "signature": signature}}}
    if thought.redacted:
        return {"type": "redacted_thinking", "data": signature}
    return {"type": "thinking", "thinking": thought.text, "signature": signature}


def _content(item: str | Call, *, converse: bool) -> dict[str, Any]:
    if isinstance(item, str):
        return {"text": item} if converse else {"type": "text", "text": item}
    if converse:
        return {"toolUse": {"toolUseId": item.id, "name": item.name, "input": item.arguments}}
    return {"type": "tool_use", "id": item.id, "name": item.name, "input": item.arguments}


def _anthropic_events(number: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a block of a stream."""
    kind = block["type"]
    start: dict[str, Any] = {
        "text": {"type": "text", "text": ""},
        "thinking": {"type": "thinking", "thinking": "", "signature": ""},
        "tool_use": {**block, "input": {}},
    }.get(kind, block)
    yield {"type": "content_block_start", "index": number, "content_block": start}
    deltas: list[dict[str, Any]] = []
    if kind == "text":
        deltas = [{"type": "text_delta", "text": word} for word in re.findall(r"\S+\s*", block["text"])]
    elif kind == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}] if block["thinking"] else []
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif kind == "tool_use":
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": number, "delta": delta}
    yield {"type": "content_block_stop", "index": number}


def _converse_events(number: int, block: dict[str, Any]) -> Iterator[bytes]:
    """Yield the events of a block of a stream of Converse."""
    at = {"contentBlockIndex": number}
    deltas: list[dict[str, Any]] = []
    if call := block.get("toolUse"):
        started = {"toolUse": {"toolUseId": call["toolUseId"], "name": call["name"]}}
        yield aws_event("contentBlockStart", {**at, "start": started})
        deltas = [{"toolUse": {"input": json.dumps(call["input"])}}]
    elif thought := block.get("reasoningContent"):
        parts = thought.get("reasoningText") or thought
        deltas = [{"reasoningContent": {name: value}} for name, value in parts.items() if value]
    else:
        deltas = [{"text": block["text"]}]
    for delta in deltas:
        yield aws_event("contentBlockDelta", {**at, "delta": delta})
    yield aws_event("contentBlockStop", at)
