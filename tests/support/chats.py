"""The events that lead to each state of the chat machine, and a class that applies them one by one."""

from __future__ import annotations

from typing import Any

from support.engines import call
from toolcast.chat.actions import Effect
from toolcast.chat.chat_context import ChatContext, ChatState
from toolcast.chat.events import (
    ApproveToolCall,
    ChatEvent,
    GenerationSuccess,
    LoadModel,
    ModelLoadFailure,
    ModelLoadSuccess,
    QueueMessage,
    StreamComplete,
    ToolSearchSuccess,
)
from toolcast.chat.transitions import Transition, transition
from toolcast.messages import Message, ToolCallPart, assistant

CALL = call("a", "look", '{"value": 1}')

LOADED = (LoadModel("model"), ModelLoadSuccess())
SEARCHING = (*LOADED, QueueMessage("Hello."))
GENERATING = (*SEARCHING, ToolSearchSuccess(("look",)))
STREAMING = (*GENERATING, GenerationSuccess())
WAITING = (*STREAMING, StreamComplete(assistant(CALL)))

ROADS: dict[ChatState, tuple[ChatEvent, ...]] = {
    "idle": (),
    "loading_model": LOADED[:1],
    "load_failed": (LOADED[0], ModelLoadFailure("no such model")),
    "ready": LOADED,
    "searching_tools": SEARCHING,
    "generating_response": GENERATING,
    "streaming_response": STREAMING,
    "waiting_for_tool_approval": WAITING,
    "calling_tool": (*WAITING, ApproveToolCall()),
}
"""The events that lead from the beginning to each state."""

BUSY: tuple[ChatState, ...] = (
    "loading_model",
    "searching_tools",
    "generating_response",
    "streaming_response",
    "calling_tool",
)
"""The states in which work goes on."""


class Walker:
    """A chat driven through its transitions. No event may be ignored, except in `ignores`."""

    def __init__(self, *events: ChatEvent, context: ChatContext | None = None) -> None:
        self.state: ChatState = "idle"
        self.context = context or ChatContext()
        self.effects: list[Effect] = []
        self.go(*events)

    @classmethod
    def at(cls, state: ChatState, *events: ChatEvent, **fields: Any) -> Walker:
        """Return a chat in `state`, with these fields of the context at the start."""
        walker = cls(*ROADS[state], *events, context=ChatContext(**fields))
        assert events or walker.state == state
        return walker

    def go(self, *events: ChatEvent) -> Transition:
        """Apply the events; return the last transition."""
        step = Transition(self.state, self.context)
        for event in events:
            step = transition(self.state, self.context, event)
            assert not step.ignored, f"{event} is ignored in {self.state}"
            self.state, self.context = step.state, step.context
            self.effects += step.effects
        return step

    def ignores(self, event: ChatEvent) -> bool:
        """Return whether `event` is ignored in the current state."""
        step = transition(self.state, self.context, event)
        if step.ignored:
            assert step == Transition(self.state, self.context, ignored=True)
            assert step.context is self.context
        return step.ignored

    @property
    def roles(self) -> list[str]:
        return [message.role for message in self.context.messages]

    @property
    def texts(self) -> list[str]:
        """The texts of the messages of users and the model."""
        return [message.text for message in self.context.messages if message.role != "tool"]


def answer(*calls: ToolCallPart | str) -> Message:
    """Return a message of the model: text, calls."""
    return assistant(*calls)


def orders(effects: Any) -> list[str]:
    return [effect.order for effect in effects]
