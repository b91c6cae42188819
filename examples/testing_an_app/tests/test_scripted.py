"""Tests whose answers are written in them."""

from __future__ import annotations

import pytest
from support_desk import Ticket, answer, sort_ticket, sort_tickets

from toolcast import OpenAI, ToolCallPart
from toolcast.errors import RateLimited
from toolcast.testing import RequestBlocked, ScriptedLLM, ScriptedRequest, capture_calls

LATE = Ticket(topic="delivery", urgency=4, summary="A parcel is late.")


async def test_a_ticket_is_answered(toolcast_llm: ScriptedLLM) -> None:
    call = ToolCallPart("1", "order_status", '{"number": "A-17"}')
    toolcast_llm.add(LATE, call, "Your order was shipped on Monday.")
    with capture_calls() as calls:
        assert await answer("Where is A-17?") == "[delivery, 4] Your order was shipped on Monday."
    assert [len(each.request.messages) for each in calls] == [1, 2, 4]
    assert calls[-1].request.messages[-1].parts[0].content == "shipped on Monday"


def test_tickets_are_sorted_in_threads(toolcast_llm: ScriptedLLM) -> None:
    def sort(request: ScriptedRequest) -> Ticket | Exception:
        text = request.messages[-1].text
        return RateLimited("slow down") if "?" in text else LATE.model_copy(update={"summary": text[-2:]})

    toolcast_llm.add(sort)
    one, two, failed = sort_tickets(["Ticket 01", "Ticket 02", "Is this a ticket?"])
    assert one is not None and one.summary == "01"
    assert two is not None and two.summary == "02"
    assert failed is None


def test_nothing_is_sent_by_mistake() -> None:
    with pytest.raises(RequestBlocked, match="toolcast_record"):
        sort_ticket.with_(llm=OpenAI("gpt-5.4", api_key="no-key"))(text="Where is A-17?")
