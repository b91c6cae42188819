"""The calls of `toolcast demo`. Their source is shown before they run, so it is written to be read on a terminal.

The model is small. One worked example helps it more than any instruction: an object among the messages becomes the tool
call that the model would have made.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel

from ..llms.function_calling_llm import FunctionCallingLLM
from ..structured.call import Result
from ..structured.object_streams import ObjectStream
from ..structured.orchestrator import ToolOrchestratingLLM


class Item(BaseModel):
    """An item."""

    quantity: int
    name: str
    price: float


class Invoice(BaseModel):
    """An invoice."""

    seller: str
    items: list[Item]
    total: float


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


PAPER_SHOP: list[tuple[str, object]] = [
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
TWO_GUESTS: list[tuple[str, object]] = [
    ("user", "Two guests spoke: Tom Reed (34, Lima) and Ana Cruz (45, Quito)."),
    ("assistant", [Person(name="Tom Reed", age=34, city="Lima"), Person(name="Ana Cruz", age=45, city="Quito")]),
    ("user", "{text}"),
]


def stream_invoice(llm: FunctionCallingLLM) -> ObjectStream[Invoice]:
    """Stream an invoice. PAPER_SHOP is the prompt: an example and {text}."""
    text = "ACME Tools: 2 x Hammer @ 12.50, 1 x Saw @ 20.00. Total 45.00"
    read_invoice = ToolOrchestratingLLM(Invoice, PAPER_SHOP, llm)
    return read_invoice.stream(text=text)


def stream_items(llm: FunctionCallingLLM) -> Iterator[Item]:
    """Stream the items of an invoice, each once, complete and validated."""
    text = "Tea House: 2 x Cup @ 4.50, 1 x Pot @ 30.00. Total 39.00"
    read_invoice = ToolOrchestratingLLM(Invoice, PAPER_SHOP, llm)
    return read_invoice.stream(text=text).items("items")


def stream_persons(llm: FunctionCallingLLM) -> ObjectStream[list[Person]]:
    """Stream a list: the model makes a tool call for each person."""
    text = "Three speakers came: Ken Sato (29, Osaka), "
    text += "Ruth Adler (67, Vienna) and Ingrid Dahl (51, Oslo)."
    read_persons = ToolOrchestratingLLM(Person, TWO_GUESTS, llm, allow_parallel_tool_calls=True)
    return read_persons.stream(text=text)


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def call_function(llm: FunctionCallingLLM) -> Result[int]:
    """Let the model write the arguments, and call the function."""
    calculate = ToolOrchestratingLLM(multiply, "What is {question}?", llm)
    return calculate.run(question="17 times 23")


COMMAND = ("get", "name, age int", "Ingrid is 51.", "-m", "local", "--no-log")
"""The words of a command line."""
