"""What is asked of an LLM, once: one frozen value, in no service's dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

from ..message_dicts import message_from_dict
from ..messages import Message, user
from ..output_mode import OutputMode
from ..providers.base import RequestInput
from ..settings import Settings
from ..tool_spec import NamedTool, ToolChoice
from ..tools.callable_tool import CallableTool

AnyMessage: TypeAlias = str | Message | Mapping[str, Any]
"""What may stand where a message is expected: a string is a user message, a dict one in OpenAI's form."""

Messages: TypeAlias = AnyMessage | Iterable[AnyMessage]
"""What may stand where messages are expected."""

Tools: TypeAlias = Iterable[Any]
"""What may stand where tools are expected: tools, types, functions, orchestrators."""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked of an LLM, once. `mode`: how it is held to the tools; None leaves that to the LLM.

    `accept_damaged`: an answer with a damaged event is read as if nothing were missing.
    """

    messages: tuple[Message, ...]
    tools: tuple[CallableTool, ...] = ()
    tool_choice: ToolChoice = None
    settings: Settings = field(default_factory=Settings)
    parallel: bool = False
    stream: bool = False
    mode: OutputMode | None = None
    accept_damaged: bool = False

    def conversation(self, model: str) -> RequestInput:
        """This, as a wire takes it."""
        tools = () if self.tool_choice == "none" else tuple([tool.spec for tool in self.tools])
        choice = self.tool_choice if tools else None
        about = (self.parallel, self.stream, self.mode, self.accept_damaged)
        return RequestInput(model, self.messages, tools, choice, *about)

    def with_mode(self, mode: OutputMode) -> ChatRequest:
        """This, with the mode settled."""
        parts = (self.messages, self.tools, self.tool_choice, self.settings, self.parallel, self.stream)
        return ChatRequest(*parts, mode, self.accept_damaged)  # once for each call: `replace` takes three times as long

    @property
    def forces(self) -> bool:
        """Whether the model must call a tool."""
        return bool(self.tools) and self.tool_choice not in (None, "auto", "none")


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
    """`choice`, a tool's name made a `NamedTool`. Raises ValueError for a name that no tool has."""
    if not isinstance(choice, str) or choice in ("auto", "required", "none"):
        return choice
    if choice not in names:
        offered = ", ".join(names) or "no tools"
        raise ValueError(
            f"tool_choice={choice!r} is neither 'auto', 'required', 'none' nor one of the tools: {offered}"
        )
    return NamedTool(choice)
