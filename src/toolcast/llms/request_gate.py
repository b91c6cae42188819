"""`RequestGate`: code that admits each request of a call before it is sent: rate limits and budgets of batch jobs.

A gate is set for a context (`use_gate`) and read once per call; a call without one pays for one check per request.
Every attempt of a request passes it, also those of the LLMs in a `FallbackLLM` or a wrapper, but no answer of a cache.
A passage ends with its response, before tools run, so that no tool that calls an LLM waits for its own caller.

The time in a gate does not count towards the limits of the call (`Timeouts`): a call's total begins when its first
request is admitted, and stops while a later one waits. The wait ends when the call is cancelled or aborted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field
from hashlib import blake2b
from os import urandom
from typing import Final, Protocol

from ..lazy.lazy_dataclasses import dataclass
from ..messages import Message
from ..transport.network import IOBackend
from ..values.credentials import Secret
from ..values.tool_spec import ToolSpec
from ..values.usage import Usage
from .token_estimates import estimate_input_tokens

_current: ContextVar[RequestGate | None] = ContextVar("gate", default=None)

_SALT: Final = urandom(32)  # a fingerprint that leaves the process cannot be compared with those of guessed keys


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The service, the model and the credentials of a request: what a service counts its rate limits by.

    Attributes:
        provider: The provider.
        model: The model.
        base_url: The URL of the service without credentials; None for an LLM without HTTP.
        key: A fingerprint of the credentials, which is different in each process; empty without credentials.
    """

    provider: str
    model: str
    base_url: str | None = None
    key: str = ""


@dataclass(slots=True, eq=False)
class GateRequest:
    """One request that is to be sent, the same object for all of its attempts.

    Attributes:
        origin: The service, the model and the credentials.
        messages: The messages of the request.
        tools: The tools that it offers.
        max_tokens: The limit of the response's tokens; None if the request has none.
        price: Returns a usage with the prices of the LLM.
        max_output: The most tokens that the model can write; None if it is unknown.
        nested: True if an earlier request of the same call has a passage that has not ended.
        first_refusal: For the gate: the time of the service's first refusal in an unbroken row of them, or None.
    """

    origin: RequestOrigin
    messages: Sequence[Message]
    tools: Sequence[ToolSpec]
    max_tokens: int | None
    price: Callable[[Usage], Usage]
    max_output: int | None = None
    nested: bool = False
    first_refusal: float | None = None
    _input_tokens: int | None = field(default=None, repr=False)

    @property
    def input_tokens(self) -> int:
        """An estimate of the tokens of messages and tools, computed when it is first read."""
        if self._input_tokens is None:
            self._input_tokens = estimate_input_tokens(self.messages, self.tools)
        return self._input_tokens


class Passage(Protocol):
    """An admitted request, until the end of its response."""

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        """Read the status and the headers of the response, whose names are in lower case.

        Not called if no response arrived, and by LLMs without HTTP.
        """
        ...

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        """End the passage: called exactly once, also for a cancelled request or a closed response.

        Args:
            usage: The reported tokens.
            error: The exception that ended the request, or None.

        Returns:
            True to send the request again through the gate, at once and without counting it as a retry.
        """
        ...


class RequestGate(Protocol):
    """Code that admits requests."""

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        """Wait until `request` may be sent, and return its passage.

        Without an event loop (`backend.concurrent` is False) it blocks the thread and must not suspend. A wait ends
        with `StreamInterrupted` when the current `CancelHandle` is broken off. Any exception ends the call.
        """
        ...


class Gates:
    """Several gates as one: a request enters them in order."""

    def __init__(self, gates: Sequence[RequestGate]) -> None:
        self._gates = tuple(gates)

    async def enter(self, request: GateRequest, backend: IOBackend) -> Passage:
        """Enter each gate. If one raises, the passages of those before it end."""
        passages = _Passages()
        try:
            for gate in self._gates:
                passages.append(await gate.enter(request, backend))
        except BaseException as error:
            passages.leave(NOT_SENT, error)
            raise
        return passages


NOT_SENT: Final = Usage()
"""The usage of a passage whose request was not sent."""


class _Passages(list[Passage]):
    """The passages of one request, one for each gate."""

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        for passage in self:
            passage.received(status, headers)

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        # Not `any` of a generator: each passage has to end.
        return True in [passage.leave(usage, error) for passage in reversed(self)]


current_gate: Final = _current.get  # no function around it, as every call calls it
"""Return the gate of this context, or None."""


@contextmanager
def use_gate(gate: RequestGate | None) -> Generator[None]:
    """Set the gate of the calls that begin in the block; None for no gate."""
    before = _current.set(gate)
    try:
        yield
    finally:
        _current.reset(before)


def key_fingerprint(*secrets: Secret | None) -> str:
    """Return a text that is equal for equal credentials in this process, and reveals nothing of them."""
    present = [secret.reveal() for secret in secrets if secret]
    if not present:
        return ""
    return blake2b("\0".join(present).encode(errors="surrogatepass"), key=_SALT, digest_size=12).hexdigest()
