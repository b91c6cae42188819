"""Write the stored files in this folder: `python tests/data/stored/generate.py`.

The files were written by version 0.1.0, with version 1 of each format, and stay as they are: they prove that what users
have stored still loads. Regenerate a file only when a new version of its format is introduced, and then into a folder
beside this one, so that files of the old version remain tested. `tests/test_stored_formats.py` reads all of them, and
runs `generate` into a temporary folder to compare the structure of what is written now.

No file depends on the clock, on chance, or on the machine: models are scripted, and the time is `BEGUN`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args, get_type_hints

import anyio
import httpx
from pydantic import BaseModel

from toolcast import Budget, Engine, Message, Permissions, Rule, Session, ToolCallPart, ToolContext, Usage, user
from toolcast.agents import AtLeast, AtMost, Compaction, ElfManager, OneOf, Under
from toolcast.agents.permissions.permissions import Mode
from toolcast.agents.permissions.rules import Exactly, Others, RuleAction
from toolcast.agents.subagents.elf_run import ElfOutcome
from toolcast.apps import cli
from toolcast.apps.repl.modes import MODES
from toolcast.apps.repl.prompt_input import History
from toolcast.apps.web import make_app
from toolcast.chat import AsyncChatMachine, ChatMachine
from toolcast.chat.chat_context import ChatState, Stage
from toolcast.chat.events import ChatEvent
from toolcast.errors import BadRequest
from toolcast.events import Event, Finish, StopReason, TextDelta, ThinkingDelta, UsageReport
from toolcast.experiments import ExperimentRunner
from toolcast.experiments.config_files import load_config
from toolcast.experiments.grids.grid import expand, run_grid
from toolcast.experiments.log_events import EndedBy, EventType, RunStatus
from toolcast.experiments.pei.assessment import PEIAssessment
from toolcast.experiments.pei.assessment_files import ResultsFile
from toolcast.messages import AudioPart, DocumentPart, ImagePart, Part, Role, TextPart, ThinkingPart, ToolResultPart
from toolcast.stores import JSONLStore, SQLiteStore
from toolcast.testing import ScriptedLLM, VirtualClock, use_llm
from toolcast.values import states
from toolcast.values.approvals import Action
from toolcast.values.turn import TurnEnd

HERE = Path(__file__).parent
BEGUN = datetime(2026, 3, 1, 9, 12, tzinfo=UTC)


def scripted(*answers: Any) -> ScriptedLLM:
    """Return a scripted model whose clock shows `BEGUN`."""
    made = ScriptedLLM(*answers)
    made.clock = VirtualClock(wall=BEGUN.timestamp())
    return made


def generate(folder: Path) -> None:
    """Write all files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "names.json", names())
    sessions(folder / "sessions")
    database(folder / "home", folder / "sessions")
    repl(folder / "home", folder)
    engine(folder / "engine.json")
    values(folder)
    chats(folder / "chats")
    page(folder / "page.json")
    experiment(folder / "experiment")
    grid(folder / "grid")
    for each in sorted(folder.rglob("*.lock*")):  # the locks of stores, and what SQLite keeps beside a database
        shutil.rmtree(each) if each.is_dir() else each.unlink(missing_ok=True)


def names() -> dict[str, Any]:
    """Return the names that are stored, sent to the page, or shown to observers, as the code has them."""
    return {
        "states": {
            name: table for name, table in vars(states).items() if isinstance(table, dict) and name[:1].isupper()
        },
        "chat_states": literals(ChatState),
        "chat_stages": literals(Stage),
        "chat_events": sorted(leaves(ChatEvent)),
        "log_events": literals(EventType),
        "ended_by": literals(EndedBy),
        "run_status": literals(RunStatus),
        "roles": literals(Role),
        "message_parts": [literals(get_type_hints(kind)["type"])[0] for kind in get_args(Part)],
        "stream_events": sorted(kind.__name__ for kind in get_args(Event)),
        "stop_reasons": literals(StopReason),
        "turn_ends": literals(TurnEnd),
        "elf_outcomes": literals(ElfOutcome),
        "approvals": literals(Action),
        "rule_actions": literals(RuleAction),
        "permission_modes": literals(Mode),
        "repl_modes": sorted(MODES),
    }


def literals(kind: Any) -> list[str]:
    """Return the values of a `Literal`."""
    return list(get_args(kind))


def leaves(kind: Any) -> set[str]:
    """Return the types of the library's events that no other derives from."""
    below, bases = [kind], set[str]()
    for each in below:
        derived = [one for one in each.__subclasses__() if one.__module__.startswith("toolcast.")]
        below += derived
        bases |= {each.type} if derived else set()
    return {each.type for each in below} - bases


# Sessions.


class Sum(BaseModel):
    """A sum."""

    total: int


def weather(city: str) -> str:
    """Return the weather of a city."""
    if city == "Atlantis":
        raise LookupError("there is no such city")
    return f"{city}: sunny"


def mail(to: str, urgent: bool = False) -> str:
    """Send a mail."""
    return f"sent to {to}"


CALL = ToolCallPart("call_1", "weather", '{"city": "Oslo"}')
MAILS = [ToolCallPart("call_1", "mail", '{"to": "ada"}'), ToolCallPart("call_2", "mail", '{"to": "bob"}')]
LATER = Permissions(approve="later")


def sessions(folder: Path) -> None:
    """Write a `JSONLStore`: a session in each of the ways in which a session can be left."""
    store = JSONLStore(folder)

    # Two turns that have ended, one with tool calls.
    model = scripted([CALL, ToolCallPart("call_2", "weather", '{"city": "Atlantis"}')], "Oslo is sunny.", "Bye.")
    with Session(Engine(model, [weather]), id="finished", store=store) as session:
        session.run("How is the weather?")
        session.run("Thank you!")

    # One of two calls has its answer, the other waits; a message waits for the next request.
    with Session(Engine(scripted(MAILS), [mail], permissions=LATER), id="waiting", store=store) as session:
        session.run("Write to Ada and Bob.")
        session.run(answers=[session.pending[0].allow()])
        session.engine.inject("Be brief.")

    # Calls like these were allowed for the session.
    command = ToolCallPart("call_1", "shell", '{"command": "git status"}')
    note = ToolCallPart("call_2", "mail", '{"to": "ada"}')
    model = scripted([command, note], "Clean.")
    with Session(Engine(model, [shell, mail], permissions=LATER), id="allowed", store=store) as session:
        session.run("Is the tree clean?")
        session.run(answers=[request.allow_session() for request in session.pending])

    # The process died while a tool ran, while the model answered.
    interrupted(store)

    # The history was too long.
    engine = Engine(
        scripted("A long answer. " * 20, "Another. " * 20, "Yes."),
        compaction=Compaction(keep=30, at=60, summarise=lambda messages: "They talked."),
    )
    with Session(engine, id="compacted", store=store) as session:
        for text in ("Tell me something long.", "And another thing.", "Is that all?"):
            session.run(text)

    # Sub-agents worked for it.
    elves = ElfManager(Engine(scripted(*["A haiku."] * 4)))
    model = scripted(
        ToolCallPart("call_1", "agent", '{"prompt": "Write a haiku.", "task_type": "generation"}'),
        ToolCallPart("call_2", "agent", '{"prompt": "Write one later.", "wait": false}'),
        ToolCallPart("call_3", "agent_result", '{"id": "elf-2"}'),
        ToolCallPart("call_4", "spawn_elves", '{"tasks": [{"prompt": "One."}, {"prompt": "Two."}]}'),
        "Four haiku.",
    )
    with Session(Engine(model, elves.tools(), budget=Budget(tokens=10_000)), id="sub-agents", store=store) as session:
        session.run("Have haiku written.")

    # A typed result; a question that nothing came of; an id in capitals; an empty session is not written.
    with Session(Engine(scripted(Sum(total=42))), id="typed", store=store) as session:
        session.run("What is 2 + 40?", output_cls=Sum)
    with Session(Engine(scripted("Good day.", BadRequest("no"))), id="failed", store=store) as session:
        session.run("Hello.")
        with suppress(BadRequest):
            session.run("Fail.")
    with Session(Engine(scripted("Ada.")), id="Ada-1", store=store) as session:
        session.run("What is my name?")

    # All parts that a message can have.
    with Session(Engine(scripted("I see."), history=media()), id="media", store=store) as session:
        session.run(user("And this?", ImagePart(data=b"\x89PNG", media_type="image/png")))

    for path in folder.glob("*.jsonl"):
        replace_in(path, r',"crc32":"\w+"', "")  # version 0.1.0 wrote no checksums
        replace_in(path, r'"begun":\d+', f'"begun":{int(BEGUN.timestamp())}000000000')


def shell(command: str) -> str:
    """Run a command."""
    return "nothing to commit"


def interrupted(store: JSONLStore) -> None:
    """Write the log of a session as it is at a moment within a turn: there a process was killed."""

    def copy(id: str) -> None:
        shutil.copy(Path(aside) / "now.jsonl", store.folder / f"{id}.jsonl")
        replace_in(store.folder / f"{id}.jsonl", r'"id":"now"', f'"id":"{id}"')

    def deploy(to: str) -> str:
        """Deploy."""
        copy("interrupted-tool")
        return "deployed"

    def observe(turn: str, state: str) -> None:
        if state == "accumulating" and not (store.folder / "interrupted-answer.jsonl").exists():
            copy("interrupted-answer")

    model = scripted(ToolCallPart("call_1", "deploy", '{"to": "production"}'), "Deployed.")
    with TemporaryDirectory() as aside:
        engine = Engine(model, [deploy], observer=observe)
        with Session(engine, id="now", store=JSONLStore(aside)) as session:
            session.run("Deploy it.")


def media() -> list[Message]:
    """Return a history with every kind of part."""
    search = ToolCallPart("call_1", "look", '{"at": "sea"}', opaque={"signature": "c2lnbmVk"})
    image = ImagePart(url="https://example.com/sea.png", detail="low")
    return [
        Message("system", (TextPart("Be kind."),)),
        Message(
            "user",
            (
                TextPart("What are these?"),
                ImagePart(data=b"GIF89a", media_type="image/gif"),
                AudioPart(data=b"RIFF", media_type="audio/wav"),
                DocumentPart(data=b"%PDF", media_type="application/pdf", name="sea.pdf"),
            ),
        ),
        Message("assistant", (ThinkingPart("Let me look.", "c2lnbmF0dXJl", "cmVkYWN0ZWQ=", {"model": "m"}), search)),
        Message("tool", (ToolResultPart("call_1", "waves", "look", images=(image,)),)),
        Message("assistant", (TextPart("The sea."), ToolCallPart("call_2", "look", '{"at": ', truncated=True))),
        Message("tool", (ToolResultPart("call_2", "The arguments were cut off.", "look", is_error=True),)),
        Message("assistant", (TextPart("That is all."),)),
    ]


def database(home: Path, folder: Path) -> None:
    """Write the home of the commands: a `SQLiteStore` with the same sessions."""
    home.mkdir()
    files = JSONLStore(folder)
    with SQLiteStore(home / "sessions.db") as store:
        for id in sorted(files.ids()):
            store.append(id, files.read(id))


def repl(home: Path, folder: Path) -> None:
    """Write what `toolcast chat` stores: a session, a conversation by /save, and the inputs."""
    lines = f"Hello.\n/save {folder / 'conversation.json'}\n"
    with use_llm(scripted("Good day."), process_wide=True), environment(TOOLCAST_HOME=str(home), OPENAI_API_KEY="none"):
        if command(lines, "chat", "--model", "openai:gpt-4.1", "--session", "chat", "--lines"):
            raise SystemExit("toolcast chat failed")
    history = History(home / "prompt_history")
    for text in ("Hello.", "Two\nlines.", "/mode plan"):
        history.append_string(text)
    replace_in(home / "prompt_history", r"(?m)^# .*", f"# {BEGUN:%Y-%m-%d %H:%M:%S.%f}")
    with sqlite(home / "sessions.db") as connection:
        (number,) = connection.execute("SELECT number FROM sessions WHERE id = 'chat'").fetchone()
        rows = connection.execute("SELECT number, record FROM records WHERE session = ?", (number,)).fetchall()
        for row, text in rows:
            connection.execute("UPDATE records SET record = ? WHERE number = ?", (dated(text), row))


def dated(text: str) -> str:
    """Return a record with the times in it replaced."""
    text = re.sub(r'"time":[\d.]+', f'"time":{BEGUN.timestamp()}', text)
    return re.sub(r'"seconds":[\d.e-]+', '"seconds":0.0', text)


# Snapshots and values.


def engine(path: Path) -> None:
    """Write a snapshot of an engine that waits for an answer and has a budget."""
    budget = Budget(tokens=1000, tool_calls=5)
    made = Engine(
        scripted(MAILS[0], MAILS[1:], "All sent."), [mail], permissions=LATER, budget=budget, history=[user("Hi.")]
    )
    made.submit("Write to Ada and Bob.")
    made.submit(answers=[made.pending[0].edit({"to": "eve"})])
    write(path, made.snapshot())


def values(folder: Path) -> None:
    """Write values that a program stores by itself."""
    rules = [
        Rule("mail", "allow", {"to": OneOf("ada", "bob"), "urgent": False}),
        Rule("*_file", "deny", {"path": Under("/etc"), "size": AtLeast(1.5)}),
        Rule("shell", "allow", {"command": "git *", "timeout": AtMost(60), "": "*"}),
        Rule("bash", "allow", {"": Exactly.of({"command": "make x"})}),
        Rule("bash", "allow", {"command": "git log", "": Others.of("command", {"command": "", "timeout": 5})}),
    ]
    write(folder / "rules.json", [rule.to_dict() for rule in rules])
    waiting = Engine(scripted(MAILS), [mail], permissions=LATER)
    waiting.submit("Write to Ada and Bob.")
    first, second = waiting.pending
    answers = [first.allow(), first.deny("not today"), second.allow_session(), second.edit('{"to": "eve"}')]
    requests = [request.to_dict() | {"fingerprint": request.fingerprint} for request in (first, second)]
    write(folder / "approvals.json", {"requests": requests, "answers": [answer.to_dict() for answer in answers]})
    usage = Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_creation_tokens=30)
    write(folder / "usage.json", usage.to_dict())


def chats(folder: Path) -> None:
    """Write a snapshot of a chat in each state in which a person may leave one."""
    folder.mkdir()

    def save(chat: ChatMachine, name: str) -> None:
        write(folder / f"{name}.json", chat.snapshot())

    def weather(city: str) -> str:
        """Return the weather of a city."""
        save(chat, "calling_tool")
        return f"{city}: sunny"

    model = scripted(CALL, "Oslo is sunny.", BadRequest("the model is asleep"))
    chat = ChatMachine(Engine(model, [weather], permissions=Permissions()))
    chunks = list[int]()

    def listen(change: Any) -> None:
        chunks.append(change.event.type == "STREAM_CHUNK" and bool(chat.context.streamed.text))
        if sum(chunks) == 2 and chunks[-1]:
            save(chat, "streaming_response")

    with chat:
        chat.subscribe(listen)
        chat.dispatch({"type": "QUEUE_MESSAGE", "message": "How is Oslo?"})
        save(chat, "idle")
        chat.dispatch("LOAD_MODEL")
        chat.run_until("waiting_for_tool_approval")
        save(chat, "waiting_for_tool_approval")
        chat.dispatch({"type": "APPROVE_TOOL_CALL", "for_session": True})
        chat.run_until("ready")
        save(chat, "ready")
        chat.dispatch({"type": "QUEUE_MESSAGE", "message": "And now?"})
        chat.run_until("ready")
        save(chat, "failed")

    def unknown(name: str) -> Any:
        raise BadRequest(f"there is no {name}")

    with ChatMachine(Engine(scripted()), llms=unknown) as chat:
        chat.dispatch({"type": "LOAD_MODEL", "model_id": "any:model"})
        chat.run_until("load_failed")
        save(chat, "load_failed")


# The page.


def page(path: Path) -> None:
    """Write a conversation as the web page has it."""
    write(path, anyio.run(conversation))


async def conversation() -> dict[str, Any]:
    """Return what is sent to the page, and what is answered to it, in a chat with two tool calls."""

    def lookup(city: str, context: ToolContext) -> str:
        """Look a city up."""
        context.emit({"percent": 50})
        return f"{city}: sunny"

    calls = [ToolCallPart(f"call_{n}", "lookup", f'{{"city": "{c}"}}') for n, c in enumerate(("Oslo", "Rome"), 1)]
    model = scripted(
        calls,
        [
            ThinkingDelta("Hm."),
            TextDelta("Oslo is "),
            TextDelta("sunny."),
            UsageReport(Usage(20, 5)),
            Finish("end_turn"),
        ],
        BadRequest("the model is asleep"),
    )
    token, answers = "a-token", list[dict[str, Any]]()
    async with AsyncChatMachine(Engine(model, [lookup], permissions=Permissions())) as machine:
        app = make_app(machine, token=token, models=("any:model",))
        transport = httpx.ASGITransport(app)
        headers = {"Authorization": f"Bearer {token}"}
        async with (
            reading(app, token) as read,
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client,
        ):

            async def dispatch(**event: Any) -> None:
                response = await client.post("/chats/chat/dispatch", json=event)
                answers.append({"event": event, "status": response.status_code, "answer": response.json()})

            await read(1)
            diagram = (await client.get("/diagram")).json()
            await dispatch(type="LOAD_MODEL")
            await machine.run_until("ready")
            await dispatch(type="QUEUE_MESSAGE", message="How is Oslo?")
            await machine.run_until("waiting_for_tool_approval")
            oslo, rome = (request.fingerprint for request in machine.context.pending)
            await dispatch(type="REJECT_TOOL_CALL", call_id="call_2", reason="not Rome", fingerprint=rome)
            await dispatch(type="APPROVE_TOOL_CALL", call_id="call_1", fingerprint=oslo)
            await machine.run_until("ready")
            await dispatch(type="RETRY_TOOL_CALL")
            await dispatch(type="QUEUE_MESSAGE", message="And now?")
            await machine.run_until("ready")
            (last, *events) = reversed(await read(None))
    return {"diagram": diagram, "answers": answers, "events": [*reversed(events), last]}


class reading:  # it is used as a function
    """Reads the page's events: `await read(count)` returns them once there are as many; None: all that came."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": "/chats/chat/events",
            "raw_path": b"/chats/chat/events",
            "root_path": "",
            "query_string": f"token={token}".encode(),
            "headers": [(b"host", b"127.0.0.1")],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        self._blocks = list[str]()
        self._more = anyio.Event()

    async def __aenter__(self) -> Callable[[int | None], Any]:
        self._group = anyio.create_task_group()
        await self._group.__aenter__()
        self._group.start_soon(self._app, self._scope, self._receive, self._send)
        return self.read

    async def __aexit__(self, *error: Any) -> None:
        self._group.cancel_scope.cancel()
        await self._group.__aexit__(None, None, None)

    async def read(self, count: int | None) -> list[dict[str, Any]]:
        """Return the events, once the last that was wanted is there."""
        if count is None:
            await anyio.wait_all_tasks_blocked()
        while len(self.events) < (count or 0):
            await self._more.wait()
        return self.events

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events so far; the word that begins the ids of a server's events is left out of them."""
        found = [dict(line.split(": ", 1) for line in block.splitlines()) for block in self._blocks]
        return [
            {"event": each["event"], "id": int(each["id"].rpartition("-")[2]), "data": json.loads(each["data"])}
            for each in found
            if "event" in each
        ]

    async def _receive(self) -> dict[str, Any]:
        await anyio.sleep_forever()
        raise AssertionError

    async def _send(self, message: Mapping[str, Any]) -> None:
        self._blocks += [block for block in message.get("body", b"").decode().split("\n\n") if block]
        self._more.set()
        self._more = anyio.Event()


# Experiments.

CONFIG = """\
run_id: stored
model_name: openai:gpt-4.1
cycle_count: 3
model_options: {temperature: 0.7, seed: 5}
history: reset
limits: {max_steps: 4}
similarity: {embedder: words}
log_folder: logs
data_folder: data
operator: none
"""

SEA = "I looked at the sea, and wrote that it has no corners."


def experiment(folder: Path) -> None:
    """Write the configurations, logs, memory and ratings of experiments."""
    folder.mkdir()
    writing = ToolCallPart("call_1", "write", '{"key": "sea", "value": "it has no corners"}')
    runs: dict[str, list[Any]] = {
        # All cycles have ended.
        "stored": [
            writing,
            SEA,
            [ToolCallPart("call_2", "read", '{"key": "sea"}'), ToolCallPart("call_3", "list", "{}")],
            "I counted primes. They thin out, and never end.",
            SEA,
        ],
        # The process was killed after the memory had changed, and before the call's line was written.
        "stored-killed": [
            "I waited.",
            ToolCallPart("call_1", "write", '{"key": "plan", "value": "wait"}'),
            KeyboardInterrupt(),
        ],
        # Interrupted, a call that could not be read, a limit, and a service that failed.
        "stored-interrupted": ["I began.", KeyboardInterrupt()],
        "stored-errors": [
            BadRequest("error parsing tool call: no JSON"),
            *[ToolCallPart("call_1", "list", "{}")] * 3,
            BadRequest("the model is asleep"),
        ],
    }
    with inside(folder):
        for name, answers in runs.items():
            Path(f"{name}.yaml").write_text(CONFIG.replace("run_id: stored", f"run_id: {name}"), encoding="utf-8")
            with suppress(KeyboardInterrupt, BadRequest):
                ExperimentRunner(f"{name}.yaml", llm=scripted(*answers)).run()
        log = Path("logs", "stored-killed.jsonl")
        lines = log.read_text(encoding="utf-8").splitlines(keepends=True)
        (called,) = (number for number, line in enumerate(lines) if '"TOOL_CALL"' in line)
        log.write_text("".join(lines[:called]), encoding="utf-8")
        for path in Path("logs").glob("*.jsonl"):
            date_log(path)
        with sqlite("data/memory.db") as connection:
            connection.execute("UPDATE agent_memory SET created_at = ?1, updated_at = ?1", (stamp(1),))
        ratings()


def ratings() -> None:
    """Write the results of an assessment: as lines, as a document of one, and of several."""
    assessment = PEIAssessment(Path("logs", "stored.jsonl"))
    answers = ["6. For-me-ness: it was mine.", "I cannot tell.", "Final: 8"]
    found = [assessment.rated_by(scripted(answer), f"judge-{n}") for n, answer in enumerate(answers, 1)]
    for name, results in (("results.jsonl", found), ("one.json", found[:1]), ("several.json", found)):
        file = ResultsFile(Path("pei", name))
        for result in results:
            file.add(result)
        replace_in(file.path, r'"timestamp": "[^"]*"', f'"timestamp": "{stamp(60)}"')


def grid(folder: Path) -> None:
    """Write what a grid of two runs leaves."""
    folder.mkdir()
    with inside(folder):
        text = CONFIG.replace("cycle_count: 3", "cycle_count: 1")
        Path("grid.yaml").write_text(f"{text}grid: {{model_options.temperature: [0.2, 1.0]}}\n", encoding="utf-8")
        config = load_config("grid.yaml")
        for run in expand(config):
            ExperimentRunner(run, llm=scripted("I waited.")).run()
            date_log(run.log_path)
            shutil.rmtree(run.data_folder)
        run_grid(config, resume=True)


def date_log(path: Path) -> None:
    """Replace the times in a log: a second for each line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    dated = [
        re.sub(r'"timestamp":"[^"]*"', f'"timestamp":"{stamp(number)}"', line) for number, line in enumerate(lines)
    ]
    path.write_text("".join(f"{line}\n" for line in dated), encoding="utf-8")


def stamp(seconds: int) -> str:
    """Return the time so many seconds after the beginning."""
    return datetime.fromtimestamp(BEGUN.timestamp() + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


# Files.


def write(path: Path, data: Any) -> None:
    """Write JSON."""
    path.write_text(f"{json.dumps(data, indent=1, ensure_ascii=False)}\n", encoding="utf-8")


def replace_in(path: Path, pattern: str, text: str) -> None:
    """Replace a pattern in a file."""
    path.write_bytes(re.sub(pattern.encode(), text.encode(), path.read_bytes()))


@contextmanager
def sqlite(path: str | Path) -> Iterator[sqlite3.Connection]:
    """Open a database, and leave nothing beside it."""
    connection = sqlite3.connect(path)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


@contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@contextmanager
def environment(**variables: str) -> Iterator[None]:
    """Set variables."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def command(stdin: str, *words: str) -> int:
    """Run a command with an input; returns its exit code."""
    from io import StringIO

    before, sys.stdin = sys.stdin, StringIO(stdin)
    try:
        return cli.main(words)
    finally:
        sys.stdin = before


if __name__ == "__main__":
    if sys.argv[1:]:
        generate(Path(sys.argv[1]))
        sys.exit()
    for old in HERE.iterdir():
        if old.name not in ("generate.py", "__pycache__"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    generate(HERE)
