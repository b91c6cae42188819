"""`BatchSpending`: the budget of a job, for the requests in batches of the provider."""

from __future__ import annotations

from decimal import Decimal

from ...llms.client import client_of
from ...llms.http_llm import ServiceLLM
from ...llms.request_gate import GateRequest
from ...structured.call import PreparedCall
from ...values.usage import NO_USAGE, Usage
from ..job_budget import NOTHING, Ledger
from .batch_item import RemoteItem


class BatchSpending:
    """The reservations of the items that are in batches, at the price of a batch. Without a budget it does nothing.

    Args:
        ledger: The budget, which the live requests of the job share.
        llm: The LLM.
        factor: The price of a request in a batch as a part of the list price.
    """

    def __init__(self, ledger: Ledger | None, llm: ServiceLLM, factor: Decimal) -> None:
        self._ledger = ledger
        self._llm = llm
        self._factor = factor

    @property
    def is_limited(self) -> bool:
        """True if there is a budget."""
        return self._ledger is not None

    def describe(self) -> str:
        """Return what is spent, for a reader; empty without a budget."""
        return "" if self._ledger is None else self._ledger.describe()

    def reserve(self, item: RemoteItem, prepared: PreparedCall) -> bool:
        """Reserve the most that the request of an item may cost; return False if other requests have to end first.

        Raises:
            BudgetReached: The budget does not cover it, and no other request is under way.
            UnsupportedLLMError: The price or the most output tokens of the model are unknown.
        """
        if self._ledger is None:
            return True
        request, llm = prepared.request, self._llm
        tools = tuple([tool.spec for tool in request.tools])
        limit, most = request.settings.max_tokens, llm.metadata.capabilities.max_output
        client = client_of(llm)
        asked = GateRequest(client.request_origin, request.messages, tools, limit, client.price, most)
        item.reserved = self._ledger.set_aside(asked, self._factor)
        return item.reserved is not None

    def restore(self, item: RemoteItem) -> None:
        """Reserve what an earlier run has reserved for an item in a batch: nothing if that run had no budget."""
        if self._ledger is not None:
            item.reserved = item.reserved or NOTHING
            self._ledger.commit(item.reserved)

    def settle(self, item: RemoteItem, usage: Usage = NO_USAGE, *, may_cost: bool = False) -> None:
        """Replace the reservation of an item by its usage; without one it is spent if the request `may_cost`."""
        reserved, item.reserved = item.reserved, None
        if self._ledger is not None and reserved is not None:
            self._ledger.end(reserved, usage, may_cost=may_cost, factor=self._factor)

    def add(self, usage: Usage) -> None:
        """Count the usage of requests in batches of an earlier run, whose items have no outcome yet."""
        assert self._ledger is not None  # checked by the caller: reading the responses takes long
        self._ledger.add(usage, self._factor)
