"""`ChatView`: the context of a chat as the page shows it.

It has the last messages, whose images and documents are sent as ids of files, calls that wait with what a person needs
to decide about them, and fields that the context of the machine lacks: title, mode, size of the context, and `began`,
facts of calls from the moment before they ran: a file's change, and whether the call was always allowed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, NamedTuple, cast

from ...agents.engine.history import estimate_tokens, unanswered_calls
from ...agents.permissions.rules import Rule
from ...chat.events import StreamChunk, StreamComplete, ToolCallProgress
from ...chat.machine import AsyncChatMachine, ChatChange
from ...messages import Message, TextPart, ToolCallPart, ToolResultPart
from ...text.terminal_text import exposed
from ...tools.execution import read_call
from ...values.approvals import PermissionRequest
from ...values.capabilities import LLMMetadata
from ..approval_preview import BUILT_IN, DiffPreview, describe_always, describe_edit, preview_call, why_asked
from ..argument_text import COMMAND_NAMES, exposed_line, parse_arguments
from ..file_mentions import file_part
from ..model_facts import ServedModels

SHOWN_MESSAGES: Final = 200
"""The number of messages in a snapshot; earlier ones are requested when the page is scrolled to them."""

FULL_EVENTS: Final = (StreamChunk, ToolCallProgress)
"""Events with data that no field of the context has; of other events the page needs only the type."""

KEPT_CALLS: Final = 200
"""The number of calls whose facts are kept."""


class Media(NamedTuple):
    """An image or another file in a message."""

    media_type: str
    data: bytes
    name: str | None = None


class AnswerNote(NamedTuple):
    """The model that has written an answer, and when, in seconds since 1970."""

    model: str
    time: float


class ChatView:
    """The context of `machine` as the page shows it.

    Args:
        machine: The chat.
        title: Its title.
        mode: The mode until one is selected.
        locked: Why the chat can only be read.
        root: The working directory of the file tools, for previews of calls; None: files are not read.
        built_in: Names of tools that are those of the toolbox.
        served: What the servers of models have listed about them.
    """

    def __init__(
        self,
        machine: AsyncChatMachine,
        *,
        title: str = "",
        mode: str | None = None,
        locked: str | None = None,
        root: str | None = None,
        built_in: Collection[str] = BUILT_IN,
        served: ServedModels | None = None,
    ) -> None:
        self.title: str = title
        self.locked: str | None = locked
        self.not_saved: str | None = None
        self.media: dict[str, Media] = {}
        self.answered_by: dict[int, AnswerNote] = {}
        self._began = dict[str, dict[str, Any]]()
        self._machine = machine
        self._mode = mode
        self._root = root
        self._built_in = built_in
        self._served = served or ServedModels()
        self._context_tokens: int | None = None
        self._sent = self._own_fields()

    @property
    def metadata(self) -> LLMMetadata:
        """The metadata of the model, with what its server has listed."""
        return self._served.metadata(self._machine.llm)

    def snapshot(self) -> dict[str, Any]:
        """Return the state and the context with the last messages; `first` is the index of the first of them."""
        state, context = self._machine.state, self._machine.context
        first = max(len(context.messages) - SHOWN_MESSAGES, 0)
        data = replace(context, messages=(), marks=(), branches=()).to_dict()
        data |= self._shown_fields({"queue": None, "pending": None, "usage": None, "marks": [], "branches": None})
        if context.held:
            data |= self._shown_fields({"held": None})
        data |= {"messages": self._messages(context.messages[first:]), "first": first, **self._own_fields()}
        data["began"] = self._began.copy()
        data["marks"] = [mark.to_dict() for mark in context.marks]
        return {"state": state, "context": data}

    def messages(self, before: int, limit: int) -> dict[str, Any]:
        """Return at most `limit` messages before the index `before`, and the index of the first of them."""
        messages = self._machine.context.messages
        end = min(max(before, 0), len(messages))
        begin = max(end - limit, 0)
        return {"from": begin, "messages": self._messages(messages[begin:end])}

    def change(self, change: ChatChange) -> dict[str, Any]:
        """Return a change with what it changes on the page."""
        data = change.to_dict()
        if isinstance(change.event, FULL_EVENTS):
            return data
        if isinstance(change.event, StreamComplete) and not change.ignored:
            self._context_tokens = change.event.usage.total_tokens or None
        data["event"] = {"type": change.event.type}
        changes: dict[str, Any] = data["changes"]
        if "messages" in changes:
            begin = changes["messages"]["from"]
            changes["messages"]["messages"] = self._messages(change.context.messages[begin:])
        if "running" in changes and (began := self._begin_calls(change)):
            changes["began"] = began
        data["changes"] = changes | self._shown_fields(changes) | self.own_changes()
        return data

    def own_changes(self) -> dict[str, Any]:
        """Return the fields of the page that have changed since they were returned here."""
        before, self._sent = self._sent, self._own_fields()
        return {name: value for name, value in self._sent.items() if before[name] != value}

    def _own_fields(self) -> dict[str, Any]:
        context, metadata = self._machine.context, self.metadata
        offered = [*self._machine.config.by_name]
        if self._context_tokens is None:
            self._context_tokens = estimate_tokens(context.messages)
        return {
            "title": self.title,
            "mode": context.mode or (self._mode if offered else None),
            "offered_tools": offered,
            "always_allowed": [_allowed_text(rule) for rule in context.remembered],
            "context_tokens": self._context_tokens,
            "context_window": metadata.context_window or metadata.capabilities.context_window,
            "answered_by": {str(at): note._asdict() for at, note in [*self.answered_by.items()][-SHOWN_MESSAGES:]},
            "locked": self.locked,
            "not_saved": self.not_saved,
        }

    def _shown_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return those of `fields` that the page gets in another form."""
        context, shown = self._machine.context, dict[str, Any]()
        if "queue" in fields:
            shown["queue"] = self._messages(context.queue)
        if "held" in fields:
            shown["held"] = self._messages(context.held)
        if "pending" in fields:
            shown["pending"] = [self._request(request) for request in context.pending]
        if "usage" in fields:
            cost = context.usage.cost
            shown["usage"] = context.usage.to_dict() | {"cost": None if cost is None else str(cost)}
        if "branches" in fields:
            shown["branches"] = [
                {"index": point.index, "count": len(point.branches), "current": point.current}
                for point in context.branches
            ]
        return shown

    def _begin_calls(self, change: ChatChange) -> dict[str, dict[str, Any]]:
        """Return the facts of the calls that are about to run, by their ids, and keep them."""
        context = change.context
        new = set(context.running) - set(change.before.running)
        if not new:
            return {}
        edited = {each.call_id: each.arguments for each in context.answers if each.arguments is not None}
        allowed = {each.call_id for each in context.answers if each.action == "allow_session"}
        rules = [Rule.from_dict(rule) for rule in context.remembered]
        calls = [call for call in unanswered_calls(context.messages) if call.id in new]
        began, paths = dict[str, dict[str, Any]](), set[str]()
        for call in calls:
            arguments = edited.get(call.id, call.arguments)
            facts: dict[str, Any] = {"arguments": arguments}
            if call.id in allowed or (rules and self._is_allowed(replace(call, arguments=arguments), rules)):
                facts["always"] = True
            sketch = None if self._root is None else self._sketch(call, arguments)
            if sketch is not None and sketch.path not in paths:  # the next change of a file is unknown before the first
                paths.add(sketch.path)
                facts["preview"] = sketch.to_dict()
            if len(facts) > 1:
                began[call.id] = facts
        self._began |= began
        for id in [*self._began][:-KEPT_CALLS]:
            del self._began[id]
        return began

    def _is_allowed(self, call: ToolCallPart, rules: Sequence[Rule]) -> bool:
        """Return whether one of the session's rules matches a call. They have the arguments with their defaults."""
        config = self._machine.config
        job = read_call(call, config.by_name, config.validation_context)
        if job.error is not None:
            return False
        permissions = replace(config.permissions, mode="default", rules=())
        return job.tool is not None and permissions.decide(job.tool, job.named_arguments, rules).verdict == "allow"

    def _sketch(self, call: ToolCallPart, arguments: str) -> DiffPreview | None:
        """Return the change of a file that a call is about to make; None if it changes none."""
        sketch = preview_call(PermissionRequest(call.id, call.name, arguments), self._root, built_in=self._built_in)
        return sketch if isinstance(sketch, DiffPreview) else None

    def _request(self, request: PermissionRequest) -> dict[str, Any]:
        """Return a call that waits, with what it would do, and what allowing it for the session will allow."""
        config = self._machine.config
        tool = config.by_name.get(request.tool)
        return request.to_dict() | {
            "reason": why_asked(request),
            "fingerprint": request.fingerprint,
            "preview": preview_call(request, self._root, built_in=self._built_in).to_dict(),
            "always": "" if tool is None else describe_always(config.permissions, tool, request),
            "editable": describe_edit(request),
        }

    def _messages(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """Return messages as JSON-serialisable data, with ids of files in place of their data."""
        return [self._message(message) for message in messages]

    def _message(self, message: Message) -> dict[str, Any]:
        data = message.to_dict()
        for part, plain in zip(message.parts, data["parts"], strict=True):
            self._take_data([part], [plain])
            if message.role == "user" and isinstance(part, TextPart):
                self._take_file(part.text, plain)
            if isinstance(part, ToolResultPart):
                self._take_data(part.images, plain["images"])
        return data

    def _take_data(self, parts: Iterable[Any], plain: Iterable[dict[str, Any]]) -> None:
        for part, fields in zip(parts, plain, strict=True):
            content: bytes | None = getattr(part, "data", None)
            if content is not None:
                media = Media(part.media_type or "", content, getattr(part, "name", None))
                fields |= {"data": None, "file": self._add(media), "size": len(content)}

    def _take_file(self, text: str, fields: dict[str, Any]) -> None:
        """Show a text that is the content of a file, of the page or of `@file` in the terminal, as that file."""
        if (found := file_part(text)) and found[0].startswith("file "):
            media = Media("text/plain", found[1].encode(errors="replace"), found[0].removeprefix("file "))
            fields.clear()
            fields |= {"type": "document", "media_type": media.media_type, "name": media.name}
            fields |= {"url": None, "data": None, "file": self._add(media), "size": len(media.data)}

    def _add(self, media: Media) -> str:
        """Return the id under which the page can request a file."""
        id = f"m{sha256(media.data).hexdigest()[:40]}"
        self.media[id] = media
        return id


def _allowed_text(rule: Mapping[str, Any]) -> str:
    """Return what a rule of the session allows, in plain words."""
    where: Mapping[str, Any] = rule.get("where") or {}
    tool = exposed_line(str(rule.get("tool")))
    return (
        f"{tool}: {', '.join(filter(None, map(_condition_text, where.values())))}" if where else f"every call of {tool}"
    )


def _condition_text(condition: object) -> str:
    """Return a condition of a rule: of the exact arguments of a command its text, and the others by their names."""
    text, given = str(condition), None
    if isinstance(condition, Mapping):
        plain = cast("Mapping[str, Any]", condition)
        given = parse_arguments(str(plain["others"][1] if "others" in plain else plain.get("exactly")))
    if given is None:
        return exposed(text)
    commands = [str(given[name]) for name in COMMAND_NAMES if name in given]
    others = [f"{name}: {value}" for name, value in given.items() if name not in COMMAND_NAMES and value is not None]
    return exposed(", ".join([*commands, *others]))
