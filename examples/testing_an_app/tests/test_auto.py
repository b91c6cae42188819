"""Tests with answers that are made from the types and tools of the program: nothing is written or recorded."""

from __future__ import annotations

import pytest
from support_desk import answer, sort_tickets

from toolcast.testing import AutoLLM, use_llm


@pytest.mark.parametrize("size", ["minimal", "typical", "maximal"])
async def test_the_program_takes_any_answer(size: str) -> None:
    llm = AutoLLM(size=size)
    with use_llm(llm):
        assert await answer("Where is A-17?")
    assert len(llm.requests) == 3  # the ticket, a call of order_status, and the answer


@pytest.mark.parametrize("seed", range(5))
def test_tickets_are_sorted(seed: int) -> None:
    with use_llm(AutoLLM(seed)):
        assert all(ticket is not None for ticket in sort_tickets(["a", "b", "c"]))
