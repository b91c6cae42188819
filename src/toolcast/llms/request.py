"""`ChatRequest`: one provider-neutral request, and the conversion of messages and tool choices that callers pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, TypeAlias, cast

from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message, user
from ..providers.base import RequestInput
from ..tools.callable_tool import CallableTool
from ..values.message_dicts import message_from_dict
from ..values.output_mode import OutputMode
from ..values.server_tools import ServerTool, credentials_digest
from ..values.settings import Settings
from ..values.tool_spec import NamedTool, ToolCachePoint, ToolChoice

AnyMessage: TypeAlias = str | Message | Mapping[str, Any]
"""The types accepted as a message: a string is a user message, a dict is in OpenAI's form."""

Messages: TypeAlias = AnyMessage | Iterable[AnyMessage]
"""The types accepted as messages."""

Tools: TypeAlias = Iterable[Any]
"""The types accepted as tools: tools, types, functions, orchestrators."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response that the service stores, so that another request can continue it.

    Attributes:
        id: The service's id of the response.
        provider: The provider.
        model: The model that was requested.
        base_url: The URL of the service.
        conversation: The id of the service's conversation that the response is part of; empty if it is part of none.
    """

    id: str
    provider: str
    model: str
    base_url: str
    conversation: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to an LLM, independent of the provider.

    Attributes:
        messages: The messages, with the system prompt.
        tools: The tools that the model may call.
        tool_choice: Which of them it must call; None is the LLM's default.
        settings: The merged settings.
        parallel: True to allow several tool calls in one response.
        stream: True for a streamed response.
        mode: The output mode that the caller requires; None leaves the decision to the LLM.
        accept_damaged: True to ignore damaged events of the response.
        server_tools: The tools that the provider runs.
        forces_now: True to require the tool call at once, although there are tools that the provider runs. By default
            the model is free to use these first, and the caller requests the call again if it is missing.
        cache_points: The points of the provider's cache among the tools.
        continues: The last response that a service stores, with `seen`. An LLM of this service, whose settings allow
            it, sends only the messages after these.
        seen: The messages that the service has: those before the response, and the response.
        answers: The number of tools at the end whose call is the answer; others may be called before it.
    """

    messages: tuple[Message, ...]
    tools: tuple[CallableTool, ...] = ()
    tool_choice: ToolChoice = None
    settings: Settings = field(default_factory=Settings)
    parallel: bool = False
    stream: bool = False
    mode: OutputMode | None = None
    accept_damaged: bool = False
    server_tools: tuple[ServerTool, ...] = ()
    forces_now: bool = False
    cache_points: tuple[ToolCachePoint, ...] = ()
    continues: StoredResponse | None = None
    seen: tuple[Message, ...] = ()
    answers: int = 0

    def conversation(self, model: str, mode: OutputMode) -> RequestInput:
        """Return the input of a provider's encoder for `model`, in the output mode that the LLM decided."""
        choice = self.tool_choice
        now = self.answers > 0 and self.forces_now
        # Constrained text is of the answer alone; a call has to be, too.
        offered = self.tools[-self.answers :] if now and mode != "json_schema" else self.tools
        is_none = isinstance(choice, str) and choice == "none"
        tools = () if is_none and not _binds_thoughts(model) else tuple([tool.spec for tool in offered])
        choice = None if not tools else self.choice_in(mode) if self.server_tools else self.tool_choice
        points = self.cache_points if tools or self.server_tools else ()
        options = (self.parallel, self.stream, mode, self.accept_damaged, self.server_tools, points)
        return RequestInput(model, self.messages, tools, choice, *options, self.answers, now)

    def choice_in(self, mode: OutputMode) -> ToolChoice:
        """Return the tool choice that is sent in this output mode."""
        if self.server_tools and mode == "tool_call" and self.forces and not self.forces_now:
            # A required call is the first thing that the model writes: it would never search.
            return "auto"
        return self.tool_choice

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible data of all that the response depends on: without `stream`, time limits, tool code.

        Settings that are not set are left out. `Settings.extra` and a tool choice that is a dict are the caller's data.
        """
        settings, choice = self.settings, self.tool_choice
        values = {name: getattr(settings, name) for name in _SENT_SETTINGS}
        values["cached_content"] = settings.cached_content_name
        return {
            # The id of the response that a message is from is not sent.
            "messages": [replace(message, response_id=None).to_dict() for message in self.messages],
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
                for tool in self.tools
            ],
            "tool_choice": {"name": choice.name} if isinstance(choice, NamedTool) else choice,
            "settings": {name: value for name, value in values.items() if value is not None},
            "parallel": self.parallel,
            "mode": self.mode,
            # Only where there are some: stored answers to requests without any keep their keys.
            **({"server_tools": [tool.to_dict() for tool in self.server_tools]} if self.server_tools else {}),
            **({"forces_now": True} if self.forces_now else {}),
        }

    def cache_data(self) -> list[Any]:
        """Return the data of `to_dict` and, if tools that the provider runs have credentials, a hash of these."""
        digest = credentials_digest(self.server_tools)
        return [self.to_dict(), digest] if digest else [self.to_dict()]

    @property
    def is_typed(self) -> bool:
        """True if all tools are output types: a call of one is the result, and no function runs."""
        return all(tool.output_type is not None for tool in self.tools)

    @property
    def forces(self) -> bool:
        """True if the model must call a tool."""
        choice = self.tool_choice
        # Not `in` a tuple: it would call the `__eq__` of a `NamedTool` for each of these.
        free = choice is None or (isinstance(choice, str) and choice in ("auto", "none"))
        return bool(self.tools) and not free


def _binds_thoughts(model: str) -> bool:
    """Return True for a model whose thoughts are bound to the tools."""
    from ..providers.model_features import claude_family  # few requests have the choice "none"

    family = claude_family(model)
    return family is not None and family.has("binds_thoughts")


# Answers do not depend on these.
_NOT_SENT = frozenset(("timeout", "check_context", "cache", "prompt_cache_key", "prompt_cache_retention"))
_SENT_SETTINGS = tuple(field.name for field in fields(Settings) if field.name not in _NOT_SENT)


def as_messages(messages: Messages) -> list[Message]:
    """Return the messages that a caller passed as strings, dicts or `Message`s, one of them or several."""
    if isinstance(messages, (str, Message, Mapping)):
        return [as_message(cast("AnyMessage", messages))]
    if not isinstance(messages, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - it is what a user passed
        raise TypeError(f"messages: expected {_MESSAGE} or a list of them, got {_shown(messages)}")
    return [as_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def as_message(message: AnyMessage, where: str = "message") -> Message:
    """Return the message that a caller passed as a string, a dict or a `Message`. `where` is its name in errors."""
    if isinstance(message, Message):
        return message
    if isinstance(message, str):
        return user(message)
    if not isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - it is what a user passed
        raise TypeError(f"{where}: expected {_MESSAGE}, got {_shown(message)}")
    try:
        return message_from_dict(message)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


_MESSAGE = "str, Message or a dict with 'role' and 'content'"


def _shown(value: object) -> str:
    return f"{type(value).__name__} ({value!r:.60})"


def resolve_tool_choice(choice: ToolChoice, names: Sequence[str]) -> ToolChoice:
    """Return `choice`, with a tool's name as a `NamedTool`. Raise `ValueError` for an unknown name."""
    if not isinstance(choice, str) or choice in ("auto", "required", "none"):
        return choice
    if choice not in names:
        offered = ", ".join(names) or "no tools"
        raise ValueError(
            f"tool_choice={choice!r} is neither 'auto', 'required', 'none' nor one of the tools: {offered}"
        )
    return NamedTool(choice)
