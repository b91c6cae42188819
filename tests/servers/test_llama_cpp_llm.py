"""`LlamaCpp`: the model inside this process, through every API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from support.sync_and_async import API
from toolcast import LlamaCpp, Settings, Timeouts, ToolOrchestratingLLM, is_partial
from toolcast.errors import NotFound, OutputTruncated
from toolcast.llms.local.llama_server import ServerOptions

pytestmark = pytest.mark.networked

# Temperature 0 gives the same answer again only where nothing is taken from the cache.
EXACT = Settings(temperature=0, max_tokens=120, extra={"cache_prompt": False})


class Person(BaseModel):
    """A person who is mentioned in a text."""

    name: str
    age: int
    city: str


class People(BaseModel):
    """The people in a text."""

    people: list[Person]


class Event(BaseModel):
    """An event that takes place."""

    title: str
    place: str


TOM = Person(name="Tom Reed", age=34, city="Lima")
INGRID = Person(name="Ingrid Dahl", age=51, city="Oslo")
ONE = [("user", "In Lima our guest was Tom Reed (34)."), ("assistant", TOM), ("user", "{text}")]
MET = "Last week in Oslo we met Ingrid Dahl (51)."
THREE = "Three speakers came: Ken Sato (29, Osaka), Ruth Adler (67, Vienna) and Ingrid Dahl (51, Oslo)."


@pytest.fixture(scope="module")
def llm(smollm2: Path) -> Iterator[LlamaCpp]:
    # One thread: llama.cpp's wait for each other by spinning, and a core may be taken.
    with LlamaCpp(smollm2, server=ServerOptions(threads=1), settings=EXACT) as made:
        yield made


@pytest.fixture(scope="module")
def find(llm: LlamaCpp) -> ToolOrchestratingLLM[Person]:
    return ToolOrchestratingLLM(Person, ONE, llm)


def test_an_extraction(find: ToolOrchestratingLLM[Person], api: API) -> None:
    result = api.run(find, text=MET)
    assert result.output == INGRID
    assert result.repairs == ()
    assert (result.response.provider, result.response.stop_reason) == ("llama.cpp", "tool_use")
    assert result.usage.input_tokens > 20
    assert result.usage.output_tokens > 10


def test_a_stream_grows_to_the_same(find: ToolOrchestratingLLM[Person], api: API) -> None:
    seen = api.stream(find, text=MET)
    assert seen.final == api.call(find, text=MET) == INGRID
    assert type(seen.final) is Person
    assert not is_partial(seen.final)
    assert all(is_partial(item) for item in seen.items[:-1])
    names = [item.name for item in seen.items if item.name is not None]
    assert len(set(names)) > 1
    assert all("Ingrid Dahl".startswith(name) for name in names)


def test_a_list_inside_an_object(llm: LlamaCpp) -> None:
    example = [
        ("user", "Present: Tom Reed (34, Lima) and Ann Lee (40, Rome)."),
        ("assistant", People(people=[TOM, Person(name="Ann Lee", age=40, city="Rome")])),
        ("user", "{text}"),
    ]
    make = ToolOrchestratingLLM(People, example, llm)
    found = list(make.stream(text=THREE).items("people"))
    assert [person.name for person in found] == ["Ken Sato", "Ruth Adler", "Ingrid Dahl"]
    assert make(text=THREE).people == found


def test_a_parallel_list(llm: LlamaCpp) -> None:
    make = ToolOrchestratingLLM(Person, ONE, llm, allow_parallel_tool_calls=True)
    found = make(text=MET)
    assert isinstance(found, list)
    assert found
    assert all(type(person) is Person for person in found)
    assert list(make.stream(text=MET))[-1] == found


def test_a_union(llm: LlamaCpp) -> None:
    """The grammar admits both; which one the model takes is shown by one example of each."""
    prompt = [
        ("user", "In Lima our guest was Tom Reed (34)."),
        ("assistant", TOM),
        ("user", "The Jazz Days take place in Lyon."),
        ("assistant", Event(title="Jazz Days", place="Lyon")),
        ("user", "{text}"),
    ]
    make = ToolOrchestratingLLM(Person | Event, prompt, llm)
    found = make(text=MET)
    assert type(found) in (Person, Event)
    assert list(make.stream(text=MET))[-1] == found


def test_a_function(llm: LlamaCpp) -> None:
    ran: list[tuple[str, int]] = []

    def greet(name: str, age: int) -> str:
        """Greet a person by name and age."""
        ran.append((name, age))
        return f"Hello {name} ({age})"

    make = ToolOrchestratingLLM(greet, "Greet Ingrid Dahl, who is 51 years old.", llm)
    answer = make()
    ((name, age),) = ran
    assert answer == f"Hello {name} ({age})"
    assert list(make.stream()) == [answer]
    assert len(ran) == 2


def test_a_value_that_is_no_object(llm: LlamaCpp) -> None:
    make = ToolOrchestratingLLM(list[int], "Count: 1, 2, 3, 4", llm)
    found = make()
    assert all(type(number) is int for number in found)
    assert list(make.stream())[-1] == found


def test_cut_by_max_tokens(find: ToolOrchestratingLLM[Person], api: API) -> None:
    short = find.with_(settings=Settings(max_tokens=5))
    with pytest.raises(OutputTruncated):
        api.call(short, text=MET)
    assert isinstance(api.stream(short, text=MET).error, OutputTruncated)


def test_leaving_early_and_calling_again(llm: LlamaCpp, find: ToolOrchestratingLLM[Person], api: API) -> None:
    """One slot: the next call would wait for minutes if the first went on."""
    endless = ToolOrchestratingLLM(People, "Tell of many people.", llm, settings=Settings(max_tokens=3500))
    assert len(api.stream(endless, take=3).items) == 3
    soon = find.with_(settings=Settings(timeout=Timeouts(total=15)))
    assert api.call(soon, text=MET) == INGRID


def test_two_threads(find: ToolOrchestratingLLM[Person]) -> None:
    found: dict[int, list[Person]] = {}

    def work(number: int) -> None:
        found[number] = [find(text=MET), *list(find.stream(text=MET))[-1:]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert found == {0: [INGRID] * 2, 1: [INGRID] * 2}


async def test_several_tasks(find: ToolOrchestratingLLM[Person]) -> None:
    found: list[Any] = []

    async def call() -> None:
        found.append(await find.acall(text=MET))

    async def stream() -> None:
        found.append([item async for item in find.astream(text=MET)][-1])

    async with anyio.create_task_group() as group:
        for work in (call, stream, call, stream):
            group.start_soon(work)
    assert found == [INGRID] * 4


async def test_a_cancelled_call_leaves_the_model_usable(llm: LlamaCpp, find: ToolOrchestratingLLM[Person]) -> None:
    endless = ToolOrchestratingLLM(People, "Tell of many people.", llm, settings=Settings(max_tokens=3500))
    async with anyio.create_task_group() as group:
        async for _ in endless.astream():
            group.cancel_scope.cancel()
    soon = find.with_(settings=Settings(timeout=Timeouts(total=15)))
    assert await soon.acall(text=MET) == INGRID


def test_chat(llm: LlamaCpp, api: API) -> None:
    """In words; the system message that small models need is there without being asked for."""
    assert "Paris" in api.chat(llm, "What is the capital of France?").text


def test_no_model(api: API, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"not a model")
    with pytest.raises(NotFound, match=r"broken\.gguf"):
        api.chat(LlamaCpp(broken), "hello")
