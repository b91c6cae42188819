"""Sessions of a user whose agents have dependencies, instructions, validators, approvals, and tools with mistakes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.chunks import USAGE, call_deltas, delta, sse
from support.loopback import Loopback
from user.session import KEY, play, spoken

OPENING = f"""\
import asyncio, sys
from dataclasses import dataclass
from pydantic import BaseModel
from toolcast import Agent, FailTurn, OpenAI, Permissions, ToolContext, TryAgain
from toolcast.errors import TurnFailed

@dataclass
class Shop:
    customer: str
    prices: dict[str, float]

class Offer(BaseModel):
    item: str
    price: float

def price(item: str, context: ToolContext[Shop]) -> float:
    '''Return the price of an item.'''
    return context.deps.prices[item]

async def greet(context: ToolContext[Shop]) -> str:
    return f"You serve {{context.deps.customer}}."

def is_honest(context: ToolContext[Shop], offer: Offer) -> Offer:
    if offer.price != context.deps.prices[offer.item]:
        raise TryAgain(f"the price of {{offer.item}} is {{context.deps.prices[offer.item]}}")
    return offer

llm = OpenAI("m-1", base_url=sys.argv[1], api_key="{KEY}", max_retries=0)
ada, bob = Shop("Ada", {{"tea": 3.5}}), Shop("Bob", {{"tea": 4.0}})
"""


def reply(server: Loopback, text: str) -> None:
    server.answer(*spoken(*sse(delta(content=text), delta("stop"), USAGE)))


def calls(server: Loopback, *made: tuple[str, str, dict[str, Any]]) -> None:
    deltas = [call_deltas(json.dumps(arguments), name, id, index) for index, (id, name, arguments) in enumerate(made)]
    server.answer(*spoken(*sse(*(one for each in deltas for one in each), delta("tool_calls"), USAGE)))


def messages(server: Loopback, number: int = -1) -> list[dict[str, Any]]:
    """Return the messages of a request, by default of the last."""
    body: dict[str, Any] = json.loads(server.requests[number].body)
    sent: list[dict[str, Any]] = body["messages"]
    return sent


@pytest.mark.parametrize("way", ["agent.run({})", "asyncio.run(agent.arun({}))"], ids=["sync", "async"])
def test_each_turn_has_its_customer(way: str) -> None:
    with Loopback() as server:
        for price in ("3.5", "4.0"):
            calls(server, ("call_1", "price", {"item": "tea"}))
            reply(server, f"Tea is {price}.")
        ask_ada, ask_bob = (way.format(f"'What is tea?', deps={deps}") for deps in ("ada", "bob"))
        screen = play(
            f"""
            agent = Agent[Shop](llm, [price], instructions=greet)
            print({ask_ada}.text)
            print({ask_bob}.text)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["Tea is 3.5.", "Tea is 4.0."]
        systems = [messages(server, number)[0] for number in range(4)]
        assert [system["content"] for system in systems] == ["You serve Ada."] * 2 + ["You serve Bob."] * 2
        assert [messages(server, number)[-1]["content"] for number in (1, 3)] == ["3.5", "4.0"]


def test_forgotten_dependencies_are_an_error_and_nothing_is_sent() -> None:
    with Loopback() as server:
        screen = play("Agent(llm, [price]).run('What is tea?')", server, opening=OPENING)
        assert screen.code == 1
        assert screen.last == (
            "TypeError: the tool price requires deps (its context is a ToolContext[Shop]), and the turn has none: "
            "pass deps= to run() or submit(), or to the Engine"
        )
        assert server.requests == []


def test_an_option_of_the_llm_is_named_as_that_of_the_agent() -> None:
    screen = play("Agent(llm, system_prompt='Be brief.')", opening=OPENING)
    assert screen.last == "TypeError: Agent() takes no 'system_prompt': pass instructions=..."
    screen = play("Agent(llm, instructions=5)", opening=OPENING)
    assert screen.last == (
        "TypeError: instructions: expected str, a function of the ToolContext, a list of these, or None, got int"
    )


def test_a_wrong_offer_goes_back_to_the_model() -> None:
    with Loopback() as server:
        calls(server, ("call_1", "Offer", {"item": "tea", "price": 1}))
        calls(server, ("call_2", "Offer", {"item": "tea", "price": 3.5}))
        screen = play(
            """
            agent = Agent[Shop, Offer](llm, output_cls=Offer, output_validators=is_honest)
            print(agent.run("Offer me tea.", deps=ada).output)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == ["item='tea' price=3.5"]
        assert messages(server)[-1]["content"] == "The tool failed: the price of tea is 3.5"


def test_a_mistake_in_a_tool_shows_although_the_model_is_content() -> None:
    with Loopback() as server:
        calls(server, ("call_1", "broken", {}))
        reply(server, "All good!")
        screen = play(
            """
            def broken() -> str:
                '''Do it.'''
                return undefined_name

            print(Agent(llm, [broken]).run("Do it.").text)
            """,
            server,
            opening=OPENING,
        )
        assert (screen.code, screen.lines) == (0, ["All good!"])
        assert "the tool broken raised NameError" in screen.err
        assert "Traceback" in screen.err
        assert "NameError: name 'undefined_name' is not defined" in screen.err


@pytest.mark.parametrize("where", ["Agent(llm, [broken], tool_errors='raise')", "Agent(llm, [ending])"])
def test_a_failed_turn_is_raised_with_what_it_has_done(where: str) -> None:
    name = "broken" if "broken" in where else "ending"
    with Loopback() as server:
        calls(server, ("call_1", name, {}))
        screen = play(
            f"""
            import logging
            logging.getLogger("toolcast").setLevel(logging.ERROR)

            def broken() -> str:
                raise LookupError("no such shop")

            def ending() -> str:
                raise FailTurn("no such shop")

            try:
                {where}.run("Do it.")
            except TurnFailed as error:
                print(error, "|", error.turn.end, error.turn.rounds, error.tool_name)
            """,
            server,
            opening=OPENING,
        )
        (line,) = screen.went_well()
        assert line.startswith(f"the tool {name} ended the turn: ")
        assert line.endswith(f"no such shop | error 1 {name}")
        assert len(server.requests) == 1


def test_all_calls_are_approved_by_one_question() -> None:
    with Loopback() as server:
        calls(server, ("call_1", "price", {"item": "tea"}), ("call_2", "price", {"item": "gold"}))
        reply(server, "Tea is 3.5.")
        screen = play(
            """
            def ask(requests):
                print("May these run?", [request.arguments for request in requests])
                return [request.allow() for request in requests if "gold" not in request.arguments]

            agent = Agent[Shop](llm, [price], permissions=Permissions(approve_all=ask))
            print(agent.run("Prices?", deps=ada).text)
            """,
            server,
            opening=OPENING,
        )
        assert screen.went_well() == [
            """May these run? ['{"item": "tea"}', '{"item": "gold"}']""",
            "Tea is 3.5.",
        ]
        assert [message["content"] for message in messages(server)[-2:]] == [
            "3.5",
            "The tool failed: permission denied: it was not approved",
        ]
