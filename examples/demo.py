"""The main job, on a model that runs inside this process: no key, no server.

A typed extraction; the same one streamed, the object growing on the terminal; an async call; a parallel list.
Run it with `nox -s demo`, or with `pip install 'toolcast[local]'` and `python examples/demo.py`.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import BaseModel

from toolcast import LlamaCpp, Result, Settings, ToolOrchestratingLLM


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


class Item(BaseModel):
    quantity: int
    name: str
    price: float


class Invoice(BaseModel):
    """An invoice."""

    seller: str
    items: list[Item]
    total: float


# The model is small. One worked example helps it more than any instruction: an object among the messages becomes
# the tool call that the model would have made.
ONE_PERSON = [
    ("user", "In Lima our guest was Tom Reed (34)."),
    ("assistant", Person(name="Tom Reed", age=34, city="Lima")),
    ("user", "{text}"),
]
ONE_INVOICE = [
    ("user", "Paper Shop: 3 x Pen @ 1.50, 2 x Book @ 8.00. Total 20.50"),
    (
        "assistant",
        Invoice(
            seller="Paper Shop",
            items=[Item(quantity=3, name="Pen", price=1.5), Item(quantity=2, name="Book", price=8.0)],
            total=20.5,
        ),
    ),
    ("user", "{text}"),
]
TWO_PERSONS = [
    ("user", "Two guests spoke: Tom Reed (34, Lima) and Ana Cruz (45, Quito)."),
    ("assistant", [Person(name="Tom Reed", age=34, city="Lima"), Person(name="Ana Cruz", age=45, city="Quito")]),
    ("user", "{text}"),
]

OSLO = "Last week in Oslo we met Ingrid Dahl (51)."
TOOLS = "ACME Tools: 2 x Hammer @ 12.50, 1 x Saw @ 20.00. Total 45.00"
SPEAKERS = "Three speakers came: Ken Sato (29, Osaka), Ruth Adler (67, Vienna) and Ingrid Dahl (51, Oslo)."


@contextmanager
def section(title: str, text: str) -> Iterator[None]:
    """A heading, the text that is read, and how long it took."""
    print(f"\n{title}\n  {text}")
    began = time.perf_counter()
    yield
    print(f"  {time.perf_counter() - began:.2f} s")


def show(result: Result[object]) -> None:
    """What came out, and what it cost."""
    outputs = result.output if isinstance(result.output, list) else [result.output]
    for output in outputs:
        print(f"  -> {output!r}")
    print(f"  {result.usage.input_tokens} tokens in, {result.usage.output_tokens} out")


def fitted(line: str) -> str:
    """Return the line as it fits one row of the terminal, which cannot take back more: of a longer one the end."""
    columns = shutil.get_terminal_size().columns - 1  # in the last column some terminals begin a new row
    return line if len(line) <= columns else f"  -> …{line[len(line) - max(columns - 6, 0) :]}"


def show_growing(make: ToolOrchestratingLLM[Invoice], text: str) -> None:
    """Print every state of the object: in place on a terminal, line by line elsewhere."""
    stream = make.stream(text=text)
    for invoice in stream:
        line = f"  -> {invoice!r}"
        print(f"\r\x1b[2K{fitted(line)}" if sys.stdout.isatty() else line, end="" if sys.stdout.isatty() else "\n")
    if sys.stdout.isatty():
        print(f"\r\x1b[2K  -> {stream.final()!r}")
    print(f"  {stream.usage.input_tokens} tokens in, {stream.usage.output_tokens} out")


def main() -> None:
    """Run the four parts."""
    print("Loading SmolLM2 (135 million parameters); the first time it is fetched, 98 MB.")
    llm = LlamaCpp(settings=Settings(temperature=0, max_tokens=300, extra={"cache_prompt": False}))
    read_person = ToolOrchestratingLLM(Person, ONE_PERSON, llm)

    with section("A typed extraction", OSLO):
        show(read_person.run(text=OSLO))
    with section("Streamed: the object grows while the model writes", TOOLS):
        show_growing(ToolOrchestratingLLM(Invoice, ONE_INVOICE, llm), TOOLS)
    with section("Async", OSLO):
        show(asyncio.run(read_person.arun(text=OSLO)))
    with section("Parallel tool calls: a list of objects", SPEAKERS):
        show(ToolOrchestratingLLM(Person, TWO_PERSONS, llm, allow_parallel_tool_calls=True).run(text=SPEAKERS))


if __name__ == "__main__":
    main()
