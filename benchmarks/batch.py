"""Many inputs: items per second and CPU time per item, against a canned server on another core.

`nox -s bench-batch` installs the peers and prints the tables; the arguments after `--` go to this script:

    python benchmarks/batch.py                                  # 10,000 items, 1 to 1,000 at once
    python benchmarks/batch.py --items 500 --concurrency 1 10   # a part
    python benchmarks/batch.py --memory                         # the peak of memory for 1,000 and for 100,000 items

"calls alone" are the same calls of toolcast in as many tasks or threads, without outcomes, keys, order or progress:
what `map` adds is the message. The openai SDK, instructor and raw aiohttp make the same requests in tasks behind a
semaphore, as their users do. Each row is a process of its own, pinned to one core; a peer runs in `.nox/peers/NAME`.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from canned import Person, serving
from page import table

ROOT = Path(__file__).parents[1]
LEVELS = (1, 10, 100, 1_000)
MOST_THREADS = 200

Work = Callable[[str, int, int], object]
"""Make so many calls to the server at an address, so many at once; a coroutine function, or a sync one."""


def orchestrator(url: str, network: Any) -> Any:
    from toolcast import OpenAI, ToolOrchestratingLLM

    llm = OpenAI("gpt-5.4", api_key="none", base_url=f"{url}/Person/v1", network=network)
    return ToolOrchestratingLLM(Person, "Someone who lived in {place}", llm)


def places(items: int) -> Iterator[dict[str, str]]:
    return ({"place": f"street {number}"} for number in range(items))


async def in_tasks(call: Callable[[dict[str, str]], Awaitable[Any]], items: int, concurrency: int) -> None:
    """Make the calls in as many tasks, each of which takes the next item."""
    left = places(items)

    async def work() -> None:
        for place in left:
            await call(place)

    await asyncio.gather(*[work() for _ in range(concurrency)])


async def behind_semaphore(call: Callable[[dict[str, str]], Awaitable[Any]], items: int, concurrency: int) -> None:
    """Make the calls in a task for each item: the usual way."""
    semaphore = asyncio.Semaphore(concurrency)

    async def one(place: dict[str, str]) -> None:
        async with semaphore:
            await call(place)

    await asyncio.gather(*[one(place) for place in places(items)])


def alone(network: Any) -> Work:
    async def work(url: str, items: int, concurrency: int) -> None:
        make = orchestrator(url, network)
        await in_tasks(lambda place: make.acall(**place), items, concurrency)
        await make.llm.aclose()

    return work


def alone_in_threads(url: str, items: int, concurrency: int) -> None:
    make = orchestrator(url, None)
    left = places(items)

    def work(number: int) -> None:
        for place in left_of(left):
            make(**place)

    with ThreadPoolExecutor(concurrency) as pool:
        list(pool.map(work, range(concurrency)))


def left_of(left: Iterator[dict[str, str]]) -> Iterator[dict[str, str]]:
    """The rest of a generator that several threads read."""
    while True:
        try:
            yield next(left)
        except StopIteration:
            return
        except ValueError:  # another thread reads it just now
            continue


def mapped(network: Any) -> Work:
    def work(url: str, items: int, concurrency: int) -> None:
        count = 0
        for outcome in orchestrator(url, network).map(places(items), max_concurrency=concurrency, progress=False):
            count += outcome.ok
        assert count == items

    return work


def amapped(network: Any) -> Work:
    async def work(url: str, items: int, concurrency: int) -> None:
        make = orchestrator(url, network)
        count = 0
        async for outcome in make.amap(places(items), max_concurrency=concurrency, progress=False):
            count += outcome.ok
        assert count == items
        await make.llm.aclose()

    return work


async def raw_aiohttp(url: str, items: int, concurrency: int) -> None:
    aiohttp = importlib.import_module("aiohttp")
    request = orchestrator(url, None).preview(place="x").request
    headers = {name: value if isinstance(value, str) else value.reveal() for name, value in request.headers.items()}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def call(place: dict[str, str]) -> None:
            async with session.post(request.url, data=request.body, headers=headers) as response:
                await response.read()

        await behind_semaphore(call, items, concurrency)


def prompt(place: dict[str, str]) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"Someone who lived in {place['place']}"}]


async def openai_sdk(url: str, items: int, concurrency: int) -> None:
    openai = importlib.import_module("openai")
    client = openai.AsyncOpenAI(api_key="none", base_url=f"{url}/Person/v1")
    tools = [openai.pydantic_function_tool(Person)]

    async def call(place: dict[str, str]) -> Person:
        reply = await client.chat.completions.create(model="gpt-5.4", messages=prompt(place), tools=tools)
        return Person.model_validate_json(reply.choices[0].message.tool_calls[0].function.arguments)

    await behind_semaphore(call, items, concurrency)


async def instructor_client(url: str, items: int, concurrency: int) -> None:
    openai, instructor = (importlib.import_module(name) for name in ("openai", "instructor"))
    client = instructor.from_openai(openai.AsyncOpenAI(api_key="none", base_url=f"{url}/Person/v1"))

    async def call(place: dict[str, str]) -> Any:
        return await client.create(response_model=Person, model="gpt-5.4", messages=prompt(place))

    await behind_semaphore(call, items, concurrency)


ROWS: dict[str, tuple[str | None, Work]] = {
    "raw aiohttp, semaphore": (None, raw_aiohttp),
    "toolcast, calls alone, aiohttp": (None, alone("aiohttp")),
    "toolcast, `amap`, aiohttp": (None, amapped("aiohttp")),
    "toolcast, `map`, aiohttp": (None, mapped("aiohttp")),
    "toolcast, calls alone, httpx, async": (None, alone(None)),
    "toolcast, `amap`, httpx": (None, amapped(None)),
    "toolcast, calls alone, httpx, threads": (None, alone_in_threads),
    "toolcast, `map`, httpx": (None, mapped(None)),
    "openai SDK, semaphore": ("openai", openai_sdk),
    "instructor, semaphore": ("instructor", instructor_client),
}
"""The peer's environment, None for toolcast's, and the work by the row's name."""


def measure(name: str, url: str, items: int, concurrency: int) -> dict[str, float]:
    """Measure one row in this process, after a few calls that import what it needs."""
    work = ROWS[name][1]
    run(work, url, min(20, items), min(20, concurrency))
    wall, cpu = perf_counter(), process_time()
    run(work, url, items, concurrency)
    return {"cpu": (process_time() - cpu) / items, "wall": (perf_counter() - wall) / items}


def run(work: Work, url: str, items: int, concurrency: int) -> None:
    made = work(url, items, concurrency)
    if asyncio.iscoroutine(made):
        asyncio.run(made)


def peak(url: str, items: int) -> int:
    """Return the peak of memory of `map` over so many items, in bytes."""
    run(mapped("aiohttp"), url, 100, 10)
    tracemalloc.start()
    run(mapped("aiohttp"), url, items, 100)
    return tracemalloc.get_traced_memory()[1]


def python_of(peer: str | None) -> str | None:
    """Return the interpreter of a peer's environment, or None if it is not installed."""
    if peer is None:
        return sys.executable
    path = ROOT / ".nox" / "peers" / peer / "bin" / "python"
    return str(path) if path.is_file() else None


def in_process(arguments: list[str], python: str) -> Any:
    command = [python, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().rpartition("\n")[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--concurrency", type=int, nargs="+", default=LEVELS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", nargs="+", default=list(ROWS))
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--measure", nargs=2, metavar=("ROW", "URL"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        name, url = options.measure
        found: Any = peak(url, options.items) if name == "memory" else None
        print(json.dumps(found or measure(name, url, options.items, options.concurrency[0])))
        return
    with serving() as url:
        if options.memory:
            for items in (1_000, 100_000):
                found = in_process(["--measure", "memory", url, "--items", str(items)], sys.executable)
                print(f"{items:7} items: peak {found / 1e6:.2f} MB" if isinstance(found, int) else found, flush=True)
            return
        for concurrency in options.concurrency:
            print(f"\n{options.items} items, {concurrency} at once\n", flush=True)
            print(table(("client", "items/s", "CPU us an item"), lines(options, url, concurrency)), flush=True)


def lines(options: argparse.Namespace, url: str, concurrency: int) -> list[list[str]]:
    """Return the rows of the table for one concurrency: the least of the rounds, all rows in turn."""
    found: dict[str, list[Any]] = {name: [] for name in options.rows}
    for _ in range(options.rounds):
        for name, results in found.items():
            python = python_of(ROWS[name][0])
            threads = "threads" in name or name.endswith("`map`, httpx")
            if python is None or (threads and concurrency > MOST_THREADS):
                continue
            arguments = ["--measure", name, url, "--items", str(options.items), "--concurrency", str(concurrency)]
            results.append(in_process(arguments, python))
    return [[name, *shown(results)] for name, results in found.items()]


def shown(results: list[Any]) -> tuple[str, str]:
    """Return the items per second and the CPU time of the best round; a dash where it did not run."""
    good = [found for found in results if isinstance(found, dict)]
    if not good:
        return ("-", str(results[0])[:60] if results else "-")
    return (f"{1 / min(each['wall'] for each in good):,.0f}", f"{min(each['cpu'] for each in good) * 1e6:,.0f}")


if __name__ == "__main__":
    main()
