"""State that several threads share: each subject is used by all of them at once, and every result must be right.

A thread may be suspended between any two steps of the interpreter. Here it often is: the interval is short, and a
tracer lets other threads run between two lines, as one of coverage may. Work that is done twice is not a fault; a wrong
result is.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from threading import Barrier, Thread
from types import FrameType
from typing import Any

import pytest
from pydantic import BaseModel

from toolcast import Engine, Hooks, Message, Session, Settings, ToolCallPart, hooks, tool_result, user
from toolcast.agents.engine.conversation import Conversation
from toolcast.chat.chat_context import NOTHING_STREAMED, Streamed
from toolcast.errors import BadRequest
from toolcast.events import TextDelta
from toolcast.messages import ImagePart, ToolResultPart, assistant
from toolcast.parsing.partial_instances import partial_class
from toolcast.providers.base import RequestInput
from toolcast.providers.chat_completions.adapter import OpenAIChatAdapter
from toolcast.providers.chat_completions.services import SERVICES
from toolcast.providers.http_adapter import cache_by_options
from toolcast.stores import MemoryStore
from toolcast.testing import Recorded, ReplayNetwork, ScriptedLLM
from toolcast.text.text_buffer import JOIN_THRESHOLD, TextBuffer
from toolcast.values.hooks import collect_hooks
from toolcast.values.http_request import HTTPRequest
from toolcast.values.tool_spec import ToolSpec

THREADS = 4


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let the interpreter switch between threads as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def trace_lines(frame: FrameType, event: str, argument: object) -> Any:
    """Let other threads run before one of four lines."""
    if random.random() < 0.25:
        time.sleep(0)
    return trace_lines


def together(*functions: Callable[[], Any]) -> list[Any]:
    """Run the functions at the same time, each in a thread, and return their results. Raise the first error."""
    barrier, results, errors = Barrier(len(functions)), [None] * len(functions), list[BaseException]()

    def run(place: int, function: Callable[[], Any]) -> None:
        try:
            barrier.wait()
            sys.settrace(trace_lines)
            results[place] = function()
        except BaseException as error:  # raised below, in the thread of the test
            errors.append(error)

    threads = [Thread(target=run, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in errors:
        raise error
    return results


# Subjects: each function is one round.


def text_of_a_chat() -> None:
    """Readers of a partial answer get its text, while it grows."""
    values: list[Streamed] = [NOTHING_STREAMED]

    def stream() -> None:
        for number in range(20):
            values.append(values[-1].with_event(TextDelta(f"{number} ")))

    def read() -> None:
        for _ in range(20):
            value = values[-1]
            assert value.text == "".join(f"{number} " for number in range(len(value)))

    together(stream, *[read] * THREADS)


def text_of_a_response() -> None:
    """Readers of a growing text get its beginning, also while its newest chunks are joined."""
    buffer, ended = TextBuffer(), list[bool]()
    blocks = [f"{number} " * JOIN_THRESHOLD for number in range(30)]

    def write() -> None:
        for number in range(len(blocks)):
            buffer.fresh.extend([f"{number} "] * JOIN_THRESHOLD)
            buffer.join()
        ended.append(True)

    def read() -> None:
        while not ended:
            assert "".join(blocks).startswith(buffer.whole())

    together(write, read, read)


def classes_of_partial_objects() -> None:
    """All threads get one class for the partial objects of a type, so that equal ones are equal."""
    model = type("Made", (BaseModel,), {"__annotations__": {"name": str}})
    first, *others = together(*[partial(partial_class, model)] * THREADS)
    assert all(each is first for each in others)


def encoders_of_requests() -> None:
    """Each thread gets the encoder of its own settings."""
    make = cache_by_options(lambda options, settings: (options.model, settings.temperature))

    def encode(number: int) -> None:
        settings = Settings(temperature=number / 10)
        for _ in range(20):
            tools = (ToolSpec("look", "Look.", {"type": "object"}),)  # equal tools are compared
            request = RequestInput(f"m-{number}", (user("Hello."),), tools)
            assert make(request, settings) == (f"m-{number}", number / 10)

    together(*[partial(encode, number) for number in range(THREADS)])


def media_that_were_refused() -> None:
    """No refusal is forgotten when another one is taken back."""
    adapter = OpenAIChatAdapter(SERVICES["openai"])
    images = [ImagePart(url=f"https://example.com/{number}.png") for number in range(12)]
    refusal = BadRequest("the image cannot be read", status=400)

    def asked(image: ImagePart) -> RequestInput:
        return RequestInput("m", (user("Look.", image), assistant("Yes."), user("Again.")))

    def refuse(mine: list[ImagePart]) -> None:
        for image in mine:
            adapter.adapt_to(refusal, asked(image), Settings())

    def take_back() -> None:
        for _ in range(12):
            adapter.take_back(asked(ImagePart(url="https://example.com/other.png")))

    together(partial(refuse, images[:6]), partial(refuse, images[6:]), take_back, take_back)
    sent = adapter.request(RequestInput("m", (user(*images), assistant("Yes."), user("Again."))), Settings()).body
    assert b"example.com" not in sent


def hooks_of_the_process() -> None:
    """Hooks that are removed in other threads leave those of this one."""
    kept = [Hooks() for _ in range(3)]
    handles = [hooks.add(each) for each in kept]

    def add_and_remove() -> None:
        for _ in range(10):
            hooks.add(Hooks(), Hooks()).remove()

    try:
        together(*[add_and_remove] * THREADS)
        assert [each for each in collect_hooks() if each in kept] == kept
    finally:
        for handle in handles:
            handle.remove()


def answers_of_a_script() -> None:
    """Each request gets an answer of its own."""
    llm = ScriptedLLM(*[f"answer {number}" for number in range(THREADS * 4)])

    def ask() -> list[str]:
        return [llm.chat([user("Hello.")]).text for _ in range(4)]

    found = [text for texts in together(*[ask] * THREADS) for text in texts]
    assert sorted(found) == sorted(f"answer {number}" for number in range(THREADS * 4))


def recorded_responses() -> None:
    """Each request gets a response of its own, and all of them are closed at the end."""
    network = ReplayNetwork(*[Recorded.of(str(number)) for number in range(THREADS * 20)])
    request = HTTPRequest("POST", "https://example.com/", {}, b"")

    def ask() -> list[bytes]:
        bodies: list[bytes] = []
        for _ in range(20):
            reply = network.open(request, connect=None, read=None)
            bodies.append(reply.read())
            reply.close()
        return bodies

    found = [int(body) for bodies in together(*[ask] * THREADS) for body in bodies]
    assert sorted(found) == list(range(THREADS * 20))
    assert (network.open_replies, network.closed_replies) == (0, THREADS * 20)


def snapshots_of_a_turn() -> None:
    """A snapshot that is taken during a turn has each call that has run as one that has: it must not run again."""
    conversation, effects = Conversation(), list[str]()
    ended: list[bool] = []

    def run_turn() -> None:
        for number in range(20):
            id = f"call-{number}"
            conversation.add(assistant(ToolCallPart(id, "pay", "{}")))
            conversation.started.update([id])
            effects.append(id)
            conversation.add(tool_result(id, "paid"))
            conversation.mark_answered(id)
        ended.append(True)

    def take() -> None:
        while not ended:
            before = set(effects)
            state = conversation.state()
            answered = {
                part.call_id for each in state.history for part in each.parts if isinstance(part, ToolResultPart)
            }
            assert before <= answered | state.started

    together(run_turn, take, take)


def snapshots_with_messages_that_wait() -> None:
    """A snapshot has each injected message once."""
    conversation = Conversation()
    sent = [user(str(number)) for number in range(20)]

    def run_turn() -> None:
        for number in range(0, 20, 2):
            conversation.injected += sent[number : number + 2]
            conversation.pop_injected()

    def take() -> None:
        for _ in range(20):
            state = conversation.state()
            found = [*state.history, *state.injected]
            assert found == sent[: len(found)]
            assert len(found) % 2 == 0

    together(run_turn, take, take)


def saved_sessions() -> None:
    """What several threads save is written once."""
    store = MemoryStore()
    with Session(Engine(ScriptedLLM("Yes.")), store=store) as session:
        for number in range(3):
            session.engine.inject(user(str(number)))
            together(*[session.save] * THREADS)
        written = [record["message"] for record in store.read(session.id) if record["kind"] == "message"]
    assert [Message.from_dict(message).text for message in written] == [str(number) for number in range(3)]


SUBJECTS = (
    text_of_a_chat,
    text_of_a_response,
    classes_of_partial_objects,
    encoders_of_requests,
    media_that_were_refused,
    hooks_of_the_process,
    answers_of_a_script,
    recorded_responses,
    snapshots_of_a_turn,
    snapshots_with_messages_that_wait,
    saved_sessions,
)


@pytest.mark.parametrize("rounds", [2, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.__name__)
def test_threads_that_share_state_get_right_results(subject: Callable[[], None], rounds: int) -> None:
    for _ in range(rounds):
        subject()
