"""Checks of the real services whose keys are in the environment: `nox -s live`.

    python tests/live_checks.py [--provider NAME[:MODEL]] ... [--usd CAP] [--out FILE]

Each model gets the same checks, one after another, until they have cost CAP dollars. `--out` writes the table as
Markdown. The exit code is 1 if a check failed. A setting that a service refuses is a failure (`Settings(adapt=False)`).

* `nox -s live -- --provider anthropic --provider groq:openai/gpt-oss-120b --out live.md` checks these two, the second
  with another model than that of `MODELS` in `tests/live_checks.py`, and writes the table with its date.
* By the price list it costs at most ten cents or so per provider. Once $0.50 are spent, no further check is begun;
  `--usd 2` allows more. A model of unknown price is counted at $5 and $25 per million tokens.
* A failure is a line with the error of the service. Run that provider again: a model may answer wrongly once. If it
  fails twice, read the service's reference, correct the row or the adapter, and make its double refuse the same.
* "skipped" has a reason, such as a cache that the response does not show. Keys are masked; account names are not, so
  read the table before you publish it.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel

import toolcast
from toolcast.apps.api_keys import KeyStoreError, key_owner, key_variables
from toolcast.values.credentials import read_variable
from toolcast.values.hooks import CallInfo, RequestInfo

MODELS = (
    "openai:gpt-6-luna",
    "anthropic:claude-haiku-5-5",
    "google:gemini-3.8-flash",
    "mistral:mistral-medium-3.5",
    "cohere:command-a-plus-05-2026",
    "groq:openai/gpt-oss-20b",
    "deepseek:deepseek-flash",
    "xai:grok-4.5",
    "moonshot:kimi-k3",
    "qwen:qwen3.8-max",
    "openrouter:google/gemini-3.8-flash",
    "bedrock:global.amazon.nova-2-lite-v1:0",
)
"""A cheap model of each provider, with every feature that its others have."""

SETTINGS = toolcast.Settings(max_tokens=4000, timeout=60, adapt=False)
ASSUMED = toolcast.Prices(input=5, output=25)
"""The prices that count against the cap for a model of unknown price."""

LLM = toolcast.FunctionCallingLLM


class City(BaseModel):
    name: str
    country: str


class Code(BaseModel):
    code: int


class Painted(BaseModel):
    """The colour of an image, in one English word."""

    colour: str


class Meter(toolcast.Hooks):
    """The usage of a check, and the settings that its requests leave out."""

    def __init__(self) -> None:
        self.usages: list[toolcast.Usage] = []
        self.left_out: set[str] = set()

    def request(self, call: CallInfo, request: RequestInfo) -> None:
        self.left_out.update(() if request.http is None else request.http.notes)

    def response(self, call: CallInfo, response: toolcast.events.ChatResponse, seconds: float) -> None:
        self.usages.append(response.usage)

    @property
    def cost(self) -> Decimal:
        costs = [(usage, usage.cost) for usage in self.usages]
        return sum((ASSUMED.cost(usage) if cost is None else cost for usage, cost in costs), Decimal(0))


class Outcome(NamedTuple):
    """The result of one check: `pass`, `FAIL`, `skipped` or `not run`, with its reason."""

    model: str
    check: str
    result: str
    reason: str = ""
    seconds: float = 0
    cost: Decimal = Decimal(0)

    @property
    def cell(self) -> str:
        return f"{self.result} {self.seconds:.1f} s" if self.result in ("pass", "FAIL") else self.result


def code_of(colour: str) -> str:
    """Look up the code of a colour."""
    return f"The code of {colour} is 7391."


def expect(found: object, wanted: str) -> None:
    assert wanted in str(found), f"expected {wanted!r} in {found!r}"


# A check raises an exception if it fails, and returns a reason if it shows nothing about the model.


def call(llm: LLM, meter: Meter) -> None:
    expect(toolcast.ToolOrchestratingLLM(City, "The capital of France", llm)().name, "Paris")


def stream(llm: LLM, meter: Meter) -> None:
    *_, last = toolcast.ToolOrchestratingLLM(City, "The capital of France", llm).stream()
    expect(last.name, "Paris")


def tools(llm: LLM, meter: Meter) -> None:
    expect(toolcast.Engine(llm, [code_of], max_rounds=4).submit("What is the code of amber?").text, "7391")


def typed_turn(llm: LLM, meter: Meter) -> None:
    engine = toolcast.Engine(llm, [code_of], max_rounds=4)
    expect(engine.submit("What is the code of amber?", output_cls=Code).output.code, "7391")


def thinking(llm: LLM, meter: Meter, *, on: bool) -> str | None:
    if llm.metadata.capabilities.thinking is False:
        return "the model does not think"
    response = llm.chat("What is 17 * 23? Answer with the number.", settings=toolcast.Settings(thinking=on))
    expect(response.text, "391")
    if notes := [note for note in meter.left_out if note.startswith("thinking")]:
        return f"{notes[0]} not sent, as the model does not support it"
    thinks = response.usage.reasoning_tokens or any(part.type == "thinking" for part in response.message.parts)
    if on and not thinks:
        return "the response shows no thoughts"
    return "the model thinks all the same" if thinks and not on else None


def image(llm: LLM, meter: Meter) -> str | None:
    if llm.metadata.capabilities.images is False:
        return "the model takes no images"
    part = toolcast.messages.ImagePart(data=red_png(), media_type="image/png")
    question = [toolcast.user("Which colour is this image?", part)]
    expect(toolcast.ToolOrchestratingLLM(Painted, question, llm)().colour.lower(), "red")
    return None


def cache(llm: LLM, meter: Meter) -> str | None:
    rules = "\n".join(f"Rule {number}: item {number} is on shelf {number * 7 % 100}." for number in range(350))
    for number in (3, 5):
        messages = [toolcast.system(rules), toolcast.user(f"On which shelf is item {number}?")]
        response = llm.chat(messages, settings=toolcast.Settings(cache="auto"))
        expect(response.text, str(number * 7))
    return None if meter.usages[-1].cache_read_tokens else "the second response shows no tokens from a cache"


def history(llm: LLM, meter: Meter) -> None:
    engine = toolcast.Engine(llm, [code_of], max_rounds=4)
    engine.submit("Look up the code of amber, and answer only: done.")
    expect(engine.submit("Which code was it?").text, "7391")


CHECKS: Mapping[str, Callable[[LLM, Meter], str | None]] = {
    "call": call,
    "stream": stream,
    "tools": tools,
    "typed turn": typed_turn,
    "thinking on": partial(thinking, on=True),
    "thinking off": partial(thinking, on=False),
    "image": image,
    "cache": cache,
    "history": history,
}


def red_png() -> bytes:
    """Return a red image of 64 x 64 pixels."""
    rows = zlib.compress((b"\0" + b"\xe0\x10\x10" * 64) * 64)
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)), (b"IDAT", rows), (b"IEND", b""))
    packed = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
              for kind, data in chunks)  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def run(models: Sequence[str], connect: Callable[[str], LLM], usd: Decimal) -> Iterator[Outcome]:
    """Yield the outcome of each check of each model."""
    spent = Decimal(0)
    for model in models:
        llm = connect(model)
        for title, check in CHECKS.items():
            if spent >= usd:
                yield Outcome(model, title, "not run", f"the cap of ${usd:f} was reached")
                continue
            meter, began = Meter(), time.perf_counter()
            try:
                with toolcast.hooks(meter):
                    reason = check(llm, meter) or ""
                result = "skipped" if reason else "pass"
            except Exception as error:  # a check may raise anything
                result, reason = "FAIL", f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]
            seconds = time.perf_counter() - began
            spent += meter.cost
            yield Outcome(model, title, result, reason, seconds, meter.cost)


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes in Markdown, with a row for each model, and the reasons below."""
    title = f"# Live checks of toolcast {toolcast.__version__}, {datetime.now(UTC):%Y-%m-%d}"
    lines = [title, "", f"| model | {' | '.join(CHECKS)} | US$ |", f"|---{'|---' * len(CHECKS)}|---:|"]
    reasons: dict[tuple[str, str], list[str]] = {}
    for model in dict.fromkeys(outcome.model for outcome in outcomes):
        own = {outcome.check: outcome for outcome in outcomes if outcome.model == model}
        cells = [own[check].cell if check in own else "not run" for check in CHECKS]
        lines.append(f"| {model} | {' | '.join(cells)} | {sum(outcome.cost for outcome in own.values()):.4f} |")
        for outcome in own.values():
            if outcome.reason:
                reasons.setdefault((model, f"{outcome.result}: {outcome.reason}"), []).append(outcome.check)
    return "\n".join([*lines, "", *(f"* {model}: {', '.join(each)}: {why}" for (model, why), each in reasons.items())])


def variables_of(model: str) -> tuple[str, ...]:
    """Return the environment variables of the key for a model."""
    return key_variables()[key_owner(model.partition(":")[0])]


def connected(model: str) -> LLM:
    """Return the LLM for the checks."""
    return toolcast.llm(model, max_retries=1, settings=SETTINGS)


def main(arguments: Sequence[str] | None = None, connect: Callable[[str], LLM] = connected) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--provider", action="append", metavar="NAME[:MODEL]")
    parser.add_argument("--usd", type=Decimal, default=Decimal("0.50"), metavar="CAP")
    parser.add_argument("--out", type=Path, metavar="FILE")
    given = parser.parse_args(arguments)
    usual = {model.partition(":")[0]: model for model in MODELS}
    models = [usual.get(name, name) for name in given.provider or MODELS]
    try:
        keys = {model: read_variable(variables_of(model)) for model in models}
    except KeyStoreError as error:
        parser.error(str(error))
    if nameless := [model for model in models if ":" not in model]:
        parser.error(f"no model is set for {', '.join(nameless)}: write NAME:MODEL")
    with_key = [model for model in models if keys[model]]
    if not with_key:
        names = ", ".join(name for model in models for name in variables_of(model))
        print(f"No key was found, so that nothing was checked. These environment variables are read: {names}")
        return 0
    outcomes: list[Outcome] = []
    try:
        for each in run(with_key, connect, given.usd):
            outcomes.append(each)
            print(f"{each.model}: {each.check}: {each.result}, ${each.cost:.4f} {each.reason}".rstrip(), flush=True)
    except KeyboardInterrupt:
        print("Interrupted: the table has the checks until here.")
    missing = [f"* {model}: no key ({' or '.join(variables_of(model))})" for model in models if not keys[model]]
    written = "\n".join([table(outcomes), *missing, ""])
    print(f"\n{written}", flush=True)
    if given.out:
        given.out.write_text(written, encoding="utf-8")
    return int(any(outcome.result == "FAIL" for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
