"""`Controller`: decides when the next request to one service may be sent. It does no I/O and is passed the time.

Four things limit it, and the strictest one decides:

* **Limits by hand and of headers** (rate_limits.py).
* **Pauses**: after a refusal nothing is sent for the `Retry-After`, or for a back-off that doubles while one probe
  after the other is refused.
* **A learned rate**, where the service refuses requests and reports no limits. A refusal sets it a little below the
  rate of the requests that were accepted since the last refusal, or in the last minute. Then it grows, at first slowly,
  then ever faster, as TCP CUBIC does (RFC 9438). So it stays near the limit, and finds it again after it has changed.
* **A concurrency**, which begins low (at the one by hand, if there is one), doubles with each round of responses, and
  follows AIMD (RFC 5681) after the first refusal. It shrinks too while responses take more than `SLOW` times as long
  as they did with fewer at once: then the service queues them, and more requests only wait there. It does not grow
  while it is not used. Responses within a fraction of a second are no queue.

`TokenForecast`: the tokens that the next request of a model will take, from those that it has reported so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from math import inf, sqrt
from typing import Final, Literal

from ...lazy.lazy_dataclasses import dataclass
from .rate_limit_headers import LimitReading, Quantity
from .rate_limits import HandLimit, ReportedLimit

_FORGET: Final = 0.98  # of the weight of earlier requests with each new one: the last 50 count
_UNKNOWN_OUTPUT: Final = 500.0


class TokenForecast:
    """Corrections of the estimates of one model.

    Attributes:
        error: The standard error of the expected tokens of one request.
    """

    def __init__(self) -> None:
        # Begun with one request whose estimate was right, so that a single short one does not decide.
        self._estimated = self._input = 100.0
        self._output = 0.0
        self._weight = 0.0
        self._squares = 0.0  # of the errors of the expected tokens
        self.error: float = 0.0

    def add(self, input_estimate: int, input_tokens: int, output_tokens: int) -> None:
        """Add the reported tokens of a request whose input was estimated."""
        if self._weight:
            expected = input_estimate * (self._input / self._estimated) + self._output / self._weight
            error = input_tokens + output_tokens - expected
            self._squares += (1 - _FORGET) * (error * error - self._squares)
            self.error = sqrt(self._squares)
        self._estimated = self._estimated * _FORGET + input_estimate
        self._input = self._input * _FORGET + input_tokens
        self._output = self._output * _FORGET + output_tokens
        self._weight = self._weight * _FORGET + 1.0

    def expected(self, input_estimate: int, max_tokens: int | None) -> tuple[float, float]:
        """Return the tokens of input and output to expect of a request with this estimate and limit."""
        expected = _UNKNOWN_OUTPUT if self._weight == 0 else self._output / self._weight
        if max_tokens is not None and max_tokens < expected:
            expected = float(max_tokens)
        return input_estimate * (self._input / self._estimated), expected

    def input_tokens(self, input_estimate: int) -> float:
        """Return the corrected estimate of the tokens of an input."""
        return input_estimate * (self._input / self._estimated)


LimitedBy = Literal["rate limit", "concurrency", "service"]
"""What keeps a job from sending more: known limits, `max_concurrency`, or refusals and latency of the service."""

START: Final = 4
MOST: Final = 1_000
SLOW: Final = 3.0
_QUICK: Final = 0.1  # seconds: in shorter ones, what varies is the time of this process and not of the service
_LEAST: Final = 1.0
_BACK: Final = 0.95  # of the accepted rate, after a refusal
_DECREASE: Final = 0.85  # of the requests under way, after a refusal
_ROUND: Final = 20  # responses whose mean latency is compared
_FIRST_ROUND: Final = 8  # sent before the concurrency has grown
_MINUTE: Final = 60.0
_LONGEST_PAUSE: Final = 30.0
_EXPLAINED: Final = 4  # refusals in a row, in spite of known limits
_ENOUGH: Final = 3  # accepted requests since a refusal, for an estimate of the rate


@dataclass(slots=True, eq=False)
class Permit:
    """An admitted request.

    Attributes:
        sent_at: The time when it was admitted.
        input_estimate: The estimated tokens of the input, before corrections.
        amounts: What it counts for each limit.
        marks: What had been sent then, this request included.
        entries: Its entries in the limits by hand.
    """

    sent_at: float
    input_estimate: int
    amounts: dict[Quantity, float]
    marks: dict[Quantity, float]
    entries: list[tuple[HandLimit, Quantity, list[float]]]
    accepted: bool = False


class Controller:
    """The pacing of the requests to one service with one key and one model.

    Attributes:
        tokens: The forecast of the tokens of a request.
        in_flight: The number of requests under way.
        concurrency: The number of requests that may be under way at once.
        max_concurrency: The limit of it by hand, or None.
    """

    def __init__(self) -> None:
        self.tokens: TokenForecast = TokenForecast()
        self.in_flight: int = 0
        self.concurrency: int = START
        self.max_concurrency: int | None = None
        self._hand: dict[Quantity, HandLimit] = {}
        self._reported: dict[tuple[Quantity, float | None], ReportedLimit] = {}
        self._sent: dict[Quantity, float] = dict.fromkeys(("requests", "tokens", "input_tokens", "output_tokens"), 0.0)
        self._window = float(START)
        self._most = MOST
        self._slow_start = True
        self._accepted: deque[float] = deque()  # the times when accepted requests of the last minute were sent
        self._first: float | None = None
        self._refused_at = -inf  # the last refusal that was counted, and those of requests sent before it are not
        self._refusals: deque[float] = deque()  # those of the last minute after which a rate was learned
        self._probes = 0  # refusals without an accepted request between them
        self._in_a_row = 0  # refusals with less than half a minute between them
        self._resume_at = -inf
        self._rate: float | None = None  # the learned one, when it was learned
        self._next_at = -inf
        self._latency: float | None = None  # of the fastest rounds
        self._round: list[float] = []
        self._to_shrink = 0  # responses until the latency may shrink the concurrency again

    def set_limits(self, rpm: Iterable[float], tpm: Iterable[float], max_concurrency: Iterable[int]) -> None:
        """Use the strictest of these limits. A limit that does not change keeps its count."""
        limits: tuple[tuple[Quantity, float | None], ...] = (
            ("requests", min(rpm, default=None)),
            ("tokens", min(tpm, default=None)),
        )
        for quantity, limit in limits:
            present = self._hand.get(quantity)
            if limit is None:
                self._hand.pop(quantity, None)
            elif present is None or present.given != limit:
                self._hand[quantity] = HandLimit(limit)
        self.max_concurrency = min(max_concurrency, default=None)
        self._most = MOST if self.max_concurrency is None else self.max_concurrency
        begun = self._first is not None
        # The caller knows the service, until something is sent.
        self._set_window(self._window if begun or self.max_concurrency is None else float(self.max_concurrency))

    def _set_window(self, window: float) -> None:
        self._window = window
        self.concurrency = min(max(int(window), 1), self._most)

    def announced(self, now: float) -> float:
        """Return the seconds for which the service takes no more requests, as its refusals and headers say."""
        return max(self._resume_at - now, self._wait_for_reported(self._amounts(1, None), now))

    def limited_by(self, now: float) -> LimitedBy | None:
        """Return what keeps the next request waiting, or would if there were more of them; None for nothing."""
        if now < self._resume_at:
            return "service"
        if self._wait_for_limits(self._amounts(1, None), now) > 0:
            return "rate limit"
        if self.in_flight >= self.concurrency:
            return "concurrency" if self.concurrency == self.max_concurrency else "service"
        return "service" if self._rate is not None and self._next_at > now else None

    def admit(
        self, input_estimate: int, max_tokens: int | None, now: float, *, nested: bool = False
    ) -> Permit | float | None:
        """Return a permit, or the seconds until the next try, or None to try again when a request ends.

        Args:
            input_estimate: An estimate of the tokens of the input.
            max_tokens: The limit of the response's tokens, or None.
            now: The time.
            nested: True for a request that another one under way waits for. The concurrency does not delay it.
        """
        if now < self._resume_at:
            return self._resume_at - now
        in_flight = self.in_flight
        if not nested and (in_flight >= self.concurrency or (self._probes and in_flight)):
            return None
        rate = self._rate_at(now)
        if rate is not None and self._next_at > now:
            return self._next_at - now
        amounts = self._amounts(input_estimate, max_tokens)
        if (self._hand or self._reported) and (wait := self._wait_for_limits(amounts, now)) > 0:
            return wait
        if rate is not None:
            # At most a tenth of a second of the rate at once, for requests that could not be sent on time.
            self._next_at = max(self._next_at, now - 0.1) + 1 / rate
        self.in_flight += 1
        if self._first is None:
            self._first = now
        sent = self._sent
        for quantity, amount in amounts.items():
            sent[quantity] += amount
        entries: list[tuple[HandLimit, Quantity, list[float]]] = []
        for quantity, limit in self._hand.items():
            entries.append((limit, quantity, limit.add(amounts[quantity], now)))
        return Permit(now, input_estimate, amounts, sent.copy(), entries)

    def read(self, permit: Permit, readings: Iterable[LimitReading], now: float) -> None:
        """Use the limits in the headers of a response."""
        for reading in readings:
            key: tuple[Quantity, float | None] = (reading.quantity, reading.period)
            mark = permit.marks[reading.quantity]
            limit = self._reported.get(key)
            if limit is None:
                self._reported[key] = ReportedLimit(reading, mark, permit.sent_at, now)
            else:
                limit.read(reading, mark, permit.sent_at, now)

    def accepted(self, permit: Permit, now: float) -> None:
        """Record that the service has accepted a request. Idempotent."""
        if permit.accepted:
            return
        permit.accepted = True
        self._probes = 0
        self._forget(now)
        self._accepted.append(permit.sent_at)
        if self.in_flight >= int(self._window) / 2 and self._window < self._most:
            self._set_window(self._window + (1.0 if self._slow_start else 1.0 / self._window))

    def ended(self, permit: Permit, now: float, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """End a request, with the tokens that the service reports; 0 if it does not."""
        self.in_flight -= 1
        if permit.accepted:
            self._measure(now - permit.sent_at)
        if not input_tokens and not output_tokens:
            return
        self.tokens.add(permit.input_estimate, input_tokens, output_tokens)
        used = input_tokens + output_tokens
        for limit, quantity, entry in permit.entries:
            if quantity == "tokens":
                limit.settle(entry, used - permit.amounts["tokens"])

    def refused(self, permit: Permit, retry_after: float | None, chance: float, now: float) -> None:
        """Record that the service has refused a request: it is over a limit, or overloaded.

        Args:
            permit: The request.
            retry_after: The seconds that the service asks to wait, or None.
            chance: A random number from 0 to 1.
            now: The time.
        """
        for limit, quantity, entry in permit.entries:
            if quantity == "tokens":  # of requests, services count refused ones too
                limit.settle(entry, -permit.amounts["tokens"])
        if retry_after is not None:
            # Not all clients at once, as for a single request; a long wait is exact enough without it.
            self._resume_at = max(self._resume_at, now + retry_after + chance * min(0.1 * retry_after, 0.5))
        if permit.sent_at <= self._refused_at:  # sent before the refusal that has been counted
            return
        self._slow_start = False
        self._set_window(max(min(self._window, _DECREASE * (self.in_flight + 1)), _LEAST))
        self._in_a_row = self._in_a_row + 1 if now - self._refused_at < _MINUTE / 2 else 1
        smaller = [limit.refused() for quantity, limit in self._hand.items() if quantity == "requests"]
        # Estimates of tokens are wrong now and then; refusals that known limits do not prevent mean other limits.
        explained = any(smaller) or "tokens" in self._hand or self._is_reported(now)
        if not explained or self._in_a_row > _EXPLAINED:
            self._learn(now)
        self._refused_at = now
        if retry_after is None:
            self._resume_at = max(self._resume_at, now + self._back_off(chance))
        self._probes += 1

    def _back_off(self, chance: float) -> float:
        # At least until the next request is due at the learned rate.
        shortest = 0.5 if self._rate is None else max(0.5, min(1 / self._rate, 5.0))
        longest = min(2 * shortest * 2.0 ** min(self._probes, 16), _LONGEST_PAUSE)
        return longest * (0.5 + 0.5 * chance)

    def _is_reported(self, now: float) -> bool:
        """Return True if less than a tenth of a reported limit is left, which explains a refusal."""
        return any(limit.wait(limit.tenth, self._sent[key[0]], now) > 0 for key, limit in self._reported.items())

    def _learn(self, now: float) -> None:
        """Set the learned rate below that of the accepted requests."""
        self._forget(now)
        if not self._accepted or self._first is None:
            return  # nothing is known of the limit: probes find out when the service accepts requests again
        rate = len(self._accepted) / min(max(now - self._first, 1.0), _MINUTE)
        while self._refusals and self._refusals[0] <= now - _MINUTE:
            self._refusals.popleft()
        if self._refusals:
            # Nothing was left then: what was accepted since has come back since, without an unused amount before it.
            begin = self._refusals[0]
            since = sum(time > begin for time in self._accepted)
            if since >= _ENOUGH and now - begin >= 1.0:
                # A window that has opened a moment ago is no measure: one refusal does not more than halve the rate.
                rate = min(rate, max(since / (now - begin), (self._rate_at(now) or 0.0) / 2))
        self._refusals.append(now)
        self._rate = _BACK * rate

    def _rate_at(self, now: float) -> float | None:
        """Return the learned rate, which grows with the time since the last refusal."""
        if (rate := self._rate) is None:
            return None
        # With few requests per minute, one refusal is a larger part of them: they are tried less often.
        time = (now - self._refused_at) / max(_MINUTE, min(240 / rate, 10 * _MINUTE))
        grown = rate * (1 + 0.02 * time + 0.1 * time**3)
        if grown > 20 * rate:  # nothing has refused it for a long time
            self._rate = None
        return grown

    def _amounts(self, input_estimate: int, max_tokens: int | None) -> dict[Quantity, float]:
        input_tokens, output_tokens = self.tokens.expected(input_estimate, max_tokens)
        # Of many estimates under way, one errs up and the other down: a part of the error of one is enough.
        tokens = input_tokens + output_tokens + 2 * self.tokens.error / (self.in_flight + 1) ** 0.5
        return {"requests": 1.0, "tokens": tokens, "input_tokens": input_tokens, "output_tokens": output_tokens}

    def _wait_for_limits(self, amounts: dict[Quantity, float], now: float) -> float:
        # Without a generator: each admission of a request asks, and most have a limit or two of the headers.
        longest = 0.0
        for quantity, hand in self._hand.items():
            if (wait := hand.wait(amounts[quantity], now)) > longest:
                longest = wait
        return max(longest, self._wait_for_reported(amounts, now)) if self._reported else longest

    def _wait_for_reported(self, amounts: dict[Quantity, float], now: float) -> float:
        longest = 0.0
        for (quantity, _), limit in self._reported.items():
            if (wait := limit.wait(amounts[quantity], self._sent[quantity], now)) > longest:
                longest = wait
        return longest

    def _forget(self, now: float) -> None:
        while self._accepted and self._accepted[0] <= now - _MINUTE:
            self._accepted.popleft()

    def _measure(self, seconds: float) -> None:
        """Compare the latency of a round of responses with that of the fastest ones."""
        self._round.append(seconds)
        self._to_shrink -= 1
        if len(self._round) < (_FIRST_ROUND if self._latency is None else _ROUND):
            return
        mean = sum(self._round) / len(self._round)
        self._round.clear()
        # The fastest rounds are forgotten slowly, as a service may become slower for all.
        self._latency = mean if self._latency is None else min(self._latency * 1.02, mean)
        if mean > SLOW * max(self._latency, _QUICK) and self._window > START:
            self._slow_start = False
            # The responses to what is under way now will be as slow: they do not shrink it once more.
            if self._to_shrink <= 0:
                self._set_window(max(self._window * 0.8, START))
                self._to_shrink = self.in_flight
