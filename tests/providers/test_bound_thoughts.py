"""bound_thoughts.py, against a double that has Claude's rule: whatever changes, no request is refused.

Each test runs against Anthropic, Vertex AI and Bedrock. A thought is left out only where its prefix has changed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from support import warm_python
from support.bound_thoughts_service import BoundThoughtsService, Call, Thought
from support.service_double import as_json
from support.sync_and_async import API, APIS
from toolcast import (
    Anthropic,
    AnthropicVertex,
    Bedrock,
    Engine,
    Hooks,
    Settings,
    assistant,
    system,
    tool_result,
    user,
)
from toolcast.agents import Compaction
from toolcast.agents.engine.instructions import SentInstructions
from toolcast.agents.sessions.session import Session
from toolcast.errors import BadRequest, LLMError
from toolcast.events import TextDelta
from toolcast.llms.client import client_of
from toolcast.llms.http_llm import ServiceLLM
from toolcast.llms.request import ChatRequest
from toolcast.messages import Message, ThinkingPart
from toolcast.providers.model_features import claude_family
from toolcast.stores.sqlite_store import SQLiteStore
from user.session import environment

LEFT_OUT = "thinking of earlier messages"
CHANGED = "The instructions have changed from here on."
GONE, NEW = "This does not apply any more:", "This applies from here on:"
FABLE, OPUS, OLD = "claude-fable-5-1", "claude-opus-5-5", "claude-opus-4-8"

MakeLLM = Callable[..., ServiceLLM]


def anthropic(base: str, model: str = FABLE, **options: Any) -> ServiceLLM:
    return Anthropic(model, base_url=base, api_key="any", **options)


def vertex(base: str, model: str = FABLE, **options: Any) -> ServiceLLM:
    where = f"{base}/v1"
    return AnthropicVertex(f"{model}@20261001", region="global", project="p", base_url=where, api_key="any", **options)


def bedrock(base: str, model: str = FABLE, **options: Any) -> ServiceLLM:
    return Bedrock(f"us.anthropic.{model}", base_url=base, region="us-east-1", api_key="any", **options)


CLOUDS: dict[str, MakeLLM] = {"anthropic": anthropic, "vertex": vertex, "bedrock": bedrock}


@pytest.fixture(params=CLOUDS)
def cloud(request: pytest.FixtureRequest) -> MakeLLM:
    return CLOUDS[request.param]


@pytest.fixture
def service() -> Iterator[BoundThoughtsService]:
    with BoundThoughtsService() as service:
        yield service


@pytest.fixture(params=APIS[:2], ids=lambda api: api.name)
def api(request: pytest.FixtureRequest) -> API:
    chosen: API = request.param
    return chosen


class Album(BaseModel):
    """An album."""

    title: str


def look(place: str) -> str:
    """Look somewhere."""
    return f"There is tea in {place}."


def listen() -> str:
    """Listen."""
    return "Rain."


TOOLS: tuple[list[Any], ...] = ([look], [look, listen], [listen, look])


class Notes(Hooks):
    """The notes of each request."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def request(self, call: Any, request: Any) -> None:
        self.seen.append(request.http.notes)


numbers = count(1)


def tool_turn(text: str = "Found it.") -> list[Sequence[Any]]:
    """The responses of a turn with a tool call."""
    return [(Thought(), Call(f"call_{next(numbers)}", "look", {"place": "here"})), (Thought(), text)]


def without_hashes(messages: Sequence[Message]) -> list[Message]:
    """The messages as toolcast stored them before it stored the prefixes of thoughts."""

    def old(part: Any) -> Any:
        if not isinstance(part, ThinkingPart):
            return part
        opaque = {name: value for name, value in (part.opaque or {}).items() if name != "prefix"}
        return replace(part, opaque=opaque or None)

    return [replace(message, parts=tuple(map(old, message.parts))) for message in messages]


def conversation(llm: ServiceLLM, turns: int = 3) -> list[Message]:
    """A conversation with thoughts, and the next question."""
    messages = [user("Hi.")]
    for _ in range(turns):
        messages += [llm.chat([system("Be brief."), *messages]).message, user("And?")]
    return messages


# -- what changes


def binds(model: str) -> bool:
    family = claude_family(model)
    return family is not None and family.has("binds_thoughts")


def test_names_of_models() -> None:
    bound = ["fable-5-1", "fable-5.2", "mythos-5-2", "opus-5-5", "sonnet-5-5", "haiku-5-5", "opus-5-5-20261001"]
    bound += ["opus-6", "fable-6-1", "sonnet-10"]
    for name in bound:
        assert binds(f"claude-{name}"), name
        assert binds(f"anthropic.claude-{name}-v1:0"), name
        assert binds(f"claude-{name}@20261001"), name
    for name in [
        "mythos-5-1",
        "fable-5",
        "opus-5",
        "sonnet-5-20260501",
        "opus-4-8",
        "sonnet-4-5-20250929",
        "haiku-4-5",
    ]:
        assert not binds(f"claude-{name}"), name
        assert not binds(f"us.anthropic.claude-{name}-v1:0"), name
    assert not binds("claude-3-7-sonnet-20250219")


def test_an_unchanged_conversation(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    notes = Notes()
    engine = Engine(cloud(service.base, hooks=[notes]), [look], instructions="Be brief.")
    for _ in range(20):
        service.script += tool_turn()
        engine.submit("Where is tea?")
    assert [service.thoughts_sent(at) for at in range(40)] == list(range(40))
    assert (service.refusals, set(notes.seen)) == ([], {()})
    assert service.cached_share > 0.9


def test_dynamic_instructions(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    notes, times = Notes(), count(1)
    engine = Engine(cloud(service.base, hooks=[notes]), [look], instructions=lambda _: f"It is {next(times)} o'clock.")
    for _ in range(20):
        service.script += tool_turn()
        assert engine.submit("Where is tea?").text == "Found it."
    assert (service.refusals, set(notes.seen)) == ([], {()})
    assert [service.thoughts_sent(at) for at in range(40)] == list(range(40))
    assert service.cached_share > 0.9
    assert {json.dumps(body["system"]).count("o'clock") for body in service.bodies} == {1}
    late = [message for message in engine.history if message.role == "system"]
    assert late[-1] == system(f"{CHANGED}\n\n{GONE} \"It is 39 o'clock.\"\n\n{NEW}\n\nIt is 40 o'clock.")
    last = service.bodies[-1]["messages"][-1]
    assert last["role"] == ("user" if cloud is bedrock else "system")
    assert last["content"][-1]["text"] == late[-1].text


def test_instructions_that_change_once(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    now = "It is Monday."
    engine = Engine(cloud(service.base), [look], instructions=lambda _: now)
    for day in ("Monday", "Monday", "Tuesday", "Tuesday", "Monday"):
        now = f"It is {day}."
        service.script += tool_turn()
        engine.submit("Where is tea?")
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in range(10)] == list(range(10))
    assert changes_of(engine) == [
        f'{GONE} "It is Monday."\n\n{NEW}\n\nIt is Tuesday.',
        f'{GONE} "It is Tuesday."\n\n{NEW}\n\nIt is Monday.',
    ]


def changes_of(engine: Engine[Any]) -> list[str]:
    """What its late system messages tell the model."""
    texts = [message.text for message in engine.history if message.role == "system"]
    assert all(text.startswith(f"{CHANGED}\n\n") for text in texts)
    return [text.removeprefix(f"{CHANGED}\n\n") for text in texts]


def test_the_number_of_instructions_changes(service: BoundThoughtsService) -> None:
    wanted: list[str | None] = ["Be brief.", " "]
    functions = [lambda _, at=at: wanted[at] for at in range(2)]
    long = "Work as a gardener does. " * 9
    engine = Engine(anthropic(service.base), instructions=["Be kind.", *functions])
    for wanted[:] in (["Be brief.", " "], ["Be brief.", "Rhyme."], [None, None], [None, long], [None, "Rhyme."]):
        engine.submit("And?")
    start = "Work as a gardener does. Work as a gardener does. Work as a gardener does. Work "
    assert changes_of(engine) == [
        f"{NEW}\n\nRhyme.",
        f'{GONE} "Be brief."\n\n{GONE} "Rhyme."',
        f"{NEW}\n\n{long}",
        f'{GONE} what begins with "{start}..."\n\n{NEW}\n\nRhyme.',
    ]
    assert (service.refusals, service.thoughts_sent()) == ([], 4)


def test_a_text_that_another_begins_with_is_quoted_in_full() -> None:
    short = "Work as a gardener does. " * 5
    first, second = ((system(short), system(f"{short}Rhyme.")), (system(f"{short}Rhyme."),))
    (late,) = SentInstructions.of(first).changed_to(second, [user("Hi.")]).late
    assert late.text == f'{CHANGED}\n\n{GONE} "{short}"'


@given(st.lists(st.sampled_from("abcd"), max_size=5), st.lists(st.sampled_from("abcd"), max_size=5))
def test_what_a_late_message_says_is_true(before: list[str], now: list[str]) -> None:
    """Read in its order, it leads from the instructions before to those of now, each of which it names uniquely."""
    texts = {letter: f"{'Work as a gardener does. ' * 9}{letter * 90}" for letter in "abcd"}
    first, second = (tuple(system(texts[each]) for each in letters) for letters in (before, now))
    sent = SentInstructions.of(first).changed_to(second, [user("Hi.")])
    in_force = set(before)
    for change in "".join(message.text for message in sent.late).removeprefix(CHANGED).split("\n\nThis ")[1:]:
        quoted = change.partition(":")[2].strip().removeprefix("what begins with ").strip('"').removesuffix("...")
        (named,) = {letter for letter in {*before, *now} if texts[letter].startswith(quoted)}
        if change.startswith("does not"):
            in_force.remove(named)
        else:
            assert named not in in_force
            in_force.add(named)
    assert in_force == set(now)
    assert sent.changes == len(sent.late) == (set(before) != set(now))


def test_instructions_change_behind_a_system_message_of_the_user(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    times = count(1)
    engine = Engine(cloud(service.base), instructions=lambda _: f"It is {next(times)} o'clock.")
    for _ in range(3):
        engine.submit([user("And?"), system("It rains.")])
    assert [message.role for message in engine.history[-4:]] == ["user", "system", "system", "assistant"]
    assert (service.refusals, service.thoughts_sent()) == ([], 2)
    assert "It is 3 o'clock." in json.dumps(service.bodies[-1])


def test_a_history_that_is_cut_has_the_instructions_of_now_before_it(service: BoundThoughtsService) -> None:
    now = "Plan."
    engine = Engine(llm := anthropic(service.base), instructions=lambda _: now)
    engine.submit("Hi.")
    now = "Build."
    engine.submit("And?")
    state = engine.conversation.state()
    engine.restore(replace(state, history=state.history[:2]))
    engine.submit("And how?")
    other = Engine(llm, instructions="Verify.", history=(*state.history,))
    other.submit("So?")
    for body, text, count_before in zip(service.bodies[-2:], ("Build.", "Verify."), (3, 5), strict=True):
        assert (body["system"], len(body["messages"])) == (text, count_before)
        assert CHANGED not in json.dumps(body)
    assert service.refusals == []


def test_late_messages_are_a_part_of_the_turn(service: BoundThoughtsService) -> None:
    times, history = count(1), [user("Hi.")]
    engine = Engine(anthropic(service.base), instructions=lambda _: f"It is {next(times)} o'clock.")
    for _ in range(3):
        engine.submit(history[-1])
        history = [*engine.history, user("And?")]
    assert [message.role for message in engine.submit("Well?").messages] == ["system", "assistant"]


def test_a_failed_turn_leaves_no_late_instructions(service: BoundThoughtsService) -> None:
    now = "It is Monday."
    engine = Engine(anthropic(service.base, max_retries=0), instructions=lambda _: now)
    engine.submit("Hi.")
    before, now = engine.history, "It is Tuesday."
    service.fail("POST", *as_json({"error": {"type": "overloaded_error", "message": "Later."}}, 529))
    with pytest.raises(LLMError, match="Later"):
        engine.submit("And?")
    assert engine.history == before
    engine.submit("And?")
    assert [message.role for message in engine.history[2:]] == ["user", "system", "assistant"]


def test_an_answer_that_is_continued_gets_no_late_instructions(service: BoundThoughtsService) -> None:
    numbers = count(1)
    history = [user("Hi."), assistant(ThinkingPart("Hm.", opaque={"prefix": "a.b"}), "I am")]
    engine = Engine(anthropic(service.base), instructions=lambda _: f"Number {next(numbers)}.", history=history)
    engine.conversation.instructions = SentInstructions.of((system("Number 0."),))
    engine.submit([])
    assert [message.role for message in engine.history] == ["user", "assistant", "assistant"]


@pytest.mark.parametrize("make", [anthropic, vertex])
def test_a_server_without_late_system_messages(make: MakeLLM, service: BoundThoughtsService) -> None:
    service.takes_late_system = False
    times = count(1)
    engine = Engine(llm := make(service.base), instructions=lambda _: f"It is {next(times)} o'clock.")
    for _ in range(4):
        engine.submit("And?")
    assert service.refusals == []
    assert [body["messages"][-1]["role"] for body in service.bodies] == ["user", "user", "user", "user"]
    assert [service.thoughts_sent(at) for at in range(4)] == [0, 1, 2, 3]
    assert len(service.log) == 5  # it refused once
    assert llm.chat([user("Hi."), system("Be brief.")]).text == "Answer 5."


@pytest.mark.parametrize(
    ("model", "roles"),
    [
        ("claude-opus-4-7", "user"),
        ("claude-opus-4-8", "user system"),
        ("claude-sonnet-5", "user"),
        ("claude-sonnet-5-20260501", "user"),
        ("claude-sonnet-5-5", "user system"),
        ("claude-fable-5", "user system"),
        ("another", "user"),
    ],
)
def test_models_with_late_system_messages(service: BoundThoughtsService, model: str, roles: str) -> None:
    anthropic(service.base, model).chat([user("Hi."), system("Be"), system("brief.")])
    assert " ".join(message["role"] for message in service.bodies[0]["messages"]) == roles
    assert [block["text"] for message in service.bodies[0]["messages"] for block in message["content"]][-1] == "brief."


def test_a_system_message_at_another_place_is_text_of_the_user(service: BoundThoughtsService) -> None:
    chat = [user("Hi."), system("Be kind."), user("And?"), assistant("Hello."), system("Be brief."), user("So?")]
    anthropic(service.base).chat(chat)
    assert [message["role"] for message in service.bodies[0]["messages"]] == ["user", "assistant", "user"]
    anthropic(service.base).chat([*chat, system("Rhyme."), assistant(ThinkingPart("Hm.")), user("Well?")])
    assert [message["role"] for message in service.bodies[1]["messages"]] == ["user", "assistant", "user"]
    # Where a thought alone is left out, too.
    known = [*chat[3:], system("Rhyme.")]
    thought = anthropic(service.base).chat(known).message.parts[0]
    anthropic(service.base).chat([system("Other."), *known, assistant(thought), user("Well?")])
    assert [message["role"] for message in service.bodies[-1]["messages"]] == ["assistant", "user"]


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("claude-opus-5-5", None),
        (FABLE, None),
        ("claude-sonnet-5-5", "between_tools"),
        ("claude-haiku-5-5", "disabled"),
    ],
)
def test_the_least_thinking(
    cloud: MakeLLM, service: BoundThoughtsService, api: API, tmp_path: Path, model: str, kind: str | None
) -> None:
    llm = cloud(service.base, model, settings=Settings(thinking=False))
    typed: Any = Call("b", "Album", {"title": "Sea"}) if cloud is vertex else '{"title": "Sea"}'
    service.script.extend([["Hi."], *tool_turn(), [typed]])
    assert api.chat(llm, "Hello").text == "Hi."
    store = SQLiteStore(tmp_path / "chats.db")
    with Session(Engine(llm, [look]), id="ada", store=store) as session:
        assert session.run("Where is it?").text == "Found it."
    with Session.resume("ada", Engine(llm, [look]), store) as session:
        assert session.run("An album.", output_cls=Album).output == Album(title="Sea")
    store.close()
    assert service.refusals == []
    for body in service.bodies:
        fields = body.get("additionalModelRequestFields", {}) | body
        config = fields.get("output_config") or fields.get("outputConfig") or {}
        assert (fields.get("thinking", {}).get("type"), config.get("effort")) == (kind, None if kind else "low")
    notes = client_of(llm).preview(ChatRequest((user("Hi"),), settings=Settings(thinking=False))).notes
    assert ("thinking=False (the least effort, 'low', was sent)" in notes) == (kind is None)


def test_a_tool_is_added(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm, messages = cloud(service.base), [user("Hi.")]
    for tools in ([look], [look], [look, listen], [look, listen], [look]):
        messages += [api.chat(llm, messages, tools=tools).message, user("And?")]
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in range(5)] == [0, 1, 0, 1, 0]


def test_typed_output_and_back(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(cloud(service.base), [look], instructions="Be brief.")
    album = Call("call_album", "Album", {"title": "Rain"}) if cloud is vertex else '{"title": "Rain"}'
    for _ in range(2):
        service.script += tool_turn()
        engine.submit("Where is tea?")
        service.script += [tool_turn()[0], (Thought(), album)]
        assert engine.submit("An album?", output_cls=Album).output == Album(title="Rain")
    assert service.refusals == []
    # Vertex AI has no constrained text by default: there the output type is one more tool.
    kept = [0, 1, 0, 1, 0, 1, 0, 1] if cloud is vertex else list(range(8))
    assert [service.thoughts_sent(at) for at in range(8)] == kept


class Song(BaseModel):
    """A song."""

    name: str


def output_schema(body: dict[str, Any]) -> dict[str, Any]:
    if "output_config" in body:
        return dict(body["output_config"]["format"]["schema"])
    return dict(json.loads(body["outputConfig"]["textFormat"]["structure"]["jsonSchema"]["schema"]))


def tool_names(body: dict[str, Any]) -> list[str]:
    tools = body.get("tools") or body.get("toolConfig", {}).get("tools", [])
    return [tool.get("name") or tool["toolSpec"]["name"] for tool in tools]


@pytest.mark.parametrize("make", [anthropic, bedrock])
def test_tools_beside_typed_output_are_called_natively(make: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(make(service.base), [look, listen], instructions="Be brief.", max_rounds=2)
    service.script += [tool_turn()[0], (Thought(), '{"title": "Rain"}')]
    assert engine.submit("An album?", output_cls=Album).output == Album(title="Rain")
    for body in service.bodies:
        assert tool_names(body) == ["look", "listen"]
        assert "Be brief." in json.dumps(body["system"])
        assert "JSON" not in json.dumps(body["system"])
        assert output_schema(body)["description"] == "An album."
    # In the last request nothing else may be called; Converse has no such choice.
    choices = [body.get("tool_choice") for body in service.bodies]
    assert choices == ([None, {"type": "none"}] if make is anthropic else [None, None])


@pytest.mark.parametrize("make", [anthropic, bedrock])
def test_one_of_several_types_beside_tools(make: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(make(service.base), [look], instructions="Be brief.", max_rounds=3)
    song = json.dumps({"calls": [{"name": "Song", "arguments": {"name": "Rain"}}]})
    for _ in range(2):
        service.script += [(Thought(), Call(f"c{next(numbers)}", "look", {"place": "here"})), (Thought(), song)]
        assert engine.submit("A song?", output_cls=Album | Song).output == Song(name="Rain")
    assert [service.thoughts_sent(at) for at in range(4)] == [0, 1, 2, 3]
    calls = json.dumps(output_schema(service.bodies[0]))
    assert "A song." in calls
    assert "look" not in calls
    service.script += [*[tool_turn()[0] for _ in range(2)], (Thought(), song)]
    engine.submit("A song?", output_cls=Album | Song)
    assert [tool_names(body) for body in service.bodies] == [["look"]] * 7
    assert (service.refusals, service.thoughts_sent()) == ([], 6)
    if make is anthropic:
        assert [body.get("tool_choice") for body in service.bodies[-2:]] == [None, {"type": "none"}]


@pytest.mark.parametrize("make", [anthropic, bedrock])
def test_typed_turns_without_tools(make: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(make(service.base), instructions="Be brief.")
    for _ in range(3):
        service.script += [(Thought(), '{"title": "Rain"}'), (Thought(), "Hello.")]
        engine.submit("An album?", output_cls=Album)
        engine.submit("Hi.")
    # A service refuses calls without tools: from the first call on it gets the names.
    assert [tool_names(body) for body in service.bodies] == [[], *[["Album"]] * 5]
    assert [service.thoughts_sent(at) for at in range(6)] == [0, 0, 1, 2, 3, 4]


def test_tools_that_must_not_be_called(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm, messages = cloud(service.base), [user("Hi.")]
    service.script += [tool_turn()[0]]
    answer = llm.chat(messages, tools=[look]).message
    messages += [answer, tool_result(answer.tool_calls[0], "Tea."), user("And?")]
    llm.chat(messages, tools=[look], tool_choice="none")
    assert (service.refusals, service.thoughts_sent(), tool_names(service.bodies[-1])) == ([], 1, ["look"])
    cloud(service.base, OLD).chat(messages[:1], tools=[look], tool_choice="none")
    assert tool_names(service.bodies[-1]) == []


def test_compaction(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    notes = Notes()
    compaction = Compaction(keep=100, summarise=lambda messages: "They looked for tea.", at=300)
    numbers = count(1)
    instructions: list[Any] = ["Be brief.", lambda _: f"Number {next(numbers)}."]
    engine = Engine(cloud(service.base, hooks=[notes]), [look], compaction=compaction, instructions=instructions)
    for _ in range(8):
        service.script += tool_turn("Found it, and it is a rather long story, which fills the context window.")
        engine.submit("Where is tea, and where is it not? Look everywhere, and describe it at length.")
    assert service.refusals == []
    assert "They looked for tea." in json.dumps(service.bodies[-1])
    # From then on the instructions are before the history again, as they are then.
    assert "Number 1." not in json.dumps(service.bodies[-1])
    shortened = notes.seen.index((LEFT_OUT,))
    assert sum(service.thoughts_sent(at) for at in range(shortened, 16)) > 3


def test_late_messages_alone_need_no_summary(service: BoundThoughtsService) -> None:
    times = count(1)
    compaction = Compaction(keep=200, summarise=lambda messages: "Gone.", at=400)
    text = "It is {} o'clock, as the clock of the town hall says. " * 3
    engine = Engine(
        anthropic(service.base), compaction=compaction, instructions=lambda _: text.replace("{}", str(next(times)))
    )
    for number in range(8):
        engine.submit(f"And {number}?")
    assert "Gone." not in json.dumps(service.bodies[-1])
    assert [message.text for message in engine.history if message.role == "user"] == [f"And {n}?" for n in range(8)]
    assert len(changes_of(engine)) < 7


def test_an_edited_history(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm = cloud(service.base)
    messages = conversation(llm)
    api.chat(llm, [system("Be brief."), *messages])
    messages[2] = user("And how?")
    api.chat(llm, [system("Be brief."), *messages])
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in (-2, -1)] == [3, 0]


def test_thoughts_removed_by_hand(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm = cloud(service.base)
    messages = conversation(llm, 4)
    parts = tuple([part for part in messages[3].parts if not isinstance(part, ThinkingPart)])
    messages[3] = replace(messages[3], parts=parts)
    llm.chat([system("Be brief."), *messages])
    assert service.refusals == []
    assert service.thoughts_sent() == 2


@pytest.mark.parametrize("other", [OPUS, OLD])
def test_another_model_in_between(cloud: MakeLLM, service: BoundThoughtsService, other: str) -> None:
    llm = cloud(service.base)
    messages = conversation(llm)
    prompts = ["Be brief."] * 4 + ["Be verbose."] * 2
    for model, prompt in zip((other, other, FABLE, FABLE, FABLE, FABLE), prompts, strict=True):
        messages += [cloud(service.base, model).chat([system(prompt), *messages]).message, user("And?")]
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in range(3, 9)] == [3, 4, 5, 6, 0, 1]


def test_a_session_in_another_process(cloud: MakeLLM, service: BoundThoughtsService, tmp_path: Path) -> None:
    store = SQLiteStore(path := tmp_path / "sessions")
    with Session(Engine(cloud(service.base), [look], instructions="Be brief."), id="tea", store=store) as session:
        for _ in range(2):
            service.script += tool_turn()
            session.run("Where is tea?")
    store.close()
    llm = cloud(service.base)
    options = {"region": "us-east-1"} if isinstance(llm, Bedrock) else {}
    if isinstance(llm, AnthropicVertex):
        options = {"region": "global", "project": "p"}
    base = f"{service.base}/v1" if isinstance(llm, AnthropicVertex) else service.base
    for prompt in ("Be brief.", "Be verbose.", "Be verbose."):
        program = f"""
import toolcast
from toolcast.stores.sqlite_store import SQLiteStore

def look(place: str) -> str:
    "Look somewhere."
    return "There is tea."

llm = toolcast.{type(llm).__name__}({llm.model!r}, base_url={base!r}, api_key="any", **{options!r})
engine = toolcast.Engine(llm, [look], instructions={prompt!r})
with toolcast.Session.resume("tea", engine, SQLiteStore({str(path)!r})) as session:
    print(session.run("And?").text)
"""
        command = [sys.executable, "-W", "error", "-c", program]
        with warm_python.Popen(
            command, text=True, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            output, errors = process.communicate(timeout=30)
        assert output.startswith("Answer"), errors
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in (-3, -2, -1)] == [4, 5, 6]
    assert json.dumps(service.bodies[-1]).count(CHANGED) == 1


def test_the_end_of_the_history_is_cached_before_late_messages(service: BoundThoughtsService) -> None:
    times = count(1)
    engine = Engine(anthropic(service.base), instructions=lambda _: f"It is {next(times)} o'clock.", cache="auto")
    for _ in range(3):
        engine.submit("And?")
    marked = [
        [message["role"] for message in body["messages"] if "cache_control" in json.dumps(message)]
        for body in service.bodies
    ]
    assert marked == [[], ["user", "user"], ["user", "user"]]
    assert service.refusals == []


# -- thoughts without a hash


def test_an_older_conversation_heals_by_itself(
    cloud: MakeLLM, service: BoundThoughtsService, api: API, caplog: pytest.LogCaptureFixture
) -> None:
    messages = without_hashes(conversation(cloud(service.base)))
    notes = Notes()
    llm = cloud(service.base, hooks=[notes])
    for _ in range(4):
        messages += [api.chat(llm, [system("Be verbose."), *messages]).message, user("And?")]
    assert len(service.refusals) == 1
    assert "`system` prompt differs" in service.refusals[0]
    assert [service.thoughts_sent(at) for at in range(-5, 0)] == [3, 0, 1, 2, 3]
    assert notes.seen == [(), *[(LEFT_OUT,)] * 4]
    assert [LEFT_OUT in record.message for record in caplog.records].count(True) == 1
    # Another process does not know which thoughts were refused, but what the newer ones were made after.
    cloud(service.base).chat([system("Be verbose."), *messages])
    assert (len(service.refusals), service.thoughts_sent()) == (1, 4)


def test_an_older_conversation_that_did_not_change(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    messages = without_hashes(conversation(llm := cloud(service.base)))
    for _ in range(2):
        messages += [llm.chat([system("Be brief."), *messages]).message, user("And?")]
    assert (service.refusals, service.thoughts_sent()) == ([], 4)


def test_a_stream_heals_too(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm = cloud(service.base)
    messages = without_hashes(conversation(llm))
    texts = [event.text for event in api.events(llm, [system("Other."), *messages]) if isinstance(event, TextDelta)]
    assert "".join(texts) == "Answer 4."
    assert len(service.refusals) == 1


REFUSAL = {"message": "messages.1: Invalid `signature`. The block is bound to a different conversation. Remove it."}


def test_two_requests_are_refused_at_once(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    """One is refused, and finds out why, while the other is on its way."""
    texts: list[str] = []

    class Between(Hooks):
        def request(self, call: Any, request: Any) -> None:
            if not texts:
                texts.append("")
                texts.append(llm.chat(messages).text)

    llm = cloud(service.base, hooks=[Between()])
    messages = [system("Be verbose."), *without_hashes(conversation(cloud(service.base)))]
    assert llm.chat(messages).text == "Answer 5."
    assert (texts[1], len(service.refusals)) == ("Answer 4.", 2)


def test_a_service_that_refuses_whatever_is_sent(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm = cloud(service.base)
    messages = without_hashes(conversation(llm))
    service.fail("POST", *as_json({**REFUSAL, "error": REFUSAL}, 400), times=20)
    with pytest.raises(BadRequest, match="bound to a different conversation"):
        api.chat(llm, messages)
    with pytest.raises(BadRequest, match="bound to a different conversation"):
        api.chat(llm, "There is no thought in this one.")
    assert len(service.log) == 3 + 2 + 1


def test_a_damaged_signature_is_an_error(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm = cloud(service.base)
    thought = ThinkingPart("Hm.", signature="ZGFtYWdlZA==")
    with pytest.raises(BadRequest, match="Invalid `signature`"):
        llm.chat([user("Hi."), assistant(thought, "Hello."), user("And?")])
    assert len(service.refusals) == 1


def test_token_counts(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm = cloud(service.base)
    messages = conversation(llm)
    for sent in (messages, without_hashes(messages)):
        assert api.method(llm, "count_tokens", [system("Other."), *sent]).tokens > 0
    assert len(service.refusals) == 1


# -- kinds of thoughts


def test_two_thoughts_in_a_response(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(cloud(service.base), [look], instructions="Be brief.")
    places = [{"place": "here"}, {"place": "there"}]
    for turn in range(3):
        calls = [Call(f"call_{turn}_{at}", "look", place) for at, place in enumerate(places)]
        service.script += [(Thought(), calls[0], Thought(), calls[1]), (Thought(), "Found it.")]
        engine.submit("Where is tea?")
    assert [service.thoughts_sent(at) for at in range(6)] == [0, 2, 3, 5, 6, 8]
    Engine(cloud(service.base), [look], instructions="Be verbose.", history=engine.history).submit("Why?")
    assert (service.refusals, service.thoughts_sent()) == ([], 0)


def test_a_thought_after_a_text(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    engine = Engine(cloud(service.base), [look])
    for turn in range(3):
        service.script += [("I will look.", Thought(), Call(f"call_{turn}", "look", {"place": "here"})), ("Found it.",)]
        engine.submit("Where is tea?")
    assert (service.refusals, [service.thoughts_sent(at) for at in range(6)]) == ([], [0, 1, 1, 2, 2, 3])


def test_two_responses_in_a_turn(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm = cloud(service.base)
    messages = conversation(llm, 1)[:2]
    messages.append(llm.chat([system("Be brief."), *messages]).message)
    llm.chat([system("Be brief."), *messages, user("And?")])
    assert (service.refusals, service.thoughts_sent()) == ([], 2)
    # The second response is made without the thought of the first: another process must leave that out, too.
    messages = without_hashes(messages[:2])
    for _ in range(2):
        messages.append(cloud(service.base).chat([system("Be verbose."), *messages]).message)
        messages.append(user("And?"))
    assert len(service.refusals) == 1


def test_redacted_thoughts(cloud: MakeLLM, service: BoundThoughtsService, api: API) -> None:
    llm, messages = cloud(service.base), [user("Hi.")]
    for prompt in ("Be brief.", "Be brief.", "Be brief.", "Be verbose.", "Be verbose."):
        service.script.append((Thought(redacted=True), Thought(), "Hello."))
        messages += [api.chat(llm, [system(prompt), *messages]).message, user("And?")]
    assert service.refusals == []
    assert [service.thoughts_sent(at) for at in range(5)] == [0, 2, 4, 0, 2]


def test_marks_of_a_cache(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    notes = Notes()
    messages: Sequence[Message] = ()
    for turn in range(6):
        llm = cloud(service.base, hooks=[notes], settings=Settings(cache="off" if turn == 3 else "auto"))
        engine = Engine(llm, [look], instructions="Be brief. " * 2000, history=messages)
        service.script += tool_turn()
        engine.submit("Where is tea?")
        messages = engine.history
    bodies = [json.dumps(body) for body in service.bodies]
    assert any("cache_control" in body or "cachePoint" in body for body in bodies)
    assert (service.refusals, [service.thoughts_sent(at) for at in range(12)]) == ([], list(range(12)))
    assert set(notes.seen) == {()}


def test_a_message_that_is_a_thought_alone(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm = cloud(service.base)
    messages = conversation(llm)
    parts = tuple([part for part in messages[3].parts if isinstance(part, ThinkingPart)])
    messages[3] = replace(messages[3], parts=parts)
    messages.append(llm.chat([system("Other."), *messages]).message)
    llm.chat([system("Other."), *messages, user("And?")])
    assert service.refusals == []
    assert [len(body["messages"]) for body in service.bodies[-2:]] == [5, 7]


def test_a_preview_has_the_note(cloud: MakeLLM, service: BoundThoughtsService) -> None:
    llm = cloud(service.base)
    messages = conversation(llm)
    for prompt, notes in (("Be brief.", ()), ("Other.", (LEFT_OUT,))):
        request = llm.preview([system(prompt), *messages])
        assert request is not None
        assert request.notes == notes


# -- any sequence

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.booleans()),
        st.tuples(st.just("system"), st.integers(0, 2)),
        st.tuples(st.just("tools"), st.integers(0, 2)),
        st.tuples(st.just("edit"), st.integers(0, 20)),
        st.tuples(st.just("model"), st.sampled_from([FABLE, OPUS, OLD])),
        st.tuples(st.just("restart"), st.none()),
    ),
    min_size=3,
    max_size=25,
)


@pytest.mark.parametrize("name", CLOUDS)
@settings(max_examples=60)
@given(steps=STEPS)
def test_no_request_is_ever_refused(name: str, steps: list[tuple[str, Any]]) -> None:
    cloud = CLOUDS[name]
    with BoundThoughtsService() as service:
        prompt, tools, model, changed, models = 0, 0, FABLE, 0, {FABLE}
        llm = cloud(service.base, model)
        messages: list[Message] = []
        fits = 0  # the thoughts since the last change
        before: Any = None

        def ask() -> None:
            nonlocal fits, before
            sent = [system(f"Prompt {prompt}."), *messages]
            frame = (prompt, tools)
            texts = [message.to_dict() for message in messages if message.role != "assistant"]
            if before is not None and before != (frame, texts[: len(before[1])]):
                fits = 0
            before = (frame, texts)
            reply = llm.chat(sent, tools=TOOLS[tools]).message
            messages.append(reply)
            if len(models) == 1:
                assert service.thoughts_sent() == fits
            fits += 1

        for kind, value in [*steps, ("turn", True), ("turn", False)]:
            if kind == "turn":
                messages.append(user(f"Question {len(messages)}."))
                if value:
                    service.script.append((Thought(), Call(f"call_{len(messages)}", "look", {"place": "here"})))
                    ask()
                    messages.append(tool_result(messages[-1].tool_calls[0].id, "There is tea."))
                ask()
            elif kind == "system":
                prompt = value
            elif kind == "tools":
                tools = value
            elif kind == "model":
                model = value
                models.add(model)
                llm = cloud(service.base, model)
            elif kind == "restart":
                llm = cloud(service.base, model)
                messages = [Message.from_dict(json.loads(json.dumps(message.to_dict()))) for message in messages]
            else:
                asked = [at for at, message in enumerate(messages) if message.role == "user"]
                if asked:
                    changed += 1
                    messages[asked[value % len(asked)]] = user(f"Edited {changed}.")
        assert service.refusals == []
