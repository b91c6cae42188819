"""`ModelPhase`: the model's part of a turn. tool_phase.py has that of the tools.

The turns of an engine and the answers of a chat send their requests here: within the limits, with the current
instructions, with a history that fits, and with the usage of each request counted once.
"""

from __future__ import annotations

from contextlib import nullcontext

from ...errors import Attempt, ContextTooLong, Timeout
from ...events import AgentEvent
from ...tools.tool_context import ToolContext
from ...transport.network import IOBackend
from ...values.hooks import CallHooks
from ...values.states import logger
from ...values.usage import NO_USAGE, Usage
from .conversation import Conversation
from .engine_config import EngineConfig
from .history import estimate_tokens
from .instructions import system_messages
from .model_request import ModelRequest
from .turn_limits import TurnLimits
from .typed_output import TypedOutput


class ModelPhase:
    """The requests of a turn, one after the other.

    Attributes:
        request: The current request; None before the first `begin`, and after `take`.
        attempts: The HTTP attempts of the requests that have ended.
        shortened: True once the history was compacted.
    """

    def __init__(
        self,
        config: EngineConfig,
        conversation: Conversation,
        limits: TurnLimits,
        context: ToolContext,
        backend: IOBackend,
        hooks: CallHooks | None,
        typed: TypedOutput | None = None,
    ) -> None:
        self.request: ModelRequest | None = None
        self.attempts: list[Attempt] = []
        self.shortened: bool = False
        self._config = config
        self._conversation = conversation
        self._limits = limits
        self._context = context
        self._backend = backend
        self._hooks = hooks
        self._typed = typed
        self._usage = NO_USAGE
        self._compacted = False  # it was tried
        self._counted: ModelRequest | None = None  # the last whose usage was counted

    @property
    def usage(self) -> Usage:
        """The usage so far, that of summaries included."""
        going_on = None if self.request is self._counted else self.request
        return self._usage if going_on is None else self._usage + going_on.cost

    async def begin(self) -> None:
        """Make the next request; raise if a limit is reached."""
        config, conversation, limits, now = self._config, self._conversation, self._limits, self._backend.now
        limits.count_request(now())
        conversation.pop_injected()
        most = None if config.compaction is None else config.compaction.at
        if most is not None and not self._compacted and estimate_tokens(conversation.history) > most:
            await self._compact(must=False)
        new = await system_messages(config.instructions, self._context, concurrent=self._backend.concurrent)
        before = conversation.instructions
        self.request = ModelRequest(
            config,
            conversation,
            self._typed,
            self._backend,
            self._hooks,
            instructions=new if before is None else before.changed_to(new, conversation.history),
            last=limits.rounds == config.max_rounds,
            left=limits.time_left(now()),
        )

    async def next_events(self) -> list[AgentEvent]:
        """Return the next events of the response; an empty list at its end.

        Raises:
            BudgetExceeded: If a budget of seconds has ended.
            ContextTooLong: If the history does not fit. After `shorten` the request can be made again.
        """
        request = self.request
        assert request is not None
        try:
            events = await request.next_events()
        except Timeout as error:
            if request.of_budget and error.phase == "total":
                raise self._limits.time_exceeded() from error
            raise
        if not events:
            await self.close()
        return events

    async def shorten(self, error: ContextTooLong) -> None:
        """Compact the history, once in a turn, and drop the request; raise `error` if that is not possible."""
        await self.close()
        if self.shortened or not await self._compact(must=True):
            raise error
        self.request = None

    def take(self) -> ModelRequest:
        """Return the request whose response is complete, and forget it."""
        request = self.request
        assert request is not None
        self.forget()
        return request

    def forget(self) -> None:
        """Forget the request, whose usage was counted."""
        self.request = self._counted = None

    async def close(self) -> None:
        """Release the connection, and count the usage of the request. Idempotent."""
        try:
            if self.request is not None and self.request is not self._counted:
                await self.request.close()
        except Exception:  # a user's LLM: the response is complete, or has failed already
            logger.exception("closing an answer failed")
        finally:
            self._count_usage()

    def abandon(self) -> None:
        """End without awaiting anything: the connection is closed when it is garbage-collected."""
        if self.request is not None:
            self.request.abandon()
        self._count_usage()

    def interrupt(self) -> None:
        """Stop a thread that waits for more events. From any thread."""
        if self.request is not None:
            self.request.interrupt()

    def _count_usage(self) -> None:
        if self.request is not None and self.request is not self._counted:
            self._counted = self.request
            self.attempts += self.request.attempts
            self._add_usage(self.request.cost)
            self._conversation.context_tokens = self.request.context_tokens

    def _add_usage(self, usage: Usage) -> None:
        self._usage += usage
        self._conversation.usage += usage
        self._limits.spending.add(usage)

    async def _compact(self, *, must: bool) -> bool:
        """Shorten the history if possible; return True if it was. `must`: it does not fit as it is."""
        self._compacted = True
        compaction, concurrent = self._config.compaction, self._backend.concurrent
        if compaction is None:
            return False
        with nullcontext() if self._hooks is None else self._hooks.around_calls():
            make_room = self._conversation.make_room
            self.shortened = await make_room(compaction, concurrent, self._add_usage, must=must)
        return self.shortened
