"""The marks of prompt caches in a request: one for each `CachePoint`, and those of `cache="auto"`.

A prompt is cached from its beginning to a mark, in the order of tools, system prompt and messages. An encoder puts a
`point` block where a message has a `CachePoint`; `find_marks` takes these blocks out again, and returns which blocks
are marked. Nothing here is imported for a request without marks.

Sources, as of November 2026: platform.claude.com/docs/en/build-with-claude/prompt-caching,
docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html,
openrouter.ai/docs/guides/best-practices/prompt-caching, alibabacloud.com/help/en/model-studio/context-cache,
developers.openai.com/api/docs/guides/prompt-caching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from ..errors import BadRequest
from ..values.tool_spec import ToolCachePoint
from .content_parts import POINT

Block: TypeAlias = dict[str, Any]
Place: TypeAlias = tuple[int, int]
"""A section of the prompt and a block in it. Section 0 is the tools, 1 the system prompt, and each turn is another."""

MOST: Final = 4


class Rules(NamedTuple):
    """The rules of a service for its marks.

    Attributes:
        can_mark: Returns True for a block that can be marked. Where another one is to be marked, the one before it is.
        tools: Tools can be marked.
        ordered: Marks of an hour come before those of 5 minutes.
        most: The most marks of a request; None: the service uses the last ones.
        ttls: The values of `ttl`.
    """

    can_mark: Callable[[Block], bool]
    tools: bool = True
    ordered: bool = True
    most: int | None = MOST
    ttls: tuple[str, ...] = ("5m", "1h")


def find_marks(
    provider: str,
    rules: Rules,
    tools: Sequence[Block],
    system: list[Block],
    turns: Sequence[list[Block]],
    points: Sequence[ToolCachePoint],
    *,
    run_by_service: int = 0,
) -> dict[Place, str | None]:
    """Return the `ttl` of each block that a `CachePoint` marks, and remove the `point` blocks.

    Args:
        provider: The name of the provider, for errors.
        rules: The rules of the service.
        tools: The tools that are sent.
        system: The blocks of the system prompt.
        turns: The blocks of each turn.
        points: The points among the tools.
        run_by_service: The number of tools at the end that the provider runs.

    Raises:
        BadRequest: There are too many marks, or one of an hour after one of 5 minutes.
    """
    marks: dict[Place, str | None] = {}
    if rules.tools and tools:
        own = len(tools) - run_by_service
        for tool in points:
            at = own + min(tool.server_tools, run_by_service) if tool.server_tools else min(tool.tools, own)
            _mark(marks, (0, at - 1), tool.ttl)
    last: Place | None = (0, len(tools) - 1) if rules.tools and tools else None
    for section, blocks in enumerate((system, *turns), 1):
        kept: list[Block] = []
        for block in blocks:
            if block.get("type") != POINT:
                if rules.can_mark(block):
                    last = section, len(kept)
                kept.append(block)
            elif last is not None:
                _mark(marks, last, block["ttl"])
        blocks[:] = kept
    _check(provider, rules, marks)
    return marks


def add_automatic(
    marks: dict[Place, str | None],
    rules: Rules,
    tools: Sequence[Block],
    system: Sequence[Block],
    turns: Sequence[tuple[str, Sequence[Block]]],
    *,
    free: bool,
    taken: int = 0,
    system_section: int = 1,
) -> None:
    """Add the marks of `cache="auto"`, as many as `marks` leaves: where the next request has the same beginning.

    In the order of their use: the end of the conversation, from which the next request goes on; the system prompt;
    the tools, which stay when the system prompt changes; and the end of the request before, as services look for an
    earlier mark only some blocks back. A first message that has to be answered by a required call is not marked: the
    next call of that kind has another one.

    Args:
        marks: The marks so far.
        rules: The rules of the service.
        tools: The tools that are sent.
        system: The blocks of the system prompt.
        turns: The role and the blocks of each turn.
        free: The model chooses among tools, so that its calls continue the conversation.
        taken: The number of further marks in the request.
        system_section: The section of the system prompt, where it is one of the turns.
    """
    answers = [at for at, (role, _) in enumerate(turns) if role == "assistant"]
    wanted: list[tuple[int, Sequence[Block]]] = []
    end = next((at for at in reversed(range(len(turns))) if turns[at][0] != "system"), None)
    if end is not None and (answers or free):
        wanted.append((end + 2, turns[end][1]))
    wanted.append((system_section, system))
    if rules.tools:
        wanted.append((0, tools))
    if answers and answers[-1]:
        before = answers[-1] - 1
        if before and turns[before][0] == "system":  # a late one
            before -= 1
        wanted.append((before + 2, turns[before][1]))
    most = (rules.most or MOST) - taken
    for section, blocks in wanted:
        if len(marks) >= most:
            break
        at = next((at for at in reversed(range(len(blocks))) if section == 0 or rules.can_mark(blocks[at])), None)
        if at is None or (section, at) in marks:
            continue
        # A mark of an hour cannot follow one of 5 minutes.
        later = rules.ordered and any(ttl == "1h" for place, ttl in marks.items() if place > (section, at))
        marks[section, at] = "1h" if later else None


def _mark(marks: dict[Place, str | None], place: Place, ttl: str | None) -> None:
    marks[place] = "1h" if "1h" in (marks.get(place), ttl) else ttl or marks.get(place)


def _check(provider: str, rules: Rules, marks: Mapping[Place, str | None]) -> None:
    if rules.most is not None and len(marks) > rules.most:
        raise BadRequest(
            f"{provider} takes at most {rules.most} CachePoints in a request, got {len(marks)}: leave out the earlier "
            "ones, as each marks all of the request before it"
        )
    if unknown := next((ttl for ttl in marks.values() if ttl is not None and ttl not in rules.ttls), None):
        raise BadRequest(
            f"{provider} takes no CachePoint(ttl={unknown!r}): expected {' or '.join(map(repr, rules.ttls))}, or none"
        )
    if rules.ordered and sorted(marks.values(), key=lambda ttl: ttl != "1h") != [marks[at] for at in sorted(marks)]:
        short = next(at for at in sorted(marks) if marks[at] != "1h")
        where = "the tools" if short[0] == 0 else "the system prompt" if short[0] == 1 else "a message"
        raise BadRequest(
            f"{provider} takes a CachePoint(ttl='1h') only before those of 5 minutes, got one after a point of 5 "
            f"minutes in {where}: use ttl='1h' for that one, too"
        )


# -- blocks with a field for the mark


def cache_control(ttl: str | None) -> dict[str, str]:
    """Return the value of `cache_control`."""
    return {"type": "ephemeral", **({"ttl": ttl} if ttl else {})}


def marked(blocks: Sequence[Block], section: int, marks: Mapping[Place, str | None], field: str) -> list[Block]:
    """Return `blocks` with the marks of their section in `field`. The tools of an encoder are not changed."""
    value = cache_control if field == "cache_control" else _breakpoint
    return [
        {**block, field: value(marks[section, at])} if (section, at) in marks else block
        for at, block in enumerate(blocks)
    ]


def _breakpoint(ttl: str | None) -> dict[str, str]:
    """Return the value of OpenAI's `prompt_cache_breakpoint`: how long all of them last is a field of the request."""
    return {"mode": "explicit"}


# -- messages of OpenAI's protocols


class Marked(NamedTuple):
    """The tools and the messages of a request, with their marks. `an_hour`: one of them is to last so long."""

    tools: list[Block]
    messages: list[Block]
    an_hour: bool


def mark_messages(
    provider: str,
    rules: Rules,
    field: str,
    tools: Sequence[Block],
    messages: Sequence[Block],
    points: Sequence[ToolCachePoint],
    *,
    text: str,
    run_by_service: int = 0,
    automatic: bool = False,
    free: bool = False,
) -> Marked:
    """Return tools and messages with their marks: a message whose text is marked has a list of parts then.

    Args:
        provider: The name of the provider, for errors.
        rules: The rules of the service.
        field: The field of a part that marks it.
        tools: The tools that are sent.
        messages: The messages, with `point` blocks in lists of parts, and in place of messages.
        points: The points among the tools.
        text: The type of a part with text.
        run_by_service: The number of tools at the end that the provider runs.
        automatic: Add the marks of `cache="auto"`.
        free: See `add_automatic`.
    """
    sent: list[Block] = []
    turns: list[list[Block]] = []
    before: list[Block] = []
    for message in messages:
        if message.get("type") == POINT:
            (turns[-1] if turns else before).append(message)
        else:
            sent.append(message)
            content = message.get(_content_of(message))
            turns.append([{"type": text, "text": content}] if content and isinstance(content, str) else content or [])
    marks = find_marks(provider, rules, tools, before, turns, points, run_by_service=run_by_service)
    if automatic:
        roles = [str(message.get("role", "tool")) for message in sent]
        start = next((at for at, role in enumerate(roles) if role != "system"), len(roles))
        system = turns[start - 1] if start else []
        by_role = list(zip(roles, turns, strict=True))
        add_automatic(marks, rules, tools, system, by_role, free=free, system_section=start + 1)
    for section, (message, blocks) in enumerate(zip(sent, turns, strict=True), 2):
        name = _content_of(message)
        if any(place == section for place, _ in marks):
            message[name] = marked(blocks, section, marks, field)
        elif isinstance(message.get(name), list):
            message[name] = blocks
    return Marked(marked(tools, 0, marks, field), sent, "1h" in marks.values())


def _content_of(message: Mapping[str, Any]) -> str:
    return "output" if "output" in message else "content"


# -- blocks that are marks


def with_cache_points(blocks: Sequence[Block], section: int, marks: Mapping[Place, str | None]) -> Iterator[Block]:
    """Yield `blocks` with a `cachePoint` block of Bedrock's after each that is marked."""
    for at, block in enumerate(blocks):
        yield block
        if (section, at) in marks:
            ttl = marks[section, at]
            yield {"cachePoint": {"type": "default", **({"ttl": ttl} if ttl else {})}}
