"""agent.py: one definition, and its conversations, which never meet."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel

from support.sync_and_async import API
from toolcast import (
    LATER,
    Agent,
    Configs,
    Engine,
    Permissions,
    Session,
    Settings,
    ToolcastError,
    ToolContext,
    ValidationError,
)
from toolcast.agents import ElfManager
from toolcast.chat import ChatMachine
from toolcast.errors import MissingLLMError, OutputTypeError, TurnFailed
from toolcast.messages import ToolCallPart
from toolcast.stores import MemoryStore
from toolcast.testing import ScriptedLLM, ScriptedRequest, use_llm


class Reply(BaseModel):
    text: str


class Shop:
    def __init__(self, owner: str) -> None:
        self.owner = owner


def stock(article: str, context: ToolContext[Shop]) -> str:
    """Return the stock."""
    return f"{context.deps.owner} has 3 of {article}"


def echo(request: ScriptedRequest) -> Any:
    """Call the tool, then answer with its result and all texts of the user."""
    last = request.messages[-1]
    texts = [message.text for message in request.messages if message.role == "user"]
    if last.role == "user":
        return ToolCallPart(f"c{len(request.messages)}", "stock", f'{{"article": "{last.text}"}}')
    return f"{texts}: {last.parts[0].content}"


def agent_of(**options: Any) -> Agent[Shop]:
    return Agent[Shop](ScriptedLLM(echo), [stock], **options)


def test_each_run_is_a_conversation_of_its_own(api: API) -> None:
    agent = agent_of()
    assert api.method(agent, "run", "tea", deps=Shop("Ann")).text == "['tea']: Ann has 3 of tea"
    first = api.method(agent, "run", "rice", deps=Shop("Bob"))
    assert first.text == "['rice']: Bob has 3 of rice"
    second = api.method(agent, "run", "salt", deps=Shop("Bob"), history=first.history)
    assert second.text == "['rice', 'salt']: Bob has 3 of salt"
    assert len(second.history) == 2 * len(first.history) == 8
    assert repr(agent) == "Agent(ScriptedLLM('scripted'), tools=[stock])"


async def test_streams() -> None:
    agent = agent_of()
    with agent.stream("tea", deps=Shop("Ann")) as events:
        assert [*events]
    async with agent.astream("tea", deps=Shop("Ann")) as awaited:
        assert [event async for event in awaited]
    assert (await awaited.result()).text == events.result().text == "['tea']: Ann has 3 of tea"


names = st.lists(st.sampled_from(["Ann", "Bob", "Cy", "Di"]), min_size=2, max_size=6)


@given(names, st.lists(st.integers(0, 3), min_size=6, max_size=6))
def test_tasks_never_meet(owners: list[str], pauses: list[int]) -> None:
    """Each conversation has its own messages and dependencies, in any interleaving."""
    agent = agent_of(instructions=lambda context: context.deps.owner)
    seen: dict[int, list[str]] = {}

    async def talk(number: int, owner: str) -> None:
        history: Any = ()
        for article in ("tea", "rice"):
            for _ in range(pauses[number]):
                await anyio.lowlevel.checkpoint()
            turn = await agent.arun(f"{article}{number}", deps=Shop(owner), history=history)
            seen.setdefault(number, []).append(turn.text)
            history = turn.history

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number, owner in enumerate(owners):
                tasks.start_soon(talk, number, owner)

    anyio.run(main)
    for number, owner in enumerate(owners):
        tea, rice = f"tea{number}", f"rice{number}"
        assert seen[number] == [f"[{tea!r}]: {owner} has 3 of {tea}", f"[{tea!r}, {rice!r}]: {owner} has 3 of {rice}"]


def test_two_hundred_at_once() -> None:
    agent = agent_of()

    async def main() -> list[str]:
        found = [""] * 200

        async def talk(number: int) -> None:
            found[number] = (await agent.arun(f"a{number}", deps=Shop(f"s{number}"))).text

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(talk, number)
        return found

    right = [f"['a{number}']: s{number} has 3 of a{number}" for number in range(200)]
    assert anyio.run(main) == right
    with ThreadPoolExecutor(16) as pool:
        turns = pool.map(lambda number: agent.run(f"a{number}", deps=Shop(f"s{number}")), range(200))
        assert [turn.text for turn in turns] == right


def test_the_output_is_typed_without_repeating_its_type(api: API) -> None:
    agent = Agent(ScriptedLLM(*[{"text": "Hi"}] * 2), output_cls=Reply)
    assert api.method(agent, "run", "Hello").output == Reply(text="Hi")
    assert agent.engine().submit("Hello").output == Reply(text="Hi")
    assert "output_cls=" in repr(agent)


def test_the_output_is_typed_after_an_approval_and_a_restart() -> None:
    def pay(amount: int) -> str:
        return f"{amount} paid"

    def agent(*answers: Any) -> Agent[Any, Reply]:
        return Agent(ScriptedLLM(*answers), [pay], output_cls=Reply, permissions=Permissions(approve="later"))

    store, done = MemoryStore(), ToolCallPart("2", "Reply", '{"text": "Done"}')
    with agent(ToolCallPart("1", "pay", '{"amount": 5}')).session(store, "ingrid") as session:
        assert session.run("Pay 5").end == "approval"
    with Session.resume("ingrid", agent(done), store) as session:
        turn = session.run(answers=[request.allow() for request in session.pending])
    assert turn.output == Reply(text="Done")

    waiting = agent(ToolCallPart("1", "pay", '{"amount": 5}')).run("Pay 5")
    answers = [request.allow() for request in waiting.pending]
    assert agent(done).run(answers=answers, history=waiting.history).output == Reply(text="Done")


def test_an_agent_begins_what_an_engine_is_taken_for() -> None:
    llm = ScriptedLLM(ToolCallPart("1", "ask_agent", '{"prompt": "x"}'), {"text": "deep"}, "Done.")
    helper = Agent(llm, output_cls=Reply)
    turn = Agent(llm, [helper.as_tool()]).run("Ask")
    assert '{"text":"deep"}' in str(turn.messages[1])
    assert isinstance(ElfManager(helper).engine, Engine)
    assert ChatMachine(helper).engine.config is helper.config
    assert Session(helper).engine is not Session(helper).engine
    for make in (Session, ElfManager, ChatMachine):
        with pytest.raises(TypeError, match=r"engine.*Engine or an Agent"):
            make(ScriptedLLM())  # type: ignore[arg-type]  # of a wrong type


def test_an_error_has_the_requests_of_the_turn_wherever_it_ran() -> None:
    def agent() -> Agent[Any, Reply]:
        return Agent(ScriptedLLM(*[{"text": 5}] * 3), output_cls=Reply)

    def failed(run: Callable[[], object]) -> Any:
        with pytest.raises(ToolcastError) as caught:
            run()
        return caught.value

    outer = Engine(
        ScriptedLLM(ToolCallPart("1", "ask_agent", '{"prompt": "x"}')), [agent().as_tool()], tool_errors="raise"
    )
    with agent().session(MemoryStore()) as session:
        around = failed(lambda: outer.submit("Ask"))
        errors = [
            failed(lambda: agent().run("Ask")),
            failed(lambda: session.run("Ask")),
            ElfManager(agent()).spawn("Ask").wait().error,
            around.__cause__,
        ]
    for error in errors:
        assert isinstance(error, ValidationError)
        assert ([attempt.number for attempt in error.attempts], error.provider) == ([1, 2, 3], "scripted")
        assert "max_attempts=4 allows another attempt (after 3 requests" in str(error)
    assert isinstance(around, TurnFailed) and len(around.attempts) == 1


def test_changed_copies() -> None:
    agent = agent_of(max_rounds=3)
    assert (agent.with_(max_rounds=5).config.max_rounds, agent.config.max_rounds) == (5, 3)
    assert agent.with_(tools=[]).tools == ()
    assert agent.with_(output_cls=Reply).config.output_cls is Reply


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda llm: Agent(llm, history=[]), TypeError, "history"),
        (lambda llm: Agent(llm, max_rounds=0), ValueError, "max_rounds=0 is not a number of requests"),
        (lambda llm: Agent(llm, settings=Settings(conversation="c1")), ValueError, "pass it to an Engine"),
        (lambda llm: Agent(llm, [Reply], output_cls=Reply), OutputTypeError, "several tools are named"),
        (lambda llm: Agent(llm).with_(rounds=1), TypeError, "rounds"),
        (lambda llm: Agent(llm).run("x", dep=1), TypeError, "did you mean deps="),
        (lambda llm: Agent(llm).run("x", output_cls=int), TypeError, r"run\(\) takes no 'output_cls'"),
        (lambda llm: Engine(llm, output_cls=int), TypeError, r"Engine\(\) takes no 'output_cls'"),
        (lambda llm: Agent(llm, [stock]).run("x"), TypeError, "requires deps"),
        (lambda llm: Agent(llm).run(), ValueError, "no message"),
    ],
)
def test_what_is_wrong_is_an_error_before_anything_is_sent(
    make: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    llm = ScriptedLLM("never")
    with pytest.raises(error, match=message):
        make(llm)
    assert not llm.requests


def test_a_conversation_has_dependencies_of_its_own(api: API) -> None:
    chat = agent_of().engine(deps=Shop("Ann"))
    assert api.method(chat, "submit", "tea").text == "['tea']: Ann has 3 of tea"
    assert api.method(chat, "submit", "tea", deps=Shop("Bob")).text.endswith("Bob has 3 of tea")
    with pytest.raises(TypeError, match="deps"):
        Agent(ScriptedLLM(), deps=Shop("Ann"))  # type: ignore[call-arg]  # what is refused


def test_a_definition_finds_its_llm_when_a_turn_begins(api: API) -> None:
    support = Agent(LATER, [stock])
    front = Agent(LATER, [support.as_tool("support")])
    assert repr(front) == "Agent(LATER, tools=[support])"
    with pytest.raises(MissingLLMError):
        support.run("tea")

    def answer(request: ScriptedRequest) -> Any:
        last = request.messages[-1]
        if last.role == "tool":
            return last.parts[0].content
        name = request.tools[0].name
        return ToolCallPart(name, name, '{"article": "tea"}' if name == "stock" else '{"prompt": "Is there tea?"}')

    for define in (Configs.use, use_llm):
        with define(llm=ScriptedLLM(answer)):
            assert api.method(front, "run", "tea", deps=Shop("Ann")).text == "Ann has 3 of tea"
            engine = Engine(LATER, [stock])
        assert isinstance(engine.llm, ScriptedLLM)
