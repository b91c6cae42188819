"""The page while an answer streams: 2,000 pieces a second, in a real Chromium. `TOOLCAST_CHROMIUM` is its path.

Each text is streamed to the page by a server in this process. A task is what the page's thread does without a break,
and answers no input meanwhile; what counts is the time that the processor gave to it, so that other processes of the
machine do not. CPU is the sum of the tasks, in parts of the time that the stream took: below 1, the page keeps up.

    python benchmarks/web_page.py [--seconds 5] [--per-second 2000]
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from page import table
from playwright.sync_api import Browser, Page, sync_playwright

from browser.served import served
from toolcast import FunctionCallingLLM
from toolcast.events import Event, Finish, TextDelta
from toolcast.messages import Message
from toolcast.values.capabilities import LLMMetadata

PIECE = 6  # characters
LIMIT = 50  # milliseconds for which a task may block a frame
TRACED = ["toplevel", "disabled-by-default-devtools.timeline"]


def texts(size: int) -> dict[str, str]:
    """The texts by their names, each of `size` characters: of many blocks, and of one that grows."""
    mixed = (
        "## Part {n}\n\nSome *text* with `code`, a [link](https://example.org/{n}), $x_{n}^2$ and **more** words.\n\n"
        "- one\n- two\n  - nested\n\n```python\ndef f{n}(x):\n    return x + {n}\n```\n\n"
        "| a | b |\n|---|--:|\n| 1 | {n} |\n\n"
    )
    made = {
        "many blocks": "".join(mixed.replace("{n}", str(n)) for n in range(size // 100)),
        "one list": "".join(f"- item {n} with *some* words and `code`\n" for n in range(size // 20)),
        "one table": "| a | b | c |\n|---|---|---|\n" + "".join(f"| {n} | *b* | a `c` |\n" for n in range(size // 10)),
        "one block of code": "```python\n" + "".join(f"value_{n} = compute({n}, 'text')\n" for n in range(size // 20)),
        "one paragraph": " ".join(f"word{n} *and* more" for n in range(size // 10)),
    }
    return {name: text[:size] for name, text in made.items()}


class PacedLLM(FunctionCallingLLM):
    """Streams a text at so many pieces a second."""

    def __init__(self, text: str, per_second: int) -> None:
        super().__init__()
        self.seconds = 0.0
        self._text = text
        self._per_second = per_second

    @property
    def metadata(self) -> LLMMetadata:
        """The name of the model."""
        return LLMMetadata("paced", "test", True)

    async def _events(self, messages: Sequence[Message], *args: Any) -> AsyncIterator[Event]:
        begin = time.perf_counter()
        for number, at in enumerate(range(0, len(self._text), PIECE)):
            early = begin + number / self._per_second - time.perf_counter()
            if early > 0.002:
                await anyio.sleep(early)
            elif number % 20 == 0:
                await anyio.lowlevel.checkpoint()  # the server sends what there is
            yield TextDelta(self._text[at : at + PIECE])
        self.seconds = time.perf_counter() - begin
        yield Finish("end_turn")


@dataclass(frozen=True)
class Streamed:
    """One row: pieces a second, and the tasks of the page in milliseconds, the longest first."""

    name: str
    pieces: float
    tasks: Sequence[float]
    cpu: float

    @property
    def above(self) -> int:
        """The number of tasks above the limit."""
        return sum(task > LIMIT for task in self.tasks)

    @property
    def cells(self) -> list[str]:
        """The cells of the table."""
        return [self.name, f"{self.pieces:,.0f}", f"{self.tasks[0]:.0f}", f"{self.above}", f"{self.cpu:.2f}"]


def tasks_of(trace: bytes) -> list[float]:
    """Return the processor time of the tasks of the page's thread in milliseconds, the longest first."""
    events = json.loads(trace)["traceEvents"]
    named = {(each["pid"], each["tid"]) for each in events if each.get("args", {}).get("name") == "CrRendererMain"}
    times = dict[tuple[int, int], list[float]]()
    for each in events:
        place = (each["pid"], each["tid"])
        if place in named and each["name"].endswith("RunTask") and "tdur" in each:
            times.setdefault(place, []).append(each["tdur"] / 1000)
    return sorted(max(times.values(), key=sum), reverse=True)


def measure(browser: Browser, page: Page, name: str, text: str, per_second: int) -> Streamed:
    """Stream the text to a new chat."""
    llm = PacedLLM(text, per_second)
    with served(llm) as chat:
        page.goto(chat.url)
        page.wait_for_selector('#state[data-state="ready"]')
        page.get_by_role("textbox", name="Your message").fill("Go")
        browser.start_tracing(page=page, categories=TRACED)
        page.keyboard.press("Enter")
        # A question in each frame would be measured, too.
        done = "() => document.querySelector('.message.assistant:not(.live)') !== null"
        page.wait_for_function(done, polling=500, timeout=120_000)
        tasks = tasks_of(browser.stop_tracing())
    return Streamed(name, len(text) / PIECE / llm.seconds, tasks, sum(tasks) / 1000 / llm.seconds)


def rows(seconds: float, per_second: int) -> Iterator[Streamed]:
    """Measure each text."""
    with sync_playwright() as playwright:
        alone = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=os.environ.get("TOOLCAST_CHROMIUM"), args=alone)
        for name, text in texts(int(seconds * per_second * PIECE)).items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            yield measure(browser, page, name, text, per_second)
            page.close()
        browser.close()


def report(found: Sequence[Streamed]) -> str:
    """The table, and which texts are above the limit."""
    heads = ["streamed", "pieces/s", "longest task, ms", f"tasks above {LIMIT} ms", "CPU"]
    above = [row.name for row in found if row.above]
    limit = f"The limit is {LIMIT} ms for a task: {'above it: ' + ', '.join(above) if above else 'none is above it'}."
    return f"{table(heads, [row.cells for row in found])}\n\n{limit}"


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=5, help="how long each text is streamed")
    options.add_argument("--per-second", type=int, default=2000, help="pieces a second")
    wanted = options.parse_args()
    print(report(list(rows(wanted.seconds, wanted.per_second))))


if __name__ == "__main__":
    main()
