"""The interface between the server and the protocol of a front end. No I/O.

A protocol parses the body of a request into a `RunInput`, and its encoder turns the events of the run into messages of
a server-sent event stream. An encoder is deterministic: the same run and events give the same messages, so that a
client that reconnects gets the messages after the last one that it has received.

JSON text of the messages of an encoder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol, runtime_checkable

from typing_extensions import TypeIs

from ..events import AgentEvent
from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message
from ..parsing.path_changes import PathChange
from ..structured.object_streams import ChangeFormat
from ..text.json_text import finite, replace_surrogates
from ..values.approvals import ApprovalDecision
from ..values.turn import Turn


def message_json(message: Mapping[str, Any]) -> str:
    """Return a message as JSON in one line. It has null for numbers that JSON does not have, such as infinity."""
    try:
        text = _dumped(message)
    except ValueError:
        text = _dumped(finite(message))
    return replace_surrogates(text)


def parsed(text: str) -> tuple[Any, bool]:
    """Return the value of a JSON text and True; the text itself and False if it is none."""
    try:
        return json.loads(text), True
    except (ValueError, RecursionError):
        return text, False


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class RunInput:
    """The parts of a client's request that the server uses.

    Args:
        messages: The user's and the assistant's messages, oldest first: texts and attachments. System messages, results
            of tools, tools and state of the client are not in it.
        decisions: The client's decisions about pending approvals. The server compares their fingerprints.
        thread_id: The id of the conversation, empty if the protocol has none.
        run_id: The id of this run; ids of messages are derived from it.
        stream: False for one JSON response.
        values: Values of the prompt's variables, for a structured call.
        echo: Fields of the request that the response repeats, for example the model's name.
    """

    messages: tuple[Message, ...] = ()
    decisions: tuple[ApprovalDecision, ...] = ()
    thread_id: str = ""
    run_id: str = ""
    stream: bool = True
    values: Mapping[str, Any] | None = None
    echo: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class PublicError:
    """An error as a client may see it: no internals, no paths, no secrets. `status` is the HTTP status."""

    status: int
    code: str
    message: str


class ResponseEncoder(Protocol):
    """Encodes one run. Each returned string is the `data` of one server-sent event, without line breaks."""

    def begin(self) -> list[str]:
        """Return the messages before the first event."""
        ...

    def feed(self, event: AgentEvent | PathChange) -> list[str]:
        """Return the messages for one event of an engine, or for one change of a partial object."""
        ...

    def end(self, result: Turn[Any] | object) -> list[str]:
        """Return the last messages: of a turn (which may wait for approvals), or of a structured call's object."""
        ...

    def fail(self, error: PublicError) -> list[str]:
        """Return the last messages after an error."""
        ...


class FrontEndProtocol(Protocol):
    """The protocol of a front end. It is named in `protocols=` of `toolcast.serve.app`."""

    @property
    def name(self) -> str:
        """The name of the protocol."""
        ...

    @property
    def path(self) -> str:
        """The path of POST requests that begin a run."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the streamed response, beside `Content-Type: text/event-stream`."""
        ...

    def parse(self, body: Any) -> RunInput:
        """Return the parts of a JSON body that the server uses. Raises `RequestError` for another form."""
        ...

    def encoder(self, run: RunInput) -> ResponseEncoder:
        """Return the encoder of the response to a run."""
        ...

    def whole(self, run: RunInput, result: Turn[Any] | object) -> Any:
        """Return the JSON body of a response that is not streamed. Raises `RequestError` if there is no such form."""
        ...

    def error_body(self, error: PublicError) -> Any:
        """Return the JSON body of a response that is an error."""
        ...


@runtime_checkable
class PatchProtocol(Protocol):
    """A protocol that gets the changes of a partial object in another form than `PathChange`s of plain data."""

    def change_format(self, run: RunInput) -> ChangeFormat:
        """Return the format of `stream.changes()` that the encoder gets: operations of RFC 6902 as dicts, for one."""
        ...


@runtime_checkable
class DocumentProtocol(Protocol):
    """A protocol with JSON documents, which GET requests return: a list of models, for one."""

    @property
    def documents(self) -> Mapping[str, Any]:
        """The documents by their paths."""
        ...


class RequestError(Exception):
    """A request in a form that the protocol does not have: the field, what was expected, and what came."""


def is_turn(result: object) -> TypeIs[Turn[Any]]:
    """Return True for the result of an agent, False for the object of a structured call."""
    return isinstance(result, Turn)


DONE: Final = "[DONE]"
