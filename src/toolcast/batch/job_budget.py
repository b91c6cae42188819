"""`Ledger`: the budget of a job, as a gate that reserves the most that a request may cost before it is sent.

A reservation is twice the estimate of the input (`MARGIN`) and the most tokens of the output, at list price; the end of
the response replaces it by the reported usage. So a budget is never exceeded, in any order of responses, while no input
costs more than twice its estimate. A request that does not fit waits while others are under way, as most of them cost
less than is reserved for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from math import ceil
from typing import Final, NamedTuple

from ..errors import StreamInterrupted, StreamTruncated, Timeout, UnsupportedLLMError
from ..llms.client import client_of
from ..llms.function_calling_llm import FunctionCallingLLM
from ..llms.request_gate import NOT_SENT, GateRequest
from ..transport.network import IOBackend
from ..values.budgets import Budget
from ..values.prices import ZERO
from ..values.usage import NO_USAGE, Usage
from .job_errors import BudgetReached
from .pacing.request_queue import QueuedGate, RequestQueue
from .progress.progress_text import money, number


class Spending(NamedTuple):
    """An amount that is reserved or spent, in US dollars and tokens."""

    usd: Decimal = ZERO
    tokens: int = 0

    def plus(self, other: Spending) -> Spending:
        """Return the sum of both."""
        return Spending(self.usd + other.usd, self.tokens + other.tokens)

    def minus(self, other: Spending) -> Spending:
        """Return the difference of both."""
        return Spending(self.usd - other.usd, self.tokens - other.tokens)


NOTHING: Final = Spending()

MARGIN: Final = 2
"""The tokens that are reserved for an input, as a multiple of the estimate."""

_LIST_PRICE: Final = Decimal(1)
"""The price of a request that is sent live, as a part of the list price."""


class Balance:
    """The amounts that are spent and reserved of a budget. No I/O and no locks.

    Attributes:
        spent: The amount of all requests that have ended.
        reserved: The amount that those under way may cost.
        under_way: Their number.
    """

    def __init__(self, usd: Decimal | None, tokens: int | None, spent: Spending = NOTHING) -> None:
        self._usd = usd
        self._tokens = tokens
        self.spent: Spending = spent
        self.reserved: Spending = NOTHING
        self.under_way: int = 0

    def exceeded_by(self, amount: Spending) -> str | None:
        """Return the name of the limit that does not cover `amount` too: `usd` or `tokens`. None if it fits."""
        after = self.spent.plus(self.reserved).plus(amount)
        if self._usd is not None and after.usd > self._usd:
            return "usd"
        return "tokens" if self._tokens is not None and after.tokens > self._tokens else None

    def reserve(self, amount: Spending) -> bool:
        """Reserve `amount` for a request if it fits, and return whether it does."""
        if self.exceeded_by(amount) is not None:
            return False
        self.commit(amount)
        return True

    def commit(self, amount: Spending) -> None:
        """Reserve `amount` for a request that was sent already."""
        self.reserved = self.reserved.plus(amount)
        self.under_way += 1

    def settle(self, reserved: Spending, spent: Spending) -> None:
        """Replace the amount reserved for a request by what it has cost."""
        self.under_way -= 1
        self.reserved = self.reserved.minus(reserved)
        self.spent = self.spent.plus(spent)


class Ledger(QueuedGate):
    """The budget of one job, a `RequestGate`. Thread-safe.

    Every request counts: retries, attempts after an invalid response, and the requests of tools. One that was refused
    or never sent costs nothing. One that broke off, or whose response reports no usage, counts as its reservation, as
    the service may charge it.

    Args:
        budget: The limits in US dollars and tokens.
        spent: The usage of earlier runs of the job.
        estimate: Returns the input tokens of a request by those reported so far. Its own estimate is the least.
    """

    def __init__(
        self,
        budget: Budget,
        *,
        spent: Usage = NO_USAGE,
        estimate: Callable[[GateRequest], float] | None = None,
    ) -> None:
        super().__init__()
        self._budget = budget
        self._estimate = estimate
        before = Spending(self._cost(spent) or spent.known_cost, spent.total_tokens)
        self._balance = Balance(budget.usd, budget.tokens, before)
        self._queue = RequestQueue()

    async def enter(self, request: GateRequest, backend: IOBackend) -> _Reservation:
        """Reserve the most that `request` may cost, and return its passage.

        Raises:
            BudgetReached: It does not fit, and no request is under way that may cost less than is reserved for it.
            UnsupportedLLMError: The price or the most output tokens of its model are unknown.
            JobInterrupted: The budget is stopped.
            StreamInterrupted: The call was aborted while it waited.
        """

        def admit() -> _Reservation | None:
            amount = self._most(request)  # anew at each try: responses may have corrected the estimate
            if self._balance.reserve(amount):
                return _Reservation(self, amount)
            # A nested request cannot wait for the request that it is a part of.
            if request.nested or not self._balance.under_way:
                raise self._reached(request, amount)
            return None

        return await self._queue.enter(self, admit, backend, nested=request.nested)

    def stop(self) -> None:
        """Admit no more requests, and end the waits of those that wait. From any thread, also in a signal handler."""
        self.stopped = True
        self._queue.interrupt(self)

    # The requests of batches at the provider, which are not sent one by one

    def set_aside(self, request: GateRequest, factor: Decimal) -> Spending | None:
        """Reserve the most that a request in a batch may cost, without waiting.

        Args:
            request: The request.
            factor: The price in a batch as a part of the list price.

        Returns:
            The amount, for `end`; None if it does not fit beside the requests under way.

        Raises:
            BudgetReached: It does not fit, and no request is under way that may cost less than is reserved for it.
            UnsupportedLLMError: The price or the most output tokens of its model are unknown.
        """
        amount = self._most(request, factor)
        with self._queue.lock:
            # Live requests that wait are of items that have been asked already: they come first.
            if not self._queue and self._balance.reserve(amount):
                return amount
            if self._queue or self._balance.under_way:
                return None
            raise self._reached(request, amount)

    def commit(self, reserved: Spending) -> None:
        """Reserve the amount that an earlier run has set aside for a request that has not ended."""
        with self._queue.lock:
            self._balance.commit(reserved)

    def add(self, usage: Usage, factor: Decimal = _LIST_PRICE) -> None:
        """Count the usage of requests of an earlier run as spent."""
        spent = Spending(self._cost(usage, factor) or usage.known_cost, usage.total_tokens)
        with self._queue.lock:
            self._balance.spent = self._balance.spent.plus(spent)

    @property
    def waiting(self) -> int:
        """The number of requests that wait, as they do not fit into the budget beside those under way."""
        return len(self._queue)

    @property
    def spent(self) -> Spending:
        """The amount of all requests that have ended, earlier runs included."""
        return self._balance.spent

    @property
    def reserved(self) -> Spending:
        """The amount that the requests under way may cost."""
        return self._balance.reserved

    def describe(self) -> str:
        """Return what is spent of each limit, for a reader: `$1.24 of $5.00`."""
        budget, spent = self._budget, self._balance.spent
        parts = [] if budget.usd is None else [f"{money(spent.usd)} of {money(budget.usd)}"]
        if budget.tokens is not None:
            parts.append(f"{number(spent.tokens)} of {number(budget.tokens)} tokens")
        return ", ".join(parts)

    def end(self, reserved: Spending, usage: Usage, *, may_cost: bool, factor: Decimal = _LIST_PRICE) -> None:
        """Replace the amount reserved for a request by its usage; without one it is spent if the request `may_cost`."""
        spent = reserved if may_cost else NOTHING
        if usage != NO_USAGE:
            cost = self._cost(usage, factor)
            spent = Spending(reserved.usd if cost is None else cost, usage.total_tokens)
        with self._queue.lock:
            self._balance.settle(reserved, spent)
            self._queue.wake_first()

    def _most(self, request: GateRequest, factor: Decimal = _LIST_PRICE) -> Spending:
        """Return the most that `request` may cost at this part of the list price."""
        most, origin = request.max_tokens or request.max_output, request.origin
        if most is None:
            raise UnsupportedLLMError(
                f"a budget needs the most output tokens of a request, and those of {origin.provider} {origin.model} "
                "are unknown: set a limit, settings=Settings(max_tokens=1000). Nothing was sent."
            )
        tokens = request.input_tokens
        if self._estimate is not None:
            tokens = max(tokens, ceil(self._estimate(request)))
        usage = Usage(MARGIN * tokens, most)
        cost = self._cost(usage if self._budget.usd is None else request.price(usage))
        if cost is None:
            raise UnsupportedLLMError(
                f"a budget in usd needs the prices of {origin.provider} {origin.model}: pass your own, "
                "prices=Prices(input=3, output=15), to the LLM or to Budget. Nothing was sent."
            )
        return Spending(cost * factor, usage.total_tokens)

    def _cost(self, usage: Usage, factor: Decimal = _LIST_PRICE) -> Decimal | None:
        """Return the cost of `usage` by the prices of the budget; None if it is unknown, 0 without a limit in usd.

        `factor` is the part of these that was charged. A usage with prices of its own has it in them.
        """
        if self._budget.usd is None:
            return ZERO
        return usage.cost if self._budget.prices is None else self._budget.prices.cost(usage) * factor

    def _reached(self, request: GateRequest, amount: Spending) -> BudgetReached:
        budget, spent = self._budget, self._balance.spent
        limit = self._balance.exceeded_by(amount)
        needed, allowed = f"{amount.tokens:,} tokens", f"{budget.tokens or 0:,} tokens"
        if limit == "usd":
            needed, allowed = money(amount.usd), money(budget.usd or ZERO)
        if spent == NOTHING:
            most = "max_tokens" if request.max_tokens else "the most that the model can write"
            text = (
                f"the budget of {allowed} does not cover the first request, which may cost {needed}: its output has up "
                f"to {request.max_tokens or request.max_output:,} tokens, {most}. Nothing was sent. Set a lower limit, "
                f"settings=Settings(max_tokens=...), or allow more, Budget({limit}=...)"
            )
        else:
            text = (
                f"the budget is used up: {self.describe()} spent, and the next request may cost {needed}; "
                f"allow more: Budget({limit}=...)"
            )
        return BudgetReached(text)


class _Reservation:
    """The passage of one request, with the amount that is reserved for it."""

    __slots__ = ("_amount", "_ledger", "_status")

    def __init__(self, ledger: Ledger, amount: Spending) -> None:
        self._ledger = ledger
        self._amount = amount
        self._status: int | None = None

    def received(self, status: int, headers: Mapping[str, str]) -> None:
        """Note the status: a service charges nothing for a refusal."""
        self._status = status

    def leave(self, usage: Usage, error: BaseException | None) -> bool:
        """Settle the reservation. Return False: a budget repeats nothing."""
        may_cost = usage is not NOT_SENT and _may_cost(self._status, error)
        self._ledger.end(self._amount, usage, may_cost=may_cost)
        return False


def _may_cost(status: int | None, error: BaseException | None) -> bool:
    """Return True if the service may charge a request that has reported no usage."""
    if status is not None:
        return status < 300
    if isinstance(error, Timeout):
        return error.phase != "connect"
    # No headers arrived: the service may be at work on a request that was aborted, but not after any other error.
    return not isinstance(error, Exception) or isinstance(error, StreamInterrupted | StreamTruncated)


def check_budget(budget: Budget, llm: FunctionCallingLLM) -> None:
    """Raise an error if `budget` cannot limit the requests of a job with `llm`.

    Raises:
        ValueError: It has no limit in US dollars or tokens, or one that only agents have.
        UnsupportedLLMError: It has a limit in US dollars, and the price of the model is unknown.
    """
    for name in ("seconds", "tool_calls"):
        if (value := getattr(budget, name)) is not None:
            raise ValueError(f"budget: expected limits in usd and tokens, got {name}={value!r}, which only agents have")
    if budget.usd is None and budget.tokens is None:
        raise ValueError("budget: expected a limit, for example Budget(usd=5) or Budget(tokens=1_000_000)")
    if budget.usd is not None and budget.prices is None:
        client_of(llm).require_prices()
