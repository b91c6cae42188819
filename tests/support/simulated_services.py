"""Services with rate limits and latency on a virtual clock, and a job that a `Controller` paces against them.

The table in docs/how-to/many-inputs.md is made of it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from toolcast.batch.pacing.rate_controller import Controller, Permit
from toolcast.batch.pacing.rate_limit_headers import LimitReading, Quantity


class ServerLimit(Protocol):
    """A limit as a service counts it."""

    def wait(self, amount: float, now: float) -> float:
        """Return the seconds until `amount` would be accepted; 0 for now."""
        ...

    def add(self, amount: float, now: float) -> None:
        """Count an accepted request."""
        ...

    def reading(self, quantity: Quantity, now: float) -> LimitReading:
        """Return what the service writes into its headers."""
        ...


class Bucket:
    """A token bucket: `limit` in `period` seconds, of which `capacity` can be used at once."""

    def __init__(self, limit: float, period: float = 60.0, capacity: float | None = None) -> None:
        self.limit, self.period = limit, period
        self.capacity = self.level = limit if capacity is None else capacity
        self.at = 0.0

    def _refill(self, now: float) -> None:
        self.level = min(self.level + (now - self.at) * self.limit / self.period, self.capacity)
        self.at = now

    def wait(self, amount: float, now: float) -> float:
        self._refill(now)
        return max(amount - self.level - 1e-9, 0.0) * self.period / self.limit

    def add(self, amount: float, now: float) -> None:
        self._refill(now)
        self.level -= amount

    def reading(self, quantity: Quantity, now: float) -> LimitReading:
        self._refill(now)
        reset = (self.capacity - self.level) * self.period / self.limit
        return LimitReading(quantity, self.limit, max(self.level, 0.0), reset, self.period, gradual=True)


class FixedWindow:
    """A count that begins anew every `period` seconds, the first time after `phase` of them."""

    def __init__(self, limit: float, period: float = 60.0, phase: float = 0.0) -> None:
        self.limit, self.period, self.phase = limit, period, phase
        self.window, self.used = 0, 0.0

    def _turn(self, now: float) -> None:
        window = int((now + self.phase) // self.period)
        if window != self.window:
            self.window, self.used = window, 0.0

    def _end(self, now: float) -> float:
        return self.period - (now + self.phase) % self.period

    def wait(self, amount: float, now: float) -> float:
        self._turn(now)
        return 0.0 if self.used + amount <= self.limit + 1e-9 else self._end(now)

    def add(self, amount: float, now: float) -> None:
        self._turn(now)
        self.used += amount

    def reading(self, quantity: Quantity, now: float) -> LimitReading:
        self._turn(now)
        return LimitReading(quantity, self.limit, max(self.limit - self.used, 0.0), self._end(now), self.period)


class SlidingWindow:
    """No more than `limit` in any `period` seconds."""

    def __init__(self, limit: float, period: float = 60.0) -> None:
        self.limit, self.period = limit, period
        self.log: deque[tuple[float, float]] = deque()
        self.used = 0.0

    def _expire(self, now: float) -> None:
        while self.log and self.log[0][0] <= now - self.period:
            self.used -= self.log.popleft()[1]

    def wait(self, amount: float, now: float) -> float:
        self._expire(now)
        excess = self.used + amount - self.limit
        for time, used in self.log:
            if excess <= 1e-9:
                return 0.0
            excess -= used
            if excess <= 1e-9:
                return time + self.period - now
        return 0.0

    def add(self, amount: float, now: float) -> None:
        self.log.append((now, amount))
        self.used += amount

    def reading(self, quantity: Quantity, now: float) -> LimitReading:
        self._expire(now)
        reset = self.log[-1][0] + self.period - now if self.log else 0.0
        return LimitReading(quantity, self.limit, max(self.limit - self.used, 0.0), reset, self.period)


@dataclass
class Item:
    """One request: its true tokens, which are estimated with an error."""

    input_tokens: int = 100
    output_tokens: int = 50
    estimate: int = 100


@dataclass
class Service:
    """A service with these limits.

    Attributes:
        limits: The limits, with what they count.
        latency: Returns the seconds of a response.
        slots: The number of requests that it works on at once; others wait in it.
        reports: True to write its limits into the headers.
        retry_after: True to ask for the wait that a refused request needs.
        most: The number of requests at once above which it refuses them.
    """

    limits: Sequence[tuple[Quantity, ServerLimit]] = ()
    latency: Callable[[random.Random], float] = lambda chance: chance.lognormvariate(0.3, 0.4)
    slots: int | None = None
    reports: bool = False
    retry_after: bool = False
    most: int | None = None
    busy: list[float] = field(default_factory=list[float])
    present: int = 0

    def amount(self, quantity: Quantity, item: Item) -> float:
        amounts = {"requests": 1, "input_tokens": item.input_tokens, "output_tokens": item.output_tokens}
        return amounts.get(quantity, item.input_tokens + item.output_tokens)

    def wait(self, item: Item, now: float) -> float:
        waits = [limit.wait(self.amount(quantity, item), now) for quantity, limit in self.limits]
        return max(waits, default=0.0)

    def accept(self, item: Item, now: float) -> None:
        for quantity, limit in self.limits:
            limit.add(self.amount(quantity, item), now)

    def end(self, now: float, chance: random.Random) -> float:
        """Return when the response to a request that arrives now ends."""
        seconds = self.latency(chance)
        if self.slots is None:
            return now + seconds
        begin = now if len(self.busy) < self.slots else max(heapq.heappop(self.busy), now)
        heapq.heappush(self.busy, begin + seconds)
        return begin + seconds


@dataclass
class Run:
    """What happened: the times of accepted requests, of refused ones, and of the last response."""

    accepted: list[float] = field(default_factory=list[float])
    refused: list[float] = field(default_factory=list[float])
    end: float = 0.0
    most_in_flight: int = 0
    latencies: list[float] = field(default_factory=list[float])

    @property
    def refused_share(self) -> float:
        return len(self.refused) / max(len(self.refused) + len(self.accepted), 1)

    def between(self, begin: float, end: float) -> int:
        return sum(begin <= time < end for time in self.accepted)


NETWORK = 0.02  # seconds to the service, and back


def run(
    service: Service, controller: Controller, items: Sequence[Item], seed: int = 0, until: float = float("inf")
) -> Run:
    """Send all items, each again while it is refused."""
    chance, result, order = random.Random(seed), Run(), count()
    waiting = deque(items)
    events: list[tuple[float, int, Callable[[float], None]]] = []
    timer = float("inf")

    def later(time: float, call: Callable[[float], None]) -> None:
        heapq.heappush(events, (time, next(order), call))

    def send(now: float) -> None:
        nonlocal timer
        while waiting:
            item = waiting[0]
            found = controller.admit(item.estimate, None, now)
            if isinstance(found, Permit):
                waiting.popleft()
                result.most_in_flight = max(result.most_in_flight, controller.in_flight)
                later(now + NETWORK * chance.uniform(0.5, 1.5), partial(arrive, found, item))
            else:
                if found is not None and (timer <= now or now + found < timer):
                    timer = now + max(found, 1e-4)  # a real clock goes on by itself
                    later(timer, send)
                return

    def arrive(permit: Permit, item: Item, now: float) -> None:
        wait = service.wait(item, now)
        if wait == 0 and (service.most is None or service.present < service.most):
            service.accept(item, now)
            service.present += 1
            result.accepted.append(now)
            end = service.end(now, chance) + NETWORK
            result.latencies.append(end - now)
            begin = now + NETWORK if service.slots is None else end
            later(begin, partial(headers, permit, readings(now)))
            later(end, partial(respond, permit, item))
        else:
            result.refused.append(now)
            after = max(wait, 0.05) if service.retry_after else None
            later(now + NETWORK, partial(refuse, permit, item, readings(now), after))

    def readings(now: float) -> list[LimitReading]:
        return [limit.reading(quantity, now) for quantity, limit in service.limits] if service.reports else []

    def headers(permit: Permit, found: list[LimitReading], now: float) -> None:
        controller.accepted(permit, now)
        controller.read(permit, found, now)
        send(now)

    def respond(permit: Permit, item: Item, now: float) -> None:
        service.present -= 1
        controller.accepted(permit, now)
        controller.ended(permit, now, item.input_tokens, item.output_tokens)
        result.end = now
        send(now)

    def refuse(permit: Permit, item: Item, found: list[LimitReading], after: float | None, now: float) -> None:
        controller.read(permit, found, now)
        controller.refused(permit, after, chance.random(), now)
        controller.ended(permit, now)
        waiting.appendleft(item)
        send(now)

    send(0.0)
    while events and (now := events[0][0]) <= until:
        heapq.heappop(events)[2](now)
    return result


def best_end(service: Service, items: Sequence[Item], seed: int = 0) -> float:
    """Return the end of the best schedule: each request is sent at the first moment in which it is accepted."""
    now, chance, end = 0.0, random.Random(seed), 0.0
    for item in items:
        while (wait := service.wait(item, now)) > 0:
            now += wait + 1e-6  # of rounding
        service.accept(item, now)
        end = max(end, now + service.latency(chance))
    return end


LIMITS: dict[str, Callable[[float], ServerLimit]] = {
    "token bucket": Bucket,
    "bucket of 10 s": lambda limit: Bucket(limit, capacity=limit / 6),
    "fixed window": lambda limit: FixedWindow(limit, phase=17.0),
    "sliding window": SlidingWindow,
}
