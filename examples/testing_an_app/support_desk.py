"""A small application: a support desk that sorts tickets, and an agent that answers them. `tests/` tests it.

Run the tests in this folder. `pytest.ini` chooses anyio's plugin, which is installed, for the async ones:

    pip install toolcast pytest 'anyio>=4.12'
    pytest

The same tests under pytest-asyncio:

    pip install pytest-asyncio
    pytest -o anyio_mode=strict -o asyncio_mode=auto
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from toolcast import Agent, CallError, OpenAI, ToolOrchestratingLLM


class Ticket(BaseModel):
    """A sorted ticket."""

    topic: Literal["delivery", "refund", "other"]
    urgency: Annotated[int, Field(ge=1, le=5)]
    summary: str


sort_ticket = ToolOrchestratingLLM(Ticket, "Sort this ticket of a customer:\n{text}", OpenAI("gpt-5.4"))

ORDERS = {"A-17": "shipped on Monday"}


def order_status(number: str) -> str:
    """Return the status of the order with this number."""
    return ORDERS.get(number, "unknown")


agent = Agent(OpenAI("gpt-5.4"), [order_status], instructions="You answer customers, in one sentence.")


def sort_tickets(texts: list[str]) -> list[Ticket | None]:
    """Sort tickets at the same time; None for one that could not be sorted."""

    def sort(text: str) -> Ticket | None:
        try:
            return sort_ticket(text=text)
        except CallError:
            return None

    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(sort, texts))


async def answer(text: str) -> str:
    """Sort a ticket, and answer it."""
    ticket = await sort_ticket.acall(text=text)
    turn = await agent.arun(text)
    return f"[{ticket.topic}, {ticket.urgency}] {turn.text}"
