"""Answers written by hand, for what the mock servers cannot send; each as a body in one piece and as a stream.

A stream is made from the whole, as the service would have sent it: texts and arguments come in small pieces.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sdks.decoded import Decoded
from support.aws_event_messages import event as aws_event

Answer = dict[str, Any]


@dataclass(frozen=True)
class Written:
    """An answer of a service, and its meaning. `at`: the protocol."""

    at: str
    answer: Answer
    decoded: Decoded

    @property
    def kind(self) -> str:
        """The type of a stream's content."""
        kinds = {"ollama": "application/x-ndjson", "bedrock": "application/vnd.amazon.eventstream"}
        return kinds.get(self.at, "text/event-stream")

    def body(self, *, stream: bool) -> bytes:
        """The answer as a service sends it."""
        return b"".join(self.events()) if stream else json.dumps(self.answer).encode()

    def events(self) -> list[bytes]:
        """The events of the stream."""
        return [self.event(found) for found in STREAMS[self.at](self.answer)]

    def event(self, data: Any) -> bytes:
        """One event of the stream: named as its `type` is, where it has one; a line, where lines are sent."""
        if self.at == "ollama":
            return json.dumps(data).encode() + b"\n"
        if self.at == "bedrock":
            ((kind, content),) = data.items()
            return aws_event(kind, content)
        name = f"event: {data['type']}\n" if isinstance(data, dict) and "type" in data else ""
        return f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def pieces(text: str) -> list[str]:
    """`text` in pieces."""
    return [text[at : at + 5] for at in range(0, len(text), 5)]


# -- how each service streams


def _chat(answer: Answer) -> Iterator[Any]:
    (choice,) = answer["choices"]
    message = choice["message"]
    deltas: list[Any] = [{"role": "assistant", "content": None}]
    for name in ("content", "refusal"):
        deltas += [{name: piece} for piece in pieces(message.get(name) or "")]
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        more = pieces(function["arguments"])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in more]
    about = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    for delta in deltas:
        yield {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**about, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield {**about, "choices": [], "usage": answer["usage"]}
    yield "[DONE]"


def _responses(answer: Answer) -> Iterator[Any]:
    begun = {**answer, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    found: list[Answer] = [{"type": "response.created", "response": begun}]
    for place, item in enumerate(answer["output"]):
        empty = {name: type(item[name])() for name in ("content", "summary", "arguments") if name in item}
        added = {**item, **empty, "status": "in_progress"}
        found.append({"type": "response.output_item.added", "output_index": place, "item": added})
        where = {"item_id": item["id"], "output_index": place}
        for kind, name, text, part in _responses_texts(item):
            found += [{"type": f"{kind}.delta", **where, **part, "delta": piece} for piece in pieces(text)]
            found.append({"type": f"{kind}.done", **where, **part, name: text})
        found.append({"type": "response.output_item.done", "output_index": place, "item": item})
    for number, one in enumerate([*found, {"type": f"response.{answer['status']}", "response": answer}]):
        yield {**one, "sequence_number": number}


def _responses_texts(item: Answer) -> Iterator[tuple[str, str, str, Answer]]:
    """The texts of an item: the kind of its events, the field of the whole, the text, and where it stands."""
    for place, part in enumerate(item.get("content", ())):
        kind, name = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        yield f"response.{kind}", name, part[name], {"content_index": place}
    for place, part in enumerate(item.get("summary", ())):
        yield "response.reasoning_summary_text", "text", part["text"], {"summary_index": place}
    if "arguments" in item:
        yield "response.function_call_arguments", "arguments", item["arguments"], {}


def _anthropic(answer: Answer) -> Iterator[Any]:
    usage = answer["usage"]
    start = {**answer, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": {**start, "stop_details": None}}
    for index, block in enumerate(answer["content"]):
        opened, deltas = _ANTHROPIC_BLOCKS[block["type"]](block)
        yield {"type": "content_block_start", "index": index, "content_block": opened}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    delta = {name: answer[name] for name in ("stop_reason", "stop_sequence", "stop_details") if name in answer}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}}
    yield {"type": "message_stop"}


def _text_block(block: Answer) -> tuple[Answer, list[Answer]]:
    return {**block, "text": ""}, [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]


def _thought_block(block: Answer) -> tuple[Answer, list[Answer]]:
    deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
    signed = {"type": "signature_delta", "signature": block["signature"]}
    return {**block, "thinking": "", "signature": ""}, [*deltas, signed]


def _call_block(block: Answer) -> tuple[Answer, list[Answer]]:
    text = ["", *pieces(json.dumps(block["input"]) if block["input"] else "")]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in text]


_ANTHROPIC_BLOCKS: dict[str, Callable[[Answer], tuple[Answer, list[Answer]]]] = {
    "text": _text_block,
    "thinking": _thought_block,
    "redacted_thinking": lambda block: (block, []),
    "tool_use": _call_block,
}


def _gemini(answer: Answer) -> Iterator[Any]:
    candidates = answer.get("candidates", [])
    for part in (part for one in candidates for part in one.get("content", {}).get("parts", ())):
        for piece in pieces(part["text"])[:-1] if "thoughtSignature" not in part and part.get("text") else ():
            yield {"candidates": [{"content": {"role": "model", "parts": [{**part, "text": piece}]}}]}
        last = {**part, "text": pieces(part["text"])[-1]} if part.get("text") else part
        yield {"candidates": [{"content": {"role": "model", "parts": [last]}}]}
    ends = [{name: value for name, value in one.items() if name != "content"} for one in candidates]
    yield {**answer, "candidates": ends} if ends else answer


def _mistral(answer: Answer) -> Iterator[Any]:
    (choice,) = answer["choices"]
    message, content = choice["message"], choice["message"].get("content") or ""
    deltas: list[Any] = [{"role": "assistant", "content": ""}]
    for chunk in content if isinstance(content, list) else [{"type": "text", "text": content}]:
        if chunk["type"] == "text":
            deltas += [{"content": piece} for piece in pieces(chunk["text"])]
        else:
            texts = [piece for part in chunk["thinking"] for piece in pieces(part["text"])]
            deltas += [{"content": [{**chunk, "thinking": [{"type": "text", "text": piece}]}]} for piece in texts]
    calls = {"tool_calls": message["tool_calls"]} if message.get("tool_calls") else {}
    about = {"id": "m1", "object": "chat.completion.chunk", "created": 1, "model": "mistral-large-latest"}
    for delta in deltas:
        yield {**about, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    last = {"index": 0, "delta": {"content": "", **calls}, "finish_reason": choice["finish_reason"]}
    yield {**about, "choices": [last], "usage": answer["usage"]}
    yield "[DONE]"


def _ollama(answer: Answer) -> Iterator[Any]:
    message = answer["message"]
    about = {name: answer[name] for name in ("model", "created_at")} | {"done": False}
    decoded: list[Answer] = [
        {name: piece} for name in ("thinking", "content") for piece in pieces(message.get(name, ""))
    ]
    decoded += [{"tool_calls": [call]} for call in message.get("tool_calls", ())]
    for part in decoded:
        yield {**about, "message": {"role": "assistant", "content": "", **part}}
    yield {**answer, "message": {"role": "assistant", "content": ""}}


def _bedrock(answer: Answer) -> Iterator[Any]:
    yield {"messageStart": {"role": "assistant"}}
    for index, block in enumerate(answer["output"]["message"]["content"]):
        ((kind, value),) = block.items()
        started, deltas = _BEDROCK_BLOCKS[kind](value)
        if started:
            yield {"contentBlockStart": {"contentBlockIndex": index, "start": started}}
        for delta in deltas:
            yield {"contentBlockDelta": {"contentBlockIndex": index, "delta": delta}}
        yield {"contentBlockStop": {"contentBlockIndex": index}}
    yield {"messageStop": {"stopReason": answer["stopReason"]}}
    yield {"metadata": {"usage": answer["usage"], "metrics": answer["metrics"]}}


def _bedrock_thought(thought: Answer) -> tuple[Answer, list[Answer]]:
    if "redactedContent" in thought:
        return {}, [{"reasoningContent": thought}]
    found = thought["reasoningText"]
    texts = [{"reasoningContent": {"text": piece}} for piece in pieces(found["text"])]
    return {}, [*texts, {"reasoningContent": {"signature": found["signature"]}}]


def _bedrock_call(call: Answer) -> tuple[Answer, list[Answer]]:
    text = ["", *pieces(json.dumps(call["input"]) if call["input"] else "")]
    begun = {name: call[name] for name in ("toolUseId", "name")}
    return {"toolUse": begun}, [{"toolUse": {"input": piece}} for piece in text]


_BEDROCK_BLOCKS: dict[str, Callable[[Any], tuple[Answer, list[Answer]]]] = {
    "text": lambda text: ({}, [{"text": piece} for piece in pieces(text)]),
    "reasoningContent": _bedrock_thought,
    "toolUse": _bedrock_call,
}


def _cohere(answer: Answer) -> Iterator[Any]:
    message = answer["message"]
    empty = {"role": "assistant", "content": [], "tool_plan": "", "tool_calls": [], "citations": []}
    yield {"id": answer["id"], "type": "message-start", "delta": {"message": empty}}
    for piece in pieces(message.get("tool_plan", "")):
        yield {"type": "tool-plan-delta", "delta": {"message": {"tool_plan": piece}}}
    for index, block in enumerate(message.get("content", ())):
        kind = block["type"]
        begun = {"content": {"type": kind, kind: ""}}
        yield {"type": "content-start", "index": index, "delta": {"message": begun}}
        for piece in pieces(block[kind]):
            yield {"type": "content-delta", "index": index, "delta": {"message": {"content": {kind: piece}}}}
        yield {"type": "content-end", "index": index}
    for index, call in enumerate(message.get("tool_calls", ())):
        started = {**call, "function": {**call["function"], "arguments": ""}}
        yield {"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": started}}}
        for piece in pieces(call["function"]["arguments"]):
            more = {"tool_calls": {"function": {"arguments": piece}}}
            yield {"type": "tool-call-delta", "index": index, "delta": {"message": more}}
        yield {"type": "tool-call-end", "index": index}
    end = {name: answer[name] for name in ("finish_reason", "usage")}
    yield {"type": "message-end", "delta": end}


STREAMS: dict[str, Callable[[Answer], Iterable[Any]]] = {
    "openai": _chat,
    "responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mistral": _mistral,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "cohere": _cohere,
}
