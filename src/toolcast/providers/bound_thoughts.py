"""Thoughts of Claude that are bound to what was before them, and refused once that has changed.

Since Fable 5.1 and the 5.5 family, a thought is valid with exactly the system prompt, the tools and the messages that
it was made with, and after the thought that was sent last then; marks of a cache do not count. Thoughts may be left out
from the start of a conversation, but not between others, and none may be put back
(platform.claude.com/docs/en/build-with-claude/preserved-thinking).

So each thought is stored with its prefix: the hash of all that, and of the thought before it. Where another prefix is
sent, for whatever reason (instructions, tools, a summary in place of messages), the thought and all before it are left
out. Where another thought is before it, all thoughts before it are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, TypeAlias

from ..messages import Message, ThinkingPart
from .content_parts import add_turn

Blocks: TypeAlias = list[dict[str, Any]]

REFUSAL: Final = "bound to a different conversation"
"""The words of the error that do not depend on the service."""

LEFT_OUT: Final = "thinking of earlier messages"
"""What a request's `notes` have for such thoughts."""

PREFIX: Final = "prefix"
"""The key in `ThinkingPart.opaque` of the hashes."""


def signatures(messages: Sequence[Message]) -> dict[str, str | None]:
    """Return the signature of each thought, with its prefix where that is known."""
    thoughts = [part for message in messages for part in message.parts if isinstance(part, ThinkingPart)]
    found = {_of_part(thought): (thought.opaque or {}).get(PREFIX) for thought in thoughts}
    return {signature: prefix for signature, prefix in found.items() if signature}


def bound_thought(message: Message) -> ThinkingPart | None:
    """Return the first thought of a response that has a prefix, if there is one."""
    for part in message.parts:
        if isinstance(part, ThinkingPart) and PREFIX in (part.opaque or ()):
            return part
    return None


def bind_thoughts(
    body: Mapping[str, Any], known: Mapping[str, str | None], refused: Container[str]
) -> tuple[Sequence[dict[str, Any]], str]:
    """Leave out of an encoded request the thoughts that would be refused.

    Args:
        body: The request, in Anthropic's protocol or Converse. It is not changed.
        known: The signatures of the thoughts, with their prefixes.
        refused: The signatures of thoughts that the service has refused.

    Returns:
        The messages to send, which are those of `body` if no thought is left out, and the prefix of the response.
    """
    turns: Sequence[dict[str, Any]] = body["messages"]
    tools: Blocks = body.get("tools") or body.get("toolConfig", {}).get("tools") or []
    system: str | Blocks = body.get("system") or []
    if isinstance(system, str):
        system = [{"type": "text", "text": system}]
    content = hashlib.sha256(_canonical([_unmarked(system), _unmarked(tools)]))
    last, last_place = "", -1  # the thought before
    start = 0  # thoughts of turns before this one are left out
    for place, turn in enumerate(turns):
        contents: set[str] = set()  # a turn may be of several responses
        response: str | None = None
        for block in _unmarked(turn["content"]):
            contents.add(content.hexdigest())
            if not (signature := _of_block(block)):
                content.update(_canonical([turn["role"], block]))
                continue
            prefix = known.get(signature)
            if signature in refused:
                start = place + 1
            elif prefix is not None and prefix != response:  # else it is of the same response as the one before it
                hashed, _, before = prefix.partition(".")
                if hashed not in contents:
                    start = place + 1
                elif before != _short(last):
                    start = max(start, place if last_place < place else place + 1)
            response, last, last_place = prefix, signature, place
    sent = last if last_place >= start else ""
    return _without_thoughts(turns, start), f"{content.hexdigest()}.{_short(sent)}"


def _without_thoughts(turns: Sequence[dict[str, Any]], end: int) -> Sequence[dict[str, Any]]:
    """Return `turns` without the thoughts before the turn `end`; roles alternate, even if one was a thought alone."""
    if not any(_of_block(block) for turn in turns[:end] for block in turn["content"]):
        return turns
    kept: Blocks = []
    for place, turn in enumerate(turns):
        if content := [block for block in turn["content"] if place >= end or not _of_block(block)]:
            add_turn(kept, turn["role"], content)
    return kept


def _of_part(thought: ThinkingPart) -> str:
    block = (thought.opaque or {}).get("bedrock")
    return thought.signature or thought.redacted or (_of_block(block) if block else "")


def _of_block(block: Mapping[str, Any]) -> str:
    """Return the signature of a block that is a thought, or the text of one that is encrypted; else nothing."""
    if block.get("type") in ("thinking", "redacted_thinking"):
        return str(block.get("signature") or block.get("data") or "")
    thought: dict[str, Any] = block.get("reasoningContent") or {}
    return str(thought.get("reasoningText", {}).get("signature") or thought.get("redactedContent") or "")


def _unmarked(blocks: Sequence[Mapping[str, Any]]) -> Blocks:
    """Return blocks, or tools, without the marks of a cache."""
    bare = [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]
    return [block for block in bare if "cachePoint" not in block]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _short(signature: str) -> str:
    return hashlib.sha256(signature.encode()).hexdigest()[:16] if signature else ""
