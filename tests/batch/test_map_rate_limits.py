"""`map` over real HTTP against a server that enforces 600 requests and 60,000 tokens per minute.

The clock of both runs ten times as fast as the real one. What is asserted are counts; the time of the job beside that
of the best possible schedule is printed (`pytest -s`), as it depends on the load of the machine, too.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any

import pytest

from support.number_server import Number
from support.rate_limited_server import RateLimitedServer, item_of
from support.simulated_services import Bucket, Service, best_end
from toolcast import OpenAI, ToolOrchestratingLLM
from toolcast.batch import live_run
from toolcast.batch.pacing import Pace
from toolcast.batch.pacing.request_queue import _TaskTurn

RPM, TPM = 600, 60_000
SCALE = 10.0


def clock() -> float:
    """Return the time of a clock that is faster than the real one."""
    return monotonic() * SCALE


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = _TaskTurn.wait

    async def wait_less(turn: _TaskTurn, seconds: float | None) -> None:
        await wait(turn, None if seconds is None else seconds / SCALE)

    monkeypatch.setattr(_TaskTurn, "wait", wait_less)
    monkeypatch.setattr(live_run, "Pace", partial(Pace, clock=clock))


def texts(count: int) -> Sequence[str]:
    chance = random.Random(7)
    return [f"{number} {'word ' * int(chance.lognormvariate(3.05, 0.6))}" for number in range(count)]


def limits() -> tuple[Bucket, Bucket]:
    """Token buckets of one minute, full at first."""
    made = Bucket(RPM), Bucket(TPM)
    for bucket in made:
        bucket.at = clock()
    return made


@pytest.mark.nightly
@pytest.mark.parametrize(("source", "count"), [("hand", 1800), ("headers", 1800), ("unknown", 1800)])
def test_few_requests_are_refused(source: str, count: int, fast: None) -> None:
    inputs = texts(count)
    options: dict[str, Any] = {"rpm": RPM, "tpm": TPM} if source == "hand" else {}
    begin = clock()
    with RateLimitedServer(*limits(), clock, SCALE, source == "headers") as server:
        llm = OpenAI("m", api_key=source, base_url=server.url, network="aiohttp")
        outcomes = list(ToolOrchestratingLLM(Number, "{text}", llm).map(inputs, progress=False, **options))
        seconds = clock() - begin
        llm.close()
    assert [outcome.output.value for outcome in outcomes if outcome.ok] == list(range(count))
    assert len(server.accepted) == count
    assert sum(outcome.attempts for outcome in outcomes) == count + len(server.refused)
    print(f"\n{source}: {figures(server, inputs, begin, seconds)}")
    # An unknown limit is found by refusals: all requests that were sent before the first of them arrived.
    counted = begin + 60 if source == "unknown" else begin
    accepted, refused = (sum(time >= counted for time in times) for times in (server.accepted, server.refused))
    # On a busy machine an unknown limit is seen late, as the clock of the service is a fast one.
    assert refused <= (0.1 if source == "unknown" else 0.02) * (accepted + refused)


def figures(server: RateLimitedServer, inputs: Sequence[str], begin: float, seconds: float) -> str:
    """Return the time beside that of the best schedule, and the shares of the limit."""
    items = [item_of(text) for text in inputs]
    service = Service([("requests", Bucket(RPM)), ("tokens", Bucket(TPM))], latency=lambda chance: 1.5)
    best = best_end(service, items)
    later = [time for time in server.accepted if time >= begin + 60]
    share = len(later) / (RPM / 60 * (server.accepted[-1] - begin - 60))
    tokens = sum(item.input_tokens + item.output_tokens for item in items) / len(items)
    refused = len(server.refused) / (len(items) + len(server.refused))
    return (
        f"{len(items)} requests in {seconds:.0f} s, {seconds / best:.2f} of the best schedule; "
        f"{len(server.refused)} refused ({refused:.2%}), {sum(time >= begin + 60 for time in server.refused)} of them "
        f"after 60 s; from 60 s on {share:.0%} of the requests of the limit, {share * RPM * tokens / TPM:.0%} of the "
        f"tokens; at most {server.most} at once"
    )
