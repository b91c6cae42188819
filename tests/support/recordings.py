"""Recorded answers of one protocol, and what holds for all of them: one answer for every cut, none for a part.

To decode an answer of N bytes for each of its N cuts takes N² steps; of 6.3 MB that is hours. What is done is linear:

* `check_cuts`: every byte of every answer is cut at, with LF and with CRLF: in pieces of `PIECE` bytes, once for each
  place where the first may end, and in pieces of one byte. CR alone, and all three mixed, come in pieces of 7.
* `check_single_cuts`: one cut alone. At the border before an event the decoder is copied and fed the event in two
  pieces. What comes is what comes uncut, and so is the state after it: then all that follows is the same. (Where the
  states seem to differ, the rest is decoded and compared.) So it is with the first `ALIKE` events of each shape that
  a protocol has, 290,000 cuts: an event up to `LONG` bytes at each offset, a longer one, which is mostly the inside
  of one string, at `EDGE` at either end and `SOME` between. Shape: the JSON's names and types, the events it gives.
* `check_borders`: the end of the body at any border of events before the end marker, and in the middle of the event
  that follows, is `StreamTruncated`; nothing is finished, and no call is done that has not ended.
"""

from __future__ import annotations

import json
import pickle
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from support.extent import nightly
from toolcast.errors import StreamTruncated
from toolcast.events import ChatResponse, Event, Finish, ToolCallDone
from toolcast.providers.base import ProviderAdapter, RequestInput, ResponseDecoder
from toolcast.values.accumulator import Accumulator

PIECE = 32
ALIKE, LONG, EDGE, SOME = nightly((3, 500, 50, 30), (2, 300, 40, 20))

_ASKED = RequestInput("m", ())
_LINE_ENDS = (b"\n", b"\r", b"\r\n")
_borders = re.compile(rb"(?<=\n\n)(?=[^\n])")


def answers_in(path: Path) -> list[bytes]:
    """The answers that a file holds, as server-sent events with LF: each begins with a start of another message."""
    data = path.read_bytes()
    if path.suffix == ".sse":
        return [data.replace(b"\r\n", b"\n")]
    answers: list[bytes] = []
    ids: list[str] = []
    for line in filter(bytes.strip, data.splitlines()):
        payload = json.loads(line)
        id = payload.get(_STARTS.get(payload.get("type"), ""), {}).get("id")
        if not answers or (id and id not in ids):
            answers.append(b"")
            ids.append(id)
        name = b"event: %b\n" % payload["type"].encode() if "type" in payload else b""
        answers[-1] += name + b"data: %b\n\n" % line.strip()
    return answers


_STARTS = {"message_start": "message", "response.created": "response"}


def payloads(events: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects that events hold; an empty one where an event holds none."""
    for event in events:
        found = re.search(rb"^data: ?(\{.*)", event, re.MULTILINE)
        yield json.loads(found[1]) if found else {}


def beside(path: Path, ending: str) -> Path:
    """The file that was recorded with this one: its request, or the answer in one piece."""
    return path.with_name(f"{path.name}.{ending}.json")


@dataclass(frozen=True)
class Recorded:
    """The answers in `files`, by name, and the wire that reads them.

    `ends` returns whether a payload has the end marker; `calls_over` how many calls have ended, as the
    protocol reports it, after each of the payloads: none, where only the end of the answer ends them.
    """

    wire: ProviderAdapter
    files: list[Path]
    ends: Callable[[dict[str, Any]], object]
    calls_over: Callable[[Iterable[dict[str, Any]]], Iterable[int]] = lambda payloads: repeat(0)
    answers: dict[str, bytes] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for path in self.files:
            for number, answer in enumerate(answers_in(path)):
                self.answers[f"{path.name}#{number}" if number else path.name] = answer

    @property
    def every_answer(self) -> pytest.MarkDecorator:
        """The tests of one answer, `name`, for all of them."""
        return pytest.mark.parametrize("name", self.answers)

    def named(self, part: str) -> bytes:
        """The first answer with `part` in its name."""
        return next(answer for name, answer in self.answers.items() if part in name)

    def with_a(self, ending: str) -> list[Path]:
        """The files that have another beside them: a `request` or a `response`."""
        return [path for path in self.files if beside(path, ending).is_file()]

    def decode(self, *pieces: bytes) -> list[Event]:
        """All events of a body that comes in these pieces."""
        decoder = self.wire.decoder(_ASKED)
        events = [event for piece in pieces for event in decoder.feed(piece)]
        return events + decoder.close()

    def response(self, *pieces: bytes) -> ChatResponse:
        """What a body comes to."""
        accumulator = Accumulator()
        for event in self.decode(*pieces):
            accumulator.apply(event)
        return accumulator.response()

    def check_cuts(self, name: str) -> None:
        body, chance = self.answers[name], random.Random(name)
        whole = self.decode(body)
        assert self.decode(*_borders.split(body)) == whole
        for form in (body, body.replace(b"\n", b"\r\n")):
            for first in range(0, PIECE, 1 if form is body else nightly(1, 4)):
                assert self.decode(form[:first], *cut(form, PIECE, first)) == whole, first
            assert self.decode(*cut(form, 1)) == whole
        mixed = [event.replace(b"\n", chance.choice(_LINE_ENDS)) for event in _borders.split(body)]
        for form in (body, body.replace(b"\n", b"\r"), b"".join(mixed)):
            assert self.decode(form) == whole
            assert self.decode(*cut(form, 7)) == whole

    def check_single_cuts(self, name: str) -> None:
        decoder, events = self.wire.decoder(_ASKED), _borders.split(self.answers[name])
        for number, event in enumerate(events):
            before = pickle.dumps(decoder)
            uncut = decoder.feed(event)
            if number in self.new_shapes[name]:
                rest = b"".join(events[number + 1 :])
                after, whole = state(decoder), uncut + outcome(copied(decoder), rest)
                assert outcome(copied(before), event + rest) == whole
                for at in offsets(event, f"{name} {number}"):
                    other = copied(before)
                    came = other.feed(event[:at]) + other.feed(event[at:])
                    assert came == uncut, (number, at)
                    if state(other) != after and known(vars(other)) != known(vars(decoder)):
                        assert came + outcome(other, rest) == whole, (number, at)

    @cached_property
    def new_shapes(self) -> dict[str, set[int]]:
        """The events of each answer whose shape has not been seen often before."""
        seen: Counter[object] = Counter()
        new: dict[str, set[int]] = {name: set() for name in self.answers}
        for name, body in self.answers.items():
            decoder, events = self.wire.decoder(_ASKED), _borders.split(body)
            for number, (event, payload) in enumerate(zip(events, payloads(events), strict=True)):
                kind = (shape(payload) or event[:20], *map(type, decoder.feed(event)))
                seen[kind] += 1
                if seen[kind] <= ALIKE:
                    new[name].add(number)
        return new

    def check_borders(self, name: str) -> None:
        events = _borders.split(self.answers[name])
        message = list(payloads(events))
        decoder, done = self.wire.decoder(_ASKED), 0
        for number, over in zip(range(len(events) - 1), self.calls_over(message), strict=False):
            if self.ends(message[number]) or events[number].startswith(b"data: [DONE]"):
                break
            came = decoder.feed(events[number])
            done += sum(isinstance(event, ToolCallDone) for event in came)
            assert done <= over
            assert not any(isinstance(event, Finish) for event in came)
            for more in (b"", events[number + 1][: len(events[number + 1]) // 2]):
                other = copied(decoder)
                late = other.feed(more)
                with pytest.raises(StreamTruncated):
                    late += other.close()
                assert late == []


def cut(body: bytes, size: int, start: int = 0) -> Iterator[bytes]:
    return (body[at : at + size] for at in range(start, len(body), size))


def offsets(event: bytes, seed: str) -> Iterable[int]:
    """Where an event is cut."""
    if len(event) <= LONG:
        return range(len(event))
    inside = range(EDGE, len(event) - EDGE)
    return (*range(EDGE), *random.Random(seed).sample(inside, SOME), *range(inside.stop, len(event)))


def copied(decoder: ResponseDecoder | bytes) -> ResponseDecoder:
    """A decoder that goes on from here, and leaves this one as it is. `copy.deepcopy` takes five times as long."""
    copy: ResponseDecoder = pickle.loads(decoder if isinstance(decoder, bytes) else pickle.dumps(decoder))
    return copy


# The beginning of the body: a decoder keeps it to show it in errors, and that is all.
_START: dict[str, Any] = {"_head": None, "_sniffing": None}


def state(decoder: ResponseDecoder) -> bytes:
    """All that a decoder knows. Where two of these differ, it may be for the number of objects that hold it."""
    return pickle.dumps(vars(decoder) | _START)


def known(value: Any) -> Any:
    """What an object of the library holds, all the way down, as plain values."""
    if isinstance(value, dict):
        return {name: known(inner) for name, inner in (value | (_START if "_head" in value else {})).items()}
    if isinstance(value, (list, tuple)):
        return [known(inner) for inner in value]
    value = getattr(value, "__func__", value)
    return known(value.__getstate__()) if type(value).__module__.startswith("toolcast") else value


def outcome(decoder: ResponseDecoder, rest: bytes) -> list[Event]:
    return decoder.feed(rest) + decoder.close()


def shape(value: Any) -> object:
    """The names and types in a JSON value; items of a list that are alike count once."""
    if isinstance(value, dict):
        return tuple((name, shape(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(dict.fromkeys(map(shape, value)))
    return type(value), value in ("", None)


def differences(recorded: Any, sent: Any, foreign: Callable[[Any], bool], path: str = "") -> Iterator[str]:
    """Where the two differ. Places in lists are left open, and foreign items are left out of them."""
    if recorded == sent:
        return
    if isinstance(recorded, dict) and isinstance(sent, dict):
        for name in recorded.keys() | sent.keys():
            inner = f"{path}.{name}" if path else name
            yield from differences(recorded.get(name, ...), sent.get(name, ...), foreign, inner)
    elif isinstance(recorded, list) and isinstance(sent, list):
        ours = [item for item in recorded if not foreign(item)]
        if len(ours) < len(recorded):
            yield path
        for one, other in zip(ours, sent, strict=True):
            yield from differences(one, other, foreign, f"{path}[]")
    else:
        yield path
