"""One turn of a model, as each protocol writes it: in pieces and as a whole. By hand, after the vendors' references."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from support.aws_event_messages import event as aws_event, exception as aws_exception
from support.chunks import call_deltas, delta
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.anthropic.vertex import AnthropicVertexAdapter
from toolcast.providers.base import ProviderAdapter
from toolcast.providers.bedrock.adapter import BedrockAdapter
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import GENERIC, OPENAI
from toolcast.providers.cohere.adapter import CohereAdapter
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter


@dataclass(frozen=True)
class Turn:
    """A turn of the model: thoughts, text, calls (id, name, arguments), and why it ends: "stop" or "length"."""

    thought: str = ""
    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()
    end: str = "stop"
    usage: tuple[int, int] = (9, 4)


def pieces(text: str, size: int = 5) -> Iterator[str]:
    yield from (text[at : at + size] for at in range(0, len(text), size))


def sse(*payloads: Any, names: bool = False, end: str = "\n") -> list[bytes]:
    heads = [f"event: {payload['type']}{end}" if names else "" for payload in payloads]
    return [f"{head}data: {json.dumps(one)}{end}{end}".encode() for head, one in zip(heads, payloads, strict=True)]


def chat_usage(turn: Turn) -> dict[str, int]:
    return {"prompt_tokens": turn.usage[0], "completion_tokens": turn.usage[1], "total_tokens": sum(turn.usage)}


def chat_finish(turn: Turn) -> str:
    return turn.end if turn.end == "length" or not turn.calls else "tool_calls"


def chat_stream(turn: Turn) -> list[bytes]:
    calls = (call_deltas(text, name, id, at) for at, (id, name, text) in enumerate(turn.calls))
    return [
        *sse(delta(role="assistant", content="")),
        *sse(*(delta(reasoning_content=piece) for piece in pieces(turn.thought))),
        *sse(*(delta(content=piece) for piece in pieces(turn.text))),
        *sse(*(one for call in calls for one in call)),
        *sse(delta(chat_finish(turn)), {"choices": [], "usage": chat_usage(turn)}),
        b"data: [DONE]\n\n",
    ]


def chat_whole(turn: Turn) -> bytes:
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for id, name, arguments in turn.calls
    ]
    message = {"role": "assistant", "reasoning_content": turn.thought, "content": turn.text, "tool_calls": made}
    choice = {"index": 0, "message": message, "finish_reason": chat_finish(turn)}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": chat_usage(turn)}).encode()


def mistral_stream(turn: Turn) -> list[bytes]:
    thoughts = [{"type": "thinking", "thinking": [{"type": "text", "text": one}]} for one in pieces(turn.thought)]
    made = [{"id": id, "function": {"name": name, "arguments": text}} for id, name, text in turn.calls]
    return [
        *sse(delta(role="assistant", content="")),
        *sse(*(delta(content=[thought]) for thought in thoughts)),
        *sse(*(delta(content=piece) for piece in pieces(turn.text))),
        *sse(delta(chat_finish(turn), content="", tool_calls=made or None) | {"usage": chat_usage(turn)}),
        b"data: [DONE]\n\n",
    ]


def mistral_whole(turn: Turn) -> bytes:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": turn.thought}]}
    text = {"type": "text", "text": turn.text}
    made = [{"id": id, "function": {"name": name, "arguments": arguments}} for id, name, arguments in turn.calls]
    content = [*([thought] if turn.thought else []), *([text] if turn.text else [])]
    choice = {"index": 0, "message": {"content": content, "tool_calls": made}, "finish_reason": chat_finish(turn)}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": chat_usage(turn)}).encode()


def responses_items(turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.thought:
        yield {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": turn.thought}]}
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": []}]
        yield {"id": "msg_1", "type": "message", "role": "assistant", "content": content}
    for at, (id, name, arguments) in enumerate(turn.calls):
        yield {"id": f"fc_{at}", "type": "function_call", "call_id": id, "name": name, "arguments": arguments}


def responses_body(turn: Turn) -> dict[str, Any]:
    usage = {"input_tokens": turn.usage[0], "output_tokens": turn.usage[1], "total_tokens": sum(turn.usage)}
    short = turn.end == "length"
    return {
        "id": "resp_1",
        "model": "m-1",
        "status": "incomplete" if short else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if short else None,
        "output": list(responses_items(turn)),
        "usage": usage,
    }


_DELTAS = {
    "reasoning": ("response.reasoning_summary_text.delta", "summary_index"),
    "message": ("response.output_text.delta", "content_index"),
    "function_call": ("response.function_call_arguments.delta", "output_index"),
}


def responses_stream(turn: Turn) -> list[bytes]:
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "model": "m-1"}}]
    for at, item in enumerate(responses_items(turn)):
        kind, place = _DELTAS[item["type"]]
        open_item = {**item, "summary": [], "content": [], "arguments": "", "status": "in_progress"}
        events.append({"type": "response.output_item.added", "output_index": at, "item": open_item})
        text = turn.thought if item["type"] == "reasoning" else item.get("arguments", turn.text)
        for piece in pieces(text):
            events.append({"type": kind, place: 0, "item_id": item["id"], "output_index": at, "delta": piece})
        if item["type"] == "function_call" and turn.end == "stop":
            whole = {"type": "response.function_call_arguments.done", "output_index": at, "arguments": text}
            events.append(whole | {"item_id": item["id"]})
        if turn.end == "stop" or item["type"] != "function_call":
            events.append({"type": "response.output_item.done", "output_index": at, "item": item})
    body = responses_body(turn)
    events.append({"type": f"response.{body['status']}", "response": body})
    return sse(*({**event, "sequence_number": number} for number, event in enumerate(events)), names=True)


def anthropic_blocks(turn: Turn) -> Iterator[tuple[dict[str, Any], str, str, str]]:
    """Each block as it begins, the kind and field of its pieces, and its text."""
    if turn.thought:
        yield {"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking", turn.thought
    if turn.text:
        yield {"type": "text", "text": ""}, "text_delta", "text", turn.text
    for id, name, arguments in turn.calls:
        begun = {"type": "tool_use", "id": id, "name": name, "input": {}}
        yield begun, "input_json_delta", "partial_json", arguments


def anthropic_stop(turn: Turn) -> str:
    return "max_tokens" if turn.end == "length" else "tool_use" if turn.calls else "end_turn"


def anthropic_stream(turn: Turn) -> list[bytes]:
    usage = {"input_tokens": turn.usage[0], "output_tokens": 1}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "msg_1", "model": "m-1", "content": [], "usage": usage}},
        {"type": "ping"},
    ]
    for at, (begun, kind, name, text) in enumerate(anthropic_blocks(turn)):
        events.append({"type": "content_block_start", "index": at, "content_block": begun})
        for piece in ["", *pieces(text)]:
            events.append({"type": "content_block_delta", "index": at, "delta": {"type": kind, name: piece}})
        if turn.end == "stop" or begun["type"] != "tool_use":
            events.append({"type": "content_block_stop", "index": at})
    delta = {"stop_reason": anthropic_stop(turn), "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": turn.usage[1]}})
    return sse(*events, {"type": "message_stop"}, names=True)


def anthropic_whole(turn: Turn) -> bytes:
    content = [
        begun | ({"input": json.loads(text or "{}")} if name == "partial_json" else {name: text})
        for begun, _, name, text in anthropic_blocks(turn)
    ]
    usage = {"input_tokens": turn.usage[0], "output_tokens": turn.usage[1]}
    body = {"type": "message", "id": "msg_1", "model": "m-1", "content": content, "usage": usage}
    return json.dumps(body | {"stop_reason": anthropic_stop(turn)}).encode()


def google_chunks(turn: Turn, size: int) -> list[dict[str, Any]]:
    calls = [
        {"functionCall": {"id": id, "name": name, "args": json.loads(arguments or "{}")}}
        for id, name, arguments in turn.calls
    ]
    parts = [
        *({"text": piece, "thought": True} for piece in pieces(turn.thought, size)),
        *({"text": piece} for piece in pieces(turn.text, size)),
        *calls,
    ]
    usage = {"promptTokenCount": turn.usage[0], "candidatesTokenCount": turn.usage[1]}
    chunks = [{"candidates": [{"content": {"parts": [part], "role": "model"}, "index": 0}]} for part in parts]
    last = {"content": {"parts": [{"text": ""}]}, "finishReason": "MAX_TOKENS" if turn.end == "length" else "STOP"}
    return [*({**one, "modelVersion": "m-1"} for one in chunks), {"candidates": [last], "usageMetadata": usage}]


def google_stream(turn: Turn) -> list[bytes]:
    return sse(*google_chunks(turn, 5), end="\r\n")


def google_whole(turn: Turn) -> bytes:
    chunks = google_chunks(turn, 10**6)
    parts = [part for chunk in chunks for part in chunk["candidates"][0]["content"]["parts"]]
    last = chunks[-1]
    candidate = {"content": {"parts": parts}, "finishReason": last["candidates"][0]["finishReason"]}
    body = {"candidates": [candidate], "usageMetadata": last["usageMetadata"], "modelVersion": "m-1"}
    return json.dumps(body).encode()


def ollama_calls(turn: Turn) -> list[dict[str, Any]]:
    return [
        {"id": id, "function": {"name": name, "arguments": json.loads(arguments or "{}")}}
        for id, name, arguments in turn.calls
    ]


def ollama_end(turn: Turn, **message: Any) -> dict[str, Any]:
    counts = {"prompt_eval_count": turn.usage[0], "eval_count": turn.usage[1]}
    return {"model": "m-1", "message": {"content": "", **message}, "done": True, "done_reason": turn.end, **counts}


def ollama_stream(turn: Turn) -> list[bytes]:
    messages: list[dict[str, Any]] = [
        *({"content": "", "thinking": piece} for piece in pieces(turn.thought)),
        *({"content": piece} for piece in pieces(turn.text)),
        *({"content": "", "tool_calls": [call]} for call in ollama_calls(turn)),
    ]
    lines = [{"model": "m-1", "message": message, "done": False} for message in messages]
    return [json.dumps(line).encode() + b"\n" for line in [*lines, ollama_end(turn)]]


def ollama_whole(turn: Turn) -> bytes:
    message = {"content": turn.text, "thinking": turn.thought, "tool_calls": ollama_calls(turn)}
    return json.dumps(ollama_end(turn, **message)).encode()


def bedrock_usage(turn: Turn) -> dict[str, Any]:
    counts = {"inputTokens": turn.usage[0], "outputTokens": turn.usage[1], "totalTokens": sum(turn.usage)}
    return {"usage": counts, "metrics": {"latencyMs": 5}, "trace": {"promptRouter": {"invokedModelId": "m-1"}}}


def bedrock_stream(turn: Turn) -> list[bytes]:
    blocks: list[tuple[dict[str, Any], Callable[[str], dict[str, Any]], str]] = []
    if turn.thought:
        blocks.append(({}, lambda piece: {"reasoningContent": {"text": piece}}, turn.thought))
    if turn.text:
        blocks.append(({}, lambda piece: {"text": piece}, turn.text))
    for id, name, arguments in turn.calls:
        started = {"toolUse": {"toolUseId": id, "name": name}}
        blocks.append((started, lambda piece: {"toolUse": {"input": piece}}, arguments))
    events = [aws_event("messageStart", {"role": "assistant"})]
    for at, (start, made, text) in enumerate(blocks):
        if start:  # only blocks of some kinds have a start
            events.append(aws_event("contentBlockStart", {"contentBlockIndex": at, "start": start}))
        for piece in pieces(text):
            events.append(aws_event("contentBlockDelta", {"contentBlockIndex": at, "delta": made(piece)}))
        if turn.end == "stop" or not start:
            events.append(aws_event("contentBlockStop", {"contentBlockIndex": at}))
    events.append(aws_event("messageStop", {"stopReason": anthropic_stop(turn)}))
    return [*events, aws_event("metadata", bedrock_usage(turn))]


def bedrock_whole(turn: Turn) -> bytes:
    content: list[dict[str, Any]] = []
    if turn.thought:
        content.append({"reasoningContent": {"reasoningText": {"text": turn.thought}}})
    if turn.text:
        content.append({"text": turn.text})
    for id, name, arguments in turn.calls:
        content.append({"toolUse": {"toolUseId": id, "name": name, "input": json.loads(arguments or "{}")}})
    output = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": anthropic_stop(turn)}
    return json.dumps(output | bedrock_usage(turn)).encode()


def cohere_usage(turn: Turn) -> dict[str, Any]:
    sizes = {"input_tokens": float(turn.usage[0]), "output_tokens": float(turn.usage[1])}
    return {"billed_units": sizes, "tokens": {name: size + 500 for name, size in sizes.items()}}


def cohere_finish(turn: Turn) -> str:
    return "MAX_TOKENS" if turn.end == "length" else "TOOL_CALL" if turn.calls else "COMPLETE"


def cohere_event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, **({"delta": {"message": message}} if message else {})}


def cohere_events(turn: Turn) -> Iterator[dict[str, Any]]:
    empty: dict[str, Any] = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield cohere_event("message-start", **empty) | {"id": "c-1"}
    written = [(name, text) for name, text in (("thinking", turn.thought), ("text", turn.text)) if text]
    for at, (name, text) in enumerate(written):
        yield cohere_event("content-start", at, content={"type": name, name: ""})
        yield from (cohere_event("content-delta", at, content={name: piece}) for piece in pieces(text))
        yield cohere_event("content-end", at)
    for at, (id, name, text) in enumerate(turn.calls):
        call = {"id": id, "type": "function", "function": {"name": name, "arguments": ""}}
        yield cohere_event("tool-call-start", at, tool_calls=call)
        for piece in pieces(text):
            yield cohere_event("tool-call-delta", at, tool_calls={"function": {"arguments": piece}})
        if turn.end == "stop":
            yield cohere_event("tool-call-end", at)
    yield {"type": "message-end", "delta": {"finish_reason": cohere_finish(turn), "usage": cohere_usage(turn)}}


def cohere_stream(turn: Turn) -> list[bytes]:
    return sse(*cohere_events(turn), names=True)


def cohere_whole(turn: Turn) -> bytes:
    written = [(name, text) for name, text in (("thinking", turn.thought), ("text", turn.text)) if text]
    made = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": text}} for id, name, text in turn.calls
    ]
    message = {"role": "assistant", "content": [{"type": name, name: text} for name, text in written]}
    body = {"id": "c-1", "finish_reason": cohere_finish(turn), "message": message | {"tool_calls": made}}
    return json.dumps(body | {"usage": cohere_usage(turn)}).encode()


class Protocol(NamedTuple):
    """How one protocol writes a turn.

    `in_pieces`: arguments are streamed. `framed`: how an object is sent in a stream; `failed`: how an error is.
    `lines`: a stream is lines of text, whose ends may differ. `model`: the model that a response names.
    """

    wire: Callable[[], ProviderAdapter]
    stream: Callable[[Turn], list[bytes]]
    whole: Callable[[Turn], bytes]
    in_pieces: bool = True
    framed: Callable[[bytes], bytes] = lambda text: b"data: %b\n\n" % text
    failed: Callable[[bytes], list[bytes]] = lambda text: [
        b"data: %b\n\n" % text,
        b"event: error\ndata: %b\n\n" % text,
    ]
    lines: bool = True
    model: str | None = "m-1"


def bedrock_failures(text: bytes) -> list[bytes]:
    error = json.loads(text)["error"]
    return [aws_exception("serviceUnavailableException", {"message": error["message"]})]


PROTOCOLS = {
    "chat": Protocol(lambda: OpenAIChatAdapter(GENERIC), chat_stream, chat_whole),
    "responses": Protocol(
        lambda: OpenAIResponsesAdapter(OPENAI), responses_stream, lambda turn: json.dumps(responses_body(turn)).encode()
    ),
    "anthropic": Protocol(AnthropicAdapter, anthropic_stream, anthropic_whole),
    "google": Protocol(GoogleAdapter, google_stream, google_whole, in_pieces=False),
    "mistral": Protocol(MistralAdapter, mistral_stream, mistral_whole, in_pieces=False),
    "ollama": Protocol(
        *(OllamaAdapter, ollama_stream, ollama_whole),
        in_pieces=False,
        framed=lambda text: text + b"\n",
        failed=lambda text: [text + b"\n"],
    ),
    "bedrock": Protocol(
        *(lambda: BedrockAdapter(base_url="https://bedrock.test"), bedrock_stream, bedrock_whole),
        framed=lambda text: aws_event("contentBlockDelta", text),
        failed=bedrock_failures,
        lines=False,
    ),
    "cohere": Protocol(CohereAdapter, cohere_stream, cohere_whole, model=None),
    "anthropic-vertex": Protocol(
        *(lambda: AnthropicVertexAdapter(base_url="https://vertex.test/v1", project="p", location="eu"),),
        *(anthropic_stream, anthropic_whole),
    ),
}
