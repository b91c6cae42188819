"""Inputs for every decoder out of every protocol's recordings, and the check that all of them must pass.

An input is a few events of one to three recordings of any protocol: cut out, spliced, and with keys dropped, doubled,
retyped or reordered; framed as server-sent events, JSON lines, one document or a list; fed in random pieces. The seed
names it, so a finding comes back with `python tests/cross_fuzz.py DECODER SEED`. As a program it runs many inputs on
all cores: `python tests/cross_fuzz.py --inputs 5000000` (`nox -s nightly`).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from support.recordings import answers_in
from support.shared_data import SHARED, recordings
from support.turns import PROTOCOLS, Turn
from toolcast.errors import LLMError, ToolcastError
from toolcast.events import ChatResponse, Event, Finish, ToolCallDone, ToolCallStart
from toolcast.messages import assistant, tool_result, user
from toolcast.providers.anthropic.adapter import AnthropicAdapter
from toolcast.providers.base import ProviderAdapter, RequestInput, ResponseDecoder
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.google.adapter import GoogleAdapter
from toolcast.providers.llama_cpp.adapter import LlamaCppAdapter
from toolcast.providers.mistral.adapter import MistralAdapter
from toolcast.providers.ollama.adapter import OllamaAdapter
from toolcast.providers.openai.adapter import OpenAIResponsesAdapter
from toolcast.values.accumulator import Accumulator
from toolcast.values.settings import Settings
from toolcast.values.tool_spec import NamedTool, ToolSpec

TOOLS = (
    ToolSpec("get_weather", "Tells the weather.", {"type": "object", "properties": {"city": {"type": "string"}}}),
    ToolSpec("answer", "Answers.", {"type": "object", "properties": {}}),
)
ASKED = RequestInput("m", (), TOOLS, parallel=True)
FORCED = RequestInput("m", (), TOOLS[:1], NamedTool("get_weather"), mode="json_schema")

WIRES: dict[str, tuple[Callable[[], ProviderAdapter], RequestInput]] = {
    "openai chat": (lambda: OpenAIChatAdapter(SERVICES["openai"]), ASKED),
    "openai chat with thoughts": (lambda: OpenAIChatAdapter(SERVICES["huggingface"]), ASKED),
    "openai chat by schema": (lambda: OpenAIChatAdapter(SERVICES["openai"]), FORCED),
    "responses": (lambda: OpenAIResponsesAdapter(SERVICES["openai"]), ASKED),
    "anthropic": (AnthropicAdapter, ASKED),
    "google": (GoogleAdapter, ASKED),
    "mistral": (MistralAdapter, ASKED),
    "ollama": (OllamaAdapter, ASKED),
    "ollama by schema": (OllamaAdapter, FORCED),
    "llama.cpp": (LlamaCppAdapter, ASKED),
}
_OWN = {
    "responses": "openai-responses",
    "anthropic": "anthropic-messages",
    "google": "gemini",
    "mistral": "mistral-chat",
}
LONGEST = 2_000
"""Bytes of an event that goes into an input. Longer ones are in the recordings that are fed whole."""

_ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 10**30, 1.5, "", "x", "0", "\ud83d", "null", "{", [], {}, [None], [[]], [{}]),
    *({"text": "x"}, {"type": "x"}, {"": ""}, ["x", 1], [{"type": "text", "text": 3}], "response.completed", "stop"),
)
_DOUBLED = "\x00"  # ends a key that is to be written as the key itself, once more


@dataclass(frozen=True)
class Source:
    """One recorded or hand-made answer: its events, each a name and a JSON text, and the bodies it came as."""

    protocol: str
    events: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Report:
    """What a run of many inputs came to. `findings` name the decoder and the seed."""

    inputs: int = 0
    errors: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list[str])

    def add(self, other: Report) -> None:
        self.inputs += other.inputs
        self.errors += other.errors
        self.findings += other.findings


@cache
def bodies() -> dict[str, bytes]:
    """Every recorded answer, whole, by its name."""
    found: dict[str, bytes] = {}
    for protocol in (
        "anthropic-messages",
        "openai-chat",
        "openai-responses",
        "gemini",
        "mistral-chat",
        "cohere",
        "other",
    ):
        for path in recordings(protocol):
            for number, body in enumerate(answers_in(path)):
                found[f"{protocol} {path.name}#{number}"] = body
    for path in sorted(SHARED.glob("recordings/*/*.response.json")):
        found[f"whole {path.name}"] = path.read_bytes()
    for name, protocol in PROTOCOLS.items():
        turn = Turn("Let me see.", "I shall look.", (("call00001", "get_weather", '{"city":"Oslo"}'),))
        found[f"{name} by hand"] = b"".join(protocol.stream(turn))
        found[f"{name} by hand, whole"] = protocol.whole(turn)
    return found


@cache
def sources() -> dict[str, tuple[Source, ...]]:
    """The recorded answers as events, by protocol."""
    groups: dict[str, list[Source]] = {}
    for name, body in bodies().items():
        events = tuple((kind, text) for kind, text in _events(body) if len(text) <= LONGEST)
        if events:
            groups.setdefault(name.partition(" ")[0], []).append(Source(name, events))
    return {protocol: tuple(group) for protocol, group in groups.items()}


def _events(body: bytes) -> Iterator[tuple[str, str]]:
    """The JSON objects of a body, with the names of their events."""
    text = body.decode("utf-8", "replace")
    if text.lstrip().startswith("{") and "\n{" not in text.strip():
        yield "", json.dumps(json.loads(text))
        return
    name = ""
    for line in text.split("\n"):
        if line.startswith("event:"):
            name = line[6:].strip()
        elif (payload := line.removeprefix("data:").strip()).startswith("{"):
            yield name, payload
            name = ""


# -- one input


def made(name: str, chance: random.Random) -> list[bytes]:
    """One input for a decoder, in pieces. A third of them end as an answer of its own protocol does."""
    events: list[tuple[str, str]] = []
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3))):
        source = chance.choice(sources()[chance.choice(list(sources()))])
        length = chance.randint(1, 12)
        start = chance.choice((0, chance.randrange(len(source.events)), max(0, len(source.events) - length)))
        events += source.events[start : start + length]
    if chance.random() < 0.33:
        own = next((own for word, own in _OWN.items() if word in name), "ollama" if "ollama" in name else "openai-chat")
        events += chance.choice(sources()[own]).events[-chance.randint(1, 6) :]
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        at = chance.randrange(len(events))
        match chance.randrange(8):
            case 0:
                events[at : at + 1] = [events[at]] * chance.randint(0, 3)
                events = events or [("", "{}")]
            case 1:
                events.insert(at, events.pop())
            case _:
                events[at] = (events[at][0], mutated(events[at][1], chance))
    body = framed(events, chance)
    if chance.random() < 0.15:
        body = body[: chance.randrange(len(body) + 1)]
    return pieces(body, chance)


def mutated(text: str, chance: random.Random) -> str:
    """A JSON object with one to three keys dropped, doubled, retyped or reordered."""
    root: dict[str, Any] = json.loads(text)
    for _ in range(chance.randint(1, 3)):
        inner = list(_objects(root))
        found = chance.choice(inner)
        if not found:
            found["x"] = _odd(chance)
            continue
        key = chance.choice(list(found))
        match chance.randrange(6):
            case 0:
                del found[key]
            case 1:
                found[key + _DOUBLED] = chance.choice((deepcopy(found[key]), _odd(chance)))
            case 2:
                items = list(found.items())
                chance.shuffle(items)
                found.clear()
                found.update(items)
            case 3:
                found[key] = deepcopy(chance.choice(inner))
            case 4:
                found[chance.choice(list(chance.choice(inner)) or ["x"])] = _odd(chance)
            case _:
                found[key] = _odd(chance)
    return json.dumps(root).replace('\\u0000"', '"')


def _odd(chance: random.Random) -> Any:
    return deepcopy(chance.choice(_ODD))


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """The JSON objects in a value, at every depth."""
    if isinstance(value, dict):
        yield value
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from _objects(inner)


def framed(events: list[tuple[str, str]], chance: random.Random) -> bytes:
    """The events as a body of one form or another."""
    texts = [text for _, text in events]
    match chance.randrange(8):
        case 0:
            body = "\n".join(texts) + "\n"
        case 1:
            body = f"[{','.join(texts)}]"
        case 2:
            body = texts[0]
        case 3:
            body = "".join(f"data: {text}\r\n\r\n" for text in texts)
        case 4:
            body = "".join(f"data: {text}\n\n" for text in texts) + "data: [DONE]\n\n"
        case _:
            body = "".join(f"event: {name}\ndata: {text}\n\n" if name else f"data: {text}\n\n" for name, text in events)
    return body.encode("utf-8", "replace")


def pieces(body: bytes, chance: random.Random) -> list[bytes]:
    """A body in pieces: whole, in a few, or in small ones."""
    size = chance.choice((len(body), len(body), 700, 97, 13))
    return [body[at : at + size] for at in range(0, len(body), max(size, 1))]


# -- what must hold


def check(name: str, data: list[bytes], *, deep: bool) -> bool:
    """Raise on any outcome but events or one library error; return whether it was an error.

    `deep`: the input in one piece gives the same, and a request of some protocol can be made of the answer.
    """
    make, asked = WIRES[name]
    events, error = outcome(make().decoder(asked), data)
    folded = Accumulator()
    for event in events:
        folded.apply(event)
    response = folded.response()
    json.dumps(response.message.to_dict()), repr(response)
    if error is None:
        _check_whole(events)
    if deep:
        whole, other = outcome(make().decoder(asked), [b"".join(data)])
        assert (_merged(whole), str(other)) == (_merged(events), str(error)), "one piece gives another outcome"
        _check_request(response)
    return error is not None


def outcome(decoder: ResponseDecoder, data: list[bytes]) -> tuple[list[Event], LLMError | None]:
    """The events that a decoder gives, and the error that ends them. The error stays."""
    events: list[Event] = []
    try:
        for piece in data:
            events += decoder.feed(piece)
        events += decoder.close()
    except LLMError as error:
        assert 0 < len(str(error)) < 1_500, "the text of an error is short"
        try:
            decoder.close()
        except LLMError as again:
            assert str(again) == str(error), "an error is raised again by every later call"
        else:
            raise AssertionError("close() raises nothing after an error") from error
        return events, error
    return events, None


def _check_whole(events: list[Event]) -> None:
    ends = [event for event in events if isinstance(event, Finish)]
    assert ends == events[-1:], "one Finish, last"
    begun = [event.id for event in events if isinstance(event, ToolCallStart)]
    done = [event.id for event in events if isinstance(event, ToolCallDone)]
    assert len(set(begun)) == len(begun) and sorted(begun) == sorted(done), "each call begins and ends once"


def _merged(events: list[Event]) -> ChatResponse:
    folded = Accumulator()
    for event in events:
        folded.apply(event)
    return folded.response()


def _check_request(response: ChatResponse) -> None:
    calls = response.message.tool_calls
    results = [tool_result(call, "ok") for call in calls]
    message = (user("Hi"), response.message if response.message.parts else assistant("-"), *results, user("And?"))
    for make, asked in WIRES.values():
        try:
            make().request(RequestInput("m", message, asked.tools), Settings())
        except ToolcastError:
            continue


def run(name: str, seed: str, inputs: int) -> Report:
    """Run so many inputs through one decoder. The seed of an input is `SEED/NUMBER`."""
    report, start = Report(), time.monotonic()
    for number in range(inputs):
        chance = random.Random(f"{seed}/{number}")
        try:
            data = made(name, chance)
            report.errors += check(name, data, deep=number % 10 == 0)
        except Exception as error:  # a finding, whatever it is
            where = traceback.extract_tb(error.__traceback__)[-1]
            report.findings.append(
                f"{name!r} {seed}/{number}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})"[:500]
            )
        report.inputs += 1
    report.seconds = time.monotonic() - start
    return report


def steps(name: str, data: list[bytes]) -> int:
    """The number of calls, of Python and of C functions, that reading an input takes."""
    count = 0

    def notice(*_: Any) -> None:
        nonlocal count
        count += 1

    make, asked = WIRES[name]
    decoder, before = make().decoder(asked), sys.getprofile()
    sys.setprofile(notice)
    try:
        outcome(decoder, data)
    finally:
        sys.setprofile(before)
    return count


# -- as a program


def _share(job: tuple[str, str, int]) -> Report:
    return run(*job)


def main() -> int:
    """Run many inputs on all cores, or show one."""
    parser = argparse.ArgumentParser(description="Feed every decoder with every protocol's recordings, damaged.")
    parser.add_argument("--inputs", type=int, default=50_000)
    parser.add_argument("--seed", default=time.strftime("%Y-%m-%d"))
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("one", nargs="*", metavar="DECODER SEED", help="show this one input, and read it")
    given = parser.parse_args()
    if not SHARED.is_dir():
        print("needs ../shared beside the project (recordings): NOT TESTED")
        return 1 if os.environ.get("TOOLCAST_REQUIRE_SHARED") == "1" else 0
    if given.one:
        name, seed = given.one
        data = made(name, random.Random(seed))
        print(*data, sep="\n")
        check(name, data, deep=True)
        return 0
    each = max(1, min(1_000, given.inputs // len(WIRES)))
    jobs = [
        (name, f"{given.seed}/{part}", each) for part in range(-(-given.inputs // each // len(WIRES))) for name in WIRES
    ]
    total, start = Report(), time.monotonic()
    with ProcessPoolExecutor(given.workers) as pool:
        for number, report in enumerate(pool.map(_share, jobs, chunksize=4)):
            total.add(report)
            for finding in report.findings:
                print(finding, flush=True)
            if number % 500 == 499:
                print(f"{total.inputs:,} inputs, {len(total.findings)} findings", flush=True)
    seconds = time.monotonic() - start
    print(
        f"{total.inputs:,} inputs ({total.errors:,} ended in an error), {seconds:.0f} s, {len(total.findings)} findings"
    )
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
