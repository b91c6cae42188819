"""The base of the doubles of batch APIs: batches that end after some polls, the results of requests, and faults.

    with AnthropicBatches() as server:
        server.reply = lambda text: {"name": text}            # the arguments of the tool call, from the user's text
        server.outcome = lambda id, body: "expired" if id == "a" else "succeeded"
        server.polls = 3                                      # a batch ends at the third look at it

Results can come in another order (`shuffled`, a seed), twice (`doubled`), with ids that no request had (`foreign`), or
cut (`cuts`, the number of bytes of the next downloads).
"""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from support.loopback import Piece
from support.service_double import ServiceDouble, as_file

T = TypeVar("T")
EPOCH = 1_795_000_000
"""The time of the first request in seconds since 1970; each later one comes a second later, unless there is a clock."""


@dataclass
class HeldBatch:
    """A batch at the service: its requests by id, and what became of them (empty until it has ended)."""

    id: str
    created: int
    requests: dict[str, dict[str, Any]]
    fields: dict[str, Any]
    polls: int
    status: str = "running"
    ended: int | None = None
    outcomes: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def count(self, outcome: str) -> int:
        """Return the number of requests with this outcome."""
        return sum(1 for each in self.outcomes.values() if each == outcome)


class BatchDouble(ServiceDouble):
    """A service with a batch API and files."""

    def __init__(self) -> None:
        super().__init__()
        self.polls = 1
        self.reply: Callable[[str], Any] = lambda text: f"Re: {text}"
        self.outcome: Callable[[str, dict[str, Any]], str] = lambda id, body: "succeeded"
        self.fate = "completed"  # of batches: completed, expired, failed
        self.shuffled: int | None = None
        self.doubled: list[str] = []
        self.foreign: list[str] = []
        self.cuts: deque[int] = deque()
        self.clock: Callable[[], float] | None = None
        self.submitted: list[tuple[str, dict[str, Any]]] = []
        self.held: dict[str, HeldBatch] = {}
        self.files: dict[str, bytes] = {}
        self._made = 0

    @abstractmethod
    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        """Return the response to one request."""

    def number(self) -> int:
        """Return a number that no other object has."""
        self._made += 1
        return self._made

    @property
    def now(self) -> int:
        """The time of this request."""
        return EPOCH + len(self.log) if self.clock is None else int(self.clock())

    def hold(self, id: str, requests: dict[str, dict[str, Any]], **fields: Any) -> HeldBatch:
        """Store and return a new batch. `submitted` has the requests of all batches, deleted ones too."""
        self.submitted += requests.items()
        batch = self.held[id] = HeldBatch(id, self.now, requests, fields, self.polls)
        return batch

    def looked_at(self, batch: HeldBatch) -> HeldBatch:
        """Return the batch after one more poll, at the last of which it ends."""
        if batch.ended is None:
            batch.polls -= 1
            if batch.polls <= 0:
                self.end(batch, "canceled" if batch.status == "canceling" else self.fate)
        return batch

    def end(self, batch: HeldBatch, status: str) -> None:
        """End a batch: `completed`; or `expired`, `canceled` or `failed`, with all that has not ended before."""
        batch.status, batch.ended = status, self.now
        rest = {"completed": "", "failed": "errored"}.get(status, status)
        batch.outcomes = {id: rest or self.outcome(id, body) for id, body in batch.requests.items()}

    def finish(self) -> None:
        """End all batches."""
        for batch in self.held.values():
            if batch.ended is None:
                self.end(batch, self.fate)

    def result_ids(self, batch: HeldBatch, *outcomes: str) -> list[str]:
        """Return the ids of the results with these outcomes (all, if none are given), in the order of the file."""
        ids = [id for id, outcome in batch.outcomes.items() if not outcomes or outcome in outcomes]
        ids += [id for id in self.doubled if id in ids] + self.foreign
        if self.shuffled is not None:
            random.Random(self.shuffled).shuffle(ids)
        return ids

    def download(self, content: bytes, kind: str) -> tuple[Piece, ...]:
        """Return the answer with a file, which is cut if that is next."""
        return as_file(content, kind, self.cuts.popleft() if self.cuts else None)


def json_lines(documents: list[dict[str, Any]]) -> bytes:
    """Return a JSON Lines file."""
    return b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in documents)


def page(items: list[T], after: int, size: int) -> tuple[list[T], bool]:
    """Return one page of `items` from the place `after`, and whether there are more."""
    return items[after : after + size], after + size < len(items)
