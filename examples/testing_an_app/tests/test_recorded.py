"""Tests with answers that were recorded once. `pytest --toolcast-record all` records them again, and needs a key."""

from __future__ import annotations

import pytest
from support_desk import answer, sort_tickets

from toolcast.testing import Recording


@pytest.mark.toolcast_record("recordings/answer.jsonl", mode="none")
async def test_a_ticket_is_answered(toolcast_recording: Recording) -> None:
    assert await answer("Where is my order A-17? I need it tomorrow!") == (
        "[delivery, 4] Your order A-17 was shipped on Monday."
    )
    assert toolcast_recording.unused == []


@pytest.mark.toolcast_record("recordings/sort_tickets.jsonl", mode="none")
def test_tickets_are_sorted() -> None:
    (ticket,) = sort_tickets(["The lamp is broken, I want my money back."])
    assert ticket is not None and ticket.topic == "refund"
