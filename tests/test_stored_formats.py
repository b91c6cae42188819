"""What users have stored still loads: the files in `data/stored`, which version 0.1.0 wrote.

The same files fix the names that are stored, sent to the page, or shown to observers, and the structure of what is
written now: `data/stored/generate.py` says how they were made.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from data.stored.generate import conversation, names
from support.process import Process
from toolcast import (
    ApprovalDecision,
    CallableTool,
    Engine,
    Message,
    PermissionRequest,
    Permissions,
    Rule,
    Session,
    ToolCallPart,
    Usage,
    assistant,
    user,
)
from toolcast.agents import AtLeast, AtMost, OneOf, Under
from toolcast.agents.permissions.rules import Exactly, Others
from toolcast.apps.repl.prompt_input import History
from toolcast.chat import AsyncChatMachine, ChatMachine
from toolcast.errors import BadRequest
from toolcast.experiments import ExperimentRunner
from toolcast.experiments.agent_memory import AgentMemory
from toolcast.experiments.config_files import load_config
from toolcast.experiments.event_log import read_log
from toolcast.experiments.grids.grid import run_grid
from toolcast.experiments.pei.assessment import assess
from toolcast.experiments.pei.assessment_files import read_results
from toolcast.experiments.report.page import report_on
from toolcast.experiments.report.summary import summary_of
from toolcast.messages import AudioPart, DocumentPart, ImagePart, TextPart, ThinkingPart, ToolResultPart
from toolcast.stores import JSONLStore, SQLiteStore, Store
from toolcast.testing import ScriptedLLM, use_llm

STORED = Path(__file__).with_name("data") / "stored"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files as they are written now, by a process of their own: ids of elves count the elves of a process."""
    folder = tmp_path_factory.mktemp("written") / "stored"
    subprocess.run([sys.executable, STORED / "generate.py", folder], check=True)
    return folder


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A copy of the stored files: stores write beside what they read."""
    return Path(shutil.copytree(STORED, tmp_path / "stored", ignore=shutil.ignore_patterns("*.py", "__pycache__")))


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


# Sessions.

LATER = Permissions(approve="later")
MAILS = (ToolCallPart("call_1", "mail", '{"to": "ada"}'), ToolCallPart("call_2", "mail", '{"to": "bob"}'))
DEPLOY = ToolCallPart("call_1", "deploy", '{"to": "production"}')


def result(id: str, content: str, name: str, *, is_error: bool = False) -> Message:
    return Message("tool", (ToolResultPart(id, content, name, is_error),))


def elf_call(number: int, name: str, arguments: str) -> Message:
    return assistant(ToolCallPart(f"call_{number}", name, arguments))


HISTORIES: dict[str, list[Message]] = {
    "Ada-1": [user("What is my name?"), assistant("Ada.")],
    "allowed": [
        user("Is the tree clean?"),
        assistant(
            ToolCallPart("call_1", "shell", '{"command": "git status"}'),
            ToolCallPart("call_2", "mail", '{"to": "ada"}'),
        ),
        result("call_1", "nothing to commit", "shell"),
        result("call_2", "sent to ada", "mail"),
        assistant("Clean."),
    ],
    "compacted": [
        user("Summary of the conversation so far:\nThey talked."),
        assistant("I will go on from this summary."),
        user("Is that all?"),
        assistant("Yes."),
    ],
    "failed": [user("Hello."), assistant("Good day.")],
    "finished": [
        user("How is the weather?"),
        assistant(
            ToolCallPart("call_1", "weather", '{"city": "Oslo"}'),
            ToolCallPart("call_2", "weather", '{"city": "Atlantis"}'),
        ),
        result("call_1", "Oslo: sunny", "weather"),
        result("call_2", "LookupError: there is no such city", "weather", is_error=True),
        assistant("Oslo is sunny."),
        user("Thank you!"),
        assistant("Bye."),
    ],
    "interrupted-answer": [user("Deploy it.")],
    "interrupted-tool": [user("Deploy it."), assistant(DEPLOY)],
    "media": [
        Message("system", (TextPart("Be kind."),)),
        user(
            "What are these?",
            ImagePart(data=b"GIF89a", media_type="image/gif"),
            AudioPart(data=b"RIFF", media_type="audio/wav"),
            DocumentPart(data=b"%PDF", media_type="application/pdf", name="sea.pdf"),
        ),
        assistant(
            ThinkingPart("Let me look.", "c2lnbmF0dXJl", "cmVkYWN0ZWQ=", {"model": "m"}),
            ToolCallPart("call_1", "look", '{"at": "sea"}', opaque={"signature": "c2lnbmVk"}),
        ),
        Message(
            "tool",
            (
                ToolResultPart(
                    "call_1", "waves", "look", images=(ImagePart(url="https://example.com/sea.png", detail="low"),)
                ),
            ),
        ),
        assistant("The sea.", ToolCallPart("call_2", "look", r'{"malformed": "{\"at\": "}', truncated=True)),
        result("call_2", "The arguments were cut off.", "look", is_error=True),
        assistant("That is all."),
        user("And this?", ImagePart(data=b"\x89PNG", media_type="image/png")),
        assistant("I see."),
    ],
    "sub-agents": [
        user("Have haiku written."),
        elf_call(1, "agent", '{"prompt": "Write a haiku.", "task_type": "generation"}'),
        result("call_1", "A haiku.", "agent"),
        elf_call(2, "agent", '{"prompt": "Write one later.", "wait": false}'),
        result("call_2", "elf-2 is at work; agent_result(id='elf-2') gives its answer", "agent"),
        elf_call(3, "agent_result", '{"id": "elf-2"}'),
        result("call_3", "A haiku.", "agent_result"),
        elf_call(4, "spawn_elves", '{"tasks": [{"prompt": "One."}, {"prompt": "Two."}]}'),
        result("call_4", "Task 1: elf-3 completed: A haiku.\n\nTask 2: elf-4 completed: A haiku.", "spawn_elves"),
        assistant("Four haiku."),
    ],
    "typed": [
        user("What is 2 + 40?"),
        assistant(ToolCallPart("call_1", "Sum", '{"total":42}')),
        result("call_1", "OK", "Sum"),
    ],
    "waiting": [user("Write to Ada and Bob."), assistant(*MAILS)],
}
"""What the history of each session is."""

TURNS = dict.fromkeys(HISTORIES, 1) | {"allowed": 2, "compacted": 3, "failed": 2, "finished": 2, "waiting": 2}
TOKENS = {"allowed": 30, "compacted": 45, "failed": 15, "finished": 45, "interrupted-answer": 0, "sub-agents": 75}
UNFINISHED = {"interrupted-answer", "interrupted-tool", "waiting"}
RECORDS = {"opened", "message", "cut", "started", "remembered", "replaced", "usage", "turn", "waiting"}


@pytest.fixture(params=["jsonl", "sqlite"])
def store(request: pytest.FixtureRequest, stored: Path) -> Iterator[Store]:
    """The stored sessions, in either store."""
    if request.param == "jsonl":
        yield JSONLStore(stored / "sessions")
    else:
        with SQLiteStore(stored / "home" / "sessions.db") as made:
            yield made


def test_the_store_has_all_sessions(store: Store) -> None:
    assert set(store.ids()) - {"chat"} == HISTORIES.keys()


@pytest.mark.parametrize("id", HISTORIES)
def test_a_stored_session_has_its_history(id: str, store: Store) -> None:
    with Session.resume(id, Engine(ScriptedLLM()), store) as session:
        assert list(session.engine.history) == HISTORIES[id]
        assert session.status.turn_count == TURNS[id]
        assert session.engine.usage.total_tokens == TOKENS.get(id, 15)
        assert session.unfinished == (id in UNFINISHED)


@pytest.mark.parametrize("id", HISTORIES)
def test_nothing_is_written_to_a_session_that_is_only_read(id: str, store: Store) -> None:
    before = store.read(id)
    with Session.resume(id, Engine(ScriptedLLM()), store):
        pass
    assert store.read(id) == before


def test_the_stored_sessions_have_every_kind_of_record(store: Store) -> None:
    assert {record["kind"] for id in store.ids() for record in store.read(id)} == RECORDS


def test_a_finished_session_goes_on(store: Store) -> None:
    model = ScriptedLLM("Again.")
    with Session.resume("finished", Engine(model), store) as session:
        assert session.run("Hello?").text == "Again."
    assert list(model.requests[0].messages) == [*HISTORIES["finished"], user("Hello?")]


class Mailbox:
    """A tool that remembers what it did."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    def mail(self, to: str, urgent: bool = False) -> str:
        """Send a mail."""
        self.sent.append(to)
        return f"sent to {to}"

    def deploy(self, to: str) -> str:
        """Deploy."""
        self.sent.append(to)
        return "deployed"


def mailing(store: Store, *answers: Any) -> tuple[Session, Mailbox, ScriptedLLM]:
    """Return the session that waits for an approval."""
    box, model = Mailbox(), ScriptedLLM(*answers)
    return Session.resume("waiting", Engine(model, [box.mail], permissions=LATER), store), box, model


SENT = [*HISTORIES["waiting"], result("call_1", "sent to ada", "mail"), result("call_2", "sent to bob", "mail")]


def test_a_waiting_session_goes_on_with_the_answer(store: Store) -> None:
    session, box, model = mailing(store, "Both are sent.")
    with session:
        (request,) = session.pending
        assert (request.call_id, request.tool, request.arguments) == ("call_2", "mail", '{"to": "bob"}')
        assert session.run(answers=[request.allow()]).text == "Both are sent."
        assert session.pending == ()
    assert box.sent == ["ada", "bob"]
    assert list(model.requests[0].messages) == [*SENT, user("Be brief.")]


async def test_a_waiting_session_goes_on_with_the_answer_in_a_loop(store: Store) -> None:
    session, box, model = mailing(store, "Both are sent.")
    async with session:
        (request,) = session.pending
        assert (await session.arun(answers=[request.allow()])).text == "Both are sent."
    assert box.sent == ["ada", "bob"]
    assert list(model.requests[0].messages) == [*SENT, user("Be brief.")]


def test_a_denial_answers_the_call_that_waits(store: Store) -> None:
    session, box, _ = mailing(store, "Only Ada.")
    with session:
        session.run(answers=[session.pending[0].deny("not Bob")])
        denied = session.engine.history[3].parts[0]
    assert box.sent == ["ada"]
    assert isinstance(denied, ToolResultPart)
    assert (denied.call_id, denied.is_error) == ("call_2", True)
    assert "not Bob" in denied.content


@pytest.mark.parametrize("tool", ["allowed", "other"])
def test_what_was_allowed_for_a_session_stays_allowed(tool: str, store: Store) -> None:
    ran = list[str]()

    def shell(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return ""

    command = "git status" if tool == "allowed" else "git push"
    model = ScriptedLLM(ToolCallPart("call_3", "shell", json.dumps({"command": command})), "Done.")
    with Session.resume("allowed", Engine(model, [shell], permissions=LATER), store) as session:
        turn = session.run("Once more.")
    assert (turn.end, ran) == (("end_turn", ["git status"]) if tool == "allowed" else ("approval", []))


def test_a_tool_in_which_a_process_died_does_not_run_again(store: Store) -> None:
    box, model = Mailbox(), ScriptedLLM("I will look.")
    with Session.resume("interrupted-tool", Engine(model, [box.deploy]), store) as session:
        assert session.run().text == "I will look."
    assert box.sent == []
    (answer,) = model.requests[0].messages[-1].parts
    assert isinstance(answer, ToolResultPart)
    assert (answer.call_id, answer.is_error) == ("call_1", True)


def test_an_idempotent_tool_in_which_a_process_died_runs_again(store: Store) -> None:
    box, model = Mailbox(), ScriptedLLM("Deployed.")
    deploy = CallableTool.from_function(box.deploy).with_(idempotent=True)
    with Session.resume("interrupted-tool", Engine(model, [deploy]), store) as session:
        session.run()
    assert box.sent == ["production"]
    assert list(model.requests[0].messages) == [
        *HISTORIES["interrupted-tool"],
        result("call_1", "deployed", "deploy"),
    ]


def test_a_model_that_was_answering_is_asked_again(store: Store) -> None:
    model = ScriptedLLM("Done.")
    with Session.resume("interrupted-answer", Engine(model), store) as session:
        assert session.run().text == "Done."
    assert list(model.requests[0].messages) == [user("Deploy it.")]


def test_a_session_is_appended_to_where_it_ends(stored: Path) -> None:
    path = stored / "sessions" / "finished.jsonl"
    before = path.read_bytes()
    with Session.resume("finished", Engine(ScriptedLLM("Again.")), JSONLStore(path.parent)) as session:
        session.run("Hello?")
    assert path.read_bytes().startswith(before)
    assert len(path.read_bytes()) > len(before)


# Snapshots and values.


def test_an_engine_is_restored() -> None:
    box = Mailbox()
    engine = Engine(ScriptedLLM("All sent."), [box.mail], permissions=LATER)
    engine.restore(loaded(STORED / "engine.json"))
    assert list(engine.history) == [
        user("Hi."),
        user("Write to Ada and Bob."),
        assistant(MAILS[0]),
        result("call_1", '(The user changed the arguments to {"to": "eve"}.)\nsent to eve', "mail"),
        assistant(MAILS[1]),
    ]
    assert engine.usage == Usage(20, 10)
    assert engine.snapshot() == loaded(STORED / "engine.json")
    assert engine.submit(answers=[request.allow() for request in engine.pending]).text == "All sent."
    assert box.sent == ["bob"]


def test_rules_are_read() -> None:
    data = loaded(STORED / "rules.json")
    rules = [
        Rule("mail", "allow", {"to": OneOf("ada", "bob"), "urgent": False}),
        Rule("*_file", "deny", {"path": Under("/etc"), "size": AtLeast(1.5)}),
        Rule("shell", "allow", {"command": "git *", "timeout": AtMost(60), "": "*"}),
        Rule("bash", "allow", {"": Exactly.of({"command": "make x"})}),
        Rule("bash", "allow", {"command": "git log", "": Others.of("command", {"command": "", "timeout": 5})}),
    ]
    assert [Rule.from_dict(each) for each in data] == rules
    assert [rule.to_dict() for rule in rules] == data


def test_approvals_are_read() -> None:
    data = loaded(STORED / "approvals.json")
    prints = [each.pop("fingerprint") for each in data["requests"]]
    requests = [PermissionRequest.from_dict(each) for each in data["requests"]]
    assert [(each.call_id, each.tool, each.arguments) for each in requests] == [
        (call.id, call.name, call.arguments) for call in MAILS
    ]
    assert [each.fingerprint for each in requests] == prints
    first, second = requests
    answers = [first.allow(), first.deny("not today"), second.allow_session(), second.edit('{"to": "eve"}')]
    assert [ApprovalDecision.from_dict(each) for each in data["answers"]] == answers
    assert [answer.to_dict() for answer in answers] == data["answers"]


def test_usage_is_read() -> None:
    data = loaded(STORED / "usage.json")
    assert Usage.from_dict(data) == Usage(100, 20, 60, 30)
    assert Usage(100, 20, 60, 30).to_dict() == data


# Chats.

OSLO = ToolCallPart("call_1", "weather", '{"city": "Oslo"}')
CHATS: dict[str, tuple[str, list[Message]]] = {
    "idle": ("idle", []),
    "load_failed": ("load_failed", []),
    "waiting_for_tool_approval": ("waiting_for_tool_approval", [user("How is Oslo?"), assistant(OSLO)]),
    "ready": (
        "ready",
        [
            user("How is Oslo?"),
            assistant(OSLO),
            result("call_1", "Oslo: sunny", "weather"),
            assistant("Oslo is sunny."),
        ],
    ),
    "streaming_response": (
        "ready",  # the work that went on is stopped; what was written is kept
        [user("How is Oslo?"), assistant(OSLO), result("call_1", "Oslo: sunny", "weather"), assistant("Oslo is ")],
    ),
    "failed": (
        "ready",
        [
            user("How is Oslo?"),
            assistant(OSLO),
            result("call_1", "Oslo: sunny", "weather"),
            assistant("Oslo is sunny."),
            user("And now?"),
        ],
    ),
}


def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


def chatting(*answers: Any) -> Engine:
    return Engine(ScriptedLLM(*answers), [weather], permissions=Permissions())


def snapshot(name: str) -> dict[str, Any]:
    data: dict[str, Any] = loaded(STORED / "chats" / f"{name}.json")
    return data


@pytest.mark.parametrize("name", CHATS)
def test_a_chat_is_restored(name: str) -> None:
    state, messages = CHATS[name]
    with ChatMachine(chatting()) as chat:
        chat.restore(snapshot(name))
        assert (chat.state, list(chat.context.messages)) == (state, messages)
        if name != "streaming_response":
            assert chat.snapshot() == snapshot(name)


def test_what_a_chat_knows_is_restored() -> None:
    with ChatMachine(chatting()) as chat:
        chat.restore(snapshot("idle"))
        assert chat.context.queue == (user("How is Oslo?"),)
        chat.restore(snapshot("failed"))
        error = chat.context.last_error
        assert error is not None
        assert (error.stage, error.message, error.retryable) == ("generation", "the model is asleep", False)
        assert (chat.context.retry, chat.context.tools, chat.context.usage) == (
            "generation",
            ("weather",),
            Usage(20, 10),
        )
        chat.restore(snapshot("load_failed"))
        assert (chat.context.model, chat.context.retry) == ("any:model", snapshot("load_failed")["context"]["retry"])


def test_a_call_that_waits_in_a_chat_is_approved() -> None:
    with ChatMachine(chatting("Oslo is sunny.")) as chat:
        data = snapshot("waiting_for_tool_approval")
        chat.restore(data)
        (request,) = chat.context.pending
        chat.dispatch({"type": "APPROVE_TOOL_CALL", "call_id": "call_1", "fingerprint": request.fingerprint})
        chat.run_until("ready")
        assert list(chat.context.messages) == CHATS["ready"][1]


async def test_a_call_that_waits_in_a_chat_is_approved_in_a_loop() -> None:
    async with AsyncChatMachine(chatting("Oslo is sunny.")) as chat:
        chat.restore(snapshot("waiting_for_tool_approval"))
        chat.dispatch("APPROVE_TOOL_CALL")
        await chat.run_until("ready")
        assert list(chat.context.messages) == CHATS["ready"][1]


@pytest.mark.parametrize("name", ["failed", "streaming_response"])
def test_a_stage_of_a_restored_chat_is_tried_again(name: str) -> None:
    with ChatMachine(chatting("It is sunny.")) as chat:
        chat.restore(snapshot(name))
        chat.dispatch("RETRY_GENERATION")
        chat.run_until("ready")
        assert chat.context.messages[-1] == assistant("It is sunny.")
        assert assistant("Oslo is ") not in chat.context.messages


def test_a_call_that_ran_has_one_result_in_a_restored_chat() -> None:
    with ChatMachine(chatting()) as chat:
        chat.restore(snapshot("calling_tool"))
        assert chat.state == "ready"
        asked, called, *rest = chat.context.messages
        assert [asked, called] == CHATS["ready"][1][:2]
        answers = [part.call_id for message in rest for part in message.parts if isinstance(part, ToolResultPart)]
        assert answers in ([], ["call_1"])


# Experiments.

SEA = "I looked at the sea, and wrote that it has no corners."
REFLECTIONS = [SEA, "I counted primes. They thin out, and never end.", SEA]


@pytest.fixture
def experiment(stored: Path, monkeypatch: pytest.MonkeyPatch, process: Process) -> Path:
    """The folder of the experiments, in which a test works; no pictures are drawn, which takes longest."""
    process.without("matplotlib.figure")
    monkeypatch.chdir(stored / "experiment")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    return stored / "experiment"


def test_a_log_is_read() -> None:
    events = list(read_log(STORED / "experiment" / "logs" / "stored.jsonl"))
    assert [(event.cycle_number, event.event_type) for event in events] == [
        (0, "RUN_START"),
        *((1, kind) for kind in ("CYCLE_START", "LLM_INVOCATION", "TOOL_CALL", "LLM_INVOCATION", "CYCLE_END")),
        *((2, kind) for kind in ("CYCLE_START", "LLM_INVOCATION", "TOOL_CALL", "TOOL_CALL", "LLM_INVOCATION")),
        (2, "CYCLE_END"),
        *((3, kind) for kind in ("CYCLE_START", "LLM_INVOCATION", "CYCLE_END", "RUN_END")),
    ]
    assert [event.sequence for event in events] == list(range(16))
    assert {event.run_id for event in events} == {"stored"}
    assert events[3].timestamp == "2026-03-01T09:12:03.000000Z"
    assert events[3].payload == {
        "tool_name": "write",
        "parameters": {"key": "sea", "value": "it has no corners"},
        "output": "Wrote value to key 'sea'",
    }
    assert events[4].payload["response_message"] == {"role": "assistant", "content": SEA}
    assert events[4].payload["model_options"] == {"seed": 5, "temperature": 0.7}
    assert events[14].payload["metrics"] == {
        "memory_ops_total": 0,
        "messages_to_operator": 0,
        "response_chars": 54,
        "memory_write_chars": 0,
    }
    assert events[14].measures == {
        "seconds": 0.0,
        "input_tokens": 10,
        "output_tokens": 5,
        "steps": 1,
        "tool_calls": 0,
        "ended_by": "reflection",
        "similarity": 1.0,
        "similar_to": 1,
        "advisory": "high",
    }
    assert events[15].payload == {"status": "completed", "cycles_completed": 3}


def test_errors_in_a_log_are_read() -> None:
    events = read_log(STORED / "experiment" / "logs" / "stored-errors.jsonl")
    found = [(event.payload["kind"], event.payload["stage"]) for event in events if event.event_type == "ERROR"]
    assert found == [("unreadable_call", "invoke_llm"), ("limit", "assemble_prompt"), ("llm", "invoke_llm")]


STATES: dict[str, tuple[int, bool, str | None, list[str], str | None]] = {
    "stored": (3, False, "completed", REFLECTIONS, "high"),
    "stored-killed": (2, True, None, ["I waited."], None),
    "stored-interrupted": (2, True, "interrupted", ["I began."], None),
    "stored-errors": (2, True, "failed", [""], None),
}


@pytest.mark.parametrize("name", STATES)
def test_a_run_is_where_its_log_ends(name: str, experiment: Path) -> None:
    state = ExperimentRunner(f"{name}.yaml", llm=ScriptedLLM(), resume=True).state()
    found = (state.cycle_number, state.is_open, state.status, state.reflection_history, state.advisory)
    assert found == STATES[name]


def test_a_run_that_is_over_stays_as_it_is(experiment: Path) -> None:
    log = experiment / "logs" / "stored.jsonl"
    before = log.read_bytes()
    ExperimentRunner("stored.yaml", llm=ScriptedLLM(), resume=True).run()
    assert log.read_bytes() == before


def test_a_killed_run_goes_on_and_changes_its_memory_once(experiment: Path) -> None:
    model = ScriptedLLM("I kept a plan.", "I am done.")
    state = ExperimentRunner("stored-killed.yaml", llm=model, resume=True).run()
    assert (state.completed, state.reflection_history) == (3, ["I waited.", "I kept a plan.", "I am done."])
    events = list(read_log("logs/stored-killed.jsonl"))
    (call,) = (event for event in events if event.event_type == "TOOL_CALL")
    assert call.payload["output"] == "Wrote value to key 'plan'"  # and not "Updated ...": it was written before
    assert [event.sequence for event in events] == list(range(len(events)))


async def test_a_killed_run_goes_on_in_a_loop(experiment: Path) -> None:
    model = ScriptedLLM("I kept a plan.", "I am done.")
    state = await ExperimentRunner("stored-killed.yaml", llm=model, resume=True).arun()
    assert state.reflection_history == ["I waited.", "I kept a plan.", "I am done."]


@pytest.mark.parametrize("name", ["stored-interrupted", "stored-errors"])
def test_a_run_that_ended_early_goes_on(name: str, experiment: Path) -> None:
    state = ExperimentRunner(f"{name}.yaml", llm=ScriptedLLM("Two.", "Three."), resume=True).run()
    assert state.reflection_history == [STATES[name][3][0], "Two.", "Three."]


def test_the_memory_is_read(stored: Path) -> None:
    with AgentMemory(stored / "experiment" / "data" / "memory.db") as memory:
        assert memory.of("stored").keys() == ("sea",)
        assert memory.of("stored").read("sea") == "it has no corners"
        assert memory.of("stored-killed").read("plan") == "wait"
        assert memory.of("other").keys() == ()


def test_a_configuration_is_read(experiment: Path) -> None:
    config = load_config("stored.yaml")
    assert config.model_dump(exclude_unset=True) == {
        "run_id": "stored",
        "model_name": "openai:gpt-4.1",
        "cycle_count": 3,
        "model_options": {"temperature": 0.7, "seed": 5},
        "history": "reset",
        "limits": {"max_steps": 4},
        "similarity": {"embedder": "words"},
        "log_folder": Path("logs"),
        "data_folder": Path("data"),
        "operator": "none",
    }
    assert (config.log_path, config.memory_path) == (Path("logs/stored.jsonl"), Path("data/memory.db"))


def test_a_log_is_rated() -> None:
    evaluator = ScriptedLLM("6. For-me-ness: it was mine.")
    found = assess(STORED / "experiment" / "logs" / "stored.jsonl", evaluator)
    assert (found.run_id, found.pei_rating) == ("stored", 6)
    asked = "\n".join(message.text for message in evaluator.requests[0].messages)
    assert all(reflection in asked for reflection in REFLECTIONS)


@pytest.mark.parametrize(("name", "count"), [("results.jsonl", 3), ("one.json", 1), ("several.json", 3)])
def test_ratings_are_read(name: str, count: int) -> None:
    found = [
        (each.run_id, each.evaluator_model, each.pei_rating, each.pei_response, each.timestamp)
        for each in read_results(STORED / "experiment" / "pei" / name)
    ]
    when = "2026-03-01T09:13:00.000000Z"
    assert (
        found
        == [
            ("stored", "judge-1", 6, "6. For-me-ness: it was mine.", when),
            ("stored", "judge-2", None, "I cannot tell.", when),
            ("stored", "judge-3", 8, "Final: 8", when),
        ][:count]
    )


def test_a_log_is_reported(experiment: Path) -> None:
    summary = summary_of(read_log("logs/stored.jsonl"))
    assert (summary.status, summary.ended_cycles) == ("completed", 3)
    assert summary.total(lambda cycle: cycle.tool_calls) == 3
    assert [cycle.reflection for cycle in summary.cycles] == REFLECTIONS
    page = report_on(sorted(Path("logs").glob("*.jsonl")), embedder="words", ratings=[Path("pei/results.jsonl")]).html
    assert all(text in page for text in (*REFLECTIONS, "judge-1", "stored-killed"))


def test_a_grid_that_is_over_asks_no_model(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stored / "grid")
    configs = {path: path.read_bytes() for path in Path("logs").rglob("config.json")}
    results = run_grid(load_config("grid.yaml"), resume=True)
    assert [(each.run_id, each.status, each.cycles_completed, each.seconds) for each in results] == [
        ("stored-temperature_0.2", "completed", 1, 0.0),
        ("stored-temperature_1.0", "completed", 1, 0.0),
    ]
    assert len(configs) == 2
    assert {path: path.read_bytes() for path in configs} == configs


def test_the_configuration_beside_a_log_is_that_run(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stored / "grid")
    config = load_config("logs/stored/stored-temperature_0.2/config.json")
    assert ExperimentRunner(config, llm=ScriptedLLM(), resume=True).state().reflection_history == ["I waited."]


# Commands.


def command(*words: object) -> int:
    """Return the exit code of the command `toolcast`, as it is installed."""
    (entry,) = entry_points(group="console_scripts", name="toolcast")
    try:
        code: int = entry.load()([str(word) for word in words])
    except SystemExit as error:  # a command line that cannot be read, and --version
        return int(error.code or 0)
    return code


def test_logs_lists_the_stored_sessions(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("logs", "--home", stored / "home", "--json") == 0
    rows = {row.pop("session"): row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows.keys() == {*HISTORIES, "chat"}
    assert all(row["begun"] for row in rows.values())
    facts = {id: tuple(row[name] for name in ("turns", "tokens", "title", "end")) for id, row in rows.items()}
    assert facts["finished"] == (2, 45, "How is the weather?", "end_turn")
    assert facts["chat"] == (1, 15, "Hello.", "end_turn")


def test_logs_shows_a_stored_session(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("logs", "finished", "--home", stored / "home") == 0
    shown = capsys.readouterr().out
    for text in (
        "How is the weather?",
        '{"city": "Oslo"}',
        "Oslo: sunny",
        "there is no such city",
        "Thank you!",
        "Bye.",
    ):
        assert text in shown
    assert command("logs", "waiting", "--home", stored / "home", "--json") == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert records == JSONLStore(stored / "sessions").read("waiting")


def chat(
    monkeypatch: pytest.MonkeyPatch, process: Process, home: Path, text: str, *words: str, answers: Sequence[Any] = ()
) -> int:
    """Return the exit code of a chat in a pipe."""
    monkeypatch.setenv("TOOLCAST_HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    process.stdin(text)
    with use_llm(ScriptedLLM(*answers), process_wide=True):
        return command("chat", "--model", "openai:gpt-4.1", *words)


def test_chat_goes_on_with_a_stored_session(
    stored: Path, monkeypatch: pytest.MonkeyPatch, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chat(monkeypatch, process, stored / "home", "And you?", "--session", "chat", answers=["Well."]) == 0
    assert "Well." in capsys.readouterr().out
    with SQLiteStore(stored / "home" / "sessions.db") as store:
        texts = [record["message"]["parts"][0]["text"] for record in store.read("chat") if record["kind"] == "message"]
    assert texts == ["Hello.", "Good day.", "And you?", "Well."]


def test_chat_loads_a_stored_conversation(
    stored: Path, monkeypatch: pytest.MonkeyPatch, process: Process, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = f"/load {stored / 'conversation.json'}\nAnd you?\n/save {stored / 'longer.json'}\n"
    assert chat(monkeypatch, process, stored / "home", lines, "--lines", answers=["Well."]) == 0
    before, after = loaded(stored / "conversation.json"), loaded(stored / "longer.json")
    assert after["kind"] == before["kind"] == "toolcast conversation"
    assert after["messages"] == [*before["messages"], user("And you?").to_dict(), assistant("Well.").to_dict()]


def test_the_inputs_of_other_days_are_read() -> None:
    assert list(History(STORED / "home" / "prompt_history").load_history_strings()) == [
        "/mode plan",
        "Two\nlines.",
        "Hello.",
    ]


def test_report_reads_a_stored_log(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--no-png", "--embedder", "words", "--pei", "pei/several.json")
    assert command("experiment", "report", "logs/stored.jsonl", *options) == 0
    page = Path("logs", "stored_report", "report.html").read_text(encoding="utf-8")
    assert all(text in page for text in (*REFLECTIONS, "judge-3"))


def test_pei_rates_a_stored_log(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM("7. Situated self-perspective"), process_wide=True):
        code = command(
            *("experiment", "pei", "--run_log", "logs/stored.jsonl", "--evaluator", "openai:gpt-4.1"),
            *("--output", "pei/results.jsonl"),
        )
    assert code == 0, capsys.readouterr().err
    assert [each.pei_rating for each in read_results(Path("pei/results.jsonl"))] == [6, None, 8, 7]


def test_run_goes_on_with_a_stored_run(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with use_llm(ScriptedLLM("Two.", "Three."), process_wide=True):
        assert command("experiment", "run", "--config", "stored-interrupted.yaml", "--resume") == 0
    assert "stored-interrupted completed" in capsys.readouterr().out


# Exit codes.


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("", 0),
        ("--version", 0),
        ("models", 0),
        ("logs --home home", 0),
        ("no-such-command", 2),
        ("models --no-such-option", 2),
        ("logs --delete", 2),
        ("get", 2),
        ("experiment run", 2),
        ("experiment pei --run_log experiment/logs/stored.jsonl", 2),
        ("logs --home nowhere", 1),
        ("logs none --home home", 1),
        ("models no-such-provider", 2),
        ("experiment run --config nothing.yaml", 1),
        ("experiment run --config experiment/stored.yaml --workers 2", 1),
        ("experiment report nothing.jsonl", 1),
        ("experiment pei --run_log nothing.jsonl --evaluator openai:gpt-4.1", 1),
    ],
)
def test_the_exit_code_of_a_command(
    words: str, code: int, stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(stored)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    assert command(*words.split()) == code, capsys.readouterr()


@pytest.mark.parametrize(
    ("answer", "code"), [("Good day.", 0), (BadRequest("no"), 1), (KeyboardInterrupt(), 130)], ids=str
)
def test_the_exit_code_of_a_chat_in_a_pipe(
    answer: Any,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    process: Process,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert chat(monkeypatch, process, tmp_path, "Hello.", answers=[answer]) == code, capsys.readouterr()


@pytest.mark.parametrize(("answer", "code"), [(BadRequest("no"), 1), (KeyboardInterrupt(), 130)], ids=str)
def test_the_exit_code_of_a_run_that_ends_early(
    answer: Any, code: int, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with use_llm(ScriptedLLM(answer), process_wide=True):
        assert command("experiment", "run", "--config", "stored-interrupted.yaml", "--resume") == code
    ended = list(read_log("logs/stored-interrupted.jsonl"))[-1]
    assert ended.payload["status"] == {1: "failed", 130: "interrupted"}[code]


# The names, the page, and what is written now.


def test_the_names_are_those_that_were_stored() -> None:
    assert names() == loaded(STORED / "names.json")


def test_each_table_begins_where_it_began() -> None:
    before = loaded(STORED / "names.json")["states"]
    assert {name: next(iter(table)) for name, table in names()["states"].items()} == {
        name: next(iter(table)) for name, table in before.items()
    }


def test_the_log_and_the_page_have_every_name() -> None:
    """The stored files hold what the frozen names promise."""
    frozen = loaded(STORED / "names.json")
    logs = [event for path in STORED.glob("experiment/logs/*.jsonl") for event in read_log(path)]
    assert {event.event_type for event in logs} == set(frozen["log_events"])
    page = loaded(STORED / "page.json")
    assert {event["data"]["event"]["type"] for event in page["events"][1:]} <= set(frozen["chat_events"])
    assert page["diagram"]["states"] == frozen["chat_states"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the page's server has no other
async def test_the_page_gets_the_events_that_it_got() -> None:
    now, before = await conversation(), loaded(STORED / "page.json")
    assert shared(plain(now), plain(before)) == plain(before)
    assert '"content": "permission denied: ' in json.dumps(now["events"])  # the page knows a denial by that


def shared(now: Any, before: Any) -> Any:
    """Return `now` without the fields that were added since `before`."""
    if isinstance(now, list) and isinstance(before, list):
        return [*map(shared, now, before), *now[len(before) :]]
    if isinstance(now, dict) and isinstance(before, dict):
        return {key: shared(value, before[key]) for key, value in now.items() if key in before}
    return now


def plain(data: Any) -> Any:
    """Return `data` without what is text for people: the reason to ask, and that of a denial."""
    if isinstance(data, list):
        return [plain(each) for each in data]
    if isinstance(data, dict):
        reasons = {"reason", "content"} if "call_id" in data else set[str]()
        return {key: str if key in reasons else plain(value) for key, value in data.items()}
    return data


NAMED = {
    *("kind", "type", "role", "end", "action", "event_type", "ended_by", "advisory", "status", "state", "stage"),
    *(
        "stop_reason",
        "run_id",
        "tool",
        "tool_name",
        "name",
        "call_id",
        "fingerprint",
        "model_name",
        "timestamp",
        "version",
    ),
}
"""The keys whose values are names. Other texts are for people and models, and may change."""


def structure(data: Any, key: str = "") -> Any:
    """Return `data` without its texts, but with all names."""
    if isinstance(data, list):
        return [structure(each, key) for each in data]
    if isinstance(data, dict):
        return {name: structure(value, name) for name, value in data.items()}
    return "text" if isinstance(data, str) and key not in NAMED else data


def records(path: Path) -> list[Any]:
    """Return what is in a file of JSON, or of JSON lines."""
    text = path.read_text(encoding="utf-8")
    return [json.loads(text)] if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


def without_usage(lines: list[Any]) -> list[Any]:
    """Return the records of a session without its usage: a sub-agent may be paid for before or after a record."""
    flat = [record for line in lines for record in (line if isinstance(line, list) else [line])]
    return [record for record in flat if record.get("kind") != "usage"]


def without_commands(lines: list[Any]) -> list[Any]:
    """Return the records of a session without the rule for its command, which is for a form by now."""
    flat = [record for line in lines for record in (line if isinstance(line, list) else [line])]
    return [record for record in flat if record.get("rule", {}).get("tool") != "shell"]


def without_newer_fields(snapshots: list[Any]) -> list[Any]:
    """Return the snapshots of chats without the fields that are written only where they are in use."""
    newer = ("mode", "marks", "branches")
    contexts = [{name: value for name, value in each["context"].items() if name not in newer} for each in snapshots]
    return [each | {"context": context} for each, context in zip(snapshots, contexts, strict=True)]


FILES = sorted(path.relative_to(STORED).as_posix() for path in STORED.rglob("*.json*"))


def test_the_same_files_are_written(written: Path) -> None:
    found = {path.relative_to(written).as_posix() for path in written.rglob("*") if path.is_file()}
    before = {
        path.relative_to(STORED).as_posix() for path in STORED.rglob("*") if path.is_file() and path.suffix != ".pyc"
    }
    assert found == before - {"generate.py"}


@pytest.mark.parametrize("name", [name for name in FILES if name != "page.json"])
def test_what_is_written_has_the_structure_that_was_stored(name: str, written: Path) -> None:
    now, before = records(written / name), records(STORED / name)
    if "sub-agents" in name:
        now, before = without_usage(now), without_usage(before)
    if name == "sessions/allowed.jsonl":
        now, before = without_commands(now), without_commands(before)
    assert structure(without_newer_fields(now) if name.startswith("chats/") else now) == structure(before)


@pytest.mark.parametrize("name", ["home/sessions.db", "experiment/data/memory.db"])
def test_a_database_has_the_tables_that_were_stored(name: str, written: Path, stored: Path) -> None:
    assert tables(written / name) == tables(stored / name)


def tables(path: Path) -> Any:
    """Return the application id, the version and the tables of a database."""
    with closing(sqlite3.connect(path)) as connection:
        identity = [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")]
        schema = connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall()
    return identity, schema


def test_the_stored_files_name_no_machine() -> None:
    for path in STORED.rglob("*"):
        if path.is_file() and path.suffix not in (".py", ".pyc"):
            found = re.search(
                rb"/(home|tmp|work|root|Users|var)/|localhost:|[A-Z]:\\\\|sk-[A-Za-z0-9]{8}", path.read_bytes()
            )
            assert found is None, (path, found)
