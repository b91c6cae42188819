"""What is asked of an LLM, once: one frozen value, in no service's dialect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from .messages import Message, user
from .providers.wire import Conversation, Mode, NamedTool, ToolChoice
from .settings import Settings
from .tools import CallableTool

Messages: TypeAlias = str | Message | Iterable[Message | str]
"""What may stand where messages are expected; a string is a user message."""

Tools: TypeAlias = Iterable[Any]
"""What may stand where tools are expected: tools, types, functions, orchestrators."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What is asked of an LLM, once. `mode`: how it is held to the tools; None leaves that to the LLM."""

    messages: tuple[Message, ...]
    tools: tuple[CallableTool, ...] = ()
    tool_choice: ToolChoice = None
    settings: Settings = field(default_factory=Settings)
    parallel: bool = False
    stream: bool = False
    mode: Mode | None = None

    def conversation(self, model: str) -> Conversation:
        """This, as a wire takes it."""
        tools = () if self.tool_choice == "none" else tuple([tool.spec for tool in self.tools])
        choice = self.tool_choice if tools else None
        return Conversation(model, self.messages, tools, choice, self.parallel, self.stream, self.mode)

    def held(self, mode: Mode) -> Ask:
        """This, with the mode settled."""
        parts = (self.messages, self.tools, self.tool_choice, self.settings, self.parallel, self.stream)
        return Ask(*parts, mode)  # once for each call: `replace` takes three times as long

    @property
    def forces(self) -> bool:
        """Whether the model must call a tool."""
        return bool(self.tools) and self.tool_choice not in (None, "auto", "none")


def as_messages(messages: Messages) -> list[Message]:
    """Messages from what a caller may pass: a string is a user message."""
    listed = [messages] if isinstance(messages, (str, Message)) else messages
    if not isinstance(listed, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance] - it is what a user passed
        raise TypeError(f"{listed!r:.100} cannot be said: {_MESSAGE}")
    return [_as_message(message) for message in listed]


_MESSAGE = "a message is a text, a Message, or several of them in a list"


def _as_message(message: object) -> Message:
    if isinstance(message, Message):
        return message
    if isinstance(message, str):
        return user(message)
    raise TypeError(f"{message!r:.100} cannot be said: {_MESSAGE}")


def named_choice(choice: ToolChoice, names: Sequence[str]) -> ToolChoice:
    """`choice`, a tool's name made a `NamedTool`. Raises ValueError for a name that no tool has."""
    if not isinstance(choice, str) or choice in ("auto", "required", "none"):
        return choice
    if choice not in names:
        offered = ", ".join(names) or "no tools"
        raise ValueError(
            f"tool_choice={choice!r} is neither 'auto', 'required', 'none' nor one of the tools: {offered}"
        )
    return NamedTool(choice)
