"""A `NumberServer` that enforces rate limits of requests and tokens, on a clock that may be faster than the real one.

Each limit is one of `simulated_services`. A request above one of them is answered with status 429, without
`Retry-After`; all responses report the limits in OpenAI's headers if `reports` is set.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from .number_server import NumberServer, _Connection, number_response, response
from .simulated_services import Item, ServerLimit, Service

LATENCY = 1.0, 2.0  # the shortest and the longest one, in the seconds of the clock


class RateLimitedServer(NumberServer):
    """A server with these limits.

    Args:
        requests: The limit of requests.
        tokens: The limit of tokens.
        clock: Returns the time.
        scale: The seconds of the clock in a real second.
        reports: True to report the limits in headers.
    """

    def __init__(
        self, requests: ServerLimit, tokens: ServerLimit, clock: Callable[[], float], scale: float, reports: bool
    ) -> None:
        super().__init__()
        self.service = Service([("requests", requests), ("tokens", tokens)], reports=reports)
        self.accepted: list[float] = []
        self.refused: list[float] = []
        self._clock, self._scale = clock, scale
        self._chance = random.Random(1)

    def respond(self, connection: _Connection) -> None:
        assert connection.held is not None
        item, now = item_of(connection.held), self._clock()
        if self.service.wait(item, now) > 0:
            self.refused.append(now)
            body = {"error": {"message": "over the limit", "code": "rate_limit_exceeded"}}
            connection.answer(response("429 Too Many Requests", body, self._headers(now)))
            return
        self.service.accept(item, now)
        self.accepted.append(now)
        answer = number_response(connection.held, item.input_tokens, item.output_tokens, self._headers(now))
        self._loop.call_later(self._chance.uniform(*LATENCY) / self._scale, connection.answer, answer)

    def _headers(self, now: float) -> str:
        lines = ""
        for quantity, limit in self.service.limits if self.service.reports else ():
            reading = limit.reading(quantity, now)
            lines += f"x-ratelimit-limit-{quantity}: {reading.limit:g}\r\n"
            lines += f"x-ratelimit-remaining-{quantity}: {int(reading.remaining)}\r\n"
            lines += f"x-ratelimit-reset-{quantity}: {reading.reset:.3f}s\r\n"
        return lines


def item_of(text: str) -> Item:
    """Return the tokens of a request with this text: more than an estimate by characters finds, and irregular ones."""
    chance = random.Random(text)
    return Item(30 + int(len(text) * chance.uniform(0.25, 0.35)), int(chance.lognormvariate(3.2, 0.5)) + 1)
