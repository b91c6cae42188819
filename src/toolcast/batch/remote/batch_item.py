"""One item of a batch at the provider: its request, and the reading of the response to it."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ...errors import TryAgain
from ...events import ChatResponse, UsageReport
from ...lazy.lazy_dataclasses import dataclass
from ...llms.client import client_of
from ...llms.http_llm import ServiceLLM
from ...llms.token_estimates import check_context
from ...structured.call import PreparedCall, run_parsed_calls
from ...transport.network import IOBackend
from ...values.accumulator import Accumulator
from ...values.http_request import HTTPRequest
from ...values.prices import DiscountedPricing
from ...values.usage import NO_USAGE, Usage
from ..inputs import InputRow
from ..job_budget import Spending
from .journal import InvalidAnswer


@dataclass(slots=True)
class RemoteItem:
    """An item that is in a batch, or waits for one.

    Attributes:
        key: Its key.
        row: Its row; None if the inputs of this run have not had it yet.
        repeated: How often it was put into a further batch because the provider has not processed it.
        ended: Its outcome was stored by an earlier run.
        reserved: The amount that is reserved for its request; None if it is in no batch, or without a budget.
        tag: The tag of the batch of an earlier run that it is in.
    """

    key: str
    row: InputRow | None = None
    repeated: int = 0
    ended: bool = False
    reserved: Spending | None = None
    tag: str = ""


def request_of(llm: ServiceLLM, prepared: PreparedCall) -> HTTPRequest:
    """Return the request of a call, unstreamed.

    Raises:
        BadRequest: The provider does not support its content.
        ContextTooLong: The messages certainly exceed the model's context window.
    """
    chat = prepared.request
    check_context(chat.messages, chat.tools, llm.metadata, chat.settings)
    request = client_of(llm).preview(chat)
    assert request is not None  # an LLM behind HTTP has one
    llm.warn_of_dropped_settings(request)
    return request


def read_answer(llm: ServiceLLM, prepared: PreparedCall, body: bytes, factor: Decimal) -> ChatResponse:
    """Return the response in `body`, with the price of a batch.

    Raises:
        LLMError: The body is no response.
    """
    decoder = client_of(llm).decoder(prepared.request, body)
    accumulator = Accumulator()
    for event in (*decoder.feed(body), *decoder.close()):
        if isinstance(event, UsageReport):
            event = UsageReport(_priced(llm, event.usage, decoder.model, factor))
        accumulator.apply(event)
    return accumulator.response(**client_of(llm).origin)


def _priced(llm: ServiceLLM, usage: Usage, model: str | None, factor: Decimal) -> Usage:
    """Return the usage with its price in a batch. A cost that the service has reported is not changed."""
    priced = client_of(llm).price(usage, model)
    if priced is usage or priced.pricing is None:
        return usage
    return priced.with_pricing(DiscountedPricing(priced.pricing, factor))


async def output_of(prepared: PreparedCall, response: ChatResponse, backend: IOBackend) -> Any:
    """Return the validated output in `response`, after running the functions that it calls."""
    calls = prepared.validator.validate(response)
    return prepared.build_output(await run_parsed_calls(calls, backend))


def after_answers(
    llm: ServiceLLM, prepared: PreparedCall, answers: Sequence[InvalidAnswer], factor: Decimal
) -> tuple[PreparedCall, Usage]:
    """Return the call for the attempt after these invalid responses, and the usage of them."""
    usage = NO_USAGE
    for answer in answers:
        response = read_answer(llm, prepared, answer.body, factor)
        usage += response.usage
        prepared = prepared.with_retry_messages(response, TryAgain(answer.reason))
    return prepared, usage
